# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of playbooks/recover.yml, and mistakes in their values and in the limit of a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few

from ..common import run_variables
from ..common.run_variables import RUN_NAME, RunVariable, seconds
from .host_keys import is_fingerprint
from .key_sources import SOURCES, confirm_mistakes

PREFIX = "recover_"
_FINGERPRINTS = "a fingerprint SHA256:..., for several nodes a mapping, such as {n1: SHA256:..., n2: SHA256:...}"


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_confirmation(value: object) -> bool:
    return isinstance(value, str | Mapping) or (isinstance(value, list) and all(map(is_fingerprint, value)))


VARIABLES: dict[str, RunVariable] = {
    "recover_host_key_file": RunVariable("", "the path of a known_hosts file or of a public key", _is_text),
    "recover_host_key_ca": RunVariable("", "a public key, or the path of its file", _is_text),
    "recover_host_key_confirm": RunVariable("", _FINGERPRINTS, _is_confirmation, lambda value: value),
    "recover_guids": RunVariable("", "accept", lambda value: value in ("", "accept")),
    "recover_reboot_deadline": seconds(2400),
    "recover_ended": RUN_NAME,
}


def mistakes(variables: Mapping[str, object]) -> list[str]:
    """Return each misspelt variable, each value that is not allowed, and sources of a key beside each other."""
    found = run_variables.mistakes(variables, VARIABLES, PREFIX, "recover.yml")
    stated = [f"{PREFIX}{name}" for name in SOURCES if variables.get(f"{PREFIX}{name}")]
    if len(stated) > 1:
        found.append(f"{' and '.join(stated)}: set one source of the host key, and the others to ''")
    return found


def run_mistakes(
    variables: Mapping[str, object],
    limit: str | None,
    hosts: Sequence[str],
    nodes: Collection[str],
    managers: Collection[str] = (),
) -> list[str]:
    """Return mistakes of a run: its limit names `hosts`, `nodes` are the compute nodes of the cluster, `managers` its subnet managers."""
    if not limit:
        return [
            f"playbooks/recover.yml without --limit; allowed: names of compute nodes, such as --limit {next(iter(nodes), 'NODE')}. "
            "Name the machines that are new"
        ]
    found = []
    if others := [host for host in hosts if host not in nodes]:
        text = f"not a compute node: {few(others)}; allowed: compute nodes alone, such as {few(list(nodes), 3)}"
        found.append(f"--limit {limit}: {text}. Other machines get their software by playbooks/site.yml --limit")
    if len(hosts) > 1 and (alone := [host for host in hosts if host in nodes and host in managers]):
        # OpenSM's files are proved once for all hosts of a play, and standbys are replaced before their master.
        found.append(f"--limit {limit}: subnet manager {few(alone)}; allowed: one subnet manager alone in a call")
    if chosen := [host for host in hosts if host in nodes]:
        value = variables.get("recover_host_key_confirm")
        found += confirm_mistakes(value, chosen) if _is_confirmation(value) else []
    elif not others:
        found.append(f"--limit {limit}: no compute node; allowed: {few(list(nodes), 3)}")
    return found


def choices(variables: Mapping[str, object]) -> dict[str, Any]:
    """Return the value of each variable, without `recover_`. Raises ValueError for values that `mistakes` names.

    >>> choices({"recover_guids": "accept"})["guids"], choices({})["reboot_deadline"]
    ('accept', 2400)
    """
    return run_variables.choices(variables, VARIABLES, PREFIX)
