#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# HealthCheckProgram of Slurm: restart the health agent if its verdict is old, at most once an hour of one boot.
#
# It never calls scontrol: it also runs before slurmd is registered, and would wait there. The exit status is always 0.

trap 'exit 0' EXIT
health=/run/bedplate/health
# Outside the agent's directory, which is missing if the agent never started.
marker=/run/bedplate-health.restarted

# One to nine digits without leading zeros: a shell reads 08 as a wrong octal number, and ends.
is_number() {
    case $1 in '' | *[!0123456789]* | 0?* | ??????????*) return 1 ;; esac
}

read -r boot </proc/sys/kernel/random/boot_id || exit 0
read -r now rest </proc/uptime
now=${now%%.*}
is_number "$now" || exit 0

# Until when the verdict counts as that of a living agent: three times as long as it is valid. Without a verdict of this boot the agent
# has the ten minutes after the boot.
until=600
if [ -f "$health/verdict" ] && read -r version _state of written valid rest <"$health/verdict"; then
    if [ "$version $of" = "1 $boot" ] && is_number "$written" && is_number "$valid"; then
        # A verdict of the future would never become old.
        [ "$written" -gt "$((now + 5))" ] || until=$((written + 3 * valid))
    fi
fi
[ "$now" -gt "$until" ] || exit 0

if [ -f "$marker" ] && read -r of last rest <"$marker"; then
    # A restart in the future would hold back all others.
    if [ "$of" = "$boot" ] && is_number "$last" && [ "$last" -le "$now" ] && [ "$now" -lt "$((last + 3600))" ]; then
        exit 0
    fi
fi
# Without the marker the agent would be restarted at every check.
{ [ -f "$marker" ] || [ ! -e "$marker" ]; } || exit 0
{ printf '%s\n' "$boot $now" >"$marker"; } 2>/dev/null || exit 0
echo "bedplate: the health agent has written no verdict for too long; restarting bedplate-health.service"
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
timeout 20 systemctl --no-block restart bedplate-health.service
exit 0
