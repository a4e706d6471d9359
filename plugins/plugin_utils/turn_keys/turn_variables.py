# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys that playbooks/turn_keys.yml replaces, and the variables of that playbook."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

PREFIX = "turn_keys"
BACK = "back"
"""Value of `turn_keys` that gives up a turn before the new key replaces the old one."""
_CONTROLLERS, _DATABASE = "slurm_controllers", "slurm_database"
REQUIRED = (_DATABASE, _CONTROLLERS)
"""Groups of machines that no turn leaves out."""


@dataclass(frozen=True)
class TurnedKey:
    """A key: its secret, its path on machines, the groups that have it, and the variable with what `slurm_key` read."""

    secret: str
    path: str
    groups: tuple[str, ...]
    register: str


KEYS = {
    key.secret: key
    for key in (
        TurnedKey(
            "munge_key",
            "/etc/munge/munge.key",
            (_DATABASE, _CONTROLLERS, "slurm_login", "slurm_rest", "compute_nodes"),
            "__turn_munge",
        ),
        TurnedKey("jwt_key", "/etc/slurm/jwt_hs256.key", REQUIRED, "__turn_jwt"),
    )
}


@dataclass(frozen=True)
class TurnChoices:
    """Request of an operator: secrets, whether a turn is given up, machines to leave out, and how long both keys work, in seconds."""

    keys: tuple[str, ...] = ()
    back: bool = False
    without: tuple[str, ...] = ()
    window: float = 300.0


_LONGEST = 86400.0
VARIABLES = {
    "turn_keys": f"allowed: {', '.join(KEYS)}, both with a comma, or {BACK}",
    "turn_keys_without": "allowed: names of machines, separated by commas",
    "turn_keys_window": f"allowed: seconds from 0 to {_LONGEST:.0f}",
}


def mistakes(variables: Mapping[str, object]) -> list[str]:
    """Return each misspelt variable of the playbook, and each value that is not allowed."""
    found = []
    for name in sorted(one for one in variables if one.startswith(PREFIX)):
        if name not in VARIABLES:
            hint = did_you_mean(name, VARIABLES, lead="did", quoted=False, otherwise=f"allowed: {', '.join(VARIABLES)}")
            found.append(f"{name} is not a variable of playbooks/turn_keys.yml; {hint}")
        elif not _TAKES[name](variables[name]):
            value = variables[name]
            found.append(f"{name}: {'empty' if value is None else repr(value)}; {VARIABLES[name]}")
    return found


def controller_mistakes(controllers: Collection[str]) -> list[str]:
    """Return the mistake of a turn without a Slurm controller.

    >>> controller_mistakes(["ctl1"])
    []
    """
    if controllers:
        return []
    return [
        "the group slurm_controllers has no machine, and playbooks/turn_keys.yml replaces the keys of Slurm's machines"
    ]


def choices(variables: Mapping[str, object]) -> TurnChoices:
    """Return what an operator requests. Raises ValueError for values that `mistakes` names.

    >>> choices({"turn_keys": "jwt_key, munge_key"}).keys
    ('munge_key', 'jwt_key')
    """
    if found := mistakes(variables):
        raise ValueError("\n".join(found))
    keys = _names(variables.get("turn_keys", "")) or []
    return TurnChoices(
        keys=tuple(name for name in KEYS if name in keys),
        back=keys == [BACK],
        without=tuple(_names(variables.get("turn_keys_without", "")) or ()),
        window=float(str(variables.get("turn_keys_window", TurnChoices.window))),
    )


def _names(value: object) -> list[str] | None:
    """Return a list of names, as text with commas or as a list; None for anything else."""
    if isinstance(value, str):
        return [name for part in value.split(",") if (name := part.strip())]
    if isinstance(value, Sequence) and not isinstance(value, bytes) and all(isinstance(one, str) for one in value):
        return list(value)
    return None


def _is_wish(value: object) -> bool:
    names = _names(value)
    return bool(names) and (names == [BACK] or set(names or ()) <= set(KEYS))


def _is_names(value: object) -> bool:
    return bool(_names(value))


def _is_window(value: object) -> bool:
    try:
        return not isinstance(value, bool) and 0 <= float(str(value)) <= _LONGEST
    except ValueError:
        return False


_TAKES = {"turn_keys": _is_wish, "turn_keys_without": _is_names, "turn_keys_window": _is_window}
