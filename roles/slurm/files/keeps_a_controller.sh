#!/bin/sh
# Refuse a file of slurmd's options that names none of the controllers of running jobs. Only the steps themselves tell that jobs run.
servers() { sed -n "s/.*--conf-server \([^\"]*\).*/\1/p" "$1" 2>/dev/null; }
old=$(servers /etc/default/slurmd); new=$(servers "$1")
[ -n "$old" ] || exit 0
pgrep -f "^slurmstepd: \[" >/dev/null || exit 0
for one in $(echo "$old" | tr , " "); do
  case ",$new" in *",${one%:*}:"*) exit 0;; esac
done
echo "jobs run on this node, their controllers are $old, and the cluster file has none of those any more: the new ones would kill them.
Move StateSaveLocation with slurmctld stopped, or wait for the jobs; then run with -e slurm_compute_new_controllers=true" >&2
exit 1
