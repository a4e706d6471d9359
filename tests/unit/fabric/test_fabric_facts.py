"""The module that discovers: what it asks, what it says of silence, and the real ibnetdiscover on a simulated fabric."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import Discovery
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import (
    INFINIBAND,
    LLDP,
    SavedError,
    ToolOutput,
)
from ansible_collections.bedplate.cluster.plugins.modules import fabric_facts
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.lldp_discovery import read_discoveries
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    FabricShape,
    WiredHost,
    WiredNic,
    rail_only,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import (
    discovery_of,
    ibnetdiscover_text,
)
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.simulate.simulation import simulated

Run = Callable[..., dict[str, Any]]
DEFAULTS = {
    "ports": [{}], "lldp": False, "tables": False, "name": None, "path": None, "normalised": False, "timeout": 9,
}  # fmt: skip
SEEN = '{"lldp": {"interface": []}}'


def planes() -> Plan:
    hosts = [WiredHost(f"gpu{n}", [WiredNic("mlx5_0", 0), WiredNic("mlx5_1", 1)], "r1", "su0") for n in range(4)]
    return rail_only(hosts, replace(FabricShape(ports=16, spines=["s0", "s1", "s2", "s3"], uplinks=2), speed="HDR"))


def told(plane: str | None = None) -> str:
    return ibnetdiscover_text(discovery_of(planes(), plane))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs the module with prepared answers, command -> (rc, stdout, stderr)."""

    def call(answers: dict[str, tuple[int | None, str, str]] | None = None, **params: Any) -> dict[str, Any]:
        class Fake:
            def __init__(self, **_arguments: Any) -> None:
                self.params = {**DEFAULTS, **params}

            def get_bin_path(self, name: str) -> str | None:
                return None if answers is None else name

            def exit_json(self, **result: Any) -> None:
                found.update(result)
                raise SystemExit

            def fail_json(self, **result: Any) -> None:
                self.exit_json(failed=True, **result)

        def outcome(argv: Sequence[str], seconds: float) -> Outcome:
            assert seconds == 9
            return Outcome(*(answers or {})[" ".join(argv)])

        found: dict[str, Any] = {}
        monkeypatch.setattr(fabric_facts.command, "run", outcome)
        monkeypatch.setattr(fabric_facts, "AnsibleModule", Fake)
        with pytest.raises(SystemExit):
            fabric_facts.main()
        return found

    return call


def test_forwarding_tables_are_read_from_the_same_port(run: Run):
    tables = "Unicast lids [0x0-0x1] of switch DR path slid 0; dlid 0; 0 guid 0x0000000000000001 (x):\n0x0001 000\n"
    answers = {"ibnetdiscover -C mlx5_0": (0, told(planes().planes[0]), ""), "dump_fts -n -C mlx5_0": (0, tables, "")}
    found = run(answers, ports=[{"plane": "rail0", "ca": "mlx5_0"}], tables=True)["discoveries"]
    assert [(one["name"], one["kind"]) for one in found] == [("rail0", "infiniband"), ("rail0", "tables")]
    assert found[1]["counts"] == {"tables": 1}


def test_one_question_for_each_plane(run: Run):
    first, second = planes().planes
    answers = {
        "ibnetdiscover -C mlx5_0": (0, told(first), ""),
        "ibnetdiscover -C mlx5_1 -P 2": (0, told(second), "ibwarn: [1] mad_rpc: _do_madrpc failed\n"),
    }
    ports = [{"plane": first, "ca": "mlx5_0"}, {"plane": second, "ca": "mlx5_1", "port": 2}]
    found = run(answers, ports=ports)
    counts = {"switches": 3, "hcas": 4, "cables": 6, "unread": 0, "troubles": 0}
    assert [one["counts"] for one in found["discoveries"]] == [counts, {**counts, "troubles": 1}]
    check_messages("fabric_facts: two planes", [found["msg"]])
    assert [one["name"] for one in found["discoveries"]] == [first, second]
    assert found["changed"] is False


SILENT = {
    "no port": (1, "", "ibpanic: can't open UMAD port"),
    "no answer": (None, "", "stopped after 9 s"),
    "no node": (0, "#\n# Topology file\n", ""),
}


@pytest.mark.parametrize("name", SILENT)
def test_silence_is_no_fabric(run: Run, name: str):
    found = run({"ibnetdiscover": SILENT[name]})
    assert found["failed"]
    check_messages(f"fabric_facts: {name}", [found["msg"]])


def test_a_part_of_what_a_tool_prints_is_no_answer(run: Run):
    tables = "Unicast lids [0x0-0x1] of switch DR path slid 0; dlid 0; 0 guid 0x0000000000000001 (x):\n0x0001 000\n"
    cases: list[tuple[dict[str, tuple[int | None, str, str]], dict[str, bool]]] = [
        ({"ibnetdiscover": (None, told(), "stopped after 9 s")}, {}),
        ({"ibnetdiscover": (0, told(), ""), "dump_fts -n": (1, tables, "no answer")}, {"tables": True}),
        ({"lldpctl -f json": (1, SEEN, "no answer")}, {"lldp": True}),
    ]
    for answers, params in cases:
        found = run(answers, **params)
        assert (found["failed"], found["discoveries"]) == (True, [])
    # Nodes that do not answer are in its complaints, so what it prints besides is used.
    assert run({"ibnetdiscover": (1, told(), "ibwarn: [1] x failed")})["discoveries"][0]["counts"]["troubles"] == 1


def test_what_is_not_installed_is_named_with_its_package(run: Run):
    assert run(None)["msg"].endswith("infiniband-diags")
    assert run(None, lldp=True)["msg"].endswith("lldpd")
    check_messages("fabric_facts: no tool", [run(None)["msg"], run(None, lldp=True)["msg"]])


def test_neighbours_are_told_under_the_name_of_the_plan(run: Run):
    found = run({"lldpctl -f json": (0, SEEN, "")}, lldp=True, name="gpu001")
    assert [(one["name"], one["kind"], one["counts"]) for one in found["discoveries"]] == [
        ("gpu001", "lldp", {"boxes": 1})
    ]


def test_files_are_read_and_all_that_is_wrong_with_them_is_said(run: Run, tmp_path: Path):
    (tmp_path / "rail0.txt").write_text(told("rail0"))
    (tmp_path / "leaf1.json").write_text(SEEN)
    found = run(path=[str(tmp_path / "rail0.txt"), str(tmp_path / "leaf1.json")], normalised=True)
    assert [(one["name"], one["kind"]) for one in found["discoveries"]] == [("rail0", "infiniband"), ("leaf1", "lldp")]
    nodes = found["discoveries"][0]["nodes"]
    assert [node["guid"] for node in nodes] == sorted(node["guid"] for node in nodes)
    (tmp_path / "cut.json").write_text('{"lldp": ')
    (tmp_path / "other.json").write_text('{"gpu1": {"arp": 1}}')
    (tmp_path / "empty.txt").write_text("")
    found = run(path=[str(tmp_path / name) for name in ("cut.json", "other.json", "empty.txt", "none.txt")])
    said = found["msg"].splitlines()
    assert [line.split(":")[0] for line in said] == [f"{tmp_path}/none.txt", "cut", "other", "empty"]


def test_two_runs_over_one_fabric_are_the_same_when_normalised(run: Run, tmp_path: Path):
    forward = discovery_of(planes())
    backward = Discovery(nodes=dict(reversed(forward.nodes.items())))
    for node in backward.nodes.values():
        node.lid += 7
    found = []
    for one in (forward, backward):
        (tmp_path / "a.txt").write_text(ibnetdiscover_text(one))
        found.append(run(path=[str(tmp_path / "a.txt")], normalised=True)["discoveries"][0])
    assert found[0]["nodes"] == found[1]["nodes"]
    assert found[0]["text"] != found[1]["text"]


def test_texts_of_one_name_do_not_hide_each_other_and_boxes_are_one_discovery():
    plan = planes()
    both = [ToolOutput("x", told("rail0")), ToolOutput("x", told("rail1"))]
    assert len(read_discoveries(both)) == 2
    asked = ToolOutput("boxes", json.dumps({"gpu0": json.loads(SEEN), "gpu1": json.loads(SEEN)}))
    assert list(read_discoveries([*both, asked, ToolOutput("gpu2", SEEN)], plan)) == ["x", "x 1", "lldp"]
    with pytest.raises(SavedError) as error:
        read_discoveries([asked])
    check_messages("lldp: without a plan", error.value)


@pytest.mark.parametrize(
    ("start", "kind"),
    [
        ("[root@sm1 ~]# ibnetdiscover\n", INFINIBAND),
        ("[sm1 ~]$ ibnetdiscover\n", INFINIBAND),
        ('{"lldp": {}}', LLDP),
        ('\n {\n "lldp": {}}', LLDP),
        ('[ {"lldp": {}}]', LLDP),
        ("[]", LLDP),
    ],
)
def test_a_prompt_that_was_saved_with_the_output_is_not_json(start: str, kind: str):
    saved = ToolOutput("sm1", start + told("rail0"))
    assert saved.kind == kind
    if kind == INFINIBAND:
        assert [number for number, _line in saved.discovery().unread] == [1]


@pytest.mark.tools("ibsim", "ibsim-run", "ibnetdiscover")
def test_the_real_tool_on_a_simulated_plane(run: Run, tmp_path: Path):
    plan = planes()
    with simulated(plan, tmp_path, plane="rail1") as simulation:
        printed = simulation.run("ibnetdiscover")
    found = run({"ibnetdiscover": (0, printed, "")}, ports=[{"plane": "rail1"}])
    assert found["discoveries"][0]["counts"]["switches"] == sum(one.plane == "rail1" for one in plan.switches.values())
    assert found["discoveries"][0]["counts"]["unread"] == 0
