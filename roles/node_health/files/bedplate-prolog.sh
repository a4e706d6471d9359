#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Prolog of Slurm: fail the start of a job if the health agent's verdict says that no job can run on this node.
#
# It uses builtins only, starts no process and reads three files, so that 400 nodes answer as fast as one. It fails only for a fresh
# verdict `fail ... cannot-run` of this boot. Any other verdict passes, and so does an error in this script: a failed prolog drains the
# node without the limiter of the controllers. docs/health.md has the rules.

health=/run/bedplate/health
status=0
# An error ends a shell at once, with a status that would drain the node.
trap 'exit "$status"' EXIT

# Pass without a judgement, and count it: one line with the cause. A count that cannot be written changes nothing.
pass() {
    # A pipe at this path would block.
    if [ -f "$health/passed" ] || [ ! -e "$health/passed" ]; then
        printf '%s\n' "$1" >>"$health/passed"
    fi 2>/dev/null
    exit 0
}

# One to nine digits without leading zeros: a shell reads 08 as a wrong octal number, and ends.
is_number() {
    case $1 in '' | *[!0123456789]* | 0?* | ??????????*) return 1 ;; esac
}

[ -e /etc/bedplate/health/gate-off ] && exit 0

[ -f "$health/verdict" ] || pass absent
# A line without its end is not whole.
IFS= read -r line <"$health/verdict" || pass malformed
[ "${#line}" -le 4096 ] || pass malformed

# Words without patterns of file names; joined again they must be the line, so one blank separates two words.
set -f
# shellcheck disable=SC2086 # split into words
set -- $line
{ [ "$#" -ge 6 ] && [ "$*" = "$line" ]; } || pass malformed
if [ "$1" != 1 ]; then
    is_number "$1" && pass version
    pass malformed
fi
case $2 in ok | warn | fail | unknown) ;; *) pass malformed ;; esac
case $6 in - | cannot-run | rma | reset | degraded | transient | note) ;; *) pass malformed ;; esac
{ is_number "$4" && is_number "$5"; } || pass malformed

read -r boot </proc/sys/kernel/random/boot_id || pass boot
[ "$3" = "$boot" ] || pass boot
read -r now rest </proc/uptime || pass stale
now=${now%%.*}
is_number "$now" || pass stale
# A verdict of the future is as wrong as an old one; two readers of the clock may round differently.
{ [ "$4" -le "$((now + 5))" ] && [ "$now" -le "$(($4 + $5))" ]; } || pass stale

[ "$2 $6" = "fail cannot-run" ] || exit 0
shift 6
text=$*
case $text in
    '') text="no check named" ;;
    *[![:print:]]*) text="checks with unprintable names" ;;
esac
status=1
printf '%s\n' "bedplate: no job can run on this node: $text. See $health/verdict.json. Repair it, then resume the node." >&2
exit 1
