# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare values that `scontrol` changes in a running slurmctld without its files: debug levels, partitions and nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...common.finding import NOTICE, WARNING, Finding
from ...common.hostlist import expand, fold
from ..conf import spelling
from .live_state import SLURM

# Option -> type, default and the command that changes it.
_OPTIONS = {
    "SlurmctldDebug": ("word", "info", "scontrol setdebug"),
    "DebugFlags": ("list", "", "scontrol setdebugflags"),
    "SlurmSchedLogLevel": ("number", "0", "scontrol schedloglevel"),
}
_LEVELS = ("quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5")
_UNKNOWN = "Slurm does not record the user"


def compare_options(expected: Mapping[str, str], config: Mapping[str, str]) -> Iterator[Finding]:
    """Compare the options that scontrol changes without the file; `config` is `scontrol show config`."""
    stated = {name.lower(): value for name, value in expected.items()}
    for name, (kind, default, command) in _OPTIONS.items():
        want, found = stated.get(name.lower(), default), config.get(name, default)
        if name == "SlurmctldDebug" and want.isdecimal():
            want = _LEVELS[min(int(want), len(_LEVELS) - 1)]
        form = spelling.FORMS[kind]
        if form(want) != form(found):
            where = f"{name} of the running slurmctld"
            remedy = "`scontrol reconfigure` reads slurm.conf again"
            yield Finding(
                *("slurm-option", where, want or "none", found, remedy, WARNING, SLURM), f"`{command}`, {_UNKNOWN}"
            )
    if "HASH_VAL" not in config:
        why = "slurmctld does not report the hash of its file (DebugFlags=NO_CONF_HASH)"
        yield Finding("not-checked", "slurm.conf in force", "to be compared", why, severity=NOTICE, machine=SLURM)


def compare_partitions(
    expected: Mapping[str, Iterable[Mapping[str, Any]]], live: Mapping[str, Mapping[str, str]]
) -> Iterator[Finding]:
    """Compare the options of partitions with the records of `scontrol show partition`.

    `expected` has rows of plugin_utils/slurm/partition_runtime.json, each with the value `want`.
    """
    for name, rows in expected.items():
        for row in rows if name in live else ():
            found, form = live[name].get(row["shown"]), spelling.FORMS[row["type"]]
            if found is not None and form(row["want"]) != form(found):
                command = f"`scontrol update partitionname={name} {row['option']}={row['want']}`"
                where = f"partition {name} {row['option']}"
                yield Finding(
                    *("partition-option", where, row["want"], found, command),
                    machine=SLURM,
                    overridden_by=f"`scontrol update partition` or an edited slurm.conf, {_UNKNOWN}",
                )


def compare_node_options(
    expected: Iterable[Mapping[str, Any]], live: Mapping[str, Mapping[str, str]]
) -> Iterator[Finding]:
    """Compare features and weights of nodes, groups of equal nodes in `expected`, with the records of `scontrol show node`."""
    differences: dict[tuple[str, str, str], list[str]] = {}
    for group in expected:
        wanted = (("Features", "AvailableFeatures", group["features"], "list"), ("Weight", "Weight", "1", "number"))
        for name in expand(str(group["names"])):
            for option, shown, want, kind in wanted:
                found = live.get(name, {}).get(shown)
                form = spelling.FORMS[kind]
                if found is not None and form(want) != form(found):
                    differences.setdefault((option, want, found), []).append(name)
    for (option, want, found), names in differences.items():
        folded = fold(names)
        yield Finding(
            *("node-option", f"node{'s' * (len(names) > 1)} {folded} {option}", want, found),
            f"`scontrol update nodename={folded} {option}={want}`",
            machine=SLURM,
            overridden_by=f"`scontrol update node`, {_UNKNOWN}",
        )
