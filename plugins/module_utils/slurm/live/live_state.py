# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare what Slurm reports of its release, nodes, partitions and switches with the cluster file.

A state that an operator set, such as a drained node, is a notice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from ...common.finding import ERROR, NOTICE, WARNING, Finding
from ...common.hostlist import HostlistError, expand, fold
from .drain_reasons import DrainReason, is_slurms, read, without_additions
from .release_window import release_of, works_under
from .slurmctld_report import pairs_of

# The machine of findings about Slurm as a whole, which every controller reports equally.
SLURM = "Slurm"
_AGAIN = "run playbooks/scheduler.yml"

# One line per node; the reason is last, since only the reason may contain `|`.
NODE_FORMAT = "%N|%G|%c|%m|%t|%v|%U|%H|%E"
# Compact states of `sinfo --format=%t` that mean a node can run jobs, is running them, or is about to return.
HEALTHY = {"idle", "alloc", "mix", "comp", "resv", "maint", "plnd", "boot", "block"}
_OUT = {"drain", "drng", "down", "fail", "failg"}
# States allowed besides healthy ones, by planned state. `inval`: a node that is out for broken hardware may register with less of it.
_PLANNED = {"drain": {"drain", "drng", "inval"}, "down": {"drain", "drng", "inval", "down"}}
_UNKNOWN = ("", "N/A", "(null)", "Unknown", "none")


@dataclass(frozen=True)
class LiveNode:
    """A node as `sinfo --Node` reports it; memory in MiB; the user who set the reason as name(uid)."""

    gres: str
    cpus: int
    memory: int
    state: str
    version: str = ""
    who: str = ""
    since: str = ""
    reason: str = ""

    @property
    def base(self) -> str:
        """Return the state without its suffix: `down*` does not answer, `idle~` is switched off to save power."""
        return self.state.rstrip("*~#!%$@^-+")

    @property
    def answers(self) -> bool:
        """Return whether its slurmd answers, as far as slurmctld knows."""
        return self.base != "down" and not self.state.endswith("*")


@dataclass
class _Differences:
    """Findings of nodes; the nodes of one difference are folded into one finding."""

    nodes: dict[Finding, list[str]] = field(default_factory=dict)

    def add(self, name: str, kind: str, expected: str, found: str, remedy: str = "", severity: str = ERROR) -> None:
        one = Finding(kind, "", expected, found, remedy, severity, SLURM)
        self.nodes.setdefault(one, []).append(name)

    def findings(self) -> list[Finding]:
        return [
            replace(
                one, where=f"node{'s' * (len(names) > 1)} {fold(names)}", remedy=one.remedy.replace("NODE", fold(names))
            )
            for one, names in self.nodes.items()
        ]


def parse_config(text: str) -> dict[str, str]:
    """Parse `scontrol show config` to option -> value.

    >>> parse_config("SLURM_VERSION           = 24.11.5")["SLURM_VERSION"]
    '24.11.5'
    """
    return dict(re.findall(r"^(\w+) *= (.*\S)", text, re.MULTILINE))


def parse_nodes(text: str) -> tuple[dict[str, LiveNode], list[str]]:
    """Parse `sinfo --noheader --all --Node --format=NODE_FORMAT`; the second part has the lines that cannot be read.

    >>> parse_nodes("gpu01|gpu:h100:8(S:0-1)|112|1000000|idle|24.11.5|Unknown|Unknown|none")[0]["gpu01"].gres
    'gpu:h100:8'
    """
    nodes, unread = {}, []
    for line in filter(str.strip, text.splitlines()):
        try:
            name, gres, cpus, memory, *texts = line.split("|", 8)
            state, version, who, since, reason = ("" if one in _UNKNOWN else one for one in map(str.strip, texts))
            # Slurm 22.05 reports root(0) if nobody has set a reason; then the time is unknown.
            who = who if since else ""
            nodes[name.strip()] = LiveNode(
                _plain_gres(gres), _count(cpus), _count(memory), state, version, who, since, reason
            )
        except ValueError:
            unread.append(line)
    return nodes, unread


def _plain_gres(gres: str) -> str:
    """Return the devices sorted and without their sockets: gpu:h100:8(S:0-1),shard:4(S:0,1) is gpu:h100:8,shard:4."""
    plain = re.sub(r"\([^)]*\)", "", gres.strip())
    return ",".join(sorted(filter(None, plain.split(",")))) if plain not in _UNKNOWN else ""


def _count(text: str) -> int:
    """Return a number of sinfo, which writes 1536 as 1.50K."""
    number = text.strip()
    factor = {"K": 1024, "M": 1024**2}.get(number[-1:], 1)
    return int(float(number[:-1]) * factor) if factor > 1 else int(number)


def parse_partitions(text: str) -> dict[str, str]:
    """Parse `scontrol --oneliner show partition` to name -> folded nodes."""
    partitions = {}
    for line in text.splitlines():
        pairs = pairs_of(line)
        if "PartitionName" in pairs:
            partitions[pairs["PartitionName"]] = _refold(pairs.get("Nodes", ""))
    return partitions


def parse_topology(text: str) -> dict[str, dict[str, str]]:
    """Parse `scontrol show topology` to switch -> level, folded nodes and folded switches below; a block has the level `block`."""
    switches = {}
    for line in text.splitlines():
        pairs = pairs_of(line)
        if "SwitchName" in pairs:
            switches[pairs["SwitchName"]] = {
                "level": pairs.get("Level", ""),
                "nodes": _refold(pairs.get("Nodes", "")),
                "switches": _refold(pairs.get("Switches", "")),
            }
        elif "BlockName" in pairs:  # AggregatedBlock are lines that follow from these
            switches[pairs["BlockName"]] = {"level": "block", "nodes": _refold(pairs.get("Nodes", "")), "switches": ""}
    return switches


def _refold(hostlist: str) -> str:
    """Return a hostlist as bedplate folds it; unchanged if it cannot be parsed, so that it is shown as a difference."""
    try:
        return "" if hostlist in ("", "(null)") else fold(expand(hostlist))
    except HostlistError:
        return hostlist


def compare_config(release: str, config: Mapping[str, str]) -> list[Finding]:
    """Compare the running slurmctld, from `scontrol show config`, with the desired release and with this host's slurm.conf."""
    findings = []
    running = config.get("SLURM_VERSION", "unknown")
    if release_of(running) != release_of(release):
        fix = "set slurm.version in the cluster file, or install the planned packages and restart slurmctld"
        findings.append(
            Finding("slurm-release", "slurmctld", f"release {release}", f"release {running}", fix, machine=SLURM)
        )
    # Absent with DebugFlags=NO_CONF_HASH.
    if config.get("HASH_VAL", "Match").startswith("Different"):
        where = f"{config.get('SLURM_CONF', 'slurm.conf')} of this host"
        fix = "`scontrol reconfigure`, or run playbooks/scheduler.yml"
        found = f"HASH_VAL {config['HASH_VAL']}"
        findings.append(Finding("slurm-conf-hash", where, "the file that slurmctld runs", found, fix))
    return findings


def unread_findings(lines: Iterable[str]) -> list[Finding]:
    """Return a finding for each line of sinfo that cannot be read."""
    fix = f"run `sinfo --all --Node --format='{NODE_FORMAT}'`; if a reason has a line break, set the reason again"
    return [Finding("unread", "sinfo", "a line per node", repr(line), fix, machine=SLURM) for line in lines]


def compare_nodes(
    wanted: Iterable[Mapping[str, object]], live: Mapping[str, LiveNode], config: Mapping[str, str]
) -> list[Finding]:
    """Compare groups of equal nodes (`names` folded, `gres`, `cpus`, `memory`, planned `state` or "") with the live ones."""
    differences = _Differences()
    for group in wanted:
        for name in expand(str(group["names"])):
            node = live.get(name)
            if node:
                _compare_hardware(name, group, node, differences)
                _compare_version(name, node, config, differences)
                _compare_state(name, str(group.get("state") or ""), node, config, differences)
            elif group.get("state") != "future":  # sinfo shows such a node when it has registered
                differences.add(name, "node-unknown", "known to Slurm", "unknown", _AGAIN)
    return differences.findings()


def _compare_hardware(name: str, wanted: Mapping[str, object], live: LiveNode, differences: _Differences) -> None:
    for key, want, found in (
        ("gres", _plain_gres(str(wanted["gres"])), live.gres),
        ("cpus", str(wanted["cpus"]), str(live.cpus)),
        ("memory", str(wanted["memory"]), str(live.memory)),
    ):
        if want != found:
            fix = "compare the profile with `slurmd -C` on NODE"
            differences.add(name, f"node-{key}", f"{key} {want or 'none'}", f"{key} {found or 'none'}", fix)


def _compare_version(name: str, live: LiveNode, config: Mapping[str, str], differences: _Differences) -> None:
    running = config.get("SLURM_VERSION", "")
    # A node that does not answer shows its last release: an operator can correct that only after it is back.
    if running and live.version and live.answers and release_of(live.version) != release_of(running):
        fix = "run playbooks/roll.yml to update slurmd, or restart it on NODE"
        # During an upgrade nodes follow their controller; the others do not work at all, or lose jobs.
        severity = WARNING if works_under(live.version, running) else ERROR
        wanted = f"the release of slurmctld, {running}"
        differences.add(name, "node-release", wanted, f"slurmd {live.version}", fix, severity)


def _compare_state(
    name: str, planned: str, live: LiveNode, config: Mapping[str, str], differences: _Differences
) -> None:
    if live.base in HEALTHY and not live.state.endswith("*"):
        if planned in _PLANNED:
            command = f"`scontrol update nodename=NODE state={planned} reason=...`"
            remedy = f"only a new node starts as {planned}: {command}, or drop the state from the cluster file"
            differences.add(name, "node-state", f"{planned}, as planned", live.state, remedy, NOTICE)
        return
    if live.base in _PLANNED.get(planned, ()):
        return
    if own := read(live.reason) if live.base in _OUT else None:
        _compare_own(own, live, differences, name)
        return
    if who := _operator(live, config.get("SlurmUser", "")):
        found = f"{live.state} ({live.reason}), set by {who} since {live.since or 'unknown'}"
        differences.add(name, "node-state", "able to run jobs", found, severity=NOTICE)
        return
    reason = f" ({live.reason}; set by {live.who or 'unknown'})" if live.reason else ""
    if planned in _PLANNED:
        wanted = f"{planned}, as planned"
        fix = f"Slurm keeps the state of a known node: `scontrol update nodename=NODE state={planned} reason=...`"
    else:
        wanted = "able to run jobs"
        fix = "`journalctl -u slurmd` on NODE; then `scontrol update nodename=NODE state=resume`"
        if live.base in _OUT and not is_slurms(live.reason) and _uid(live.who) == _uid(config.get("SlurmUser", "")):
            fix += f". A reason set by {live.who} counts as Slurm's own: drain nodes as root or as yourself, and it is a notice"
    differences.add(name, "node-state", wanted, f"{live.state}{reason}", fix)


def _compare_own(own: DrainReason, live: LiveNode, differences: _Differences, name: str) -> None:
    """Report a node that a run of bedplate has out of service; a node that did not return in time is an error."""
    found = f"{live.state}, by {own.kind} {own.run} since {live.since or 'unknown'}: {own.text}"
    if {"reboot timed out", "ResumeTimeout reached"} & set(own.added):
        fix = "see the console of NODE; when it is back, the next playbooks/roll.yml continues with it"
        differences.add(name, "node-state", "back from its reboot", found, fix)
    else:
        differences.add(name, "node-state", "able to run jobs", found, severity=NOTICE)


def _operator(live: LiveNode, slurm_user: str) -> str:
    """Return the user who took a node out of service; "" if it was Slurm itself, or if that is unknown."""
    who, own = _uid(live.who), _uid(slurm_user)
    if live.base not in _OUT or not who or not own:
        return ""
    # Slurm appends to an operator's reason in its own name, such as when the drained node is switched off or rebooted.
    before, _added = without_additions(live.reason)
    if is_slurms(before) and who in (own, "0"):
        return ""
    if who != own:
        return live.who
    return "unknown" if before != live.reason and live.base in ("drain", "drng") else ""


def _uid(user: str) -> str:
    """Return the id in name(id), or ""."""
    found = re.search(r"\((\d+)\)$", user)
    return found[1] if found else ""


def compare_maps(
    kind: str, wanted: Mapping[str, object], live: Mapping[str, object], spared: Iterable[str] = ()
) -> list[Finding]:
    """Compare partitions or switches, name by name; `spared` names may exist besides the desired ones."""
    findings = []
    for name in dict.fromkeys([*wanted, *live]):
        if name in wanted or name not in spared:
            want, found = wanted.get(name, "absent"), live.get(name, "absent")
            if want != found:
                findings.append(Finding(kind, f"{kind} {name}", _text(want), _text(found), _AGAIN, machine=SLURM))
    return findings


def _text(value: object) -> str:
    """Return the text for the operator: a switch as `level 0, nodes gpu[01-02]`."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {one}" for key, one in value.items() if one) or "nothing"
    return str(value) or "none"
