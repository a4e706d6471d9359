# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare Slurm's configuration on a machine with the rendered one, option by option."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...common.finding import WARNING, Finding
from .conf_reader import Conf, Pairs, line_of, parse, read

# Directory in which slurmd and sackd store the configuration that a controller serves.
CACHE = "run/slurm/conf"
_RECORDS = (
    *("NodeName", "NodeSet", "PartitionName", "DownNodes", "SlurmctldHost"),
    *("SwitchName", "BlockName", "BlockSizes", "Name", "AutoDetect"),
)
_AGAIN = "run playbooks/scheduler.yml, which restores it and makes slurmctld read it"
_OF_CACHE = (
    "compare slurm.conf on the controllers, then `scontrol reconfigure`; if that does not help, restart slurmd or sackd"
)


def findings(root: str, expected: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield every difference. `expected`: `files` name -> rendered text; `directory` of a controller, "" for the cache of other hosts.

    `records` false leaves out the lines of nodes, partitions and the like: the controllers keep some of them for jobs.
    """
    own = bool(expected["directory"])
    directory = Path(root, (expected["directory"] or CACHE).lstrip("/"))
    if not own and not directory.is_dir():
        remedy = "`systemctl status slurmd sackd`: one of them fetches it from a controller"
        yield Finding("slurm-conf", f"/{CACHE}", "the configuration of a controller", "none", remedy, WARNING)
        return
    for name, text in expected["files"].items():
        path = directory / name
        shown = f"/{path.relative_to(root)}"
        yield from compare(shown, parse(text), read(path), expected["records"], _AGAIN if own else _OF_CACHE)


def compare(path: str, wanted: Conf, found: Conf, records: bool, remedy: str) -> Iterator[Finding]:
    """Compare one file option by option, then its records line by line."""
    yield from (Finding("slurm-conf", path, "a file that can be read", problem, remedy) for problem in found.unread)
    want, have = _options(wanted), _options(found)
    for key in dict.fromkeys([*want, *have]):
        name = (want.get(key) or have[key])[0]
        value, there = (side[key][1] if key in side else "not set" for side in (want, have))
        if value != there:
            yield Finding("slurm-conf", f"{path} {name}", value, there, remedy)
    if records:
        wanted_lines, found_lines = _lines(wanted), _lines(found)
        for line in [one for one in wanted_lines if one not in set(found_lines)]:
            yield Finding("slurm-conf", f"{path} line", line, "no such line", remedy)
        for line in [one for one in found_lines if one not in set(wanted_lines)]:
            yield Finding("slurm-conf", f"{path} line", "no such line", line, remedy)


def _options(conf: Conf) -> dict[str, tuple[str, str]]:
    """Return option in lower case -> its name and value; the last line of an option counts."""
    return {
        name.lower(): (name, value) for pairs in conf.lines if not _is_record(pairs) for name, value in pairs.items()
    }


def _is_record(pairs: Pairs) -> bool:
    return next(iter(pairs)) in _RECORDS


def _lines(conf: Conf) -> list[str]:
    return [line_of(pairs) for pairs in conf.lines if _is_record(pairs)]
