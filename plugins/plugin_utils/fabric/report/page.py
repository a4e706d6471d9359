# SPDX-License-Identifier: GPL-3.0-or-later
"""A fabric and its findings as one HTML page without external references: page.html.j2 with page.css and page.js.

Names come from the network: nothing of them is trusted. Text is escaped, data is JSON without `<`, and the page forbids itself to load.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, WARNING, Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import guid_of

from ...common.junit import xml_text
from ..core.fabric_model import Plan
from ..core.guid_files import is_guid
from ..core.places import KINDS, End
from .cable_list import Item, Row, bill
from .svg import COLOURS, picture

# Of a cable's row, what the page shows; with it go the kinds of the findings at its ends.
_COLUMNS = attrgetter("cable", "state", "kind", "purpose", "rail", "a_label", "length_m")
_CABLE_HEADS = ("cable", "state", "kind", "purpose", "rail", "ends", "metres", "findings")
_SWITCH_HEADS = ("switch", "tier", "rail", "group", "plane", "rack", "cables", "ports", "model", "GUID", "findings")
Cells = list[object]


def page(
    plan: Plan, findings: Sequence[Finding], cables: Sequence[Row], *, ok: int | None = None, drawn: str | None = None
) -> str:
    """Return the page; `cables` are `cable_list.rows` of the plan, `ok` how many of them were found as planned, if they were compared.

    `drawn` is `picture` of the same plan and findings, if it is there already.

    Raises ValueError where the rows are those of another plan.
    """
    if len(cables) != len(plan.links):
        raise ValueError(
            f"{len(cables)} rows for the {len(plan.links)} cables of the plan: give `cable_list.rows` of this plan"
        )
    items = bill(plan, cables)
    return _template().render(
        name=plan.name,
        summary=_summary(plan, ok),
        compared=ok is not None,
        kinds=_kinds(findings),
        findings=[(one.severity, one.kind, one.where, one.difference, one.remedy) for one in findings],
        # It is SVG of text that was escaped.
        drawn=Markup(drawn or picture(plan, findings, compared=ok is not None)),
        switch_heads=_SWITCH_HEADS,
        switches=_switches(plan, findings),
        bill_heads=tuple(Item.__annotations__),
        bill=[(one.kind, one.purpose, one.speed, _number(one.length_m), one.count) for one in items],
        total=sum(one.count for one in items),
        cable_heads=_CABLE_HEADS,
        cables=_json(_cables(plan, cables, findings)),
    )


@functools.cache
def _template() -> Template:
    """Return the template with the style, the script and the colours in it."""
    here = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(here),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    common = {
        "style": Markup((here / "page.css").read_text(encoding="utf-8")),
        "script": Markup((here / "page.js").read_text(encoding="utf-8")),
        "error_colour": COLOURS[ERROR][0],
        "warning_colour": COLOURS[WARNING][0],
    }
    return environment.get_template("page.html.j2", globals=common)


def _shown(value: object) -> object:
    """Return a value without signs that no HTML may have; what is markup already was made without them."""
    # All that is printable may be there, and nearly all is.
    if not isinstance(value, str) or hasattr(value, "__html__"):
        return value
    return value if value.isprintable() else xml_text(value)


def _summary(plan: Plan, ok: int | None) -> str:
    text = f"{plan.kind}, {plan.technology}, {plan.width} {plan.speed}: {len(plan.switches)} switches, {len(plan.hcas)} HCAs, "
    text += f"{sum(1 for _unused in plan.present)} cables"
    return text if ok is None else f"{text}, {ok} of them found as planned"


def _kinds(findings: Iterable[Finding]) -> str:
    """Return how many findings there are of each kind, and what it means."""
    counts = Counter(one.kind for one in findings)
    return "; ".join(
        f"{count} {kind}: {KINDS[kind]}" if kind in KINDS else f"{count} {kind}" for kind, count in counts.items()
    )


def _switches(plan: Plan, findings: Iterable[Finding]) -> list[Cells]:
    used = Counter(chain.from_iterable(map(attrgetter("a", "b"), plan.present)))
    mentions = Counter(name for one in findings for name in {name for name, _port in one.ports})
    return [
        [
            one.name,
            one.tier,
            "" if one.rail is None else one.rail,
            one.group,
            one.plane,
            one.rack,
            used[one.name],
            one.ports,
            one.model,
            f"0x{guid_of(one.guid)}" if is_guid(one.guid) else one.guid,
            mentions[one.name],
        ]
        for one in plan.switches.values()
    ]


def _number(metres: str) -> float | int | str:
    """Return a length as a number, without a point where it is whole."""
    if not metres:
        return ""
    number = float(metres)
    return int(number) if number.is_integer() else number


def _cables(plan: Plan, cables: Iterable[Row], findings: Iterable[Finding]) -> list[Cells]:
    at: dict[End, dict[str, None]] = {}
    for finding in findings:
        for end in finding.ports:
            at.setdefault(end, {})[finding.kind] = None
    lines: list[Cells] = []
    for link, row in zip(plan.links, cables, strict=True):
        # There are 100,000s of cables, and few have a finding.
        low, high = at.get((link.a, link.a_port)), at.get((link.b, link.b_port))
        kinds = ", ".join({**(low or {}), **(high or {})}) if low or high else ""
        lines.append([*_COLUMNS(row), kinds])
    return lines


def _json(rows: list[Cells]) -> Markup:
    """Return JSON that no sign in it can end before its time."""
    found = json.dumps(rows, separators=(",", ":"))
    return Markup(found.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
