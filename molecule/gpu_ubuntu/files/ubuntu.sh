#!/bin/sh
# Dresses a machine of Debian as Ubuntu 24.04: its name, its archive, and a kernel under Ubuntu's names. What is compiled for that kernel is
# compiled against Debian's headers, since no header of Ubuntu can be had here.
set -e
debian=$(find /usr/src -maxdepth 1 -name 'linux-headers-*-amd64' | sort --version-sort | tail -n 1)
ln -s "$debian" /usr/src/stand-in-headers
# Debian's headers stay, without what follows the newest ones.
apt-mark manual "${debian##*/}" >/dev/null
apt-get --quiet --yes purge linux-headers-amd64
rm -f /boot/vmlinuz-*
rm /etc/os-release
cat >/etc/os-release <<'END'
PRETTY_NAME="Ubuntu 24.04.3 LTS"
NAME="Ubuntu"
VERSION_ID="24.04"
VERSION="24.04.3 LTS (Noble Numbat)"
VERSION_CODENAME=noble
ID=ubuntu
ID_LIKE=debian
UBUNTU_CODENAME=noble
END
cat >/etc/apt/sources.list.d/ubuntu.sources <<'END'
Types: deb
URIs: http://10.215.23.10/ubuntu/ubuntu-24.04
Suites: noble
Components: main
Signed-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg
END
apt-get --quiet update
apt-get --quiet --yes install linux-image-6.8.0-90-generic
