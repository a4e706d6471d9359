"""The page of a fabric, and findings for machines."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import (
    NOTICE,
    WARNING,
    Finding,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_drift import comparison
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Hca, Plan, Switch
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.report.cable_list import rows
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.report.finding_files import as_json
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.report.page import page
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import discovery_of
from tests.unit.fabric import cases

FINDINGS = [
    Finding("missing", "rack r0, leaf-su00-r0 port 1", "", "the cable is missing", "plug it in",
            ports=(("leaf-su00-r0", 1), ("gpu0 mlx5_0", 1))),
    Finding("slow", "spine0 port 1", "4xHDR", "1xEDR", severity=WARNING, ports=(("leaf-su00-r0", 5), ("spine0", 1))),
    Finding("unread", "line 7", "", "was not understood", severity=NOTICE),
]  # fmt: skip


VOID = {"meta", "input", "br", "link", "img"}


class Reader(HTMLParser):
    """Reads a page: tables, text of scripts, tags and attributes; every tag must be closed where it belongs."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: list[list[list[str]]] = []
        self.scripts: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
        elif tag == "script":
            self.scripts.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data
        elif self.open and self.open[-1] == "script":
            self.scripts[-1] += data


def made(plan: Plan | None = None, findings: list[Finding] | None = None) -> str:
    plan = plan or cases.rails()
    return page(plan, FINDINGS if findings is None else findings, rows(plan))


def test_page_has_picture_tables_and_a_search_box_and_is_the_same_again():
    html = made()
    assert html == made()
    found = Reader(html)
    findings, switches, bill, cables = found.tables
    assert findings[1:] == [[one.severity, one.kind, one.where, one.difference, one.remedy] for one in FINDINGS]
    assert [row[0] for row in switches[1:]] == ["leaf-su00-r0", "leaf-su00-r1", "spine0", "spine1"]
    assert switches[1][6:] == ["8", "16", "", "", "2"]
    assert [row[-1] for row in bill[1:]] == ["8", "8"]
    assert len(cables) == 1
    assert "svg" in [tag for tag, _ in found.tags]
    assert [attributes["id"] for tag, attributes in found.tags if tag == "input"] == ["search"]


def test_cables_are_data_with_the_findings_at_either_end():
    plan = cases.rails()
    data = json.loads(Reader(made(plan)).scripts[0])
    assert [row[0] for row in data] == [row.cable for row in rows(plan)]
    assert {row[0]: row[-1] for row in data if row[-1]} == {"leaf-su00-r0:1": "missing", "spine0:1": "slow"}
    other = [Finding("missing", "x", "", "y", ports=(("gpu2 mlx5_1", 1),))]
    data = json.loads(Reader(made(plan, other)).scripts[0])
    assert [row[0] for row in data if row[-1]] == ["leaf-su00-r1:3"]


def test_nothing_is_loaded_from_outside():
    html = made()
    found = Reader(html)
    links = [
        attributes[key]
        for _tag, attributes in found.tags
        for key in ("href", "src", "action", "data")
        if key in attributes
    ]
    assert links
    assert all(link and link.startswith("#") for link in links)
    ids = {attributes["id"] for _tag, attributes in found.tags if "id" in attributes}
    assert {str(link)[1:] for link in links} <= ids
    assert html.replace("http://www.w3.org/2000/svg", "").count("://") == 0
    policy = next(attributes for _tag, attributes in found.tags if "http-equiv" in attributes)
    assert str(policy["content"]).startswith("default-src 'none';")


EVIL = "</script><script>alert(1)</script><img src=x onerror='a'>\"&<!--\u2028"


def evil() -> tuple[Plan, list[Finding]]:
    plan = Plan(EVIL, EVIL)
    plan.add(Switch(EVIL, 4, 1, group=EVIL, plane=EVIL, rack=EVIL, model=EVIL, guid=EVIL), Hca("h", EVIL, rack=EVIL))
    plan.join(f"h {EVIL}", EVIL, "host")
    return plan, [Finding(EVIL, EVIL, EVIL, EVIL + "\x00\ud800", EVIL, ports=((EVIL, 1),))]


def test_names_from_the_network_are_text():
    plan, findings = evil()
    html = page(plan, findings, rows(plan))
    html.encode("utf-8")
    found = Reader(html)
    assert [tag for tag, _ in found.tags].count("script") == 2
    assert "img" not in {tag for tag, _ in found.tags}
    assert not any(key.startswith("on") for _tag, attributes in found.tags for key in attributes)
    assert found.tables[0][1][2] == EVIL
    assert json.loads(found.scripts[0])[0][0] == f"{EVIL}:1"


def test_rows_of_another_plan_are_refused():
    with pytest.raises(ValueError, match="16 rows for the 2 cables"):
        page(cases.one_leaf(), [], rows(cases.rails()))


def test_no_findings():
    plan = cases.rails()
    html = page(plan, [], rows(plan), ok=16)
    assert "There are none." in html
    assert "Nothing was compared" not in html
    assert ">no findings<" in html
    assert len(Reader(html).tables) == 3


@pytest.mark.parametrize("findings", [[], FINDINGS])
def test_a_plan_that_was_not_compared_does_not_look_as_if_it_were_right(findings: list[Finding]):
    html = made(findings=findings)
    assert "Nothing was compared with this plan yet" in html
    assert "There are none" not in html
    assert ">not compared yet" in html
    assert "no findings" not in html
    assert ("The plan has no warnings." in html) == (not findings)


def test_heads_stand_above_their_columns_and_guids_are_written_as_elsewhere():
    plan = cases.rails()
    plan.switches["spine0"] = replace(plan.switches["spine0"], guid="2c9000100d")
    racks = {"r0": ("A", 1), "net": ("A", 2)}
    plan.switches = {name: replace(one, rack="net") for name, one in plan.switches.items()}
    html = page(plan, [], rows(plan, racks))
    for title, numbers in (
        ("switches", ["tier", "rail", "cables", "ports", "findings"]),
        ("bill", ["length_m", "count"]),
    ):
        part = html[html.index(f'<h2 id="{title}">') :]
        heads, first = (re.findall(rf"<{tag}( class=\"number\")?>(.*?)</{tag}>", part[: part.index("</tr>", at)][at:])
                        for tag, at in (("th", 0), ("td", part.index("<tbody>"))))  # fmt: skip
        assert [name for marked, name in heads if marked] == numbers
        assert [bool(marked) for marked, _name in first] == [bool(marked) for marked, _name in heads]
    assert "th.number { text-align: right;" in html
    assert [row[9] for row in Reader(html).tables[0] if row[0] == "spine0"] == ["0x0000002c9000100d"]


def test_a_plan_that_was_compared_says_how_many_cables_are_right():
    plan = cases.rails()
    found = comparison(plan, {"": discovery_of(cases.rail_partial())})
    html = page(plan, found.findings, rows(plan), ok=len(found.ok))
    assert re.search(r"<p>[^<]* 16 cables, 15 of them [^<]*</p>", html)
    read = json.loads(as_json(plan, found.findings, ok=len(found.ok)))
    assert (read["ok"], read["planned"], read["worst"]) == (15, 16, "error")


# Words that are searched -> rows of cables and of switches that have them all.
SEARCHES = {
    "": (16, 4), "gpu3": (2, 0), "GPU3  r1": (1, 0), "spine0 leaf-su00-r1": (2, 0), "missing": (1, 0), "nothing": (0, 0), "spine": (8, 2),
}  # fmt: skip


@pytest.mark.tools("node")
def test_search_finds_rows_that_have_all_words(tmp_path: Path):
    found = Reader(made())
    names = json.dumps([" ".join(row) for row in found.tables[1][1:]])
    (tmp_path / "run.js").write_text(
        f"""for (const words of {json.dumps(list(SEARCHES))}) {{
const rows = {names}.map(t => ({{textContent: t, hidden: false}})), parts = {{}};
const one = () => ({{children: [], textContent: "", appendChild(c) {{ this.children.push(c); return c; }}, addEventListener() {{}} }});
parts.search = Object.assign(one(), {{value: words}});
parts.cables = {{textContent: {json.dumps(found.scripts[0])}}};
globalThis.document = {{
  getElementById: id => parts[id] = parts[id] || one(), createElement: one, createDocumentFragment: one,
  querySelectorAll: () => rows,
}};
new Function({json.dumps(found.scripts[1])})();
console.log(parts["cable-rows"].children[0].children.length, rows.filter(r => !r.hidden).length, parts["cable-count"].textContent);
}}
"""
    )
    node = str(shutil.which("node"))
    said = subprocess.run([node, "run.js"], cwd=tmp_path, capture_output=True, text=True, timeout=20, check=True).stdout
    wanted = [f"{cables} {switches} {cables} of 16 cables" for cables, switches in SEARCHES.values()]
    assert said.splitlines() == wanted
