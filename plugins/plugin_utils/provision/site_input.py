# SPDX-License-Identifier: GPL-3.0-or-later
"""Input of the actions of provision.yml: cluster, record, variables, and what they confirm."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..bmc.run_input import RunError, RunInput, reach_of
from ..cluster import ClusterFileError, load
from ..machines import machine_record
from ..machines.machine_record import RecordError
from . import provision_variables
from .confirmation import ConfirmationError, Confirmed, confirm
from .desk import DeskSettings
from .next_step import Bounds

_KEYS = (
    "allowed: a file with the public keys that may log in as root. "
    "Name it with -e provision_authorized_keys=FILE, or make a key: ssh-keygen -t ed25519"
)


@dataclass(frozen=True)
class Site:
    """Input of a run, what it confirms, and the text of authorized_keys."""

    given: RunInput
    confirmed: Confirmed
    keys: str

    @property
    def bounds(self) -> Bounds:
        """Return the bounds of the run."""
        chosen = self.given.choices
        seconds = (float(chosen[f"provision_{name}_seconds"]) for name in ("install", "off", "ssh"))
        return Bounds(*seconds)

    def desk(self, holder: str) -> DeskSettings:
        """Return the settings of the provision host; `holder` names this process."""
        stated, chosen, bounds = self.given.cluster.provision, self.given.choices, self.bounds
        if stated is None:
            raise ValueError("the cluster file has no `provision`")
        window = stated.window_minutes * 60
        return DeskSettings(
            chosen["provision_directory"],
            f"https://{stated.address}:{chosen['provision_port']}",
            holder,
            window,
            chosen["provision_words"],
            chosen["provision_public_key"],
            # A node is held from before the drain.
            float(chosen["provision_drain_seconds"]) + window + bounds.install + bounds.off + bounds.ssh + 3600,
        )


def site_of(variables: Mapping[str, Any], extra: Mapping[str, Any], template: Callable[[Any], Any]) -> Site:
    """Return the input of a run. `variables` belong to the task, `extra` to the command line.

    Raises RunError with all mistakes in the cluster file; else with all in the variables, in the record and in what a person confirms.
    """
    if not variables.get("bedplate_cluster_file"):
        raise RunError("provision.yml needs a cluster file: the inventory must be a file *.bedplate.yml")
    mistakes = provision_variables.run_mistakes(variables, extra, template)
    # A value that is not allowed is a mistake already; the others are checked further.
    stated = provision_variables.stated_of(variables, template)
    chosen = provision_variables.choices(provision_variables.allowed_of(stated))
    try:
        cluster = load(str(template(variables["bedplate_cluster_file"])))
        record = machine_record.read(cluster.path, list(cluster.machines))
    except (ClusterFileError, RecordError) as error:
        raise RunError(str(error)) from None
    limit = frozenset(variables["ansible_play_hosts_all"]) if variables.get("ansible_limit") else None
    keys = ""
    try:
        keys = _keys(chosen["provision_authorized_keys"])
    except RunError as error:
        mistakes.append(str(error))
    try:
        confirmed = confirm(chosen, cluster, record, limit) if chosen["provision_nodes"] else Confirmed((), frozenset())
    except ConfirmationError as error:
        mistakes.append(str(error))
    if mistakes:
        raise RunError("\n".join(mistakes))
    return Site(RunInput(cluster, record, chosen, reach_of(cluster, chosen["bmc_port"]), limit), confirmed, keys)


def _keys(path: str) -> str:
    """Return the public keys in a file. Raises RunError for a file without any, and for one with a private key."""
    where = f"provision_authorized_keys {path}"
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", "") or error
        raise RunError(f"{where}: {reason}; {_KEYS}") from None
    if "PRIVATE KEY" in text or not any(" " in line for line in text.splitlines() if not line.startswith("#")):
        raise RunError(
            f"{where}: no public key; allowed: lines such as `ssh-ed25519 AAAA... name`. Name the .pub file."
        )
    return text if text.endswith("\n") else f"{text}\n"
