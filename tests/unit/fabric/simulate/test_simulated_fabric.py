"""What a machine without the tools is told: one error, and the packages."""

from __future__ import annotations

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf import config_trial
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate import routing_proof, simulated_fabric
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.routing_proof import prove
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.simulated_fabric import (
    TOOLS,
    SimulationError,
    simulated,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.slurm_proof import prove_topology
from tests.unit.fabric.simulate.gate import SMALL

TOLD = (
    f"{', '.join(TOOLS)} not installed, so nothing can be simulated: "
    "apt-get install ibsim-utils ibutils infiniband-diags opensm"
)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which nothing of it is installed."""
    monkeypatch.setattr(simulated_fabric.command, "SEARCH_PATH", "/nonexistent")
    monkeypatch.setattr(config_trial.shutil, "which", lambda *_what, **_path: None)


def test_missing_tools_are_one_error_with_the_packages(bare: None, tmp_path):
    assert [(one.kind, one.severity, one.found) for one in prove(SMALL, "", {}).findings] == [
        (routing_proof.TOOLS, "error", TOLD)
    ]
    with pytest.raises(SimulationError) as caught, simulated(SMALL, tmp_path, "", "gpu0 mlx5_0"):
        pass
    assert str(caught.value) == TOLD


def test_one_tool_that_is_missing_is_named_alone(monkeypatch: pytest.MonkeyPatch, tmp_path):
    for tool in TOOLS.keys() - {"ibdmchk"}:
        (tmp_path / tool).write_text("#!/bin/sh")
        (tmp_path / tool).chmod(0o755)
    monkeypatch.setattr(simulated_fabric.command, "SEARCH_PATH", str(tmp_path))
    told = "ibdmchk not installed, so nothing can be simulated: apt-get install ibutils"
    assert simulated_fabric.missing_tools() == told


def test_without_slurmctld_the_topology_is_one_error_with_the_packages(bare: None):
    (found,) = prove_topology("", {}, {})
    assert (found.kind, found.severity) == ("tools", "error")
    assert found.found.endswith("slurmctld is not installed")
    assert found.remedy == "apt-get install slurmctld slurm-client"
