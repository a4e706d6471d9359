# SPDX-License-Identifier: GPL-3.0-or-later
"""A fabric and what is wrong with it as one HTML page without references to anything outside; findings as JUnit's XML and as JSON.

Names come from the network: nothing of them is trusted. Text is escaped, data is JSON without `<`, and the page forbids itself to load.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain
from operator import attrgetter

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import (
    ERROR,
    NOTICE,
    WARNING,
    Finding,
    to_json,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.cables import Item, Row, bill
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.findings import KINDS, End, worst
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.guids import valid
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.ibnetdiscover import guid_of
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import Plan
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.picture import COLOURS, picture, text

_GRAVITY = (NOTICE, WARNING, ERROR)
# Of a cable's row, what the page shows; with it go the kinds of the findings at its ends.
_COLUMNS = attrgetter("cable", "state", "kind", "purpose", "rail", "a_label", "length_m", "part")

_STYLE = """
body { font: 15px/1.45 sans-serif; color: #1c2226; margin: 0 auto; max-width: 2200px; padding: 0 24px 48px; }
h1 { font-size: 24px; } h2 { font-size: 18px; margin: 32px 0 8px; }
nav { position: sticky; top: 0; background: #fff; padding: 8px 0; border-bottom: 1px solid #ccd2d8; }
nav a { margin-right: 16px; } input { font: inherit; width: 22em; padding: 4px 8px; }
.wide { overflow-x: auto; } .wide svg { max-width: 100%; height: auto; } .wide svg.large { min-width: 960px; }
table { border-collapse: collapse; width: 100%; } th { text-align: left; background: #eef1f4; }
th, td { padding: 4px 10px 4px 0; border-bottom: 1px solid #e3e7eb; vertical-align: top; overflow-wrap: anywhere; }
td.number, th.number { text-align: right; padding-right: 24px; }
.error { color: ERROR; font-weight: bold; } .warning { color: WARNING; font-weight: bold; }
@media print { nav { display: none; } }
"""
# Cables are many: those that match are made when they are asked for, 500 at most.
_SCRIPT = """
(function () {
  "use strict";
  var box = document.getElementById("search"), body = document.getElementById("cable-rows");
  var told = document.getElementById("cable-count"), data = JSON.parse(document.getElementById("cables").textContent);
  var low = data.map(function (row) { return row.join(" ").toLowerCase(); });
  function has(text, words) { return words.every(function (word) { return text.indexOf(word) >= 0; }); }
  function show() {
    var words = box.value.toLowerCase().split(/\\s+/).filter(Boolean), count = 0, made = document.createDocumentFragment();
    document.querySelectorAll("tr[data-row]").forEach(function (row) { row.hidden = !has(row.textContent.toLowerCase(), words); });
    data.forEach(function (row, number) {
      if (!has(low[number], words)) { return; }
      count += 1;
      if (count > 500) { return; }
      var line = document.createElement("tr");
      row.forEach(function (value) { line.appendChild(document.createElement("td")).textContent = value; });
      made.appendChild(line);
    });
    body.textContent = "";
    body.appendChild(made);
    told.textContent = count + " of " + data.length + " cables" + (count > 500 ? ", the first 500 shown" : "");
  }
  box.addEventListener("input", show);
  show();
})();
"""


def page(
    plan: Plan, findings: Sequence[Finding], cables: Sequence[Row], *, ok: int | None = None, drawn: str | None = None
) -> str:
    """Return the page; `cables` are `cables.rows` of the plan, `ok` how many of them were found as planned, if they were compared.

    `drawn` is `picture` of the same plan and findings, if it is there already.

    Raises ValueError where the rows are those of another plan.
    """
    if len(cables) != len(plan.links):
        raise ValueError(
            f"{len(cables)} rows for the {len(plan.links)} cables of the plan: give `cables.rows` of this plan"
        )
    present = sum(1 for _ in plan.present)
    summary = f"{plan.kind}, {plan.technology}, {plan.width} {plan.speed}: {len(plan.switches)} switches, {len(plan.hcas)} HCAs, "
    summary += f"{present} cables" + ("" if ok is None else f", {ok} of them found as planned")
    style = _STYLE.replace("ERROR", COLOURS[ERROR][0]).replace("WARNING", COLOURS[WARNING][0])
    return "".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
            "script-src 'unsafe-inline'\">\n",
            '<meta name="viewport" content="width=device-width">\n',
            f"<title>Fabric {text(plan.name)}</title>\n<style>{style}</style>\n</head>\n<body>\n",
            f"<h1>Fabric {text(plan.name)}</h1>\n<p>{text(summary)}</p>\n",
            '<nav><a href="#findings">Findings</a><a href="#picture">Picture</a><a href="#switches">Switches</a>'
            '<a href="#bill">Bill of cables</a><a href="#cabling">Cables</a>'
            '<label>Search <input id="search" type="search" placeholder="words, such as leaf-03 gpu012"></label></nav>\n',
            _findings(findings, compared=ok is not None),
            f'<h2 id="picture">Picture</h2>\n<div class="wide">\n{drawn or picture(plan, findings, compared=ok is not None)}</div>\n',
            _switches(plan, findings),
            _bill(bill(plan, cables)),
            _cables(plan, cables, findings),
            f"<script>{_SCRIPT}</script>\n</body>\n</html>\n",
        ]
    )


def _table(heads: Iterable[str], lines: Iterable[str], numbers: Container[str] = ()) -> str:
    """Return a table; `numbers` are the heads of columns of numbers, which stand above them, to the right."""
    head = "".join(
        f'<th class="number">{text(name)}</th>' if name in numbers else f"<th>{text(name)}</th>" for name in heads
    )
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{"".join(lines)}</tbody>\n</table></div>\n'


def _line(*cells: object, first: str = "") -> str:
    """Return a row of a table; numbers are to the right, and `first` is the class of the first cell."""
    made = []
    for number, cell in enumerate(cells):
        name = "number" if isinstance(cell, (int, float)) else first if not number else ""
        shown = text(f"{cell:g}" if isinstance(cell, float) else cell)
        made.append(f'<td class="{name}">{shown}</td>' if name else f"<td>{shown}</td>")
    return f"<tr data-row>{''.join(made)}</tr>\n"


def _findings(findings: Sequence[Finding], *, compared: bool) -> str:
    title = '<h2 id="findings">Findings</h2>\n'
    if not compared:
        # What was not looked at must not look as if it were right.
        title += "<p>Nothing was compared with this plan yet: playbooks/fabric_compare.yml does.</p>\n"
    if not findings:
        return f"{title}<p>{'There are none' if compared else 'In the plan itself nothing is odd'}.</p>\n"
    counts = Counter(one.kind for one in findings)
    words = "; ".join(
        f"{count} {kind}: {KINDS[kind]}" if kind in KINDS else f"{count} {kind}" for kind, count in counts.items()
    )
    lines = (
        _line(one.severity, one.kind, one.where, one.difference, one.remedy, first=one.severity) for one in findings
    )
    return f"{title}<p>{text(words)}.</p>\n{_table(('severity', 'kind', 'where', 'what', 'do'), lines)}"


def _switches(plan: Plan, findings: Iterable[Finding]) -> str:
    used = Counter(chain.from_iterable(map(attrgetter("a", "b"), plan.present)))
    mentions = Counter(name for one in findings for name in {name for name, _port in one.ports})
    lines = (
        _line(
            one.name,
            one.tier,
            "" if one.rail is None else one.rail,
            one.group,
            one.plane,
            one.rack,
            used[one.name],
            one.ports,
            one.model,
            f"0x{guid_of(one.guid)}" if valid(one.guid) else one.guid,
            mentions[one.name],
        )
        for one in plan.switches.values()
    )
    heads = ("switch", "tier", "rail", "group", "plane", "rack", "cables", "ports", "model", "GUID", "findings")
    numbers = ("tier", "rail", "cables", "ports", "findings")
    return f'<h2 id="switches">Switches</h2>\n{_table(heads, lines, numbers)}'


def _bill(items: Iterable[Item]) -> str:
    listed = list(items)
    lines = (
        _line(one.kind, one.purpose, one.speed, float(one.length_m) if one.length_m else "", one.part, one.count)
        for one in listed
    )
    total = f"<p>{sum(one.count for one in listed)} cables in all.</p>\n"
    return f'<h2 id="bill">Bill of cables</h2>\n{_table(Item.__annotations__, lines, ("length_m", "count"))}{total}'


def _cables(plan: Plan, cables: Iterable[Row], findings: Iterable[Finding]) -> str:
    told: dict[End, dict[str, None]] = {}
    for finding in findings:
        for end in finding.ports:
            told.setdefault(end, {})[finding.kind] = None
    lines = []
    for link, row in zip(plan.links, cables):
        kinds = {kind: None for end in link.ends for kind in told.get(end, ())} if told else {}
        lines.append([*_COLUMNS(row), ", ".join(kinds)])
    heads = "".join(
        f"<th>{name}</th>"
        for name in ("cable", "state", "kind", "purpose", "rail", "ends", "metres", "part", "findings")
    )
    return (
        '<h2 id="cabling">Cables</h2>\n<p id="cable-count"></p><noscript><p>Cables are shown by a script; they are in the CSV too.</p>'
        f'</noscript>\n<div class="wide"><table><thead><tr>{heads}</tr></thead><tbody id="cable-rows"></tbody></table></div>\n'
        f'<script id="cables" type="application/json">{_data(lines)}</script>\n'
    )


def _data(value: object) -> str:
    """Return JSON that no sign in it can end before its time."""
    found = json.dumps(value, separators=(",", ":"))
    return found.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def as_json(plan: Plan, findings: Sequence[Finding], *, ok: int | None = None) -> str:
    """Return findings for machines; `worst` is the gravest severity, "" where there is no finding."""
    counts: Mapping[str, int] = Counter(one.kind for one in findings)
    found = {
        "fabric": plan.name,
        "worst": worst(findings),
        "ok": ok,
        "planned": sum(1 for _ in plan.present),
        "counts": {kind: counts[kind] for kind in sorted(counts)},
        "findings": to_json(findings),
    }
    return json.dumps(found, indent=1) + "\n"


def junit(plan: Plan, findings: Sequence[Finding], *, fail_on: str = ERROR) -> str:
    """Return findings as JUnit's XML: a case for each, and one that passes for each kind of which there is none.

    A case is named after what it says, so that a CI knows it again whatever else is found.
    Findings below the severity `fail_on` are skipped cases, so that they are seen and break nothing.
    """
    fatal = [one for one in findings if _GRAVITY.index(one.severity) >= _GRAVITY.index(fail_on)]
    seen = {one.kind for one in findings}
    good = [kind for kind in KINDS if kind not in seen]
    counts = (
        f'tests="{len(findings) + len(good)}" failures="{len(fatal)}" skipped="{len(findings) - len(fatal)}" errors="0"'
    )
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuite name="fabric {text(plan.name)}" {counts}>']
    lines += [f'  <testcase classname="fabric.{kind}" name="{text(KINDS[kind])}: none"/>' for kind in good]
    for one in findings:
        tag = "failure" if _GRAVITY.index(one.severity) >= _GRAVITY.index(fail_on) else "skipped"
        sort = f' type="{text(one.severity)}"' if tag == "failure" else ""
        name = text(f"{one.where}: {one.difference}")
        lines += [
            f'  <testcase classname="fabric.{text(one.kind)}" name="{name}">',
            f'    <{tag}{sort} message="{text(one.difference)}">{text(one)}</{tag}>',
            "  </testcase>",
        ]
    return "\n".join([*lines, "</testsuite>", ""])
