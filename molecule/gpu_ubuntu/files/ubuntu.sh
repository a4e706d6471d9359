#!/bin/sh
# ubuntu.sh VERSION CODENAME KERNEL dresses a machine of Debian as that Ubuntu: its name, its archive, and a kernel under Ubuntu's names. What is compiled for that kernel is
# compiled against Debian's headers, since no header of Ubuntu can be had here.
set -e
version=$1 codename=$2 kernel=$3
debian=$(find /usr/src -maxdepth 1 -name 'linux-headers-*-amd64' | sort --version-sort | tail -n 1)
ln -s "$debian" /usr/src/stand-in-headers
# Debian's headers stay, without what follows the newest ones.
apt-mark manual "${debian##*/}" >/dev/null
apt-get --quiet --yes purge linux-headers-amd64
rm -f /boot/vmlinuz-*
rm /etc/os-release
cat >/etc/os-release <<END
PRETTY_NAME="Ubuntu $version LTS"
NAME="Ubuntu"
VERSION_ID="$version"
VERSION="$version LTS"
VERSION_CODENAME=$codename
ID=ubuntu
ID_LIKE=debian
UBUNTU_CODENAME=$codename
END
cat >/etc/apt/sources.list.d/ubuntu.sources <<END
Types: deb
URIs: http://10.215.23.10/ubuntu/ubuntu-$version
Suites: $codename
Components: main
Signed-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg
END
apt-get --quiet update
apt-get --quiet --yes install "linux-image-$kernel-generic"
