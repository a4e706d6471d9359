# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=dash disable=SC2015,SC2034,SC2154
# The image on the disk. Its first MiB, without which no disk boots, stays in memory until the end.

# Removes both copies of the partition table, and proves it.
make_unbootable() {
    for place in 0 $((BYTES - MIB)); do
        tool_dd if=/dev/zero of="$DISK" bs="$MIB" count=1 seek="$place" oflag=seek_bytes conv=notrunc,fsync || return 1
        hash_mib "$DISK" "$place" && [ "$HASH" = "$ZEROS" ] || return 1
    done
}

erase_table() { make_unbootable || refuse "$DISK cannot be written"; }

write_image() {
    say "write $order_image"
    mibs=$((order_raw_bytes / MIB))
    tool_mkfifo "$RUN/stream" || refuse "mkfifo does not work"
    hash_pipe "$RUN/stream" "$RUN/status.hash" &
    # The pipe is opened beside tee, so that a tee that does not start ends the hash too.
    { tool_fetch "$order_image"; echo $? >"$RUN/status.fetch"; } |
        { exec 3>"$RUN/stream"; tool_tee "$RUN/stream"; echo $? >"$RUN/status.tee"; } |
        { tool_unpack; echo $? >"$RUN/status.unpack"; } |
        {
            tool_dd of="$RUN/first" bs="$MIB" count=1 iflag=fullblock
            echo $? >"$RUN/status.first"
            tool_dd of="$DISK" bs="$MIB" count="$((mibs - 1))" seek=1 iflag=fullblock conv=notrunc,fsync
            echo $? >"$RUN/status.rest"
        }
    wait
    for one in fetch tee unpack first rest; do
        only_line "$RUN/status.$one" && [ "$LINE" = 0 ] || refuse "the image was not written: $one ended with '$LINE'"
    done
    only_line "$RUN/status.hash" && [ "$LINE" = "$order_image_sha256" ] || refuse "the hash of the image is '$LINE', and of the order $order_image_sha256"
    read_back
}

# Proves what is on the disk, not what was sent to it.
read_back() {
    { echo 3 >"$PROC/sys/vm/drop_caches"; } 2>/dev/null || say "the page cache could not be dropped"
    {
        tool_dd if="$RUN/first" bs="$MIB"
        tool_dd if="$DISK" bs="$MIB" skip=1 count="$((mibs - 1))" iflag=fullblock
    } | {
        tool_sha256
        printf '%s\n' "$HASH" >"$RUN/status.read"
    }
    only_line "$RUN/status.read" && [ "$LINE" = "$order_raw_sha256" ] || refuse "what was read back from $DISK is not the image"
}
