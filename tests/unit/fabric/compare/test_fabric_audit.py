"""What can be said of a discovered fabric without a plan, by InfiniBand's discovery and by LLDP."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import SavedError, ToolOutput
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_audit import audit
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.lldp_discovery import (
    discovery_of,
    read_discoveries,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from tests.unit.fabric.compare.test_lldp_limits import CUMULUS, ports, runs_at
from tests.unit.fabric.compare.test_roce_names import answers, fabric
from tests.unit.fabric.compare.worlds import plan as rails
from tests.unit.fabric.compare.worlds import recable, world
from tests.unit.fabric.lldp_answers import Answers, told_by
from tests.unit.fabric.messages import check_messages


def of_lldp(found: Answers) -> list[Finding]:
    return audit({"": discovery_of(found, Plan("", ""))}, hosts=[f"gpu{n}" for n in range(64)])


def kinds(found: Iterable[Finding]) -> list[str]:
    return [one.kind for one in found]


def test_a_fabric_in_order_has_no_finding():
    assert of_lldp(answers(fabric(), CUMULUS)) == []
    assert (
        of_lldp(answers(fabric(), CUMULUS, *(f"gpu{n}" for n in range(64)), "leaf-a0", "leaf-a1", "leaf-a2", "leaf-a3"))
        == []
    )
    assert audit(world().discoveries()) == []


def test_lldp_tells_switches_from_hosts_without_a_plan():
    found = discovery_of(answers(fabric(), CUMULUS), Plan("", ""))
    assert {node.description for node in found.switches} == {*fabric().switches}
    assert len(found.nodes) == 6 + 128
    assert found.nodes["leaf-a0"].port_names[1] == "swp1"


def test_lldp_that_names_no_switch_is_refused():
    with pytest.raises(SavedError):
        read_discoveries([ToolOutput("gpu0", '{"lldp": {"interface": []}}')])


def test_link_that_one_end_reports():
    found = answers(fabric(), CUMULUS)
    del found["gpu3"]["lldp"]["interface"][1]
    (finding,) = of_lldp(found)
    assert (finding.kind, finding.where) == ("one-sided", "gpu3 ens2f0np0")
    check_messages("audit: a link that one end reports", [finding])


def test_speeds_are_compared_with_those_of_the_same_kind():
    found = answers(fabric(), CUMULUS)
    for box in found:
        for port in ports(found, box):
            runs_at(port, 400)
    assert of_lldp(found) == []
    for port in (ports(found, "gpu5")[0], ports(found, "leaf-a0")[8], ports(found, "leaf-a0")[9]):
        runs_at(port, 100)
    slow = of_lldp(found)
    assert {one.kind for one in slow} == {"mixed-speed"}


def test_slow_links_of_infiniband_are_named_by_their_ports():
    w = world()
    link = next(iter(w.plan.present))
    w.join(*link.ends, width="4x", speed="EDR")
    (finding,) = audit(w.discoveries())
    assert (finding.kind, finding.expected.split()[0]) == ("mixed-speed", "4xHDR")
    assert "4xEDR" in finding.found
    check_messages("audit: a slow link", [finding])


def test_rails_are_compared_only_where_leaves_have_rails():
    w = world()
    links = {link.a: link.ends for link in w.plan.present if link.kind == "host"}
    one, other = links["gpu0 mlx5_0"], links["gpu0 mlx5_1"]
    recable(w, (one[0], other[1]), (other[0], one[1]))
    found = audit(w.discoveries())
    assert kinds(found) == ["rail-mix", "rail-mix"]
    assert {end for finding in found for end in finding.ports} == {one[1], other[1]}
    check_messages("audit: adapters on the leaf of another rail", found)


def test_uneven_uplinks_and_cables_between_leaves():
    w = world(rails())
    up = [link.ends for link in w.plan.present if link.kind == "leaf-spine"]
    leaf = up[0][0][0]
    w.cut(*up[0])
    (finding,) = audit(w.discoveries())
    assert (finding.kind, finding.where) == ("uneven", leaf)
    other = next(low for low, _high in up if low[0] != leaf)
    w.join((leaf, 9), (other[0], 9))
    found = audit(w.discoveries())
    assert "leaf-to-leaf" in kinds(found)
    check_messages("audit: a leaf with a dead uplink and a cable to a leaf", found)


def test_stranger_is_told_of():
    found = answers(fabric(), CUMULUS, *fabric().switches)
    stranger = told_by("swp1", "nas1", {"id": {"type": "ifname", "value": "eth2"}})
    found["leaf-a0"]["lldp"]["interface"][0] = stranger
    (finding,) = of_lldp(found)
    assert finding.kind == "unknown"
    assert "nas1" in finding.found
