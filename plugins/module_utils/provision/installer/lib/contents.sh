# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=dash disable=SC2015,SC2034,SC2154
# What the disk holds. It is empty if three witnesses agree: the kernel has no partition, wipefs finds no signature, and the first and the
# last MiB are zeros by their hash. A hash of zeros is proof; the silence of a program is not.

list_contents() {
    HOLDS=""
    for part in "$BLOCK/${BLOCK##*/}"*; do
        [ -e "$part/partition" ] || continue
        HOLDS="$HOLDS ${part##*/}"
        tool_wipefs "$DEV/${part##*/}" || refuse "wipefs cannot read ${part##*/}"
        for type in $TYPES; do HOLDS="$HOLDS($type)"; done
    done
    tool_wipefs "$DISK" || refuse "wipefs cannot read $DISK"
    HOLDS="$HOLDS$TYPES"
    for place in 0 $((BYTES - MIB)); do
        hash_mib "$DISK" "$place" || refuse "$DISK cannot be read at byte $place"
        [ "$HASH" = "$ZEROS" ] || HOLDS="$HOLDS data-at-byte-$place"
    done
    # The program that read the disk still finds what is there.
    prove_wipefs
    trim "$HOLDS"
    HOLDS=$TRIMMED
    [ -n "$HOLDS" ] || { say "$DISK ($order_disk) is empty"; return 0; }
    say "$DISK ($order_disk) holds: $HOLDS"
    [ "$order_wipe" = yes ] || refuse "$DISK ($order_disk) holds: $HOLDS; the order does not allow to wipe it"
}
