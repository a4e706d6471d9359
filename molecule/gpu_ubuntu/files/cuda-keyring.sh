#!/bin/sh
# cuda-keyring.sh URL installs a package cuda-keyring with the files of NVIDIA's: their key as a keyring, a source that names
# the repository URL with it, and pins. After it, apt refuses every command if a second entry of URL has another Signed-By.
set -e
url=$1 root=$(mktemp --directory)
mkdir -p "$root/DEBIAN" "$root/usr/share/keyrings" "$root/etc/apt/sources.list.d" "$root/etc/apt/preferences.d"
cat >"$root/DEBIAN/control" <<END
Package: cuda-keyring
Version: 1.1-1
Architecture: all
Maintainer: The bedplate authors <bedplate@example.org>
Description: stand-in for tests, not NVIDIA's package
END
printf '%s\n' /etc/apt/sources.list.d/cuda-ubuntu2404-x86_64.list /etc/apt/preferences.d/cuda-repository-pin-600 >"$root/DEBIAN/conffiles"
# apt reads armored keys by this suffix alone; NVIDIA's is not armored.
sed '1,/^$/d; /^=/,$d; /^-----END/d' /srv/vendor/keys/nvidia.asc | base64 --decode >"$root/usr/share/keyrings/cuda-archive-keyring.gpg"
echo "deb [signed-by=/usr/share/keyrings/cuda-archive-keyring.gpg] $url/ /" >"$root/etc/apt/sources.list.d/cuda-ubuntu2404-x86_64.list"
printf 'Package: nsight-compute\nPin: origin *ubuntu.com*\nPin-Priority: -1\n\nPackage: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n' \
  >"$root/etc/apt/preferences.d/cuda-repository-pin-600"
chmod -R u=rwX,go=rX "$root"
dpkg-deb --build --root-owner-group "$root" "$root.deb" >/dev/null
dpkg --install "$root.deb"
rm -r "$root" "$root.deb"
apt-get --quiet update
