# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a controller and the expected state of its slurmctld, with the lines kept for running jobs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs.removed_records import Retained, merged

from ..cluster import Cluster
from ..common.shared_results import once_a_run
from . import render

InUse = Mapping[str, Any] | Iterable[Mapping[str, Any]] | None
"""One answer of slurm_in_use, or those of several controllers; None is a preview, without a cluster that runs."""


class UnknownJobsError(ValueError):
    """A controller that did not say what its jobs need."""


def files(cluster: Cluster, in_use: InUse = None, topology: str = "") -> dict[str, str]:
    """Return the files of a controller; `topology` is the text of a topology.conf that replaces the plan's."""
    kept = retained(in_use)
    return render.slurm_files(cluster, kept.slurm, kept.gres, topology)


def daemons(cluster: Cluster, in_use: InUse = None) -> dict[str, str]:
    """Return the environment files of the daemons."""
    kept = list(retained(in_use).slurm)
    # The same for every node, and before Slurm 23.11 made of the lines of all nodes.
    key = hashlib.sha256(repr((cluster.stamp, kept)).encode()).hexdigest()
    text = once_a_run(f"slurm-daemons-{key}", lambda: json.dumps(render.daemon_files(cluster, kept)).encode())
    found: dict[str, str] = json.loads(text)
    return found


def expected(cluster: Cluster, topology: str = "", in_use: Mapping[str, Any] | None = None) -> dict[str, object]:
    """Return what slurmctld should report; `topology` as for `files`; `in_use` is an answer that was given to read back."""
    kept = [group for group in (in_use or {}).get("changing", ()) if group["waits"]]
    return render.expected(cluster, topology, kept)


def in_use_arguments(
    cluster: Cluster,
    unasked: bool = False,
    counted: str | None = None,
    read_back: bool = False,
    fence: bool = False,
    run: str = "",
) -> dict[str, object]:
    """Return the arguments of the module slurm_in_use."""
    given = {} if counted is None else {"counted": str(counted)}
    modes = {"fence": fence, "unasked": unasked, "read_back": read_back, "run": str(run)}
    return {**render.desired_state(cluster), **given, **modes}


def retained(in_use: InUse) -> Retained:
    """Return the lines kept for jobs. UnknownJobsError: the answer of a controller is missing."""
    if in_use is None:
        return Retained()
    answers = [in_use] if isinstance(in_use, Mapping) else list(in_use)
    for answer in answers:
        if answer.get("failed"):  # without its lines, this controller's files would take its jobs away
            raise UnknownJobsError(f"a controller cannot list the lines that its jobs need: {answer.get('msg')}")
    # A task that was skipped leaves an answer, too, that says nothing of Slurm.
    silent = sum(answer.get("configured") is None and not answer.get("slurm") for answer in answers)
    if (silent or not answers) and not any(answer.get("configured") or answer.get("slurm") for answer in answers):
        raise UnknownJobsError(
            f"{silent} of {len(answers)} controllers did not report the lines that jobs need, and no other has a slurm.conf: they may "
            "keep lines for jobs that this run would drop. Run playbooks/scheduler.yml from its beginning (without --start-at-task) "
            "and with all controllers (without --limit)."
        )
    return merged(answers)
