# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the hosts of a play from variables and results, so that a play without work has no hosts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_BATCH = re.compile(r"[1-9][0-9]*%?\Z")


def hosts_that_set(hostvars: Mapping[str, Any], hosts: Iterable[str], variable: str, default: Any) -> list[str]:
    """Return the hosts, each once, on which a variable has another value than `default`; an undefined variable has it."""
    return [host for host in dict.fromkeys(hosts) if hostvars[host].get(variable, default) != default]


def reboot_needed(hostvars: Mapping[str, Any], hosts: Iterable[str], registered: str) -> list[str]:
    """Return the hosts whose result of `reboot_wanted` has reasons for a reboot, or lacks the key, so that the play refuses the host.

    A host without a result, such as an unreachable one, is left out and not rebooted.
    """
    results = {host: hostvars[host].get(registered) for host in hosts}
    return [host for host, result in results.items() if isinstance(result, Mapping) and result.get("reasons", True)]


def serial_mistakes(variables: Mapping[str, Any]) -> list[str]:
    """Return the mistake in `bedplate_serial`, the number of hosts of a batch, if the run sets it."""
    value = variables.get("bedplate_serial")
    batches = value if isinstance(value, list) else [value]
    if value is None or (batches and all(_BATCH.match(str(one)) for one in batches)):
        return []
    allowed = "a number of hosts from 1, a percentage such as 10%, or a list of them"
    return [f"this run: bedplate_serial: {value!r}; allowed: {allowed}"]
