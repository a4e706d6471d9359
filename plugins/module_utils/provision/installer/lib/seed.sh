# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=dash disable=SC2015,SC2034,SC2153,SC2154
# The seed makes the image this machine. Its files are written into the unmounted ext4 of the image, and each is read back.

plant_seed() {
    fetch_seed
    tool_mkdir "$RUN/seed" && tool_extract "$RUN/answer.seed" "$RUN/seed" || refuse "the seed cannot be unpacked"
    {
        printf '%s\n' "image=$order_image_sha256" "order=$order_id" "node=$order_node" "serial=$order_serial" "disk=$order_disk"
    } >"$RUN/image"
    tool_sha256 <"$RUN/image" || refuse "sha256sum does not work"
    plan_file 0644 "$HASH" /etc/bedplate/image "$RUN/image"
    read_manifest
    [ "$order_host_key" = seed ] || add_host_key
    tool_debugfs "$DISK" "$order_root_start" "$RUN/commands" || refuse "debugfs cannot write to the image"
    while read -r mode hash path; do
        tool_debugfs_read "$DISK" "$order_root_start" "$path" "$RUN/copy" || refuse "$path of the seed cannot be read back"
        tool_sha256 <"$RUN/copy" && [ "$HASH" = "$hash" ] && [ "$MODE" = "$mode" ] || refuse "$path of the seed was not written"
    done <"$RUN/planted"
    tool_e2fsck "$DISK" "$order_root_start" || refuse "the file system of the image has errors"
}

# With a token that crossed the network in clear no private key may travel: this machine makes its own, and reports the public half.
add_host_key() {
    tool_host_key "$RUN/host-key" "$order_node" && [ "$PUBLIC" != "$PROVED" ] || refuse "ssh-keygen does not make a host key"
    HOST_KEY=$PUBLIC
    tool_sha256 <"$RUN/host-key" || refuse "sha256sum does not work"
    plan_file 0600 "$HASH" /etc/ssh/ssh_host_ed25519_key "$RUN/host-key"
    tool_sha256 <"$RUN/host-key.pub" || refuse "sha256sum does not work"
    plan_file 0644 "$HASH" /etc/ssh/ssh_host_ed25519_key.pub "$RUN/host-key.pub"
}

read_manifest() {
    number=0 ended=""
    while read -r mode hash path rest; do
        [ -z "$ended" ] && [ -z "$rest" ] || refuse "the seed's manifest has more than its lines"
        if [ "$mode" = end ]; then
            [ "$hash" = "$number" ] && [ -z "$path" ] || refuse "the seed's manifest is cut"
            ended=yes
            continue
        fi
        case $mode in 0[0-7][0-7][0-7]) ;; *) refuse "the seed has a file of mode $mode" ;; esac
        is_hash "$hash" || refuse "the seed has a file without a hash"
        case $path in *[!A-Za-z0-9._@+/-]* | *//* | */../* | */./* | */.. | */. | */) refuse "the seed has a path that is not allowed" ;; /*) ;; *) refuse "the seed has a path that is not absolute" ;; esac
        tool_sha256 <"$RUN/seed/$number" && [ "$HASH" = "$hash" ] || refuse "$path of the seed is not what its manifest says"
        plan_file "$mode" "$hash" "$path" "$RUN/seed/$number"
        number=$((number + 1))
    done <"$RUN/seed/manifest"
    [ -n "$ended" ] && [ "$number" -gt 0 ] || refuse "the seed's manifest is cut"
}

# Appends the commands of debugfs that write a file, and what must be read back.
plan_file() {
    printf '%s %s %s\n' "$1" "$2" "$3" >>"$RUN/planted"
    {
        echo "cd /"
        rest=${3#/}
        while case $rest in */*) true ;; *) false ;; esac; do
            printf 'mkdir %s\ncd %s\n' "${rest%%/*}" "${rest%%/*}"
            rest=${rest#*/}
        done
        printf 'rm %s\nwrite %s %s\n' "$rest" "$4" "$rest"
        printf 'set_inode_field %s mode 010%s\n' "$rest" "$1"
        printf 'set_inode_field %s uid 0\nset_inode_field %s gid 0\n' "$rest" "$rest"
    } >>"$RUN/commands"
}
