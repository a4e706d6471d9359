# SPDX-License-Identifier: GPL-3.0-or-later
"""A fabric as SVG: tiers, racks, rails and findings. Text, shapes and tooltips alone: no script, no external part."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, NOTICE, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import HostlistError, fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few

from ...common.junit import xml_text
from ..core.fabric_model import Plan
from ..core.host_tree import Branch
from ..core.places import counted, worst
from .layout import BAND, MARGIN, Bar, LayoutBox, Line, Sketch, sketch

# Border and filling.
COLOURS = {
    ERROR: ("#b3261e", "#fbdad7"),
    WARNING: ("#b26a00", "#ffe9c7"),
    NOTICE: ("#2f5fa8", "#dfe9f8"),
    "": ("#5f6b76", "#f4f6f8"),
}
# Told apart by those who see fewer colours, too (Okabe and Ito).
RAILS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#555555")
_TIERS = {0: "hosts", 1: "leaves", 2: "spines", 3: "cores"}
_ONE = {1: "leaf", 2: "spine", 3: "core"}
# A wide letter of the title.
_LETTER = 9
# A page may not make a picture smaller than this.
LARGE = 960
# Signs that fit into a box.
_FITS = 15


def text(value: object) -> str:
    """Return a value as text of XML or HTML, escaped, in elements and in quoted attributes alike.

    >>> text('<a "b">'), text("a\\x00b")
    ('&lt;a &quot;b&quot;&gt;', 'a?b')
    """
    return escape(xml_text(value), quote=True)


def shorten(label: str, most: int = _FITS) -> str:
    """Return a label that fits, with its end, in which names differ.

    >>> shorten("leaf-scalable-unit-12-r7")
    'leaf-s...-12-r7'
    """
    if len(label) <= most:
        return label
    end = (most - 2) // 2
    return f"{label[: most - 3 - end]}...{label[-end:]}"


def picture(
    plan: Plan, findings: Iterable[Finding] = (), *, compared: bool = True, branches: Sequence[Branch] | None = None
) -> str:
    """Return an SVG document of a plan; boxes and lines have the colour of the gravest finding at them.

    One that was not `compared` with what is cabled says so, rather than that there are no findings.
    `branches` are `host_tree.roots` of the plan, if they are there already.
    """
    found = list(findings)
    drawn = sketch(plan, found, branches)
    title = f"{plan.name}: {plan.kind}, {len(plan.switches)} switches, {len(plan.hcas)} HCAs, {sum(1 for _unused in plan.present)} cables"
    # A small fabric is narrower than what is said of it.
    wide = max(drawn.width, 2 * MARGIN + len(title) * _LETTER)
    width, height = _number(wide), _number(drawn.height)
    large = ' class="large"' if wide > LARGE else ""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="sans-serif" font-size="12"{large}>',
        f"<title>{text(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _svg_text(MARGIN, MARGIN, title, size=15, weight="bold"),
        *(
            _svg_text(MARGIN - 8, y + 26, _TIERS.get(tier, f"tier {tier}"), colour="#5f6b76")
            for tier, y in drawn.rows.items()
        ),
        *(_frame(frame) for frame in drawn.frames),
        *_cables(drawn),
        *(_box(plan, box) for box in drawn.boxes),
        *_legend(plan, drawn, found, compared=compared),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")


def _svg_text(
    x: float, y: float, shown: str, *, size: int = 12, colour: str = "#1c2226", anchor: str = "start", weight: str = ""
) -> str:
    more = f' font-weight="{weight}"' if weight else ""
    return (
        f'<text x="{_number(x)}" y="{_number(y)}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"{more}>'
        f"{text(shown)}</text>"
    )


def _rectangle(box: LayoutBox, border: str, filling: str, more: str = "") -> str:
    return (
        f'<rect x="{_number(box.x)}" y="{_number(box.y)}" width="{_number(box.width)}" height="{_number(box.height)}" '
        f'rx="4" stroke="{border}" fill="{filling}"{more}/>'
    )


def _frame(frame: LayoutBox) -> str:
    return _rectangle(frame, "#b8c0c7", "none", ' stroke-dasharray="4 3" data-frame="racks"')


def listed(names: list[str]) -> str:
    """Return names as a hostlist, or as they are where they make none."""
    try:
        return fold(names)
    except HostlistError:
        return few(names, 20)


def _box(plan: Plan, box: LayoutBox) -> str:
    border, filling = COLOURS[box.severity]
    what = _what(plan, box)
    tip = "\n".join([f"{_TIERS.get(box.tier, 'switches')}: {listed(box.names)}", what, *_first_ten(box.findings)])
    parts = [
        f'<g data-tier="{box.tier}" data-severity="{box.severity}"><title>{text(tip)}</title>',
        _rectangle(box, border, filling, ' stroke-width="2.5"' if box.severity else ""),
        _svg_text(box.middle, box.y + 18, shorten(box.label), anchor="middle", weight="bold"),
        _svg_text(box.middle, box.y + 33, shorten(what, 17), size=11, anchor="middle"),
        *_rails(plan, box),
    ]
    if box.findings:
        # What is wrong is told by a number too, for those who see no colour.
        x, y = box.x + box.width - 4, box.y + 4
        parts.append(f'<circle cx="{_number(x)}" cy="{_number(y)}" r="9" fill="{border}"/>')
        parts.append(
            _svg_text(x, y + 4, str(len(box.findings)), size=11, colour="#ffffff", anchor="middle", weight="bold")
        )
    return "".join([*parts, "</g>"])


def _first_ten(texts: Iterable[str]) -> list[str]:
    every = list(texts)
    return every[:10] + ([f"and {len(every) - 10} more"] if len(every) > 10 else [])


def _what(plan: Plan, box: LayoutBox) -> str:
    count = len(box.names)
    if box.tier == 0:
        return f"{count} host{'s' * (count > 1)}"
    if count > 1:
        return f"{count} {_TIERS.get(box.tier, 'switches')}"
    switch = plan.switches[box.names[0]]
    if switch.rail is not None:
        return f"rail {switch.rail}"
    return f"rack {switch.rack}" if switch.rack else _ONE.get(box.tier, "switch")


def _rails(plan: Plan, box: LayoutBox) -> Iterator[str]:
    """Yield a stripe in the colour of each rail that the switches of a box have."""
    rails = sorted({rail for name in box.names if box.tier and (rail := plan.switches[name].rail) is not None})
    for number, rail in enumerate(rails):
        step = (box.width - 8) / len(rails)
        yield (
            f'<rect x="{_number(box.x + 4 + step * number)}" y="{_number(box.y + box.height - 6)}" width="{_number(step)}" '
            f'height="4" fill="{RAILS[rail % len(RAILS)]}"/>'
        )


def _cables(drawn: Sketch) -> Iterator[str]:
    for rail_bar in drawn.bars:
        yield from _bar(rail_bar)
    turn: dict[LayoutBox, int] = {}
    # What is wrong lies above what is not.
    for line in sorted(drawn.lines, key=lambda one: bool(one.severity)):
        if not line.barred or line.severity:
            turn[line.low] = turn.get(line.low, 0) + 1
            yield _line(line, turn[line.low])


def _line(line: Line, turn: int) -> str:
    low, high, same = line.low, line.high, line.low.tier == line.high.tier
    x1, x2, y1 = low.middle, high.middle, low.y
    y2 = high.y if same else high.y + high.height
    colour = COLOURS[line.severity][0]
    if not line.severity:
        colour = RAILS[min(line.rails) % len(RAILS)] if len(line.rails) == 1 else "#8a949d"
    width = 3.0 if line.severity else min(5.0, 1 + math.log2(max(1, line.count)) / 2)
    # Nothing but cables that are left out.
    dashes = "" if line.count else ' stroke-dasharray="3 3"'
    if same:
        bend = min(BAND - 10, 24 + abs(x2 - x1) / 8)
        path = f"M{_number(x1)} {_number(y1)}Q{_number((x1 + x2) / 2)} {_number(y1 - 2 * bend)} {_number(x2)} {_number(y2)}"
        x, y = (x1 + x2) / 2, y1 - bend
    else:
        path = f"M{_number(x1)} {_number(y1)}L{_number(x2)} {_number(y2)}"
        # Lines of one box have their numbers at different heights.
        share = 0.2 + 0.15 * ((turn - 1) % 4)
        x, y = x1 + (x2 - x1) * share, y1 + (y2 - y1) * share
    tip = f"{low.label or 'racks'} - {high.label or 'racks'}: {line.count} cables"
    tip += f", {line.missing} left out on purpose" if line.missing else ""
    tip = "\n".join([tip, *_first_ten(line.findings)])
    number = _count(x, y, line.count) if line.count > 1 and not line.barred else ""
    return (
        f'<g data-cables="{line.count}" data-severity="{line.severity}"><title>{text(tip)}</title>'
        f'<path d="{path}" stroke="{colour}" stroke-width="{_number(width)}" fill="none"{dashes}/>{number}</g>'
    )


def _count(x: float, y: float, count: int) -> str:
    words = str(count)
    half = 4 + 3.5 * len(words)
    return (
        f'<rect x="{_number(x - half)}" y="{_number(y - 8)}" width="{_number(2 * half)}" height="15" rx="7" fill="#ffffff"/>'
        + _svg_text(x, y + 4, words, size=11, colour="#3b444b", anchor="middle")
    )


def _bar(rail_bar: Bar) -> Iterator[str]:
    left, right = min(box.middle for box in rail_bar.ends), max(box.middle for box in rail_bar.ends)
    y = _number(rail_bar.y)
    yield f'<path d="M{_number(left)} {y}L{_number(right)} {y}" stroke="#8a949d" stroke-width="5" stroke-linecap="round" data-bar=""/>'
    for box, count in rail_bar.ends.items():
        edge = box.y if box.y > rail_bar.y else box.y + box.height
        x = _number(box.middle)
        tip = f"{box.label or 'racks'}: {count} cables"
        yield (
            f'<g data-cables="{count}"><title>{text(tip)}</title><path d="M{x} {_number(edge)}L{x} {y}" stroke="#8a949d" '
            f'stroke-width="2"/>{_count(box.middle, (edge + rail_bar.y) / 2, count)}</g>'
        )


def _legend(plan: Plan, drawn: Sketch, findings: list[Finding], *, compared: bool) -> Iterator[str]:
    """Yield what colours mean, and how many findings there are."""
    y = drawn.height - MARGIN
    x: float = MARGIN
    rails = sorted({switch.rail for switch in plan.switches.values() if switch.rail is not None})
    for rail in rails[: len(RAILS)]:
        yield f'<rect x="{_number(x)}" y="{_number(y - 9)}" width="14" height="4" fill="{RAILS[rail % len(RAILS)]}"/>'
        yield _svg_text(x + 18, y - 3, f"rail {rail}", size=11)
        x += 66
    y += 16
    none = "no findings" if compared else ""
    words = f"{counted(len(findings), 'finding')}, the gravest: {worst(findings)}" if findings else none
    if drawn.loose:
        words += f"; {len(drawn.loose)} of them at no place of this picture"
    if not compared:
        words = f"not compared yet{'; of the plan: ' if words else ''}{words}"
    yield _svg_text(MARGIN, y, words, colour=COLOURS[worst(findings)][0], weight="bold")
