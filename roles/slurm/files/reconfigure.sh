#!/bin/sh
# Written by bedplate. Reconfigure Slurm once the slurmctld of this host answers: `scontrol ping` succeeds where any controller is up, and
# one that takes the control back does not answer for half a minute; until then a reconfiguration times out.
host=$1
timeout 90 sh -c 'until scontrol ping | grep -q " at $0 is UP"; do sleep 1; done' "$host" || {
  echo "slurmctld of $host does not answer after 90 s" >&2
  exit 1
}
exec scontrol reconfigure
