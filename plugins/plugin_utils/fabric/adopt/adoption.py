# SPDX-License-Identifier: GPL-3.0-or-later
"""Adopt a fabric that exists: its list of cables, its GUIDs, a section for the cluster file, its shape and all findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.gc_pause import suspend_collection
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import (
    LLDP,
    SavedError,
    ToolOutput,
)

from ...cluster import Cluster, Fabric
from ..compare.lldp_discovery import read_discoveries
from ..core import guid_record
from ..core.fabric_model import INFINIBAND, Plan
from ..core.fabric_shape import RecognisedShape, shape_of
from ..core.places import ordered, worst
from ..plan.cable_rows import parse
from ..plan.checks import check
from ..plan.cluster_plan import plan_of
from ..plan.listed_ends import known_hcas, resolve
from ..plan.listed_plan import path_of_list
from ..plan.templates import TemplateError
from ..report.finding_table import printable, table
from .adopted_list import AdoptedList, adopted_list, difference, merged_record
from .audit import audit_of, summary
from .replaced_list import replaced_findings
from .seen_fabric import SeenFabric, seen_fabric
from .snippet import is_speed_known, section, snippet, usual_speed

# Value of fabric.technology for RoCE.
ETHERNET = "ethernet"
# Name of the list where the cluster file names none.
LIST = "cables.csv"
# Kinds of findings after which the list would be of a part of the fabric.
_PARTIAL = ("partial", "unread")
# Place of findings about the output itself.
_THE_TOOL = "the discovery"


@dataclass(frozen=True)
class Adoption:
    """An adoption: `files` are path -> text of what is written, `refused` why nothing is written ("" if it may be)."""

    summary: str
    table: str
    snippet: str
    files: dict[str, str]
    refused: str
    worst: str


@dataclass(frozen=True)
class FabricAudit:
    """An audit: the shape, the findings as a table, and the gravest severity."""

    summary: str
    table: str
    worst: str


@suspend_collection
def audited(cluster: Cluster, outputs: Sequence[ToolOutput], step: int = 1) -> FabricAudit:
    """Return the audit of a discovered fabric; the cluster file says only which NICs its machines have. Raises SavedError."""
    seen = _seen(cluster, outputs, step)
    shape = shape_of(seen.plan)
    found = audit_of(seen, shape, _expected(cluster))
    text = f"{_heading(cluster, seen, shape)}; {summary(found)}"
    return FabricAudit(text, table(found, text), worst(found))


@suspend_collection
def adoption(cluster: Cluster, outputs: Sequence[ToolOutput], update: bool = False, step: int = 1) -> Adoption:
    """Return the adoption of a discovered fabric. Raises SavedError, and RecordError for a record that cannot be read.

    A file that is there and differs is replaced only with `update`. A discovery of a part of the fabric is never adopted.
    """
    seen = _seen(cluster, outputs, step)
    shape = shape_of(seen.plan)
    listed = adopted_list(cluster, seen, usual_speed(seen, cluster.fabric))
    path = _path(cluster)
    technology = ETHERNET if outputs and all(one.kind == LLDP for one in outputs) else INFINIBAND
    fabric = replace(section(cluster, seen, shape, listed, _named(cluster, path)), technology=technology)
    odd = [*audit_of(seen, shape, _expected(cluster)), *listed.findings]
    odd += _of_plan(replace(cluster, fabric=fabric), path, listed)
    odd += replaced_findings(cluster, fabric, seen, listed, path)
    found = cluster.stated.findings(ordered(odd))
    text = f"{_heading(cluster, seen, shape)}; {summary(found)}"
    files = _files(cluster, path, listed, technology)
    refused = (
        _of_another_fabric(cluster, seen)
        or _refusal(found, files, path, listed, update)
        or _not_accepted(cluster, fabric, path, listed)
    )
    pasted = snippet(cluster, fabric, listed, is_speed_known(seen, cluster.fabric))
    return Adoption(text, table(found, text), pasted, {} if refused else files, refused, worst(found))


def _seen(cluster: Cluster, outputs: Sequence[ToolOutput], step: int) -> SeenFabric:
    """Return what was discovered; LLDP needs to know which names are hosts, so it gets a plan of all NICs and no switch."""
    known = known_hcas(cluster, by_unit=False)
    plan = Plan(cluster.fabric_title, "discovered", elsewhere=cluster.elsewhere)
    plan.add(*(hca for devices in known.values() for hca in devices.values()))
    rails = {name: hca.rail for name, hca in plan.hcas.items()}
    # Names are compared without case, as the list is written.
    rails |= {name.lower(): rail for name, rail in rails.items()}
    seen = seen_fabric(
        read_discoveries(outputs, plan, step), rails if any(one is not None for one in rails.values()) else None
    )
    seen.plan.name = cluster.fabric_title
    if not seen.plan.switches:
        raise SavedError(
            "no switch was discovered, so nothing was checked. Discover again; for RoCE, lldpd runs on hosts and switches"
        )
    return seen


def _expected(cluster: Cluster) -> dict[str, list[str]]:
    return {host: list(devices) for host, devices in known_hcas(cluster, by_unit=False).items()}


def _heading(cluster: Cluster, seen: SeenFabric, shape: RecognisedShape) -> str:
    return f"{cluster.fabric_title}: {shape}; {len(seen.plan.hcas)} HCAs, {len(seen.plan.links)} cables"


def _path(cluster: Cluster) -> Path:
    """Return the path of the list: as the cluster file names it, else cables.csv, with the file's name if it is not alone."""
    if cluster.fabric and cluster.fabric.cables:
        return path_of_list(cluster, cluster.fabric.cables).absolute()
    own = Path(cluster.path).absolute()
    others = [path for path in own.parent.glob("*.bedplate.y*ml") if path.name != own.name]
    stem = guid_record.path_of(str(own)).name.removesuffix(".guids.json")
    name = f"{cluster.stated.part}-{LIST}" if cluster.stated.part else LIST
    return own.with_name(f"{stem}.{name}" if others else name)


def _named(cluster: Cluster, path: Path) -> str:
    """Return how the cluster file names the list."""
    if cluster.fabric and cluster.fabric.cables:
        return cluster.fabric.cables
    return path.name


def _of_plan(cluster: Cluster, path: Path, listed: AdoptedList) -> list[Finding]:
    """Return what the plan of the list would say: mistakes that pasting leaves to correct, and warnings about the shape."""
    try:
        plan = plan_of(cluster, parse(listed.text, str(path)))
    except TemplateError as error:
        remedy = "correct it in the cluster file when the section is pasted"
        return [Finding("plan", "", "", line, remedy, ERROR) for line in str(error).split("\n")]
    problems = [one for one in check(plan) if one.severity == "error"]
    return [Finding("plan", one.where, "", f"{one.text} [{one.rule}]", severity=WARNING) for one in problems]


def _files(cluster: Cluster, path: Path, listed: AdoptedList, technology: str) -> dict[str, str]:
    """Return path -> text of the list and of the record of GUIDs, which only InfiniBand has."""
    found = {str(path): listed.text}
    if technology == INFINIBAND:
        record = guid_record.path_of(str(Path(cluster.path).absolute()), cluster.stated.part)
        found[str(record)] = guid_record.text_of(merged_record(guid_record.read(record), listed.guids))
    return found


def _of_another_fabric(cluster: Cluster, seen: SeenFabric) -> str:
    """Return that another fabric was discovered, by a switch of it or by more of its cards than own ones; "" if it was not."""
    elsewhere, plan = cluster.elsewhere, seen.plan
    switches = [name for name in plan.switches if name.lower() in elsewhere]
    cards = [name for name in plan.hcas if name.lower() in elsewhere]
    own = {hca.name.lower() for devices in known_hcas(cluster, by_unit=False).values() for hca in devices.values()}
    # A few cards may have a cable in the wrong fabric, or a host may count its cards in another order: both are findings.
    if not switches and len(cards) <= sum(name.lower() in own for name in plan.hcas):
        return ""
    names = [*switches, *cards]
    fabrics = few(dict.fromkeys(elsewhere[name.lower()] for name in names))
    return (
        f"Nothing was written for fabric {cluster.stated.name}, since these are switches or cards of fabric {fabrics}: {few(names)}. "
        "Check fabric_saved and fabric_name; if the switches or cards are of this fabric, correct their names in the cluster file."
    )


def _not_accepted(cluster: Cluster, fabric: Fabric, path: Path, listed: AdoptedList) -> str:
    """Return the mistakes that the list would have with its section: each later run would end with them; "" for none."""
    written = parse(listed.text, str(path))
    resolve(written, fabric, known_hcas(cluster, by_unit=False))
    if not written.mistakes:
        return ""
    return (
        f"Nothing was written, since the list does not fit its section: {few(written.lines(), 3)} "
        "Correct the names in the cluster file or on the switches, and discover again."
    )


def _refusal(found: Sequence[Finding], files: dict[str, str], path: Path, listed: AdoptedList, update: bool) -> str:
    """Return why nothing is written; "" if it may be."""
    # Of a node that did not answer, the tool may print a warning alone: neither the node nor its cables are in the text.
    partial = [
        one
        for one in found
        if one.kind in _PARTIAL and (one.severity == ERROR or one.kind == "unread" or _THE_TOOL in one.where)
    ]
    if partial:
        lines = few((f"{printable(one.where)}: {printable(one.difference)}" for one in partial), 3)
        return f"Nothing was written, since this is not the whole fabric. Discover again. {lines}"
    if unclear := [one for one in found if one.kind == "unclear" and one.severity == ERROR]:
        lines = few((f"{printable(one.difference)}; {one.remedy}" for one in unclear), 3)
        return f"Nothing was written, since a list needs the numbers of ports: {lines}."
    if listed.text.count("\n") < 2:
        return "Nothing was written, since no cable has ends that the cluster file names. The findings list the names that do not fit."
    differ = []
    for name, text in files.items():
        try:
            old = Path(name).read_text(encoding="utf-8")
        except FileNotFoundError:
            continue
        except (OSError, UnicodeDecodeError) as error:
            return f"Nothing was written, since {name} cannot be read: {error}"
        if old != text:
            what = difference(old, text) if name == str(path) else ""
            differ.append(f"{name} differs{f' ({what})' if what else ''}")
    if differ and not update:
        return f"Nothing was written: {'; '.join(differ)}. Replace it with -e fabric_adopt=update; --diff shows the difference."
    return ""
