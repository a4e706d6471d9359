# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the hardware of nodes in force (NodeName and gres.conf lines) with the desired lines, and keep the lines of nodes with jobs.

Slurm ends the jobs of a node whose sockets, cores, threads or GPUs change, or whose line says DOWN. A node with jobs keeps its present
hardware, in lines of its own, until the jobs have ended. Features, reason and any other state take their new values at once, so that the
node stays in its partitions: Slurm 24.11 keeps jobs running when the features, and with them the partitions, of their node change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ...common.hostlist import HostlistError, expand, fold, natural_key
from ..conf.conf_reader import Conf, Pairs, line_of, nodes_of, overlay
from ..live.slurmctld_report import Live
from .removed_records import GresConf, gres_count_lines, reported

# Appended to a kept NodeName line. It names no job, so that a second run writes the same line.
KEPT = "# kept by bedplate until its jobs end"
_KEPT_NAME = re.compile(rf"^NodeName=(\S+) .*{KEPT}$", re.MULTILINE)

JOBS, UNCOUNTED = "jobs", "uncounted"
# Slurm's default for a key that is not stated.
_DEFAULTS = {"Sockets": "1", "CoresPerSocket": "1", "ThreadsPerCore": "1", "RealMemory": "1", "Port": "6818"}
# Addresses of the node: they need no count.
_ADDRESS = ("NodeAddr", "NodeHostname", "Port")
_HARDWARE = (
    *("Sockets", "CoresPerSocket", "ThreadsPerCore", "RealMemory"),
    *("CPUSpecList", "CoreSpecCount", "MemSpecLimit", "Gres"),
)
# A node with one of these states in its line loses its jobs at the next reconfigure, in any state: seen with 24.11.5.
_ENDING = ("DOWN", "FUTURE", "FAIL")
# Values that a kept line takes from the new line.
_TAKEN = ("Feature", "State", "Reason")
_SPELLING = {key.lower(): key for key in (*_HARDWARE, *_ADDRESS, "CPUs", "Boards", "SocketsPerBoard")}


@dataclass(frozen=True)
class HardwareChange:
    """Difference of one node: texts such as `CoresPerSocket 2 -> 4`, and whether it is one of countable hardware."""

    texts: tuple[str, ...]
    of_hardware: bool


@dataclass
class HardwarePlan:
    """Nodes whose lines change, and new nodes that are not in force yet."""

    in_force: dict[str, Pairs] = field(default_factory=dict)
    wanted: dict[str, Pairs] = field(default_factory=dict)
    changes: dict[str, HardwareChange] = field(default_factory=dict)
    new: list[str] = field(default_factory=list)

    def to_count(self) -> list[str]:
        """Return the nodes whose hardware must be counted before their lines change."""
        return [*(name for name, change in self.changes.items() if change.of_hardware), *self.new]


def marked(text: str) -> set[str]:
    """Return the nodes whose line in a slurm.conf was kept by an earlier run.

    >>> sorted(marked("NodeName=n1 CPUs=2 # kept by bedplate until its jobs end\\nNodeName=n2 CPUs=2\\n"))
    ['n1']
    """
    return set(_KEPT_NAME.findall(text))


def compare(conf: Conf, gres: Conf, live: Live | None, wanted: Conf, wanted_gres: Conf) -> HardwarePlan:
    """Compare the files in force with the desired lines, node by node.

    If slurmctld runs another file than the one on disk, its report takes precedence over the file.
    """
    current = live is None or live.has_loaded_file
    lines = _lines(wanted)
    ending = any(pairs.get("State", "").upper() in _ENDING for pairs in lines)
    if current and not ending and _lines(conf) == lines and gres.lines == wanted_gres.lines:
        return HardwarePlan()  # the usual case: no hostlist is expanded
    plan = HardwarePlan(nodes_of(conf), nodes_of(wanted))
    for name, pairs in live.nodes.items() if live else ():
        if name not in plan.in_force:
            plan.in_force[name] = reported(pairs)
        elif not current:
            plan.in_force[name] = _overlaid(plan.in_force[name], reported(pairs))
    old_devices, new_devices = GresConf(gres), GresConf(wanted_gres)
    devices = _Devices()
    for name, new in plan.wanted.items():
        old = plan.in_force.get(name)
        if old is None:
            plan.new.append(name)
            continue
        other = tuple(_differences(_address(old), _address(new), _ADDRESS))
        other += _ending_state(old, new, live.nodes.get(name, {}) if live else {})
        shape = tuple(_differences(_shape(old), _shape(new), _HARDWARE))
        before = devices.of(old_devices.lines_of(name, old.get("Gres", "")))
        after = devices.of(new_devices.lines_of(name, new.get("Gres", "")))
        if before != after:
            shape += (f"gres.conf {_shown(before)} -> {_shown(after)}",)
        if other or shape:
            plan.changes[name] = HardwareChange(shape + other, bool(shape))
    return plan


def _ending_state(old: Mapping[str, str], new: Mapping[str, str], live: Mapping[str, str]) -> tuple[str, ...]:
    """Return the change of a state that would end jobs; an operator may have resumed a node whose line says DOWN."""
    state = new.get("State", "").upper()
    if state not in _ENDING or (old.get("State", "").upper() == state and live.get("State", state).startswith(state)):
        return ()
    return (f"State {old.get('State', 'UNKNOWN')} -> {state}",)


def _lines(conf: Conf) -> list[Pairs]:
    return [pairs for pairs in conf.lines if next(iter(pairs)) == "NodeName"]


def _overlaid(file: Pairs, live: Pairs) -> Pairs:
    """Return the pairs of the file, updated with the hardware that slurmctld reports."""
    dropped = {"cpus", "procs", "boards", "socketsperboard", *(key.lower() for key in _HARDWARE)}
    return overlay({key: value for key, value in file.items() if key.lower() not in dropped}, live)


def _spelled(pairs: Mapping[str, str]) -> Pairs:
    return {_SPELLING.get(key.lower(), key): value for key, value in pairs.items()}


def _shape(pairs: Mapping[str, str]) -> Pairs:
    """Return the hardware of a NodeName line, with Slurm's defaults for keys that are not stated."""
    given = _spelled(pairs)
    shape = {key: given.get(key, _DEFAULTS.get(key, "")) for key in _HARDWARE}
    shape["Gres"] = ",".join(sorted(filter(None, re.sub(r"\([^)]*\)", "", shape["Gres"]).split(","))))
    shape["CPUSpecList"] = ",".join(_expanded(f"[{shape['CPUSpecList']}]")) if shape["CPUSpecList"] else ""
    if "Sockets" not in given:
        cores, threads = int(shape["CoresPerSocket"]), int(shape["ThreadsPerCore"])
        if "SocketsPerBoard" in given:
            shape["Sockets"] = str(int(given["SocketsPerBoard"]) * int(given.get("Boards", "1")))
        elif "CPUs" in given:
            shape["Sockets"] = str(max(1, int(given["CPUs"]) // (cores * threads)))
    return shape


def _address(pairs: Mapping[str, str]) -> Pairs:
    given = _spelled(pairs)
    name = given.get("NodeName", "")
    host = given.get("NodeHostname", name)
    return {"NodeAddr": given.get("NodeAddr", host), "NodeHostname": host, "Port": given.get("Port", _DEFAULTS["Port"])}


def _differences(old: Mapping[str, str], new: Mapping[str, str], keys: Iterable[str]) -> list[str]:
    return [f"{key} {old[key] or 'none'} -> {new[key] or 'none'}" for key in keys if old[key] != new[key]]


class _Devices:
    """Devices of gres.conf lines, one by one and in order; computed once for lines that many nodes share."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, str], ...], tuple[Pairs, ...]] = {}

    def of(self, lines: list[Pairs]) -> list[Pairs]:
        """Return one record per device file, or one per line without a file; records of one name keep their order."""
        records: list[Pairs] = []
        for line in lines:
            key = tuple(line.items())
            if key not in self._known:
                self._known[key] = tuple(_records(line))
            records += self._known[key]
        return sorted(records, key=lambda one: one.get("Name", ""))


def _records(line: Mapping[str, str]) -> list[Pairs]:
    pairs = {key.capitalize() if key.lower() != "autodetect" else "AutoDetect": value for key, value in line.items()}
    pairs.pop("Nodename", None)
    if "Cores" in pairs:
        pairs["Cores"] = ",".join(_expanded(f"[{pairs['Cores']}]"))
    files = pairs.pop("File", None)
    if files is None:
        return [pairs]
    if pairs.get("Count", "") == str(len(_expanded(files))):
        del pairs["Count"]
    return [{**pairs, "File": file} for file in _expanded(files)]


def _expanded(text: str) -> list[str]:
    try:
        return expand(text)
    except HostlistError:
        return [text]


def _shown(records: Iterable[Pairs]) -> str:
    """Return devices as text: gpu:sim /dev/nvidia[0-1]."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in records:
        head = ":".join(one[key] for key in ("Name", "Type") if key in one)
        rest = {key: value for key, value in one.items() if key not in ("Name", "Type", "File")}
        groups.setdefault((head, line_of(rest)), []).extend([one["File"]] if "File" in one else [])
    texts = (" ".join(filter(None, (head, _in_order(files), rest))) for (head, rest), files in groups.items())
    return "; ".join(texts) or "none"


def _in_order(files: list[str]) -> str:
    folded = fold(files)
    return folded if expand(folded) == files else ",".join(files)


def kept_lines(plan: HardwarePlan, gres: Conf, names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the lines of slurm.conf and gres.conf that keep these nodes unchanged."""
    devices = GresConf(gres)
    node_lines, gres_lines = [], []
    for name in names:
        old, new = plan.in_force[name], plan.wanted[name]
        stays = {key: value for key, value in old.items() if key not in _TAKEN}
        taken = {key: new[key] for key in _TAKEN if key in new}
        if taken.get("State", "").upper() in _ENDING:
            taken["State"] = "UNKNOWN"
            taken.pop("Reason", None)
        node_lines.append(f"{line_of({**stays, **taken})} {KEPT}")
        lines = devices.lines_of(name, old.get("Gres", ""))
        gres_lines += [line_of({"NodeName": name, **pairs}) for pairs in lines]
        gres_lines += gres_count_lines(name, old.get("Gres", ""), lines)
    return node_lines, gres_lines


@dataclass
class Group:
    """Nodes with the same change: the change, the reason to wait (`jobs`, `uncounted` or none), and the lines in force."""

    nodes: str
    changes: list[str]
    waits: str
    jobs: list[str]
    gres: str
    cpus: int
    memory: int


def grouped(plan: HardwarePlan, waits: Mapping[str, str], jobs: Mapping[str, list[str]]) -> list[Group]:
    """Return the changing nodes, grouped by equal change."""
    many = len(plan.changes) > 10  # addresses differ from node to node
    groups: dict[tuple[tuple[str, ...], str, str, int, int], list[str]] = {}
    for name, change in plan.changes.items():
        shape = _shape(plan.in_force[name])
        cpus = int(shape["Sockets"]) * int(shape["CoresPerSocket"]) * int(shape["ThreadsPerCore"])
        texts = tuple(text.split(" ", 1)[0] if many and text.startswith(_ADDRESS) else text for text in change.texts)
        key = (texts, waits.get(name, ""), shape["Gres"], cpus, int(shape["RealMemory"]))
        groups.setdefault(key, []).append(name)
    found = []
    for (texts, why, gres, cpus, memory), names in groups.items():
        ids = sorted({job for name in names for job in jobs.get(name, ())}, key=natural_key) if why == JOBS else []
        found.append(Group(fold(names), list(texts), why, ids, gres, cpus, memory))
    return found
