# SPDX-License-Identifier: GPL-3.0-or-later
"""Layout of the picture of a fabric: boxes by tier, lines between them, and the findings of each.

Racks are below the leaves that hold their hosts. Where there is too much of a tier for a row, things are put together: leaves of a unit,
spines of a pod, then neighbours. Many lines between two tiers become a bar that all of them meet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, NOTICE, WARNING, Finding

from ..core.fabric_model import Plan
from ..core.host_tree import Branch, DisjointSets, roots

T = TypeVar("T")

# Boxes of a row at most, racks of a column, and lines between two tiers that a bar does not replace.
MOST, STACK, LINES = 16, 8, 24
# In pixels.
WIDTH, HEIGHT, GAP, BAND, MARGIN = 104, 44, 12, 96, 24
_ORDER = (ERROR, WARNING, NOTICE, "")


@dataclass(eq=False)
class LayoutBox:
    """Switches of one tier, or (tier 0) hosts of a rack; a frame replaces all the racks in it."""

    tier: int
    names: list[str]
    label: str = ""
    rack: str = ""
    x: float = 0
    y: float = 0
    width: float = WIDTH
    height: float = HEIGHT
    frame: LayoutBox | None = None
    severity: str = ""
    # Texts of what is wrong, each once.
    findings: dict[str, None] = field(default_factory=dict)

    @property
    def middle(self) -> float:
        """Return the x of its middle."""
        return self.x + self.width / 2

    @property
    def anchor(self) -> LayoutBox:
        """Return what its lines go to."""
        return self.frame or self


@dataclass(eq=False)
class Line:
    """Cables between two boxes, the lower one first; `missing` of them are left out on purpose."""

    low: LayoutBox
    high: LayoutBox
    count: int = 0
    missing: int = 0
    rails: set[int] = field(default_factory=set)
    severity: str = ""
    findings: dict[str, None] = field(default_factory=dict)
    # Drawn as two ends at a bar.
    barred: bool = False


@dataclass
class Bar:
    """Meeting point of many lines between two tiers; `ends` are boxes and the number of cables from each."""

    y: float
    ends: dict[LayoutBox, int]


@dataclass
class Sketch:
    """All that is drawn; `loose` are findings that are at no box."""

    boxes: list[LayoutBox] = field(default_factory=list)
    frames: list[LayoutBox] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    bars: list[Bar] = field(default_factory=list)
    loose: list[Finding] = field(default_factory=list)
    width: float = 0
    height: float = 0
    # Tier -> y of its row.
    rows: dict[int, float] = field(default_factory=dict)


@dataclass
class _Column:
    leaves: list[str]
    hosts: list[str]


def chunks(things: Sequence[T], most: int) -> list[list[T]]:
    """Return items in order, in at most so many parts of the same size.

    >>> chunks("abcdefg", 3)
    [['a', 'b', 'c'], ['d', 'e', 'f'], ['g']]
    """
    size = -(-len(things) // most) or 1
    return [list(things[start : start + size]) for start in range(0, len(things), size)]


def sketch(plan: Plan, findings: Iterable[Finding] = (), branches: Sequence[Branch] | None = None) -> Sketch:
    """Return the picture of a plan with its findings; `branches` are its `host_tree.roots`, if known already."""
    work = _Sketcher(plan)
    work.place(roots(plan)[0] if branches is None else branches)
    work.connect()
    work.mark(findings)
    return work.sketch


class _Sketcher:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.sketch = Sketch()
        # Switch, HCA or host -> its box.
        self.box_of: dict[str, LayoutBox] = {}
        self.hcas: dict[str, list[str]] = {}
        self.rack_of: dict[str, str] = {}
        for hca in plan.hcas.values():
            self.hcas.setdefault(hca.host, []).append(hca.name)
            self.rack_of.setdefault(hca.host, hca.rack)
        self.between: dict[tuple[LayoutBox, LayoutBox], Line] = {}

    def place(self, branches: Iterable[Branch]) -> None:
        """Make all boxes, and give them their places."""
        columns = self._columns(branches)
        detailed = len(columns) <= MOST and sum(len(column.leaves) for column in columns) <= MOST
        x: float = MARGIN + 60
        made: list[tuple[list[LayoutBox], list[LayoutBox], float, float]] = []
        for part in chunks(columns, MOST):
            leaves = self._leaf_boxes([leaf for column in part for leaf in column.leaves], detailed)
            racks = self._rack_boxes([host for column in part for host in column.hosts])
            width: float = max(1, len(leaves)) * (WIDTH + GAP) - GAP
            made.append((leaves, racks, x, width))
            x += width + 2 * GAP
        tiers = {
            tier: self._upper(names)
            for tier in range(self.plan.tiers, 1, -1)
            if (names := [switch.name for switch in self.plan.switches.values() if switch.tier == tier])
        }
        widest = max([1, *(len(boxes) for boxes in tiers.values())]) * (WIDTH + GAP) - GAP
        shift = max(0.0, (MARGIN + 60 + widest - (x - 2 * GAP)) / 2)
        self.sketch.width = max(x - 2 * GAP, MARGIN + 60 + widest) + MARGIN
        # Lines within the top tier bend above it.
        y: float = MARGIN + 40 + BAND * self._bends()
        for tier, boxes in tiers.items():
            self._row(boxes, tier, MARGIN + 60, self.sketch.width - 2 * MARGIN - 60, y)
            y += HEIGHT + BAND
        bottom = y
        for leaves, racks, left, width in made:
            self._row(leaves, 1, left + shift, width, y)
            bottom = max(bottom, self._stack(racks, left + shift, width, y + HEIGHT + BAND))
        self.sketch.height = bottom + MARGIN + 40

    def _bends(self) -> bool:
        tiers = self.plan.tiers
        top = {switch.name for switch in self.plan.switches.values() if switch.tier == tiers}
        return any(link.a in top and link.b in top for link in self.plan.links)

    def _columns(self, branches: Iterable[Branch]) -> list[_Column]:
        """Return leaves that hold the same hosts, with those; then what holds storage alone, or nothing."""
        leaf_of: dict[str, str] = {}
        for link in self.plan.links:
            hca = self.plan.hcas.get(link.a) or self.plan.hcas.get(link.b)
            if hca:
                leaf_of.setdefault(hca.host, link.b if link.a in self.plan.hcas else link.a)
        columns, known, placed = [], set(), set()
        for branch in _leaves(branches):
            leaves = [name for name in branch.switches if self.plan.switches[name].tier < 2]
            columns.append(_Column(leaves, list(branch.hosts)))
            known.update(leaves)
            placed.update(branch.hosts)
        order = {name: number for number, name in enumerate(self.plan.switches)}
        columns.sort(key=lambda column: min((order[leaf] for leaf in column.leaves), default=len(order)))
        own = {leaf: column for column in columns for leaf in column.leaves}
        for name, switch in self.plan.switches.items():
            if switch.tier < 2 and name not in known:
                columns.append(own.setdefault(name, _Column([name], [])))
        for host in self.hcas:
            if host not in placed:
                leaf = leaf_of.get(host, "")
                if leaf not in own:
                    columns.append(own.setdefault(leaf, _Column([], [])))
                own[leaf].hosts.append(host)
        return columns

    def _leaf_boxes(self, leaves: list[str], detailed: bool) -> list[LayoutBox]:
        if not leaves:
            return []
        return [self._switches(1, [leaf]) for leaf in leaves] if detailed else [self._switches(1, leaves)]

    def _upper(self, names: list[str]) -> list[LayoutBox]:
        """Return the boxes of a tier above leaves: one by one, or by pod or rail, or neighbours together."""
        if len(names) <= MOST:
            return [self._switches(0, [name]) for name in names]
        groups: dict[tuple[str, str], list[str]] = {}
        for name in names:
            switch = self.plan.switches[name]
            groups.setdefault((switch.plane, switch.group), []).append(name)
        if len(groups) == 1:
            return [self._switches(0, part) for part in chunks(names, MOST)]
        parts = chunks(list(groups.values()), MOST)
        return [self._switches(0, [name for group in part for name in group]) for part in parts]

    def _switches(self, tier: int, names: list[str]) -> LayoutBox:
        groups = {self.plan.switches[name].group for name in names}
        label = names[0] if len(names) == 1 else (groups.pop() if len(groups) == 1 else "")
        box = LayoutBox(tier, names, label or f"{names[0]} ...")
        self.box_of.update(dict.fromkeys(names, box))
        self.sketch.boxes.append(box)
        return box

    def _rack_boxes(self, hosts: list[str]) -> list[LayoutBox]:
        racks: dict[str, list[str]] = {}
        for host in hosts:
            racks.setdefault(self.rack_of[host], []).append(host)
        boxes = []
        for part in chunks(list(racks), STACK):
            names = [host for rack in part for host in racks[rack]]
            rack = part[0] if len(part) == 1 else f"{part[0]} ... {part[-1]}"
            box = LayoutBox(0, names, rack or names[0] + (" ..." if len(names) > 1 else ""), rack)
            self.box_of.update((name, box) for host in names for name in (*self.hcas[host], host))
            boxes.append(box)
        self.sketch.boxes += boxes
        return boxes

    def _row(self, boxes: Sequence[LayoutBox], tier: int, left: float, width: float, y: float) -> None:
        """Spread boxes evenly over a width."""
        self.sketch.rows[tier] = y
        step = width / max(1, len(boxes))
        for number, box in enumerate(boxes):
            box.tier, box.x, box.y = tier, left + step * number + (step - box.width) / 2, y

    def _stack(self, racks: Sequence[LayoutBox], left: float, width: float, y: float) -> float:
        """Put racks side by side, or, without room for that, in a frame in rows; return the end of it."""
        if not racks:
            return y
        across = max(1, int((width + GAP) // (WIDTH + GAP)))
        down = -(-len(racks) // across)
        if down == 1:
            self._row(racks, 0, left, width, y)
            return y + HEIGHT
        frame = LayoutBox(0, [], "", "", left - GAP / 2, y - GAP / 2, width + GAP, down * (HEIGHT + GAP))
        self.sketch.frames.append(frame)
        self.sketch.rows.setdefault(0, y)
        for number, box in enumerate(racks):
            box.frame = frame
            box.x = left + (number % across) * (WIDTH + GAP)
            box.y = y + (number // across) * (HEIGHT + GAP)
        return y + down * (HEIGHT + GAP)

    def connect(self) -> None:
        """Draw cables as lines between boxes, and where that would be too many, as bars."""
        rails = {name: switch.rail for name, switch in self.plan.switches.items() if switch.rail is not None}
        for link in self.plan.links:
            line = self._line(link.a, link.b)
            if line is None:
                continue
            line.count += not link.missing
            line.missing += link.missing
            # The rail of a host whose switches have none is no more than the number of its only HCA.
            for name in (link.a, link.b):
                if name in rails:
                    line.rails.add(rails[name])
        bands: dict[tuple[int, int], list[Line]] = {}
        for line in self.sketch.lines:
            bands.setdefault((line.low.tier, line.high.tier), []).append(line)
        for lines in bands.values():
            union = DisjointSets()
            for line in lines:
                union.join(line.low, line.high)
            together: dict[object, list[Line]] = {}
            for line in lines:
                together.setdefault(union.find(line.low), []).append(line)
            many = [one for one in together.values() if len(one) > LINES]
            for number, one in enumerate(many):
                self._bar(one, (number + 1) / (len(many) + 1))

    def _line(self, a: str, b: str) -> Line | None:
        """Return the line between two ends; None if both are in one box, or one is drawn nowhere."""
        one, other = self.box_of.get(a), self.box_of.get(b)
        if not one or not other or one.anchor is other.anchor:
            return None
        low, high = (one.anchor, other.anchor) if one.tier <= other.tier else (other.anchor, one.anchor)
        line = self.between.get((low, high)) or self.between.get((high, low))
        if line is None:
            line = self.between[low, high] = Line(low, high)
            self.sketch.lines.append(line)
        return line

    def _bar(self, lines: Sequence[Line], share: float) -> None:
        ends: dict[LayoutBox, int] = {}
        for line in lines:
            line.barred = True
            for box in (line.low, line.high):
                ends[box] = ends.get(box, 0) + line.count
        top = max(line.high.y + line.high.height for line in lines)
        # Lines of one tier meet above it.
        same = lines[0].low.tier == lines[0].high.tier
        self.sketch.bars.append(Bar((lines[0].low.y if same else top) + (share - same) * BAND, ends))

    def mark(self, findings: Iterable[Finding]) -> None:
        """Colour what findings are about: their ends, or else what they name as the place."""
        for finding in findings:
            names = [name for name, _port in finding.ports] or re.split(r"[,\s]+", finding.where)
            boxes = {box: None for name in names if (box := self.box_of.get(name))}
            for box in boxes:
                _tell(box, finding)
            for (one, _unused), (other, _unused) in pairwise(finding.ports):
                if line := self._known(one, other):
                    _tell(line, finding)
            if not boxes:
                self.sketch.loose.append(finding)

    def _known(self, a: str, b: str) -> Line | None:
        one, other = self.box_of.get(a), self.box_of.get(b)
        if not one or not other:
            return None
        return self.between.get((one.anchor, other.anchor)) or self.between.get((other.anchor, one.anchor))


def _tell(what: LayoutBox | Line, finding: Finding) -> None:
    what.severity = min(what.severity, finding.severity, key=_ORDER.index)
    what.findings[str(finding)] = None


def _leaves(branches: Iterable[Branch]) -> Iterable[Branch]:
    for branch in branches:
        if branch.hosts:
            yield branch
        yield from _leaves(branch.below)
