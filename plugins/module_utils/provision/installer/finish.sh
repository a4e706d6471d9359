#!/bin/sh
# Makes a machine that boots by itself out of an installed Debian. Run in the new root, as: sh -s UUID SERIAL "WORDS" [UNIT...]
# UUID: of the root file system. SERIAL: of the ESP, XXXX-XXXX. WORDS: for the kernel's command line. UNIT: units to mask.
set -eu
uuid=$1 serial=$2 words=$3
shift 3
[ $# = 0 ] || systemctl mask --quiet "$@"
systemctl enable --quiet ssh.service systemd-networkd.service
# Each machine gets its keys and its identity from the installer or at its first boot.
rm -f /etc/ssh/ssh_host_*
: >/etc/machine-id
cat >/etc/fstab <<END
UUID=$uuid / ext4 noatime,x-systemd.growfs 0 1
UUID=$serial /boot/efi vfat umask=0077,nofail,noauto 0 0
END
mkdir -p /boot/efi /etc/bedplate

cat >/etc/default/grub <<END
GRUB_DEFAULT=0
GRUB_TIMEOUT=1
GRUB_DISTRIBUTOR=Debian
GRUB_CMDLINE_LINUX_DEFAULT=""
GRUB_CMDLINE_LINUX="$words"
GRUB_TERMINAL=console
GRUB_DISABLE_OS_PROBER=true
END
mkdir -p /boot/grub/i386-pc
cp /usr/lib/grub/i386-pc/*.mod /usr/lib/grub/i386-pc/*.lst /usr/lib/grub/i386-pc/boot.img /boot/grub/i386-pc/
grub-mkimage --format=i386-pc --prefix='(,gpt3)/boot/grub' --output=/boot/grub/i386-pc/core.img \
    biosdisk part_gpt ext2 normal linux configfile search search_fs_uuid serial terminal echo test
grub-editenv /boot/grub/grubenv create
cat >/boot/grub/esp.cfg <<END
search.fs_uuid $uuid root
set prefix=(\$root)/boot/grub
configfile \$prefix/grub.cfg
END

# GRUB's scripts read where the root file system is. Here that is a folder; on the disk it is the third partition.
mv /usr/sbin/grub-probe /usr/sbin/grub-probe.real
trap 'mv /usr/sbin/grub-probe.real /usr/sbin/grub-probe' EXIT
cat >/usr/sbin/grub-probe <<END
#!/bin/sh
case "\$*" in
*target=device*) echo /dev/sda3 ;;
*target=fs_uuid*) echo $uuid ;;
*target=fs*) echo ext2 ;;
*target=partmap*) echo gpt ;;
esac
END
chmod 755 /usr/sbin/grub-probe
made=""
[ -e "/dev/disk/by-uuid/$uuid" ] || {
    mkdir -p /dev/disk/by-uuid
    : >"/dev/disk/by-uuid/$uuid"
    made=yes
}
update-grub
[ -z "$made" ] || rm "/dev/disk/by-uuid/$uuid"
grep -q "^[[:space:]]*linux.*root=UUID=$uuid" /boot/grub/grub.cfg

apt-get clean
rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log /var/cache/debconf/*-old /boot/initrd.img*.old
