#!/bin/sh
# Written by bedplate. Reconfigure Slurm once the slurmctld of this host answers: `scontrol ping` succeeds where any controller is up, and
# one that takes the control back does not answer for half a minute; until then a reconfiguration times out.
host=$1
end=$(($(date +%s) + 90))
until timeout 60 scontrol ping | grep -q " at $host is UP"; do
  [ "$(date +%s)" -lt "$end" ] || {
    echo "slurmctld of $host does not answer after 90 s" >&2
    exit 1
  }
  sleep 1
done
exec scontrol reconfigure
