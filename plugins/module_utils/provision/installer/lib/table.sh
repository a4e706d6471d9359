# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=dash disable=SC2015,SC2034,SC2154
# The partition table of the image, grown to the disk. It is made in a file that is as long as the disk and holds only its two ends.

write_table() {
    table="$RUN/table"
    tool_truncate "$table" "$BYTES" && tool_dd if="$RUN/first" of="$table" bs="$MIB" conv=notrunc || refuse "the partition table cannot be made"
    tool_last_partition "$table" || refuse "the image has no GPT that sfdisk reads"
    [ $((START * 512)) = "$order_root_start" ] || refuse "the last partition of the image begins at sector $START, which is not the order's root_start"
    number=$PARTITION
    tool_grow "$table" "$number" || refuse "sfdisk cannot grow partition $number"
    tool_last_partition "$table" && [ "$PARTITION" = "$number" ] && [ $((START * 512)) = "$order_root_start" ] &&
        [ $(((START + LENGTH) * 512)) -ge $((BYTES - 2 * MIB)) ] && [ $(((START + LENGTH) * 512)) -lt "$BYTES" ] ||
        refuse "sfdisk did not grow partition $number"
    write_end $((BYTES - MIB))
    write_end 0
}

# Copies 1 MiB of the table to the same place of the disk, and reads it back.
write_end() {
    hash_mib "$table" "$1" && wanted=$HASH && [ "$HASH" != "$ZEROS" ] || refuse "the partition table is empty at byte $1"
    tool_dd if="$table" of="$DISK" bs="$MIB" count=1 skip="$1" iflag=skip_bytes,fullblock seek="$1" oflag=seek_bytes conv=notrunc,fsync ||
        refuse "$DISK cannot be written at byte $1"
    hash_mib "$DISK" "$1" && [ "$HASH" = "$wanted" ] || refuse "$DISK has not what was written at byte $1"
}
