# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which machines a turn changes, which it does not reach, and whether a machine may stay on the old key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.key_files import fingerprint

from .turn_record import FINISHING, RETURNING, STAGING, SWITCHING, TurnRecord, TurnRecordError
from .turn_variables import BACK, REQUIRED, TurnChoices, TurnedKey

NOBODY = ["!all"]
"""A pattern of hosts that fits none."""
ANY = "any"
MUNGE = "munge_key"
OLD, NEW, NONE = "old", "new", "none"
"""Which key a machine has; `none` is a machine without Slurm yet."""
# A node in one of these states gets no job. POWERED_DOWN is not among them: power saving switches such a node on for a job.
_OUT = {"DRAIN", "DOWN", "FAIL", "FUTURE", "UNKNOWN", "NOT_RESPONDING"}

_LONG_AGO = 1.0  # seconds since 1970
_LEFT_OUT = "left out of this run, as by --limit"

Raw = Callable[[str], Mapping[str, Any]]


@dataclass(frozen=True)
class KeyState:
    """Machines by the key that they have, and machines that cannot be turned, with the reason."""

    machines: dict[str, str] = field(default_factory=dict)
    missed: dict[str, str] = field(default_factory=dict)

    def having(self, what: str) -> list[str]:
        """Return the machines with the old or the new key, or without one."""
        return [name for name, found in self.machines.items() if found == what]


def members(key: TurnedKey, groups: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the machines that have a key, in the order of the groups."""
    return list(dict.fromkeys(name for group in key.groups for name in groups.get(group, ())))


def state_of(key: TurnedKey, machines: Iterable[str], raw: Raw, old: bytes, new: bytes | None) -> KeyState:
    """Return which key each machine has, by what `slurm_key` reported of it."""
    found = KeyState()
    for name in machines:
        read = raw(name).get(key.register)
        if not isinstance(read, Mapping) or (why := why_missed(read)):
            found.missed[name] = why if isinstance(read, Mapping) else _LEFT_OUT
            continue
        has, salt = str(read["present"]), str(read["salt"])
        if new is not None and has == fingerprint(new, salt):
            found.machines[name] = NEW
        elif has == fingerprint(old, salt):
            found.machines[name] = OLD
        elif not has:
            found.machines[name] = NONE
        else:
            found.missed[name] = f"has another {key.secret} than the secrets directory"
    return found


def why_missed(read: Mapping[str, Any]) -> str:
    """Return why a machine was not reached, by what a module returned of it, or ""."""
    if read.get("skipped"):
        return _LEFT_OUT
    if read.get("unreachable"):
        return "no answer by SSH"
    if read.get("failed") or "present" not in read:
        return str(read.get("msg") or "no result")
    return ""


def continued(record: TurnRecord, chosen: TurnChoices) -> TurnRecord:
    """Return an open turn, as it continues. Raises TurnRecordError for a request that it does not allow."""
    under_way = f"turn {record.turn} of {', '.join(record.keys)} is under way"
    if chosen.back and record.stage == FINISHING:
        raise TurnRecordError(
            f"{under_way}, and the new key replaces the old one already. Finish the turn: run playbooks/turn_keys.yml without turn_keys"
        )
    if chosen.back:
        # Before the switch no machine has made a credential with the new key.
        since = {STAGING: _LONG_AGO, RETURNING: record.since}.get(record.stage, 0.0)
        return replace(record, stage=RETURNING, since=since)
    if chosen.keys and (chosen.keys != record.keys or record.stage == RETURNING):
        what = "is given up" if record.stage == RETURNING else "must be finished first"
        raise TurnRecordError(
            f"{under_way}, and {what}. Run playbooks/turn_keys.yml without turn_keys; or, before the new key replaces the old one, "
            f"give the turn up: -e turn_keys={BACK}"
        )
    return record


def lists_of(record: TurnRecord, states: Mapping[str, KeyState], is_over: bool) -> dict[str, dict[str, list[str]]]:
    """Return the machines of each step by secret: `copy`, `pair`, `encode`, `prove` and `clean`, as the filter turn_hosts has them.

    `is_over`: whether no credential of the other key can be valid any more.
    """
    old = {name: state.having(OLD) for name, state in states.items()}
    everywhere = {name: [*old[name], *state.having(NEW)] for name, state in states.items()}
    pair = {name: machines for name, machines in old.items() if name == MUNGE}
    if record.stage == RETURNING:
        return {"encode": {} if is_over else pair, "clean": everywhere}
    staged = pair if record.stage in (STAGING, SWITCHING) else {}
    return {"copy": old, "pair": staged, "encode": staged, "prove": everywhere, "clean": everywhere}


def refusals(
    missed: Mapping[str, str],
    accepted: Iterable[str],
    groups: Mapping[str, Iterable[str]],
    machines: Iterable[str],
    so_far: str,
) -> list[str]:
    """Return why a turn must not take its next step: machines that it would miss, and names that no machine has.

    `so_far` says what has happened to the keys.
    """
    known, listed = set(machines), list(accepted)
    required = {name for group in REQUIRED for name in groups.get(group, ())}
    found = [
        f"turn_keys_without: {name}: not a machine of Slurm in the inventory" for name in listed if name not in known
    ]
    alike: dict[str, list[str]] = {}
    for name, why in missed.items():
        if name in required or name not in listed:
            alike.setdefault(why, []).append(name)
    found += [f"{fold(names)}: {why}" for why, names in alike.items()]
    if wrong := sorted(required & set(listed)):
        found.append(
            f"turn_keys_without: {few(wrong)}: a controller or the database; allowed: nodes, login and REST hosts"
        )
    if alike:
        names = ",".join(name for names in alike.values() for name in names if name not in required)
        remedy = f"; or leave them out: -e turn_keys_without={names}" if names else ""
        found.append(f"{so_far}. Repair these machines and run again{remedy}")
    return found


def still_in_use(nodes: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return why accepted nodes must not stay on the old key: their slurmd would be cut off, and Slurm would end their jobs.

    `nodes` is what `slurm_node` reports.
    """
    found = []
    for name, one in nodes.items():
        if one.get("jobs"):
            found.append(
                f"{name}: runs jobs {few(one['jobs'])}, which Slurm would end, because their node would be cut off. Wait for them, or "
                "repair the connection of Ansible"
            )
        elif _takes_jobs(str(one.get("state", ""))):
            found.append(
                f"{name}: is in service, and a job that starts there would fail. Drain it first: "
                f"scontrol update nodename={name} state=drain reason=key"
            )
    return found


def _takes_jobs(state: str) -> bool:
    """Return whether a node may get a job, by the state as `slurm_node` shows it.

    >>> [_takes_jobs(state) for state in ("IDLE", "IDLE*", "DOWN+DRAIN (fan; set by ann)", "IDLE+POWERED_DOWN")]
    [True, False, False, True]
    """
    words = state.split(" ", 1)[0]
    return bool(words) and not words.endswith("*") and not _OUT & set(words.split("+"))


def unanswered(before: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the nodes that answered slurmctld before the old key was removed and do not answer now."""

    def answers(one: Mapping[str, Any]) -> bool:
        words = str(one.get("state", "")).split(" ", 1)[0]
        return bool(words) and not words.endswith("*") and "NOT_RESPONDING" not in words.split("+")

    return [name for name, one in before.items() if answers(one) and not answers(now.get(name, {}))]


def plan_of(raw: Raw, hosts: Iterable[str]) -> Mapping[str, Any]:
    """Return the plan of this run, {} without one."""
    for host in hosts:
        found = raw(host).get("__turn")
        if isinstance(found, Mapping) and "stage" in found and not found.get("failed"):
            return found
    return {}


def hosts_of(plan: Mapping[str, Any], what: str, secret: str) -> list[str]:
    """Return the machines of a list of the plan for a secret, or for `any`; without any, a pattern that fits none."""
    listed = plan.get(what, {})
    found = [name for key, names in listed.items() if secret in (key, ANY) for name in names]
    return list(dict.fromkeys(found)) or list(NOBODY)
