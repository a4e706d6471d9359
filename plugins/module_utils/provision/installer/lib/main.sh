# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=dash disable=SC2015,SC2034,SC2154,SC2317
# Installs the machine that it runs on, as its order says, or refuses. Run from the initramfs by scripts/bedplate.
# Usage: sh main.sh LIB SYS PROC DEV RUN CONF SECONDS
#   LIB: folder of this file. SYS, PROC, DEV: roots of sysfs, procfs and devices. RUN: a folder in memory. CONF: folder with `order` and
#   `ca.pem`. SECONDS: how long NIC and disk may take to appear.
# Exit status: 0 written, 1 refused. Either way the machine was switched off before.
set -u
LC_ALL=C
export LC_ALL
umask 077
LIB=$1 SYS=$2 PROC=$3 DEV=$4 RUN=$5 CONF=$6 SECONDS_TO_APPEAR=$7

for part in tools proofs order machine contents server image table seed; do
    # shellcheck disable=SC1090 # the parts beside this file
    . "$LIB/$part.sh"
done

# State of this run: what a refusal may and must do.
REACHED="" BEGUN="" DISK="" BYTES=0 HOST_KEY=""

say() { printf 'bedplate: %s\n' "$*"; }

# Ends this run. Nothing was written before BEGUN=yes; after it the disk loses both copies of its partition table.
refuse() {
    say "REFUSED: $*"
    if [ -n "$BEGUN" ]; then
        make_unbootable || say "the partition table of $DISK could not be erased"
    fi
    [ -z "$REACHED" ] || report refused "$*" || say "the refusal could not be reported"
    switch_off
    exit 1
}

tool_mkdir "$RUN" || { say "REFUSED: no folder $RUN"; switch_off; exit 1; }
prove_tools
read_order
check_clock
find_nic
check_serial
find_disk
list_contents
raise_network
claim
BEGUN=yes
erase_table
write_image
plant_seed
write_table
say "written: $order_image_sha256 on $DISK ($order_disk)"
report written "" || say "the result could not be reported"
switch_off
exit 0
