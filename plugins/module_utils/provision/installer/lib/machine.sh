# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=dash disable=SC2015,SC2034,SC2154
# The machine: NIC by MAC, serial by DMI, disk by its serial number. Read from sysfs, never by name.

# Sets TRIMMED to the words of a text, with single blanks between them and none around.
trim() {
    set -f
    # shellcheck disable=SC2086 # split at blanks
    set -- $1
    set +f
    TRIMMED=$*
}

# Sets NIC to the one physical interface with the order's MAC.
find_nic() {
    waited=0
    while :; do
        NIC="" number=0
        for interface in "$SYS"/class/net/*; do
            [ -e "$interface/device" ] || continue
            only_line "$interface/address" && [ "$LINE" = "$order_mac" ] && NIC=${interface##*/} number=$((number + 1))
        done
        [ "$number" = 0 ] && [ "$waited" -lt "$SECONDS_TO_APPEAR" ] || break
        tool_sleep 1 || refuse "sleep does not work"
        waited=$((waited + 1))
    done
    [ "$number" = 1 ] || refuse "$number interfaces of this machine have the MAC $order_mac"
    # From here on a refusal can be reported: the network is raised for that, too.
    REACHED=nic
}

check_serial() {
    only_line "$SYS/class/dmi/id/product_serial" || refuse "the firmware shows no serial number"
    trim "$LINE"
    [ "$TRIMMED" = "$order_serial" ] || refuse "the serial number of this machine is '$TRIMMED', and of the order '$order_serial'"
}

# Sets SERIAL to that of a block device, "" if it has no serial number. Fails if it has one that cannot be read.
serial_of() {
    SERIAL=""
    for source in "$1/serial" "$1/device/serial"; do
        [ -e "$source" ] || continue
        # Each file of sysfs has the size of a page, so that dd alone knows whether an empty one was read.
        tool_dd if="$source" >"$RUN/serial" || return 1
        only_line "$RUN/serial" || [ -z "$LINE$second" ] || return 1
        trim "$LINE"
        SERIAL=$TRIMMED
        [ -z "$SERIAL" ] || return 0
    done
    [ -e "$1/device/vpd_pg80" ] || return 0
    # Four bytes of header, then the serial number.
    tool_dd if="$1/device/vpd_pg80" bs=1 skip=4 count=252 >"$RUN/vpd" || return 1
    { IFS= read -r LINE || [ -n "$LINE" ]; } <"$RUN/vpd" || return 1
    trim "$LINE"
    SERIAL=$TRIMMED
}

# Sets DISK, BLOCK (its folder in sysfs) and BYTES of the one disk with the order's serial number.
find_disk() {
    waited=0
    while :; do
        BLOCK="" number=0
        for block in "$SYS"/block/*; do
            [ -e "$block/device" ] || continue
            case ${block##*/} in loop* | ram* | zram* | sr* | fd* | dm-* | md*) continue ;; esac
            if only_line "$block/hidden" && [ "$LINE" = 1 ]; then continue; fi
            serial_of "$block" || refuse "the serial number of ${block##*/} cannot be read"
            [ "$SERIAL" = "$order_disk" ] && BLOCK=$block number=$((number + 1))
        done
        [ "$number" = 0 ] && [ "$waited" -lt "$SECONDS_TO_APPEAR" ] || break
        tool_sleep 1 || refuse "sleep does not work"
        waited=$((waited + 1))
    done
    [ "$number" = 1 ] || refuse "$number disks of this machine have the serial number $order_disk"
    DISK="$DEV/${BLOCK##*/}"
    [ -b "$DISK" ] || [ -f "$DISK" ] || refuse "$DISK is not a disk"
    only_line "$BLOCK/ro" && [ "$LINE" = 0 ] || refuse "$DISK is read-only, or its state cannot be read"
    # The image's partition table counts sectors of 512 bytes: with others the disk would not boot.
    only_line "$BLOCK/queue/logical_block_size" && [ "$LINE" = 512 ] || refuse "$DISK has sectors of '$LINE' bytes, and the image of 512"
    only_line "$BLOCK/size" && is_number "$LINE" || refuse "the size of $DISK cannot be read"
    BYTES=$((LINE * 512))
    [ "$BYTES" -ge "$order_raw_bytes" ] && [ "$BYTES" -ge $((16 * MIB)) ] || refuse "$DISK has $BYTES bytes, and the image $order_raw_bytes"
    check_unused
}

check_unused() {
    for holder in "$BLOCK"/holders/* "$BLOCK"/*/holders/*; do
        [ ! -e "$holder" ] || refuse "$DISK is in use by ${holder##*/}"
    done
    for table in "$PROC/mounts" "$PROC/swaps"; do
        [ -r "$table" ] || refuse "$table cannot be read"
        while IFS= read -r line; do
            case $line in "$DISK"*) refuse "$DISK is mounted, or used as swap" ;; esac
        done <"$table"
    done
}
