# SPDX-License-Identifier: GPL-3.0-or-later
"""Find names of an inventory that are nearly a name of bedplate: Ansible ignores each without a word."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean, nearest

from ..common.role_interfaces import options
from ..plain.requested_stack import STACK, VARIABLES
from ..slurm import takeover_variables
from . import phases
from .plain_mistakes import PLAIN
from .role_mistakes import RUNS_ON
from .run_secrets import VARIABLES as SECRETS

PREFIX = "bedplate_"
OWN = (
    *PLAIN,
    *SECRETS,
    takeover_variables.VARIABLE,
    "boot_tokens_file",
    "gpu_resolve",
    *(f"{PREFIX}{name}" for name in ("cluster", "cluster_file", "reboot", "reboot_batch", "serial", "site")),
)
"""Variables that belong to no role."""
GROUPS = tuple(dict.fromkeys(group for groups in RUNS_ON.values() for group in groups))
_GPU = dict.fromkeys(("gpu_driver", "cuda", "dcgm", "container_runtime"), "gpu")
TAGS = {
    "node_os": "os",
    "node_tuning": "tuning",
    "rdma": "rdma",
    "opensm": "interconnect",
    **_GPU,
    "slurm": "scheduler",
    "node_health": "health",
    "health_control": "health",
    **dict.fromkeys(("provision", "image"), "provision_host"),
}
"""Role -> tag of everything that the playbooks do with it."""
OTHER_TAGS = (
    "reboot",
    "roll",
    "recover",
    "upgrade",
    "turn_keys",
    "backup",
    "restore",
    "verify",
    "fabric",
    "bmc",
    "machines",
    "power",
    "provision",
    "mirror",
    "snapshot",
    "always",
    "all",
    "never",
    "tagged",
    "untagged",
)
_SLIP_OF_TAG = 0.8
# So near to a known name that it must be a slip: slurm_controler, but not slurm_gateways.
_SLIP = 0.9
_FOLDERS = ("group_vars", "host_vars")
_VARIABLE_FILES = ("", ".yml", ".yaml", ".json")


def tags(names: Collection[str], own: Collection[str] = ()) -> list[str]:
    """Return warnings of tags of a run that no task of bedplate has; `own` are the site's own, of this run's tasks."""
    known = [*dict.fromkeys(TAGS.values()), *OTHER_TAGS, *(tag for role in TAGS for tag in phases.tags(role))]
    odd = [name for name in names if name not in known and name not in own]
    found = {name: TAGS.get(name) or nearest(name, known, cutoff=_SLIP_OF_TAG) for name in odd}
    return [
        f"--tags {name}: no task of bedplate has this tag. Did you mean {near}?" for name, near in found.items() if near
    ]


def variables(names: Iterable[str]) -> dict[str, str]:
    """Return variable -> mistake, for variables that no role and no playbook reads and that are nearly one of theirs."""
    known = {*OWN, STACK, *VARIABLES, *(name for found in options().values() for name in found)}
    # The variables of a playbook are checked with their values.
    odd = [name for name in names if name not in known and not name.startswith(takeover_variables.PREFIX)]
    found = {name: nearest(name, known, cutoff=_SLIP) for name in odd}
    return {name: f"{name}: nothing reads this variable. Did you mean {near}?" for name, near in found.items() if near}


def groups(names: Collection[str], cutoff: float = _SLIP) -> list[str]:
    """Return the mistakes in the groups of an inventory without a cluster file."""
    found = {name: nearest(name, GROUPS, cutoff=cutoff) for name in names if name not in GROUPS}
    return [
        f"group {name}: nothing is deployed on this group. Did you mean {near}?"
        for name, near in found.items()
        if near and near not in names
    ]


def unread_files(
    directories: Iterable[Path], group_names: Collection[str], host_names: Collection[str]
) -> Iterator[str]:
    """Yield a warning for each file of group_vars and host_vars whose group or host the inventory does not have."""
    for directory in directories:
        for folder, kind, names in zip(_FOLDERS, ("group", "host"), (group_names, host_names), strict=True):
            for path in sorted(directory.glob(f"{folder}/*")):
                name = path.name if path.is_dir() else path.stem
                if name in names or path.name in names or path.name.startswith(".") or not _is_read(path):
                    continue
                hint = did_you_mean(name, sorted(names), otherwise=f" The inventory has no {kind} of this name.")
                yield f"{path}: not read, because there is no {kind} {name}.{hint}"


def _is_read(path: Path) -> bool:
    return path.is_dir() or (path.suffix in _VARIABLE_FILES and not path.name.endswith("~"))
