# SPDX-License-Identifier: GPL-3.0-or-later
# shellcheck shell=dash disable=SC2015,SC2034,SC2154
# Each external program is called in one place, here. A function returns 0 only if the program did what its output can prove; what it
# printed is in a variable or a file. Nobody else calls a program, and no function here decides.

MIB=1048576
# SHA-256 of 1 MiB of zeros, and of the eight letters "bedplate".
ZEROS=30e14955ebf1352266dc2ff8067e68104607e750abb9d3b36582b8af909fcb58
LETTERS=9579c1c470aaa4de88a3373cc648a7ea7612b456800321e6a7f4196a99edc2c0

# Missing programs are found before anything is done.
PROGRAMS="curl date dd debugfs e2fsck ip mkdir mkfifo poweroff sfdisk sha256sum sleep ssh-keygen tar tee truncate wipefs zstd"

is_number() { case $1 in '' | *[!0-9]* | ????????????????*) return 1 ;; esac; }
is_hash() { case $1 in *[!0-9a-f]*) return 1 ;; esac; [ ${#1} = 64 ]; }

# Sets LINE to the first line of a file; fails if the file has no line or more lines.
only_line() {
    LINE="" second=""
    { IFS= read -r LINE && { IFS= read -r second || [ -n "$second" ]; } && return 1; } 2>/dev/null <"$1"
    [ -n "$LINE" ]
}

tool_mkdir() { mkdir -p "$1" && [ -w "$1" ]; }

tool_sleep() { sleep "$1"; }

# Sets NOW to seconds since 1970.
tool_date() {
    date +%s >"$RUN/date" 2>"$RUN/error" && only_line "$RUN/date" && NOW=$LINE && is_number "$NOW" && [ ${#NOW} -ge 9 ]
}

tool_set_date() { date -u -s "@$1" >/dev/null 2>"$RUN/error"; }

# Copies blocks: tool_dd OPERANDS.... It prints the data, or nothing.
tool_dd() { dd "$@" status=none 2>>"$RUN/dd.error"; }

# Sets HASH to the SHA-256 of the standard input.
tool_sha256() {
    HASH=""
    sha256sum >"$RUN/hash" 2>"$RUN/error" && only_line "$RUN/hash" && HASH=${LINE%"  -"} && is_hash "$HASH"
}

# Sets TYPES to the names of all signatures on a device, each once.
tool_wipefs() {
    TYPES=""
    wipefs --no-act --noheadings --output OFFSET,TYPE "$1" >"$RUN/wipefs" 2>"$RUN/error" || return 1
    while IFS= read -r line || [ -n "$line" ]; do
        # shellcheck disable=SC2086 # two words
        set -- $line
        [ $# = 2 ] || return 1
        case $1 in 0x*[!0-9a-f]* | 0x) return 1 ;; 0x*) ;; *) return 1 ;; esac
        case $2 in *[!A-Za-z0-9_.-]*) return 1 ;; esac
        case "$TYPES " in *" $2 "*) ;; *) TYPES="$TYPES $2" ;; esac
    done <"$RUN/wipefs"
}

tool_ip_up() { ip link set dev "$1" up >/dev/null 2>"$RUN/error"; }
tool_ip_address() { ip address replace "$2" dev "$1" >/dev/null 2>"$RUN/error"; }
tool_ip_route() { ip route replace default via "$2" dev "$1" >/dev/null 2>"$RUN/error"; }

# Fails unless an interface has an address, in CIDR notation.
tool_ip_has() {
    ip -o -4 address show dev "$1" >"$RUN/addresses" 2>"$RUN/error" || return 1
    while IFS= read -r line; do
        case $line in *" $1 "*" inet $2 "*) return 0 ;; esac
    done <"$RUN/addresses"
    return 1
}

# No other CA counts: without --capath curl also takes those of the system.
# Sends a file and keeps the answer: tool_post URL BODY ANSWER. Sets STATUS to that of HTTP.
tool_post() {
    STATUS=""
    rm_file "$3"
    curl -q --silent --show-error --proto =https --tlsv1.2 --noproxy '*' --connect-timeout 20 --max-time 120 --cacert "$CONF/ca.pem" --capath "$CONF" \
        --header "@$RUN/authorization" --data-binary "@$2" --output "$3" --write-out '%{http_code}\n' "$1" \
        >"$RUN/status" 2>"$RUN/curl.error" || return 1
    only_line "$RUN/status" && STATUS=$LINE && case $STATUS in [1-5][0-9][0-9]) ;; *) return 1 ;; esac
}

# Prints what a URL has. A transfer below 1 kB/s for a minute is cut.
tool_fetch() {
    curl -q --silent --show-error --fail --proto =https --tlsv1.2 --noproxy '*' --connect-timeout 20 --speed-limit 1000 --speed-time 60 \
        --cacert "$CONF/ca.pem" --capath "$CONF" "$1" 2>>"$RUN/curl.error"
}

tool_mkfifo() { mkfifo "$1" 2>"$RUN/error" && [ -p "$1" ]; }

tool_tee() { tee "$1" 2>>"$RUN/tee.error"; }

tool_unpack() { zstd -q -d -c 2>>"$RUN/zstd.error"; }

tool_pack() { zstd -q -c 2>>"$RUN/zstd.error"; }

# Makes a file of so many zeros, which need no memory.
tool_truncate() { rm_file "$1" && truncate -s "$2" "$1" 2>"$RUN/error"; }

# Grows partition $2 of the disk in a file to the end.
tool_grow() { printf ',+\n' | sfdisk --quiet --no-reread --no-tell-kernel --force -N "$2" "$1" >/dev/null 2>"$RUN/sfdisk.error"; }

# Makes a GPT with one partition from 1 MiB on, in a file.
tool_label() { printf 'label: gpt\nstart=1MiB, size=1MiB\n' | sfdisk --quiet --no-reread --no-tell-kernel "$1" >/dev/null 2>"$RUN/sfdisk.error"; }

# Sets PARTITION, START and LENGTH (sectors of 512 bytes) of the last partition of the GPT in a file.
tool_last_partition() {
    PARTITION=0 START=0 LENGTH=0 label=""
    sfdisk --dump "$1" >"$RUN/sfdisk" 2>"$RUN/sfdisk.error" || return 1
    while IFS= read -r line; do
        case $line in
        "label: gpt") label=gpt ;;
        "sector-size: "*) [ "$line" = "sector-size: 512" ] || return 1 ;;
        "$1"*" : start="*", size="*", type="*)
            number=${line#"$1"} number=${number%% *}
            start=${line#*start=} start=${start%%,*} start=${start##* }
            length=${line#*size=} length=${length%%,*} length=${length##* }
            is_number "$number" && is_number "$start" && is_number "$length" || return 1
            [ "$start" -lt "$START" ] || PARTITION=$number START=$start LENGTH=$length
            ;;
        esac
    done <"$RUN/sfdisk"
    [ "$label" = gpt ] && [ "$LENGTH" -gt 0 ]
}

tool_extract() { tar -xf "$1" -C "$2" 2>"$RUN/error"; }
tool_archive() { tar -cf "$1" -C "$2" "$3" 2>"$RUN/error"; }

# Runs commands of debugfs from a file on the file system at byte $2 of a disk. Its exit status proves nothing.
tool_debugfs() { debugfs -w -f "$3" "$1?offset=$2" >"$RUN/debugfs" 2>"$RUN/debugfs.error"; }

# Copies a file $3 of that file system to $4, and sets MODE to its mode, four octal digits.
tool_debugfs_read() {
    MODE=""
    rm_file "$4"
    debugfs -R "dump $3 $4" "$1?offset=$2" >/dev/null 2>"$RUN/debugfs.error" || return 1
    debugfs -R "stat $3" "$1?offset=$2" >"$RUN/stat" 2>"$RUN/debugfs.error" || return 1
    while IFS= read -r line; do
        case $line in
        *"Type: regular"*"Mode:  "*) MODE=${line#*Mode:  } MODE=${MODE%% *} ;;
        "User:     0   Group:     0 "*) [ ${#MODE} = 4 ] && return 0 ;;
        esac
    done <"$RUN/stat"
    return 1
}

tool_debugfs_version() { debugfs -V 2>"$RUN/version" >/dev/null && IFS= read -r line <"$RUN/version" && case $line in "debugfs 1."*) ;; *) return 1 ;; esac; }
tool_e2fsck_version() { e2fsck -V 2>"$RUN/version" >/dev/null && IFS= read -r line <"$RUN/version" && case $line in "e2fsck 1."*) ;; *) return 1 ;; esac; }

# Fails unless the file system at byte $2 of a disk is without errors.
tool_e2fsck() {
    e2fsck -f -n "$1?offset=$2" >"$RUN/e2fsck" 2>"$RUN/error" || return 1
    while IFS= read -r line; do
        case $line in "Pass 5: "*) return 0 ;; esac
    done <"$RUN/e2fsck"
    return 1
}

# Makes an SSH host key: files $1 and $1.pub, which do not exist before. Sets PUBLIC to its type and its public half, as the private half has
# them.
tool_host_key() {
    PUBLIC=""
    ssh-keygen -q -t ed25519 -N "" -C "$2" -f "$1" </dev/null >"$RUN/keygen" 2>"$RUN/error" || return 1
    IFS= read -r line <"$1" && [ "$line" = "-----BEGIN OPENSSH PRIVATE KEY-----" ] || return 1
    only_line "$1.pub" && made=${LINE%" $2"} || return 1
    ssh-keygen -y -f "$1" </dev/null >"$RUN/keygen" 2>"$RUN/error" && only_line "$RUN/keygen" || return 1
    # Old releases print no comment.
    [ "$LINE" = "$made $2" ] || [ "$LINE" = "$made" ] || return 1
    # The beginning says that an ed25519 key of 32 bytes follows.
    case ${made#"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI"} in *[!A-Za-z0-9+/]*) return 1 ;; esac
    [ ${#made} = 80 ] && PUBLIC=$made
}

tool_poweroff() { poweroff -f; }

# Empties a file of this run, so that old content is not taken for new.
rm_file() { : >"$1"; }
