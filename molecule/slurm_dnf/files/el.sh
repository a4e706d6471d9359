#!/bin/sh
# Makes a machine of dnf of one of Debian's, for Slurm: dnf with EL's settings, and /srv/distribution with what SchedMD's rpms need of an
# EL 9. The rpm of munge has the files of Debian's and makes its user; that of MariaDB names what Debian has installed; the others are
# empty. The arguments are packages of Debian: mariadb-server where a database is, a compiler where something is compiled.
set -e
mkdir -p /etc/yum.repos.d /etc/dnf/vars /srv/rpmbuild /srv/distribution /srv/stage

# Libraries, which SchedMD's rpms require by name of their files.
libraries="libdbus-1-3 libhwloc15 libjson-c5 libjwt2 liblua5.1-0 libmunge2 libnuma1 libyaml-0-2 libpmix2t64 libmariadb3 liblz4-1
    libreadline8t64 libhttp-parser2.9"
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
# shellcheck disable=SC2086
apt-get --quiet --yes --no-install-recommends install $libraries $*
rm /usr/sbin/policy-rc.d
[ "$1" != mariadb-server ] || systemctl disable --quiet mariadb

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
echo 9 >/etc/dnf/vars/releasever
# EL 9's rpm has no such plugin, and a container may not change mounts.
mkdir -p /etc/rpm
echo '%__transaction_unshare %{nil}' >/etc/rpm/macros.el
for plugin in local expired-pgp-keys; do
    printf '[main]\nenabled=0\n' >"/etc/dnf/plugins/$plugin.conf"
done
plugins=/usr/lib/python3/dist-packages/dnf-plugins
rm -f "$plugins/system_upgrade.py"
versionlock="$plugins/versionlock.py /etc/dnf/plugins/versionlock.conf /etc/dnf/plugins/versionlock.list"
tar --create --file /srv/versionlock.tar --absolute-names $versionlock
rm $versionlock

cd /srv/stage
apt-get --quiet download munge
dpkg-deb --extract munge_*.deb munge
rm -r munge/etc/init.d munge/usr/share

# package NAME VERSION RELEASE [LINE ...]
package() {
    name=$1 version=$2 release=$3
    shift 3
    printf '\n%%package -n %s\nVersion: %s\nRelease: %s\nSummary: Stands in for %s\nAutoReqProv: no\n' "$name" "$version" "$release" "$name"
    for line; do printf '%s\n' "$line"; done
    printf '%%description -n %s\nStands in for %s\n' "$name" "$name"
}

{
    printf 'Name: distribution\nVersion: 1\nRelease: 1\nSummary: Stands in\nLicense: GPL-3.0-or-later\n%%description\nStands in\n'
    printf '%%install\nmkdir -p %%{buildroot}/usr/libexec %%{buildroot}/etc/my.cnf.d\n'
    printf 'tar --extract --file /srv/versionlock.tar --directory %%{buildroot}\ncp -a /srv/stage/munge/. %%{buildroot}\n'
    printf 'ln -s ../sbin/mariadbd %%{buildroot}/usr/libexec/mariadbd\n'
    package bash 5.1.8 9.el9 'Provides: /bin/sh'
    printf '%%files -n bash\n'
    package bash-completion 2.11 5.el9
    printf '%%files -n bash-completion\n'
    for name in gcc make glibc-devel; do
        package $name 9 1.el9
        printf '%%files -n %s\n' $name
    done
    package mariadb-server 10.5.27 1.el9
    printf '%%files -n mariadb-server\n/usr/libexec/mariadbd\n%%dir /etc/my.cnf.d\n'
    package python3-dnf-plugin-versionlock 4.3.0 16.el9
    printf '%%files -n python3-dnf-plugin-versionlock\n'
    printf '%s\n' $versionlock
    package munge 0.5.13 13.el9
    # As EL's: a user of a free number, unless there is one. Its unit is not enabled, and it has no key.
    printf '%%pre -n munge\ngetent group munge >/dev/null || groupadd --system munge\n'
    printf 'getent passwd munge >/dev/null || useradd --system --gid munge --no-create-home --shell /sbin/nologin munge\n'
    printf '%%files -n munge\n/usr/bin/munge\n/usr/bin/remunge\n/usr/bin/unmunge\n/usr/sbin/munged\n/usr/sbin/mungekey\n'
    printf '/usr/lib/systemd/system/munge.service\n/etc/default/munge\n/etc/logrotate.d/munge\n'
    printf '%%dir %%attr(0700,munge,munge) /etc/munge\n%%dir %%attr(0711,munge,munge) /var/lib/munge\n'
    printf '%%dir %%attr(0700,munge,munge) /var/log/munge\n'
} >/srv/rpmbuild/distribution.spec
rpmbuild -bb --quiet --nodeps --define '_topdir /srv/rpmbuild' --define '_build_id_links none' --define '__os_install_post %{nil}' \
    /srv/rpmbuild/distribution.spec
find /srv/rpmbuild/RPMS -name '*.rpm' -exec cp {} /srv/distribution/ \;

# EL's names of what the role changes: MariaDB's directory, and the file of account rules in the one of sshd.
if [ "$1" = mariadb-server ]; then
    printf '!includedir /etc/my.cnf.d/\n' >>/etc/mysql/mariadb.cnf
fi
cp /etc/pam.d/common-account /etc/pam.d/password-auth
sed -i 's/^@include common-account/account    include      password-auth/' /etc/pam.d/sshd
grep -q '^account    include      password-auth' /etc/pam.d/sshd
createrepo_c --quiet /srv/distribution
