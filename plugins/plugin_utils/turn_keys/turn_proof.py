# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge what machines proved of a turn: staged keys, and munge credentials that they made and decoded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.key_files import fingerprint

from .turn_plan import Raw, why_missed
from .turn_variables import TurnedKey


def credentials_of(raw: Raw, machines: Iterable[str], register: str) -> dict[str, str]:
    """Return the munge credential of each machine that has made one, by the variable with what `slurm_key` returned."""
    found = {}
    for name in machines:
        proof = raw(name).get(register)
        if isinstance(proof, Mapping) and proof.get("credential"):
            found[name] = str(proof["credential"])
    return found


def unproved(raw: Raw, machines: Iterable[str], controller: str, proof: str, collected: str) -> list[str]:
    """Return the machines that did not decode the credentials of the controller, or whose own it did not decode.

    `proof` and `collected` are the variables with what `slurm_key` returned on each machine and then on the controller.
    """
    machines = list(machines)
    of_controller = raw(controller).get(collected)
    if machines and (not isinstance(of_controller, Mapping) or "refused" not in of_controller):
        return [f"{controller}: no result of the comparison of munge credentials"]
    alike: dict[str, list[str]] = {}
    for name in machines:
        found = raw(name).get(proof)
        if not isinstance(found, Mapping) or "refused" not in found:
            why = why_missed(found) if isinstance(found, Mapping) else "no munge credential"
        elif found["refused"]:
            why = f"cannot decode a credential of {controller}: {few(sorted(set(found['refused'].values())))}"
        elif name in (of_controller or {})["refused"]:
            why = f"{controller} cannot decode its credential"
        else:
            continue
        alike.setdefault(why, []).append(name)
    return [f"{fold(names)}: {why}" for why, names in alike.items()]


def unstaged(raw: Raw, machines: Iterable[str], key: TurnedKey, new: bytes) -> list[str]:
    """Return the machines that have the new key neither beside the old one nor instead of it."""
    alike: dict[str, list[str]] = {}
    for name in machines:
        read = raw(name).get(key.register)
        why = why_missed(read) if isinstance(read, Mapping) else "no answer by SSH"
        if not why and isinstance(read, Mapping):
            is_there = fingerprint(new, str(read["salt"])) in (read["staged"], read["present"])
            why = "" if is_there else "the new key is not staged"
        if why:
            alike.setdefault(why, []).append(name)
    return [f"{fold(names)}: {key.secret}: {why}" for why, names in alike.items()]
