# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=dash disable=SC2015,SC2034,SC2154
# Proves on files in memory that each program works, before a disk is read. A program that is missing, fails, prints nothing or prints
# something else is a refusal: the same program decides later what a disk holds, and what is written.

prove_tools() {
    for program in $PROGRAMS; do
        command -v "$program" >/dev/null 2>&1 || refuse "the program $program is missing in the installer"
    done
    sample="$RUN/sample"
    tool_truncate "$sample" $((4 * MIB)) || refuse "truncate does not work"
    printf bedplate >"$RUN/letters"
    tool_sha256 <"$RUN/letters" && [ "$HASH" = "$LETTERS" ] || refuse "sha256sum does not work"
    # dd: reads at an offset, writes at an offset.
    hash_mib "$sample" "$MIB" && [ "$HASH" = "$ZEROS" ] || refuse "dd does not read"
    tool_dd if="$RUN/letters" of="$sample" bs="$MIB" seek="$((2 * MIB))" oflag=seek_bytes conv=notrunc,fsync || refuse "dd does not write"
    tool_dd if="$sample" bs=8 count=1 skip="$((2 * MIB))" iflag=skip_bytes,fullblock >"$RUN/read"
    tool_sha256 <"$RUN/read" && [ "$HASH" = "$LETTERS" ] || refuse "dd does not write"
    hash_mib "$sample" $((2 * MIB)) && [ "$HASH" != "$ZEROS" ] || refuse "dd does not read what it wrote"
    prove_wipefs
    # Through a pipe of two programs and back, and a copy beside it.
    tool_mkfifo "$RUN/proof" || refuse "mkfifo does not work"
    hash_pipe "$RUN/proof" "$RUN/proof.hash" &
    tool_pack <"$RUN/letters" >"$RUN/packed"
    { exec 3>"$RUN/proof"; tool_tee "$RUN/proof" <"$RUN/packed"; } | tool_unpack >"$RUN/unpacked"
    wait
    tool_sha256 <"$RUN/unpacked" && [ "$HASH" = "$LETTERS" ] || refuse "zstd or tee does not work"
    tool_sha256 <"$RUN/packed" && only_line "$RUN/proof.hash" && [ "$HASH" = "$LINE" ] || refuse "tee does not work"
    tool_mkdir "$RUN/untarred" && tool_archive "$RUN/tar" "$RUN" letters && tool_extract "$RUN/tar" "$RUN/untarred" &&
        tool_sha256 <"$RUN/untarred/letters" && [ "$HASH" = "$LETTERS" ] || refuse "tar does not work"
    tool_label "$sample" && tool_last_partition "$sample" && [ "$START" = 2048 ] && [ "$LENGTH" = 2048 ] || refuse "sfdisk does not work"
    tool_debugfs_version || refuse "debugfs does not work"
    tool_e2fsck_version || refuse "e2fsck does not work"
    tool_host_key "$RUN/proof-key" proof || refuse "ssh-keygen does not work"
    PROVED=$PUBLIC
    tool_date || refuse "date does not work"
    tool_sleep 0 || refuse "sleep does not work"
}

# wipefs prints nothing for an empty disk, so that silence proves nothing: it must find a signature that is there, and no other.
prove_wipefs() {
    tool_truncate "$RUN/signed" $((4 * MIB)) || refuse "truncate does not work"
    tool_wipefs "$RUN/signed" && [ -z "$TYPES" ] || refuse "wipefs does not work: it finds '$TYPES' in zeros"
    printf 'LUKS\272\276\000\001' >"$RUN/luks"
    tool_dd if="$RUN/luks" of="$RUN/signed" conv=notrunc || refuse "dd does not write"
    tool_wipefs "$RUN/signed" && [ "$TYPES" = " crypto_LUKS" ] || refuse "wipefs does not work: it does not find a signature"
}

# Writes the hash of what a named pipe carries to a file. The pipe is read to its end even if sha256sum is not: its writer must not wait.
hash_pipe() {
    {
        tool_sha256 && printf '%s\n' "$HASH" >"$2"
        tool_dd of=/dev/null bs="$MIB"
    } <"$1"
}

# Sets HASH to that of 1 MiB of a disk, from byte $2 on.
hash_mib() {
    HASH=""
    tool_dd if="$1" bs="$MIB" count=1 skip="$2" iflag=skip_bytes,fullblock >"$RUN/mib" || return 1
    tool_sha256 <"$RUN/mib"
}
