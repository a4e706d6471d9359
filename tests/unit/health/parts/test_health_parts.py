"""Settings of agent and limiter: what the cluster file makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import expand
from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import NodeProfile
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.health import health_control_part, node_health_part
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.render import render_part

ROOT = Path(__file__).parents[4]
BASE = (ROOT / "tests/unit/cluster/base.yml").read_text()
CHOICES: dict[str, Any] = {"manage": True, "kernel_log": "/dev/kmsg"}


def cluster(folder: Path, section: str = "health: {}\n", edits: tuple[tuple[str, str], ...] = ()) -> Cluster:
    text = BASE + section
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    file = folder / "site.bedplate.yml"
    file.write_text(text)
    return load(file)


def settings(found: Cluster, name: str) -> dict[str, Any]:
    decision = node_health_part.decide(found, name, CHOICES)
    assert decision
    values: dict[str, Any] = dict(decision.parts["node_health"]["settings"])
    return values


def test_the_agent_expects_the_profile(tmp_path: Path) -> None:
    found = cluster(tmp_path)
    node = next(one for one in found.nodes if one.profile.gpus)
    profile = settings(found, node.name)["profile"]
    assert node.profile.gpus
    assert (profile["model"], profile["gpus"]) == (node.profile.gpus.model, node.profile.gpus.count)
    rails = [nic.name for nic in node.profile.nics if nic.rail is not None]
    assert (profile["rails"], profile["rails_needed"]) == (rails, len(rails))
    NodeProfile(**profile)


def test_a_profile_is_over_its_gpu_model(tmp_path: Path) -> None:
    found = cluster(tmp_path)
    node = next(one for one in found.nodes if one.profile.gpus)
    assert node.profile.gpus
    section = (
        f"health:\n  thresholds:\n    {node.profile.gpus.model}: {{ecc-corrected: {{warn: 5, window: 60}}}}\n"
        f"    {node.profile.name}: {{ecc-corrected: {{warn: 7}}}}\n"
    )
    profile = settings(cluster(tmp_path, section), node.name)["profile"]
    expected = {"warn": 7} if node.profile.name == node.profile.gpus.model else {"warn": 7, "window": 60}
    assert profile["thresholds"] == {"ecc-corrected": expected}


@pytest.mark.parametrize(("gate", "strict"), [("true", False), ("false", False), ("strict", True)])
def test_only_a_strict_gate_holds_slurmd(tmp_path: Path, gate: str, strict: bool) -> None:
    found = cluster(tmp_path, f"health: {{gate: {gate}}}\n")
    decision = node_health_part.decide(found, found.nodes[0].name, CHOICES)
    assert decision
    values = decision.parts["node_health"]
    assert values["strict"] is strict
    files = {one["path"]: one.get("content", "") for one in render_part("node_health", "node_health", values)["files"]}
    path = "/etc/systemd/system/slurmd.service.d/70-bedplate-health.conf"
    assert ("Requires=bedplate-health-ready.service\n" in files.get(path, "")) is strict
    # Links of [Install] stay when the text changes: the unit is enabled already.
    assert "\nRequiredBy=" not in "".join(files.values())


def test_ignored_checks_keep_their_last_day(tmp_path: Path) -> None:
    section = "health:\n  ignore:\n    - {check: xid-94, reason: of the application, until: 2027-01-31}\n"
    found = cluster(tmp_path, section)
    assert settings(found, found.nodes[0].name)["ignore"] == [{"check": "xid-94", "until": "2027-01-31"}]


def test_without_the_section_agent_and_limiter_are_removed(tmp_path: Path) -> None:
    found = cluster(tmp_path, "")
    of_node = node_health_part.decide(found, found.nodes[0].name, CHOICES)
    of_controller = health_control_part.decide(found, found.services.controllers[0])
    assert of_node
    assert of_controller
    assert list(of_node.parts) == ["node_health_absent"]
    assert list(of_controller.parts) == ["health_control_absent", "slurm_exporter_absent"]
    assert not of_node.expected
    assert not of_controller.expected


def test_others_get_neither(tmp_path: Path) -> None:
    found = cluster(tmp_path)
    controller, node = found.services.controllers[0], found.nodes[0].name
    assert node_health_part.decide(found, controller, CHOICES) is None
    assert node_health_part.decide(found, node, {**CHOICES, "manage": False}) is None
    assert health_control_part.decide(found, node) is None


def test_the_limiter_knows_where_every_node_is(tmp_path: Path) -> None:
    found = cluster(tmp_path, "health: {dry_run_until: 2027-01-31, drain: {rate: 5/1h, keep: 0}}\n")
    assert found.health
    made = health_control_part.settings(found, found.health)
    names = {node.name for node in found.nodes}
    for group in ("racks", "profiles"):
        assert {name for text in made["nodes"][group].values() for name in expand(text)} == names
    assert made["dry_run_until"] == "2027-01-31"
    assert (made["caps"]["drains"], made["caps"]["seconds"], made["caps"]["keep"]) == (5, 3600, 0)


def test_without_a_date_the_limiter_never_acts(tmp_path: Path) -> None:
    found = cluster(tmp_path)
    assert found.health
    assert health_control_part.settings(found, found.health)["dry_run_until"] is None


@pytest.mark.parametrize("path", ["kmsg", "", None, 5, "/dev/kmsg --once", "/dev/%h", "/dev/kmsg\n"])
def test_the_kernel_log_is_one_absolute_path(path: Any) -> None:
    assert len(list(node_health_part.mistakes({**CHOICES, "kernel_log": path}))) == 1
    assert not list(node_health_part.mistakes(CHOICES))


def test_the_agent_may_write_to_the_directory_of_its_text_file(tmp_path: Path) -> None:
    """A file is replaced by a new one beside it, so a unit that may write the file alone could not."""
    found = cluster(tmp_path, "health: {}\nmonitoring: {textfile: /srv/texts}\n")
    decision = node_health_part.decide(found, found.nodes[0].name, CHOICES)
    assert decision
    values = decision.parts["node_health"]
    assert values["settings"]["textfile"] == "/srv/texts/bedplate_health.prom"
    assert values["textfiles"] == "/srv/texts"
    unit = render_part("node_health", "node_health", values)["files"]
    (text,) = [one["content"] for one in unit if one["path"].endswith("bedplate-health.service")]
    assert "ExecStartPre=-+/usr/bin/mkdir -p /srv/texts\nReadWritePaths=-/srv/texts\n" in text


def test_a_port_that_is_no_rail_is_not_expected(tmp_path: Path) -> None:
    found = cluster(tmp_path, edits=(("        rail: 1\n", "        rail: 1\n      - name: mlx5_2\n"),))
    node = next(one for one in found.nodes if one.profile.nics)
    profile = settings(found, node.name)["profile"]
    assert (profile["rails"], profile["rails_needed"]) == (["mlx5_0", "mlx5_1"], 2)


def test_only_nodes_with_ports_have_a_leaf(tmp_path: Path) -> None:
    found = cluster(tmp_path)
    assert found.health
    leaves = health_control_part.settings(found, found.health)["nodes"]["leaves"]
    assert {name for text in leaves.values() for name in expand(text)} == {
        one.name for one in found.nodes if one.profile.nics
    }


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("health: {}\nmonitoring: {slurm: true}\n", "slurm_exporter"),
        ("health: {}\nmonitoring: {slurm: false}\n", "slurm_exporter_absent"),
        ("health: {}\n", "slurm_exporter_absent"),
        ("", "slurm_exporter_absent"),
    ],
)
def test_the_exporter_runs_where_the_file_has_it_and_is_removed_elsewhere(tmp_path: Path, text: str, part: str) -> None:
    found = cluster(tmp_path, text)
    decision = health_control_part.decide(found, found.services.controllers[0])
    assert decision
    assert {name for name in decision.parts if name.startswith("slurm_exporter")} == {part}


def test_only_hosts_of_prometheus_get_its_files(tmp_path: Path) -> None:
    found = cluster(tmp_path, "health: {}\nmonitoring: {}\n")
    assert found.monitoring
    for host in found.services.controllers:
        decision = health_control_part.decide(found, host)
        assert decision
        assert ("prometheus" in decision.parts) is (host in found.monitoring.servers)
