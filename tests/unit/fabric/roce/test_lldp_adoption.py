"""A fabric of Ethernet is adopted with the port numbers that the names of its ports have, and its section accepts its list."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import ToolOutput
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.adopt.adoption import Adoption, adoption, audited
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.comparison import comparison_report
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan import buildable
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.cluster_plan import plan_of
from tests.unit.fabric.lldp_answers import answers
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.two_fabrics import MIXED, cluster

HOSTS = ("n1", "n2", "n3", "n4", "sm1", "sm2", "oss1")
BARE = MIXED[: MIXED.index("  storage: {")] + "  storage: {}\n"
NAMES: dict[str, Callable[[int], str]] = {
    "cumulus": lambda port: f"swp{port}",
    "cumulus, two to a cage": lambda port: f"swp{(port + 1) // 2}s{(port + 1) % 2}",
    "sonic": lambda port: f"Ethernet{4 * (port - 1)}",
    "nxos": lambda port: f"Ethernet1/{port}",
    "junos": lambda port: f"et-0/0/{port - 1}",
}
ASKED = {"all": (), "hosts": HOSTS, "switches": ("storage-su1", "st2", "core-s1")}


def texts(tmp_path: Path, asked: tuple[str, ...], name: Callable[[int], str]) -> list[ToolOutput]:
    """Return LLDP's answers of the storage fabric in which switches name their ports in another way."""
    plan = plan_of(cluster(tmp_path, MIXED).view("storage"))
    found = []
    for box, answer in answers(plan, *asked).items():
        text = re.sub(r"swp(\d+)", lambda match: name(int(match[1])), json.dumps(answer))
        found.append(ToolOutput(box, text))
    return found


def adopted(tmp_path: Path, outputs: list[ToolOutput]) -> Adoption:
    found = cluster(tmp_path, BARE)
    made = adoption(found.view("storage"), outputs)
    for path, text in made.files.items():
        Path(path).write_text(text)
    return made


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("asked", ASKED)
def test_an_adopted_fabric_is_accepted_and_has_no_finding(name: str, asked: str, tmp_path: Path):
    outputs = texts(tmp_path, ASKED[asked], NAMES[name])
    made = adopted(tmp_path, outputs)
    assert made.refused == ""
    rows = csv.DictReader((tmp_path / "storage-cables.csv").read_text().splitlines())
    # Ports of servers are the highest below the uplinks.
    assert {row["a"]: row["b_port"] for row in rows}["sm1 mlx5_1"] == "33"
    path = tmp_path / "duo.bedplate.yml"
    path.write_text(BARE.replace("  storage: {}\n", made.snippet.removeprefix("fabrics:\n") + "\n"))
    after = load(path)
    assert buildable.fabric_mistakes(after, needed=True) == []
    report = comparison_report(after.view("storage"), outputs, "notice")
    assert (set(report.counts), report.failed) == ({"ok"}, False)


def test_the_section_states_what_lldp_says_alone(tmp_path: Path):
    made = adopted(tmp_path, texts(tmp_path, (), NAMES["sonic"]))
    unclear = [line for line in made.table.splitlines() if "unclear" in line or "->" in line]
    check_messages("lldp: an adopted section", [made.snippet, *unclear])


def test_ports_without_numbers_are_not_adopted(tmp_path: Path):
    outputs = texts(tmp_path, (), lambda port: f"swp{port}" if port != 33 else "swpX")
    # The system is known by its description.
    outputs = [ToolOutput(one.name, one.text.replace("a switch", "Cumulus Linux version 5.9")) for one in outputs]
    made = adopted(tmp_path, outputs)
    assert made.files == {}
    check_messages("lldp: ports without numbers are not adopted", [made.refused])
    assert audited(cluster(tmp_path, BARE).view("storage"), outputs).worst == "error"
