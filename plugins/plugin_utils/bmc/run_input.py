# SPDX-License-Identifier: GPL-3.0-or-later
"""Input of an action that commands BMCs: cluster, record, accounts, limits and variables of a run; and its report on disk."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

from ...module_utils.common.files import atomic_write
from ..cluster import Cluster, ClusterFileError, load
from ..cluster.model.metal import NO_PROVISION
from ..machines import machine_record
from ..machines.machine_record import Record, RecordError
from ..redfish.transport import Limits
from . import bmc_variables
from .bmc_targets import Reach, Target


class RunError(ValueError):
    """A run that cannot begin, with all reasons."""


@dataclass(frozen=True)
class RunInput:
    """The cluster, the record of its machines, the variables of the run, how BMCs are reached, and the machines that --limit leaves."""

    cluster: Cluster
    record: Record
    choices: Mapping[str, Any]
    reach: Reach
    limit: frozenset[str] | None = None

    @property
    def names(self) -> list[str]:
        """Return all machines of the cluster file, in its order."""
        return list(self.cluster.machines)


def run_input(
    playbook: str,
    variables: Mapping[str, Any],
    extra: Mapping[str, Any],
    template: Callable[[Any], Any],
) -> RunInput:
    """Return the input of a run. `variables` belong to the task, `extra` to the command line.

    Raises RunError for a missing cluster file, and for mistakes in the file, in variables, or in the record of machines.
    """
    if not variables.get("bedplate_cluster_file"):
        raise RunError(f"{playbook}.yml needs a cluster file: the inventory must be a file *.bedplate.yml")
    if mistakes := bmc_variables.run_mistakes(variables, extra, template, playbook):
        raise RunError("\n".join(mistakes))
    try:
        cluster = load(str(template(variables["bedplate_cluster_file"])))
        record = machine_record.read(cluster.path, list(cluster.machines))
    except (ClusterFileError, RecordError) as error:
        raise RunError(str(error)) from None
    limit = frozenset(variables["ansible_play_hosts_all"]) if variables.get("ansible_limit") else None
    chosen = bmc_variables.choices(bmc_variables.stated_of(variables, template, playbook), playbook)
    return RunInput(cluster, record, chosen, reach_of(cluster, chosen["bmc_port"]), limit)


def require_targets(given: RunInput, targets: Mapping[str, Target]) -> None:
    """Raise RunError if no BMC is declared, or --limit leaves none."""
    if not targets and given.limit is not None:
        raise RunError("--limit leaves no machine with a BMC address. Run without --limit, or name others")
    if not targets:
        raise RunError(f"{given.cluster.path}: no BMC is declared. Add the network `bmc` to `networks`")


def reach_of(cluster: Cluster, port: int) -> Reach:
    """Return how the BMCs of a cluster are reached, by its section `provision`."""
    stated = cluster.provision or NO_PROVISION
    return Reach(port, stated.ca, stated.at_once, Limits(answer_s=float(stated.timeout)))


def report_folder(choice: str, cluster: str) -> Path:
    """Return the folder of a report; by default that of all reports of the cluster."""
    state = os.environ.get("XDG_STATE_HOME", "")
    home = state if Path(state).is_absolute() else "~/.local/state"
    return Path(choice or f"{home}/bedplate-reports/{cluster}").expanduser()


def require_report(choice: str, cluster: str) -> Path:
    """Return the folder of a report after a file was written in it: a run whose report is lost must not begin. Raises RunError."""
    folder = report_folder(choice, cluster)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _unwritable(folder, error) from None
    return folder


def write_report(folder: Path, name: str, documents: Mapping[str, str]) -> str:
    """Write the documents of a report, suffix -> text, and return the path without suffix. RunError: a file cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for suffix, text in documents.items():
            atomic_write(folder / f"{name}.{suffix}", text)
    except OSError as error:
        raise _unwritable(folder, error) from None
    return str(folder / name)


def _unwritable(folder: Path, error: OSError) -> RunError:
    where = error.filename or folder
    return RunError(f"bmc_report {where}: {error.strerror}; allowed: a folder that this user may write")
