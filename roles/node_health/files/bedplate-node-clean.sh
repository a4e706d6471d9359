#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Last epilog of Slurm: remove what a job left on the node, if its user has nothing else there. The exit status is always 0.
#
# Slurm itself ends the processes in the job's cgroup, and job_container/tmpfs removes the job's private /tmp. Left are processes that
# left the cgroup, files in /dev/shm, and settings of GPUs. Nothing is removed while the user has another job or a login on the node, or
# while the place of one of the user's processes is not known: where slurmd has no cgroups, no process is ended.

trap 'exit 0' EXIT
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
job=${SLURM_JOB_ID-} user=${SLURM_JOB_UID-}

# One to ten digits.
is_number() {
    case $1 in '' | *[!0123456789]* | 0?* | ???????????*) return 1 ;; esac
}

# Print the status files of the user's processes. The owner of /proc/<number> is root where a program may not be read, such as a licensed
# solver or an ssh agent, so it does not show the user.
of_user() {
    find /proc -mindepth 2 -maxdepth 2 -path '/proc/[1-9]*/status' \
        -exec grep -lsE "^Uid:(.*[[:blank:]])?$user([[:blank:]]|\$)" {} + 2>/dev/null
}

# Return whether another job of the node is the user's, or may be: a job between two steps, such as of salloc, has no process of its user.
# The paths of cgroups version 2 have no user. A job without any process has ended.
has_other_job_of_user() {
    for one in /sys/fs/cgroup/*/slurm*/uid_"$user"/job_* /sys/fs/cgroup/*/*slurmstepd.scope/job_*; do
        { [ -d "$one" ] && [ "${one##*/}" != "job_$job" ]; } || continue
        members=$(find "$one" -name cgroup.procs -exec cat {} + 2>/dev/null)
        [ -n "$members" ] || continue
        case $one in */uid_"$user"/*) return 0 ;; esac
        has_another_user || return 0
    done
    return 1
}

# Return whether one of `members` is a process of another user than root and this one.
has_another_user() {
    for number in $members; do
        owner=0
        if [ -r "/proc/$number/status" ]; then
            while read -r key value rest; do [ "$key" != Uid: ] || owner=$value; done <"/proc/$number/status"
        fi 2>/dev/null
        [ "$owner" = 0 ] || [ "$owner" = "$user" ] || return 0
    done
    return 1
}

# Set `strays` to the user's processes outside of jobs and logins, and `count` to the number of all. `others` is not empty if one of them
# belongs to another job or a login, or to nothing that is known: then none is ended.
look() {
    strays='' others='' count=0
    ! has_other_job_of_user || others=yes
    for process in $(of_user); do
        process=${process#/proc/} process=${process%/status}
        groups=''
        if [ -r "/proc/$process/cgroup" ]; then
            while IFS= read -r line; do groups="$groups $line "; done <"/proc/$process/cgroup"
        fi 2>/dev/null
        [ -d "/proc/$process" ] || continue
        count=$((count + 1))
        case $groups in
            *slurm*"/job_$job/"* | *slurm*"/job_$job "*) ;;
            *slurm*) others=yes ;;
            */session-*.scope* | */ssh.service* | */sshd.service* | */ssh@* | */sshd@*) others=yes ;;
            *:/[!\ ]*) strays="$strays $process" ;;
            # Not read, or in no group at all.
            *) others=yes ;;
        esac
    done
}

# End the user's strays: a second after SIGTERM by SIGKILL. Each is found again before a signal, so its number is still the user's.
end_strays() {
    tries=0
    signal=TERM
    while [ -n "$strays" ] && [ -z "$others" ] && [ "$tries" -lt 20 ]; do
        # shellcheck disable=SC2086 # several numbers
        case $tries in 0 | 10) kill -s "$signal" $strays 2>/dev/null ;; esac
        signal=KILL
        sleep 0.1
        tries=$((tries + 1))
        look
    done
}

# Files that changed after the mark belong to a job that has begun since.
clean_shm() {
    find /dev/shm -xdev -uid "$user" ! -cnewer "$mark" -delete 2>/dev/null
}

has_other_jobs() {
    for one in /sys/fs/cgroup/*/*slurmstepd.scope/job_* /sys/fs/cgroup/*/slurm*/uid_*/job_*; do
        [ -d "$one" ] && [ "${one##*/}" != "job_$job" ] && return 0
    done
    return 1
}

has_cgroups() {
    for one in /sys/fs/cgroup/*/*slurmstepd.scope /sys/fs/cgroup/*/slurm /sys/fs/cgroup/*/slurm_*; do
        [ -d "$one" ] && return 0
    done
    return 1
}

{ is_number "$job" && is_number "$user"; } || exit 0
has_cgroups || exit 0

# Users of the system: below 1000, nobody, and the daemons' users, whichever number they have.
case $user in ? | ?? | ??? | 65534) system=yes ;; *) system='' ;; esac
case ${SLURM_JOB_USER-} in root | slurm | munge | nobody) system=yes ;; esac
mark=/run/bedplate/health/clean-$job
if [ -z "$system" ] && { : >"$mark"; } 2>/dev/null; then
    look
    end_strays
    [ "$count" -gt 0 ] || [ -n "$others" ] || clean_shm
    rm -f "$mark"
fi

# The unit changes no GPU in use. It exists where the profile sets clocks, compute mode or other settings of GPUs.
if [ -n "${SLURM_JOB_GPUS-}" ] && [ -e /etc/bedplate/gpu-settings.json ] && ! has_other_jobs; then
    timeout 5 systemctl --no-block restart bedplate-gpu-settings.service
fi
exit 0
