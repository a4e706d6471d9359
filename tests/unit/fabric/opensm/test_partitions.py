"""partitions.conf: what is written, and files of which OpenSM says nothing although they are wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import (
    Plan,
    SubnetManager,
    TenantPartition,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.guid_files import GuidError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm.opensm_options import options
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm.partitions import (
    partitions_conf,
    planned_pkeys,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checks import check
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    FabricShape,
    WiredHost,
    WiredNic,
    rail_only,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import with_guids
from tests.kit.fabric_files import problems as problems_of
from tests.kit.partitions_reader import parse, pkeys_of
from tests.unit.fabric.messages import check_messages


def fabric() -> Plan:
    nics = [WiredNic("mlx5_0", 0), WiredNic("mlx5_1", 1)]
    shape = FabricShape(ports=8, speed="HDR", spines=["s1", "s2", "s3", "s4"], uplinks=2)
    plan = rail_only([WiredHost(f"gpu{n}", nics, "a1", f"u{n // 2}") for n in range(4)], shape)
    plan.partitions = [
        TenantPartition("red", 1, {"gpu0": "full", "gpu1 mlx5_0": "limited"}),
        TenantPartition("blue", 0x123, {"gpu1": "full", "gpu2": "full", "gpu2 mlx5_0": "limited"}, ipoib=False),
    ]
    plan.managers = [SubnetManager("gpu3 mlx5_0", 14), SubnetManager("gpu3 mlx5_1", 14)]
    return plan


def test_what_is_written_is_read_back_as_planned():
    plan = with_guids(fabric())
    for rail, plane in enumerate(plan.planes):
        text = partitions_conf(plan, plane)
        assert text == partitions_conf(plan, plane)
        entries, problems = parse(text, plan)
        assert problems == []
        ports = {hca.host: hca.port_guid for hca in plan.hcas.values() if hca.plane == plane}
        found = pkeys_of(entries, ports.values(), ports["gpu3"])
        assert found == planned_pkeys(plan, plane, ports["gpu3"])
        assert found == {
            ports["gpu0"]: [0x7FFF, 0x8001],
            ports["gpu1"]: [1, 0x7FFF, 0x8123] if rail == 0 else [0x7FFF, 0x8123],
            ports["gpu2"]: [0x123, 0x7FFF] if rail == 0 else [0x7FFF, 0x8123],
            ports["gpu3"]: [0xFFFF],
        }


def test_a_large_partition_has_no_line_that_opensm_cuts():
    plan = with_guids(fabric())
    hcas = [replace(plan.hcas["gpu0 mlx5_0"], host=f"n{n}", port_guid=f"{n + 1:016x}") for n in range(2000)]
    plan.add(*hcas)
    plan.partitions = [TenantPartition("all", 1, {hca.host: "full" for hca in hcas})]
    assert parse(partitions_conf(plan), plan)[1] == []


def test_guids_that_are_missing_are_named_with_what_to_do():
    plan = fabric()
    with pytest.raises(GuidError) as error:
        partitions_conf(plan)
    check_messages("partitions: ports without GUIDs", error.value)


def test_mistakes_of_a_plan_are_told_at_once():
    plan = with_guids(fabric())
    plan.partitions = [
        TenantPartition("red", 0x8001, {"gpu0": "full"}),
        TenantPartition("Red", 2, {"gpu9": "full"}),
        TenantPartition("a b", 2, {"gpu0": "ful"}),
        TenantPartition("default", 5, {}),
    ]
    plan.managers.append(SubnetManager("gpu9 mlx5_0", 3))
    problems = check(plan, ["P10"])
    assert [(one.rule, one.where) for one in problems] == [("P10", "partitions")] * 9
    check_messages("partitions: mistakes of a plan", problems)


def test_both_is_two_pkeys_and_needs_an_option_of_opensm():
    plan = with_guids(fabric())
    manager = plan.managers[0]
    assert "allow_both_pkeys" not in options(plan, manager)
    plan.partitions = [TenantPartition("red", 0x10, {"gpu0": "both", "gpu1": "limited"})]
    assert options(plan, manager)["allow_both_pkeys"] == "TRUE"
    text = partitions_conf(plan)
    assert parse(text, plan, both=True)[1] == []
    held = pkeys_of(parse(text, plan, both=True)[0], [hca.port_guid for hca in plan.hcas.values()], "1")
    assert held[plan.hcas["gpu0 mlx5_0"].port_guid] == [0x10, 0x7FFF, 0x8010]
    assert held[plan.hcas["gpu1 mlx5_0"].port_guid] == [0x10, 0x7FFF]
    assert problems_of(plan, {"partitions.conf": text}) == []
