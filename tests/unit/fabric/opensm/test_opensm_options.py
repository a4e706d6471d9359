"""opensm.conf: options by the shape of a fabric, and choices that are refused."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import (
    SubnetManager,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm.opensm_files import files
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm.opensm_options import (
    ENGINES,
    OPTIONS,
    Choices,
    OptionError,
    engines_of,
    options,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    FabricShape,
    WiredHost,
    WiredNic,
    dragonfly,
    leaf_spine,
    rail_only,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import with_guids
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.opensm.test_opensm_files import MANAGER, PLAN
from tests.unit.fabric.simulate.simulation import TOOLS


def test_options():
    found = options(PLAN, MANAGER, Choices(no_fallback=True, extra=(("sweep_interval", "30"),)))
    assert found["guid"] == f"0x{PLAN.hcas['gpu0 mlx5_0'].port_guid}"
    assert found["sm_priority"] == "15"
    assert found["routing_engine"] == "ftree,updn,no_fallback"
    assert found["cn_guid_file"] == "/etc/opensm/cn_guid.conf"
    assert found["sweep_interval"] == "30"
    assert found["qos"] == "FALSE"
    assert set(found) <= OPTIONS


def test_what_the_plan_makes_cannot_be_chosen():
    paths = {name for name, value in options(PLAN, MANAGER).items() if value.startswith("/")}
    named = {
        "guid",
        "sm_priority",
        "routing_engine",
        "sm_inactive",
        "daemon",
        "cn_guid_file",
        "qos_policy_file",
    } | paths
    with pytest.raises(OptionError) as error:
        options(PLAN, MANAGER, Choices(extra=tuple((name, "1") for name in sorted(named))))
    assert [line.split(" cannot be chosen: ")[0] for line in str(error.value).split("\n")] == [
        f"option {name}" for name in sorted(named)
    ]
    check_messages("OpenSM's options: those of the plan", error.value)


def test_engine_by_the_shape():
    nics = [WiredNic("mlx5_0", 0)]
    hosts = [WiredHost(f"g{n}", nics, f"r{n // 2}", f"u{n // 4}") for n in range(8)]
    fly = dragonfly(hosts, FabricShape(ports=8))
    assert engines_of(PLAN) == ("ftree", "updn")
    assert engines_of(fly) == ("nue",)
    assert engines_of(rail_only(hosts[:4], FabricShape(ports=8))) == ("minhop",)
    assert [engines_of(leaf_spine(hosts[:n], FabricShape(spines=["s1"]))) for n in (2, 3)] == [
        ("updn",),
        ("ftree", "updn"),
    ]
    fly = with_guids(fly)
    found = files(fly, SubnetManager("g0 mlx5_0", 1))
    assert "routing_engine nue\n" in found["opensm.conf"]
    assert not {"root_guid.conf", "cn_guid.conf"} & set(found)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_that_can_block_a_dragonfly_is_refused_there_and_nowhere_else(engine: str):
    hosts = [WiredHost(f"g{n}", [WiredNic("mlx5_0", 0)], f"r{n // 2}", f"u{n // 4}") for n in range(8)]
    fly = with_guids(dragonfly(hosts, FabricShape(ports=8)))
    manager, choices = SubnetManager("g0 mlx5_0", 1), Choices(engines=("nue", engine))
    assert options(PLAN, MANAGER, choices)["routing_engine"] == f"nue,{engine}"
    if engine in ("nue", "dfsssp", "lash", "file"):
        assert options(fly, manager, choices)["routing_engine"] == f"nue,{engine}"
    else:
        with pytest.raises(OptionError, match=f"{engine} on a dragonfly"):
            options(fly, manager, choices)


def test_wrong_options_are_told_at_once():
    choices = Choices(
        engines=("fatree",), extra=(("sweep_intervall", "1"), ("qos", " "), ("guid", "0x0")),
    )  # fmt: skip
    with pytest.raises(OptionError) as error:
        options(PLAN, MANAGER, choices)
    assert len(str(error.value).splitlines()) == 4
    check_messages("OpenSM's options: wrong ones", error.value)


@pytest.mark.tools(*TOOLS)
def test_options_are_those_that_opensm_writes(tmp_path: Path):
    subprocess.run(
        [str(shutil.which("opensm")), "-c", "all.conf"], cwd=tmp_path, capture_output=True, timeout=20, check=True
    )
    lines = (tmp_path / "all.conf").read_text().split("\n")
    assert {line.split()[0] for line in lines if line and line[0] != "#"} >= OPTIONS
