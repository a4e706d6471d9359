# SPDX-License-Identifier: GPL-3.0-or-later
"""Add to Slurm's configuration what `health` needs: scripts around the site's own, the health check, a /tmp of each job.

The health prolog is first, so that a node on which no job can run fails before a script of the site does work. The job is recorded before
the site's epilog, which may hang until Slurm ends it, and the node is cleaned after it, because it may read files of the job. Both run
even if the site's epilog fails.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .tables.conf_text import file_of

if TYPE_CHECKING:
    from ..cluster import Cluster

ALWAYS = "always"
"""Key of an entry that runs whichever script before it failed, and whose exit status does not count."""
_FILES = Path(__file__).parents[3] / "roles/node_health/files"
_OPEN = "open"


PRIVATE_TMP = ("JobContainerType", "NamespaceType")
"""Options with which each job has its own /tmp."""
# From this release on the plugin is one of namespaces alone.
_NAMESPACES = "25.11"
# Before it, a job that begins hides mounts that autofs makes later.
_SHARED = "23.02"


def with_health(cluster: Cluster) -> dict[str, list[dict[str, str]]]:
    """Return the scripts by kind: entries as `slurm.scripts` has them, with the entries of `health` if the cluster file has it."""
    found = cluster.slurm.scripts
    if cluster.health is None:
        return found
    # slurmd waits for every prolog, so an open gate has none.
    prolog = [] if cluster.health.gate == _OPEN else [_entry("bedplate-prolog.sh")]
    record, clean = ({**_entry(name), ALWAYS: "yes"} for name in ("bedplate-epilog.sh", "bedplate-node-clean.sh"))
    joined = {
        **found,
        "prolog": [*prolog, *found.get("prolog", [])],
        "epilog": [record, *found.get("epilog", []), clean],
        "health_check": [_entry("bedplate-health-check.sh"), *found.get("health_check", [])],
    }
    return {kind: entries for kind, entries in joined.items() if entries or kind in found}


def options(cluster: Cluster) -> dict[str, str]:
    """Return the options of slurm.conf; none without `health`."""
    if cluster.health is None:
        return {}
    # The program restarts a dead agent. CYCLE spreads the nodes over the interval.
    found = {"HealthCheckInterval": "300", "HealthCheckNodeState": "ANY,CYCLE"}
    if not cluster.health.private_tmp:
        return found
    if cluster.slurm.version >= _NAMESPACES:
        return {**found, "NamespaceType": "namespace/tmpfs"}
    return {**found, "JobContainerType": "job_container/tmpfs"}


def files(cluster: Cluster) -> dict[str, str]:
    """Return the file beside slurm.conf, which a configless slurmd gets with it."""
    path = cluster.health.private_tmp if cluster.health else ""
    if not path:
        return {}
    shared = {"Shared": "true"} if cluster.slurm.version >= _SHARED else {}
    return {"job_container.conf": file_of({"AutoBasePath": "true", "BasePath": path, **shared})}


def _entry(name: str) -> dict[str, str]:
    return {"file": str(_FILES / name)}
