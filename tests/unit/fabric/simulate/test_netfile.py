"""Plans as fabrics that can be discovered; ibsim and ibnetdiscover are asked where they are installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.ibnetdiscover import parse
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_drift import comparison
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Hca, Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.link_rates import rate_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    FabricShape,
    WiredHost,
    WiredNic,
    rail_only,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import (
    NetfileError,
    discovery_of,
    ibnetdiscover_text,
    netfile,
    with_guids,
)
from tests.unit.fabric.messages import check_messages


def fabric(speed: str = "HDR", hosts: int = 8) -> Plan:
    nics = [WiredNic("mlx5_0", 0), WiredNic("mlx5_1", 1)]
    shape = FabricShape(ports=16, speed=speed, spines=["s1", "s2", "s3", "s4"], uplinks=4)
    return rail_only([WiredHost(f"gpu{n}", nics, "a1", f"u{n // 4}") for n in range(hosts)], shape)


def test_guids_are_made_from_names_and_kept_where_they_are_known():
    plan = fabric()
    plan.hcas["gpu0 mlx5_0"] = replace(plan.hcas["gpu0 mlx5_0"], guid="0xB83FD20300A10001")
    one, other = with_guids(plan), with_guids(plan)
    assert one == other
    guids = [thing.guid for thing in (*one.switches.values(), *one.hcas.values())]
    assert len(set(guids)) == len(guids) == 8 + 16
    assert all(len(guid) == 16 and int(guid, 16) for guid in guids)
    assert one.hcas["gpu0 mlx5_0"].guid == "b83fd20300a10001"
    assert one.hcas["gpu0 mlx5_0"].port_guid == "b83fd20300a10002"
    assert plan.switches["s1"].guid == ""


def test_netfile_is_the_same_again_and_keeps_to_the_limits():
    text = netfile(fabric())
    assert text == netfile(fabric())
    assert max(map(len, text.splitlines())) < 255
    assert text.count("\nSwitch\t16 ") == 8
    assert text.count("\nCa\t1 ") == 16
    # Both ends of 16 + 16 cables.
    assert text.count("\n[") == 2 * (16 + 16)


def test_netfile_of_one_plane():
    text = netfile(fabric(), plane="rail1")
    assert 'mlx5_1"' in text
    assert 'mlx5_0"' not in text
    assert text.count("\nSwitch") == 4


@pytest.mark.parametrize(
    ("speed", "ndr", "plain", "extended"),
    [("HDR", False, 7, 7), ("NDR", False, 7, 7), ("NDR", True, 7, 15), ("XDR", True, 7, 15), ("EDR", False, 7, 3),
     ("QDR", False, 7, 0), ("SDR", False, 1, 0)],
)  # fmt: skip
def test_speed_is_one_that_ibsim_knows(speed: str, ndr: bool, plain: int, extended: int):
    lines = netfile(fabric(speed), ndr=ndr).splitlines()
    assert f"speed={plain}" in lines
    assert f"extspeed={extended}" in lines


def test_all_that_ibsim_would_misread_is_named():
    plan = fabric()
    plan.add(Hca("g" * 60, "mlx5_0"), Hca('quo"te', "mlx5_0"), Hca("a", "b", guid="1"), Hca("c", "d", guid="0x1"))
    with pytest.raises(NetfileError) as error:
        netfile(plan)
    assert [line.split(": ")[0] for line in str(error.value).split("\n")] == [
        f"{'g' * 60} mlx5_0",
        "'quo\"te mlx5_0'",
        "c d",
    ]
    check_messages("netfile: names and GUIDs that ibsim would misread", error.value)


def test_cable_that_the_plan_leaves_out_is_not_there():
    plan = fabric()
    plan.links[0] = replace(plan.links[0], missing=True)
    assert netfile(plan).count("\n[") == 2 * (16 + 16 - 1)
    assert discovery_of(plan).nodes[with_guids(plan).hcas["gpu0 mlx5_0"].guid].cables == {}


def test_text_of_a_plan_is_read_as_the_plan():
    plan = fabric("NDR")
    for plane in plan.planes:
        discovery = discovery_of(plan, plane)
        found = parse(ibnetdiscover_text(discovery).split("\n"))
        for node in found.nodes.values():
            node.line = 0
        assert found.nodes == discovery.nodes
        assert len(found.nodes) == 4 + 8


@pytest.mark.tools("ibsim", "ibnetdiscover", "ibsim-run")
@pytest.mark.parametrize("plane", ["rail0", "rail1"])
def test_ibsim_takes_the_netfile_and_ibnetdiscover_finds_the_plan(tmp_path: Path, plane: str):
    plan = fabric()
    # A splitter, an older card and one cable between switches.
    others = {"gpu1": ("HDR", "2x"), "gpu2": ("EDR", ""), "gpu3": ("FDR", "1x"), "leaf": ("QDR", "")}
    for number, link in enumerate(plan.links):
        for name, (speed, width) in others.items():
            if link.a.startswith(name) and (name != "leaf" or link.b_port == 1):
                plan.links[number] = replace(link, speed=speed, width=width)
    (tmp_path / "net").write_text(netfile(plan))
    start = next(hca for hca in with_guids(plan).hcas.values() if hca.plane == plane)
    environment = {**os.environ, "IBSIM_SOCKNAME": f"net{os.getpid()}{plane}", "SIM_HOST": f"H-{start.guid}"}
    simulator = subprocess.Popen(
        [str(shutil.which("ibsim")), "-s", "-n", "net"], cwd=tmp_path, env=environment, stdout=subprocess.PIPE
    )
    try:
        time.sleep(0.5)
        text = subprocess.run(
            ["timeout", "20", "ibsim-run", "ibnetdiscover"],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=30, check=True,
        ).stdout  # fmt: skip
    finally:
        simulator.kill()
        simulator.communicate()
    discovery = parse(text.split("\n"))
    assert discovery.unread == []
    assert len(discovery.nodes) == 4 + 8
    found = comparison(plan, {plane: discovery})
    other = "rail1" if plane == "rail0" else "rail0"
    assert [(one.kind, one.where) for one in found.findings] == [("partial", f"plane {other}")]
    assert len(found.ok) == 16
    seen = Counter((cable.width, cable.speed) for node in discovery.nodes.values() for cable in node.cables.values())
    wanted = Counter(rate_of(plan, link) for link in found.ok for _end in link.ends)
    assert seen == wanted
    assert len(seen) == 5
