# SPDX-License-Identifier: GPL-3.0-or-later
"""Refuse to deploy controllers if that would end jobs, by the answers of controllers and nodes in this run."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import from_json
from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import expand, fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.node_hardware import by_node

Variables = Mapping[str, Mapping[str, Any]]
"""Host -> its variables, as Ansible's hostvars."""

# In the result of a task that has not run to its end on a host.
_NOT_DONE = ("failed", "unreachable", "skipped")


def answers(hostvars: Variables, hosts: Iterable[str], variable: str) -> dict[str, Mapping[str, Any]]:
    """Return the value of a variable on each host that answered."""
    return {name: hostvars[name].get(variable) or {} for name in hosts if name in hostvars}


def to_count(hostvars: Variables, controllers: Iterable[str]) -> list[str]:
    """Return the nodes whose hardware or jobs must be read before a controller changes."""
    return _named(hostvars, controllers, "count")


def hardware_arguments(hostvars: Variables, controllers: Iterable[str], host: str) -> dict[str, bool]:
    """Return the arguments of the module slurm_node_hardware that depend on what the controllers answered."""
    names = list(controllers)
    new = set(_named(hostvars, names, "new"))
    return {"first_start": bool(_without_jobs(hostvars, names)), "fail": host in new}


def counted(hostvars: Variables, controllers: Iterable[str]) -> str:
    """Return the nodes that have what their lines will say, as a hostlist."""
    counts = _counts(hostvars, list(controllers))
    return fold(name for name, count in counts if count.get("counted") and not count.get("findings"))


def refusal(hostvars: Variables, controllers: Iterable[str]) -> str:
    """Return what nodes in force lack of what their lines would say, and what other controllers would lose; empty when nothing."""
    hosts = list(controllers)
    new = set(_named(hostvars, hosts, "new"))
    counts = _counts(hostvars, hosts)
    # Nodes in force are asked for their jobs alone where these are lost: slurm_in_use refuses a change of their hardware.
    changed = [] if any(_without_jobs(hostvars, hosts).values()) else [row for row in counts if row[0] not in new]
    found = [one.on(name) for name, count in changed for one in from_json(count.get("findings") or ())]
    if any(boolean(hostvars[name].get("slurm_compute_new_controllers", False)) for name in hosts if name in hostvars):
        return by_node(found)
    others = [one.on(name) for name, count in counts for one in from_json(count.get("others") or ())]
    return "\n".join(text for text in (by_node(found + others), _unasked(hostvars, hosts, counts)) if text)


def _unasked(hostvars: Variables, controllers: list[str], counts: list[tuple[str, Mapping[str, Any]]]) -> str:
    """Return why controllers without jobs may not start: the jobs of nodes that did not answer are unknown.

    Before a first start one node that answers is enough, unless its own controllers do not answer: they know the jobs of all nodes. Where
    the wanted controllers have lost the jobs, each node speaks for itself.
    """
    first = [
        name
        for name, answer in answers(hostvars, controllers, "__slurm_in_use").items()
        if answer.get("configured") is False
    ]
    missing = [name for name, count in counts if "counted" not in count]
    lost = [name for name, is_configured in _without_jobs(hostvars, controllers).items() if is_configured]
    if lost and missing:
        return (
            f"{', '.join(lost)}: slurmctld does not answer and StateSaveLocation has no job_state, so it would start without jobs and end "
            f"running jobs; and the jobs of these nodes were not read in this run: {fold(missing)}. "
            "Mount StateSaveLocation, or copy all of it from a backup, owned by SlurmUser, and run again. "
            "Or run playbooks/scheduler.yml from its beginning, with these nodes up and without --limit. "
            "Or, if no node runs a job, add -e slurm_compute_new_controllers=true."
        )
    is_known = len(missing) < len(counts) and not any(count.get("silent") for _unused, count in counts)
    if not first or len(first) < len(controllers) or not missing or is_known:
        return ""
    return (
        f"{', '.join(first)} has no slurm.conf yet, and it was not checked in this run whether these nodes run jobs of another "
        f"controller: {fold(missing)}. Run playbooks/scheduler.yml from its beginning, with these nodes up and without --limit. Or, if no "
        "node runs a job, add -e slurm_compute_new_controllers=true."
    )


def changed_files(files: Mapping[str, str], in_use: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the files that a controller does not have so yet; slurm.conf as well where slurmctld does not run it as it is."""
    given = [answer for answer in in_use if isinstance(answer.get("files"), Mapping)]
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    changed = {name for answer in given for name, digest in digests.items() if answer["files"].get(name) != digest}
    unread = {"slurm.conf"} if any(answer.get("loaded") is False for answer in given) else set()
    return sorted(changed | unread)


def controllers_outside(hostvars: Variables, controllers: Iterable[str]) -> list[str]:
    """Return the controllers whose slurmctld is up and that are not part of this run."""
    names = list(controllers)
    given = answers(hostvars, names, "__slurm_in_use")
    up = {name for answer in given.values() for name in answer.get("up") or ()}
    return [name for name in names if name in up and "up" not in given.get(name, {})]


def controllers_written(hostvars: Variables, controllers: Iterable[str]) -> bool:
    """Return whether this run has written the files of every controller, so that none has an older slurm.conf."""
    names = list(controllers)
    stopped = answers(hostvars, names[:1], "__slurm_primary_files")
    given = {
        **(stopped if any(stopped.values()) else answers(hostvars, names[:1], "__slurm_primary_written")),
        **answers(hostvars, names[1:], "__slurm_standby_written"),
    }
    written = [given.get(name) for name in names]
    return bool(names) and all(one and not any(one.get(key) for key in _NOT_DONE) for one in written)


def _without_jobs(hostvars: Variables, controllers: Iterable[str]) -> dict[str, bool]:
    """Return the controllers that would start without jobs -> whether they have a slurm.conf; empty if one in this run has jobs."""
    given = {
        name: answer
        for name, answer in answers(hostvars, controllers, "__slurm_in_use").items()
        if answer.get("configured") is not None
    }
    if any(answer.get("has_state", answer["configured"]) for answer in given.values()):
        return {}
    return {name: bool(answer["configured"]) for name, answer in given.items()}


def _counts(hostvars: Variables, controllers: Iterable[str]) -> list[tuple[str, Mapping[str, Any]]]:
    names = to_count(hostvars, controllers)
    return [(name, hostvars[name].get("__slurm_hardware") or {}) for name in names if name in hostvars]


def _named(hostvars: Variables, controllers: Iterable[str], key: str) -> list[str]:
    """Return the nodes that the answers of slurm_in_use name under a key."""
    given = answers(hostvars, controllers, "__slurm_in_use").values()
    return list(dict.fromkeys(name for answer in given for name in _names(str(answer.get(key) or ""))))


@functools.lru_cache(maxsize=8)
def _names(hostlist: str) -> tuple[str, ...]:
    return tuple(expand(hostlist))
