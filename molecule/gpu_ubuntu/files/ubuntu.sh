#!/bin/sh
# Dresses a machine of Debian as Ubuntu 24.04: its name, and kernels with Ubuntu's package names, files and relations. What is compiled for
# them is compiled against Debian's headers, since no header of Ubuntu can be had here.
set -e
pool=/srv/ubuntu/pool
mkdir -p "$pool"
debian=$(find /usr/src -maxdepth 1 -name 'linux-headers-*-amd64' | sort --version-sort | tail -n 1)

# package NAME VERSION FOLDER [CONTROL LINE ...]
package() {
    name=$1 version=$2 folder=$3
    shift 3
    mkdir -p "$folder/DEBIAN"
    {
        printf 'Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: x <x@example.org>\n' "$name" "$version"
        for line; do printf '%s\n' "$line"; done
        printf 'Description: stands in for %s\n' "$name"
    } >"$folder/DEBIAN/control"
    dpkg-deb --root-owner-group --build -Znone "$folder" "$pool" >/dev/null
    rm -r "$folder"
}

# hook DIRECTORY FOLDER KERNEL: the postinst of a kernel's package, which calls DKMS alone, for a container makes no initramfs.
hook() {
    mkdir -p "$2/DEBIAN"
    printf '#!/bin/sh\nset -e\nif [ "$1" = configure ] && [ -x /etc/kernel/%s/dkms ]; then /etc/kernel/%s/dkms %s; fi\n' \
        "$1" "$1" "$3" >"$2/DEBIAN/postinst"
    chmod 755 "$2/DEBIAN/postinst"
}

for abi in 90.91 100.102; do
    kernel=6.8.0-${abi%.*}-generic version=6.8.0-$abi root=/srv/ubuntu/root
    mkdir -p "$root/boot" "$root/lib/modules/$kernel/kernel"
    touch "$root/boot/vmlinuz-$kernel"
    hook postinst.d "$root" "$kernel"
    package "linux-image-$kernel" "$version" "$root" "Provides: linux-image" "Depends: linux-modules-$kernel"
    package "linux-modules-$kernel" "$version" "$root"
    package "linux-modules-extra-$kernel" "$version" "$root" "Depends: linux-image-$kernel | linux-image-unsigned-$kernel"
    mkdir -p "$root/usr/src" "$root/lib/modules/$kernel"
    ln -s "$debian" "$root/usr/src/linux-headers-$kernel"
    ln -s "/usr/src/linux-headers-$kernel" "$root/lib/modules/$kernel/build"
    hook header_postinst.d "$root" "$kernel"
    package "linux-headers-$kernel" "$version" "$root" "Provides: linux-headers, linux-headers-3.0"
done
meta=6.8.0-100.102
package linux-image-generic "$meta" /srv/ubuntu/root "Depends: linux-image-$kernel (= $version), linux-modules-extra-$kernel (= $version)"
package linux-headers-generic "$meta" /srv/ubuntu/root "Depends: linux-headers-$kernel (= $version)"
package linux-generic "$meta" /srv/ubuntu/root "Depends: linux-image-generic (= $meta), linux-headers-generic (= $meta)"
cd /srv/ubuntu
dpkg-scanpackages --multiversion pool >Packages 2>/dev/null
echo 'deb [trusted=yes] file:/srv/ubuntu ./' >/etc/apt/sources.list.d/ubuntu.list

# Debian's headers stay, without what follows the newest ones.
apt-mark manual "${debian##*/}" >/dev/null
apt-get --quiet --yes purge linux-headers-amd64
rm -f /boot/vmlinuz-*
cat >/etc/os-release.ubuntu <<'END'
PRETTY_NAME="Ubuntu 24.04.3 LTS"
NAME="Ubuntu"
VERSION_ID="24.04"
VERSION="24.04.3 LTS (Noble Numbat)"
VERSION_CODENAME=noble
ID=ubuntu
ID_LIKE=debian
UBUNTU_CODENAME=noble
END
rm /etc/os-release
mv /etc/os-release.ubuntu /etc/os-release
apt-get --quiet update
apt-get --quiet --yes install linux-image-6.8.0-90-generic
