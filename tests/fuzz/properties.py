# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to hold for any text that a reader of tools is given: it fails with its documented error only, and drops nothing in silence.

Each property takes a text and raises AssertionError, or whatever the reader raised that it must not. `run.py` drives them with atheris,
tests/unit/fabric/test_properties.py with hypothesis, that of the GPUs and of the pilot as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import (
    DiscoveredNode,
    Discovery,
    counts,
    guid_of,
    normalised,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import (
    LLDP,
    SavedError,
    ToolOutput,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.ibnetdiscover import parse
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.lldp import neighbours
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.devices import gpu_devices, nvidia_smi
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu_settings import apply_settings, smi_settings
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages import apt_sources, yum_sources
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_drift import comparison
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.lldp_discovery import (
    read_discoveries,
    short,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.plan_of_discovery import plan_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.link_rates import is_unreadable
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.node_descriptions import is_aggregation
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    FabricShape,
    WiredHost,
    WiredNic,
    leaf_spine,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.port_names.port_dialects import is_management
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate import opensm_dumps
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import (
    NetfileError,
    netfile,
    with_guids,
)
from tests.fuzz.machines import imported, recorded
from tests.fuzz.pilot import pilot
from tests.kit import partitions_reader

# A second reading of a line, looser than the reader's: what it says if the reader has read it.
_PORT = re.compile(r'\[(\d+)\].*?"[SHR]-([0-9a-fA-F]+)"\[(\d+)\]')
_NODE = re.compile(r'(Switch|Ca|Rt)\t(\d+) "[SHR]-([0-9a-fA-F]+)"')
_RATE = re.compile(r"(\d+x|\?\?)([A-Z0-9?]+)(?: [swv]=-?\d+)*(?: slot \d+| \(scp\))?\s*\Z")
_TWICE = re.compile(r"\S+\.c:\d+.*? guid .*?0x([0-9a-fA-F]+)")
_PASSED = re.compile(
    r"\s*\Z|#|(?:vendid|devid|sysimgguid|switchguid|caguid|rtguid)=0x|Chassis \d|Non-Chassis|Hostname: "
)


def fabric(technology: str = "infiniband") -> Plan:
    """Return the plan that texts are compared with: 8 hosts, 2 leaves, 2 spines."""
    hosts = [WiredHost(f"gpu{n}", [WiredNic("mlx5_0")], f"a{n // 4}") for n in range(8)]
    shape = FabricShape(technology=technology, ports=12, speed="HDR", spines=["sp1", "sp2"], uplinks=4, spine_rack="s0")
    return with_guids(leaf_spine(hosts, shape))


PLAN = fabric()
ROCE = fabric("roce")


def ibnetdiscover(text: str) -> None:
    """Every line is read as what it says, or told of."""
    lines = text.split("\n")
    found = parse(lines)
    told = {number for number, _ in (*found.unread, *found.troubles)}
    nodes: dict[str, list[DiscoveredNode]] = {}
    for one in (*found.nodes.values(), *found.twins):
        nodes.setdefault(one.guid, []).append(one)
    here = ""
    for number, line in enumerate(lines, 1):
        if number in told:
            continue
        if match := _NODE.match(line):
            here = guid_of(match[3])
            assert any(node.description in line for node in nodes.get(here, ())), f"line {number} is lost: {line!r}"
        elif match := _PORT.match(line):
            assert any(_tells(node, match, line) for node in nodes.get(here, ())), f"line {number} is lost: {line!r}"
        elif match := _TWICE.match(line):
            assert guid_of(match[1]) in found.duplicates, f"line {number} is lost: {line!r}"
        else:
            assert _PASSED.match(line), f"line {number} is passed over: {line!r}"
    assert len(normalised(found)) == len(found.nodes) + len(found.twins)
    assert counts(found)["unread"] == len(found.unread)


def _tells(node: DiscoveredNode, match: re.Match[str], line: str) -> bool:
    cable = node.cables.get(int(match[1]))
    rate = _RATE.search(line.rstrip("\r\n"))
    if cable is None or rate is None:
        return False
    far = (cable.guid, cable.port) == (guid_of(match[2]), int(match[3]))
    return far and (cable.width, cable.speed) == rate.groups() and cable.description in line


def compared(text: str) -> None:
    """Any discovery can be compared; where nothing is found, all is there as planned, and nothing else."""
    found = parse(text.split("\n"))
    _judged(PLAN, {"": found})
    plan, findings = plan_of({"": found})
    assert sum(one.kind == "unread" for one in findings) == len(found.unread)
    for link in plan.links:
        for end in link.ends:
            assert end[0] in plan.switches or end[0] in plan.hcas


def _judged(plan: Plan, found: Mapping[str, Discovery]) -> None:
    result = comparison(plan, found)
    seen = result.seen
    assert seen is not None
    for discovery in found.values():
        for node in (*discovery.nodes.values(), *discovery.twins):
            assert node.guid in seen.names or node.guid in seen.ignored, f"{node.guid} is lost"
    kinds = {one.kind for one in result.findings}
    lines = any(one.unread for one in found.values())
    cables = [one for each in found.values() for node in each.nodes.values() for one in node.cables.values()]
    # Each of them is told of; and only a line, or a rate, that was not read is told of as such.
    assert "unread" in kinds or not lines
    assert "unread" not in kinds or lines or any(is_unreadable((one.width, one.speed)) for one in cables)
    if not result.findings:
        assert len(result.ok) == result.planned
        for discovery in found.values():
            _as_planned(plan, discovery, seen.names)
    else:
        _in_words(result.findings)


def _in_words(findings: Iterable[Finding]) -> None:
    for one in findings:
        assert one.where, one
        assert one.found, one


def _as_planned(plan: Plan, discovery: Discovery, names: Mapping[str, str]) -> None:
    planned = {end: far for link in plan.present for end, far in (link.ends, link.ends[::-1])}
    for node in discovery.nodes.values():
        if is_aggregation(node.description):
            continue
        for port, cable in node.cables.items():
            if is_aggregation(cable.description):
                continue
            far = (names[cable.guid], cable.port)
            assert planned.get((names[node.guid], port)) == far, (
                f"{names[node.guid]} port {port} to {far} is not told of"
            )


def lldp_neighbours(text: str) -> None:
    """An answer of lldpctl is refused with SavedError, or each interface in it has a cable for each neighbour, or is told of."""
    told = ToolOutput("leaf-a0", text if text.lstrip().startswith(("{", "[")) else "{" + text)
    try:
        found = read_discoveries([told], ROCE)
    except SavedError:
        return
    _judged(ROCE, found)
    discovery = found[LLDP]
    unread = [line for _, line in discovery.unread]
    for box, answer in told.answers().items():
        name = short(box)
        cables = [
            cable.description
            for node in discovery.nodes.values()
            for cable in node.cables.values()
            if node.description == name or node.description.startswith(f"{name} ")
        ]
        seen = list(neighbours(answer))
        assert interfaces(answer) <= {one[0] for one in seen}, f"{box}: an interface is lost"
        for interface, far, port, mac in seen:
            known = any(one.startswith(short(far) or mac) for one in cables)
            # A switch whose names are unclear has a finding; ports for people are in no plan.
            known = known or bool({name, short(far) or mac} & discovery.unclear)
            known = known or is_management(interface) or is_management(port)
            # Of two neighbours at one port, the line names both.
            lines = [one for one in unread if one.startswith(f"{name} {interface} to ")]
            assert known or any(
                f" to {far or mac} {port}: " in one or f"not {short(far) or mac}" in one for one in lines
            )


def interfaces(answer: Mapping[str, Any]) -> set[str]:
    """Return the names of all interfaces in an answer."""
    found: set[str] = set()
    part = answer["lldp"]
    for one in part if isinstance(part, list) else [part]:
        listed = one.get("interface", [])
        for each in listed if isinstance(listed, list) else [listed]:
            found |= {each["name"]} if isinstance(each.get("name"), str) else set(each)
    return found


def partitions(text: str) -> None:
    """Each line of partitions.conf with something in it is a partition's, a member's, or told of."""
    for plan in (None, PLAN):
        entries, problems = partitions_reader.parse(text, plan)
        told = {int(match[1]) for one in problems if (match := re.search(r"line (\d+)", one.where))}
        told |= {entry.line for entry in entries}
        told |= {member.line for entry in entries for member in entry.members}
        assert all(problem.text for problem in problems)
        for number, line in enumerate(text.split("\n"), 1):
            rest = line.split("#")[0].strip(" \t;")
            if rest and number not in told:
                # What is left is a multicast group that is in order.
                assert "mgid" in rest, f"line {number} is lost: {line!r}"


def tables(text: str) -> None:
    """Dumps of OpenSM, with a line `====` between them, are read or refused with DumpError; each cable is kept."""
    subnet, _, rest = text.partition("\n====\n")
    tables_text, _, order = rest.partition("\n====\n")
    with suppress(opensm_dumps.DumpError):
        assert len(opensm_dumps.ca_order(order)) == sum(bool(line.strip()) for line in order.split("\n"))
    try:
        found = opensm_dumps.read(subnet, tables_text)
    except opensm_dumps.DumpError:
        return
    lines = {line.strip() for line in subnet.split("\n") if line.strip()}
    for line in lines:
        lids = [int(lid, 16) for lid in re.findall(r"\} LID:(\w+) PN:", line)]
        assert lids[-1] in found.nodes, f"a node is lost: {line!r}"
    assert all(found.cables[found.cables[end]] == end for end in found.cables), "a port has two cables"


def written(text: str) -> None:
    """A plan with any names is a netfile in which each line is whole, or is refused with NetfileError."""
    names = [*text.split("\n"), "a", "b"][:2]
    hosts = [WiredHost(name, [WiredNic("mlx5_0")], "a1") for name in names]
    plan = leaf_spine(hosts, FabricShape(ports=4, speed="HDR", spines=["s1"], uplinks=1))
    try:
        lines = netfile(plan).split("\n")
    except NetfileError:
        return
    assert max(map(len, lines)) < 255
    assert sum(line.startswith("[") for line in lines) == 2 * len(plan.links)
    assert all(re.match(r'#|\[|\w+=|(?:Switch|Ca)\t\d+ "[SH]-[0-9a-f]{16}"|\Z', line) for line in lines)


def gpus(text: str) -> None:
    """Each line of nvidia-smi is a GPU's, a field that it does not know, or unread; a value is as it stands there, or unknown."""
    told = nvidia_smi.parse(text, nvidia_smi.FIELDS)
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    assert len(told.rows) + len(told.lacking) + len(told.unread) == len(lines)
    # A line that is unread has its reason, unless it is no row at all.
    assert all(line in lines for line, _ in told.unread)
    # Fabric cells of drivers up to 570 have a label before the word.
    labelled = [number for number, name in enumerate(nvidia_smi.FIELDS) if name in nvidia_smi.TEXTS]
    written = {tuple(value.strip() for value in line.split(",")) for line in lines}
    for address, row in told.rows.items():
        assert address == gpu_devices.address_of(row[nvidia_smi.BUS_ID] or ""), address
        assert list(row) == list(nvidia_smi.FIELDS)
        known = {number: value for number, value in enumerate(row.values()) if value is not None}
        assert any(
            all(_cell(one[number], number in labelled) == value for number, value in known.items())
            for one in written
            if len(one) == len(row)
        )
        assert "" not in known.values()
        assert not any(value.startswith("[") and value.endswith("]") for value in known.values())


def package_sources(text: str) -> None:
    """Each entry is at lines that exist; with all of them switched off a file has none, and no other line changes."""
    lines = text.split("\n")
    for name in ("x.list", "x.sources"):
        entries = apt_sources.parse(name, text, "amd64")
        assert all(1 <= one.lines[0] <= one.lines[1] <= len(lines) for one in entries)
        assert all(one.uri.endswith("/") and one.suite for one in entries)
        rest = apt_sources.switched_off(name, text, entries)
        assert apt_sources.parse(name, rest, "amd64") == []
        _others_stay(lines, rest, [one.lines for one in entries])
    repositories = yum_sources.parse("x.repo", text)
    rest = yum_sources.switched_off(text, repositories)
    assert yum_sources.parse("x.repo", rest) == []
    _others_stay(lines, rest, [one.lines for one in repositories])


def _others_stay(lines: list[str], rest: str, places: list[tuple[int, int]]) -> None:
    """Fail if a line outside of the entries at `places` changed."""
    touched = {number for first, last in places for number in range(first, last + 1)}
    outside = [line for number, line in enumerate(lines, 1) if number not in touched]
    left = iter(rest.split("\n"))
    assert all(line in left for line in outside), "a line of another entry is lost"


def _cell(value: str, labelled: bool) -> str:
    return re.sub(r"\A(?:state|status) +", "", value) if labelled else value


def settings(text: str) -> None:
    """Each line of nvidia-smi is a GPU's settings, or none is read; a cell is a number, a mode, or unknown."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    try:
        found = smi_settings.parse(text)
    except smi_settings.SettingsError:
        return
    assert len(found) == len(lines)
    for gpu in found:
        assert list(gpu.cells) == list(smi_settings.QUERY)
        for name, cell in gpu.cells.items():
            assert not (cell.startswith("[") and (gpu.number(name) is not None or gpu.switch(name) is not None))
        assert not gpu.failure or f"[{gpu.failure}]" in gpu.cells.values()
        try:
            left = apply_settings.changes_of(gpu, {"power_limit_watts": 600, "ecc": True}, recorded="")
        except apply_settings.SettingsError:
            continue
        # Only a GPU whose values are known is changed.
        assert gpu.number(smi_settings.POWER) is not None
        assert gpu.switch(smi_settings.ECC_PENDING) is not None
        assert len(left) <= 2


PROPERTIES: dict[str, Callable[[str], None]] = {
    "ibnetdiscover": ibnetdiscover,
    "compared": compared,
    "neighbours": lldp_neighbours,
    "partitions": partitions,
    "tables": tables,
    "written": written,
    "gpus": gpus,
    "package_sources": package_sources,
    "settings": settings,
    "pilot": pilot,
    "imported": imported,
    "recorded": recorded,
}
