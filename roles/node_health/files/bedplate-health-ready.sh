#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Wait for the first verdict of this boot, at most 300 seconds: slurmd starts after that, so the first job finds a verdict.
#
# Usage: health-ready [strict]. Without a verdict it ends with 0, because a broken agent must not keep a whole site down after a power
# cut; with `strict` it ends with 1, and slurmd does not start.

verdict=/run/bedplate/health/verdict
limit=300
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH

is_ready() {
    [ -f "$verdict" ] && read -r version _state boot rest <"$verdict" || return 1
    [ -n "$this_boot" ] && [ "$version $boot" = "1 $this_boot" ]
}

read -r this_boot </proc/sys/kernel/random/boot_id || this_boot=
waited=0
while [ "$waited" -lt "$limit" ]; do
    is_ready && exit 0
    sleep 1
    waited=$((waited + 1))
done
is_ready && exit 0
echo "bedplate: no verdict on this node's health within $limit seconds. See: journalctl -u bedplate-health.service" >&2
[ "${1-}" = strict ] && exit 1
exit 0
