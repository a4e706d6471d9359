#!/bin/sh
# Makes a machine of dnf of one of Debian's: dnf with EL's settings, /srv/distribution with what NVIDIA's packages need of an EL 9, and a
# kernel of two. The rpms are empty, but for that of versionlock: Debian has it in the package of all plugins, EL in one of its own.
set -e
mkdir -p /etc/yum.repos.d /boot/loader/entries /srv/rpmbuild /srv/distribution

cat >/etc/dnf/dnf.conf <<'END'
[main]
gpgcheck=1
installonly_limit=3
clean_requirements_on_remove=True
best=True
skip_if_unavailable=False
module_platform_id=platform:el9
END
cat >/etc/yum.repos.d/distribution.repo <<'END'
[distribution]
name=The few packages of the distribution
baseurl=file:///srv/distribution
gpgcheck=0
END
mkdir -p /etc/dnf/vars
echo 9 >/etc/dnf/vars/releasever
# EL has none of these, or this container lacks what they need.
for plugin in local expired-pgp-keys; do
    printf '[main]\nenabled=0\n' >"/etc/dnf/plugins/$plugin.conf"
done
plugins=/usr/lib/python3/dist-packages/dnf-plugins
rm "$plugins/system_upgrade.py"
versionlock="$plugins/versionlock.py /etc/dnf/plugins/versionlock.conf /etc/dnf/plugins/versionlock.list"
tar --create --file /srv/versionlock.tar --absolute-names $versionlock
rm $versionlock

# package NAME VERSION RELEASE [LINE ...]
package() {
    name=$1 version=$2 release=$3
    shift 3
    printf '\n%%package -n %s\nVersion: %s\nRelease: %s\nSummary: Stands in for %s\n' "$name" "$version" "$release" "$name"
    for line; do printf '%s\n' "$line"; done
    printf '%%description -n %s\nStands in for %s\n%%files -n %s\n' "$name" "$name" "$name"
}

for kernel in 503.11.1.el9_5 570.12.1.el9_6; do
    exactly="= 5.14.0-$kernel"
    {
        printf 'Name: distribution\nVersion: 1\nRelease: 1\nSummary: Stands in\nLicense: GPL-3.0-or-later\n%%description\nStands in\n'
        printf '%%install\nmkdir -p %%{buildroot}\ntar --extract --file /srv/versionlock.tar --directory %%{buildroot}\n'
        package dkms 3.2.2 1.el9
        package infiniband-diags 51.0 1.el9
        package libibumad 51.0 1.el9
        package podman 5.2.2 1.el9
        # As EL's say it, dnf installs one beside the other.
        several='Provides: installonlypkg(kernel)'
        package kernel-devel 5.14.0 "$kernel" "$several"
        package kernel-core 5.14.0 "$kernel" "$several" "Provides: kernel-uname-r $exactly" "Requires: kernel-modules-core $exactly"
        for name in kernel kernel-modules kernel-modules-core; do
            package "$name" 5.14.0 "$kernel" "$several" "Requires: kernel-uname-r $exactly"
        done
        package python3-dnf-plugin-versionlock 4.3.0 16.el9
        printf '%s\n' $versionlock
    } >/srv/rpmbuild/distribution.spec
    rpmbuild -bb --quiet --nodeps --define '_topdir /srv/rpmbuild' /srv/rpmbuild/distribution.spec
done
find /srv/rpmbuild/RPMS -name '*.rpm' -exec cp {} /srv/distribution/ \;
createrepo_c --quiet /srv/distribution
# The node has a kernel before the driver comes, and its files say so, for a container boots none. What is compiled for it is compiled
# against Debian's headers.
rm -f /boot/*-amd64
touch /boot/loader/entries/5.14.0.conf
debian=$(find /usr/src -maxdepth 1 -name 'linux-headers-*-amd64' | sort --version-sort | tail -n 1)
for kernel in 503.11.1.el9_5 570.12.1.el9_6; do
    mkdir -p "/lib/modules/5.14.0-$kernel.x86_64"
    ln -s "$debian" "/lib/modules/5.14.0-$kernel.x86_64/build"
done
dnf --quiet --assumeyes install kernel-5.14.0-503.11.1.el9_5 kernel-modules-5.14.0-503.11.1.el9_5
touch /boot/vmlinuz-5.14.0-503.11.1.el9_5.x86_64
