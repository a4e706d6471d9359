"""Extra files and drop-ins of a site against the parts that roles deploy on a host of the lab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.host_decision import RunHost
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.role_mistakes import ROLES
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.site_changes import path_mistakes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.site_host import SiteHost
from tests.kit import sentences

SENTENCES = Path(__file__).with_name("sentences.txt")
LAB = str(Path(__file__).parents[3] / "inventories/lab/lab.bedplate.yml")
NODE = ("node_os", "node_tuning", "rdma", "gpu_driver", "cuda", "dcgm", "container_runtime", "slurm")
PYXIS: dict[str, Any] = {
    "container_runtime_engines": ["enroot"],
    "container_runtime_packages": {"enroot": ["enroot"]},
    "container_runtime_pyxis": {"source": "https://x/pyxis.tar.gz", "sha256": "0" * 64},
}
HOSTS: dict[str, tuple[str, ...]] = {"gpu01": NODE, "ctl1": ("node_os", "slurm")}


def host(name: str = "gpu01", roles: tuple[str, ...] = (), **variables: Any) -> SiteHost:
    known = {"inventory_hostname": name, "bedplate_cluster_file": LAB, **variables}
    return SiteHost(RunHost(known, lambda value: value, lambda *_: "", "admin"), roles or HOSTS[name])


def found(name: str = "gpu01", roles: tuple[str, ...] = (), **variables: Any) -> list[str]:
    return list(path_mistakes(host(name, roles, **variables)))


def extra(*paths: str, **more: Any) -> list[dict[str, Any]]:
    return [{"path": path, "content": "", **more} for path in paths]


@pytest.mark.parametrize(
    ("variables", "place", "writer"),
    [
        ({"rdma_extra_files": extra("/etc/bedplate/rdma.json")}, "rdma_extra_files[0]", "roles/rdma/parts/rdma.yml"),
        (
            {"node_os_extra_files": extra("/etc/a", "/etc/bedplate/rdma.json")},
            "node_os_extra_files[1]",
            "the role rdma",
        ),
        ({"node_os_extra_files": extra("/etc/bedplate")}, "node_os_extra_files[0]", "writes /etc/bedplate/"),
        ({"node_os_extra_files": extra("/etc/default/slurmd/x")}, "is below /etc/default/slurmd", "the part compute"),
        ({"node_os_extra_files": extra("/etc/pam.d/sshd")}, "node_os_extra_files[0]", "the part compute"),
        # It is written after a task has read the node.
        ({"cuda_extra_files": extra("/run/bedplate/reboot-wanted/gpu_driver")}, "cuda_extra_files", "the part driver"),
        (
            {"slurm_drop_ins": {"slurmd.service": {"60-bedplate-limits.conf": ""}}},
            "slurm_drop_ins: slurmd.service: 60-bedplate-limits.conf",
            "the role node_tuning",
        ),
    ],
)
def test_a_path_that_a_part_of_the_host_writes_is_refused(variables: dict[str, Any], place: str, writer: str) -> None:
    (line,) = found(**variables)
    assert place in line
    assert writer in line


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"rdma_extra_files": extra("/etc/motd.d/rdma"), "rdma_drop_ins": {"bedplate-rdma.service": {"a.conf": ""}}},
        # No part of this host writes it.
        {"node_os_extra_files": extra("/etc/slurm/slurm.conf", "/etc/default/slurmctld")},
        {"node_os_extra_files": extra("/etc/nccl.conf"), "rdma_nccl_manage": False},
        {"node_os_extra_files": extra("/etc/hosts"), "node_os_manage_hosts": False},
        # The name is none of Slurm's files.
        {"node_os_extra_files": extra("/etc/slurm/scripts", state="directory")},
        {"node_os_extra_files": extra("/etc/pam.d/sshd", state="block")},
        # The role is not to change this host.
        {"rdma_extra_files": extra("/etc/hosts"), "rdma_manage": False},
        {"rdma_extra_files": 5, "rdma_drop_ins": "x"},
    ],
)
def test_what_no_part_of_the_host_writes_is_allowed(variables: dict[str, Any]) -> None:
    assert found(**variables) == []


def test_the_decision_of_each_host_counts() -> None:
    variables = {"node_os_extra_files": extra("/etc/slurm/slurm.conf", "/etc/slurm/other.conf")}
    assert found("gpu01", **variables) == []
    (line,) = found("ctl1", **variables)
    assert "the part controller" in line


def test_where_a_role_cannot_decide_the_part_file_counts() -> None:
    variables = {"node_os_extra_files": extra("/etc/slurm/other.conf"), "slurm_compute_new_controllers": "perhaps"}
    (line,) = found("ctl1", **variables)
    assert "/etc/slurm/other.conf: the part client" in line
    assert found("gpu01", NODE[:-1], **variables) == []


def test_a_role_decides_only_where_its_part_file_has_such_a_path(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(SiteHost, "_decided", lambda _self, role: asked.append(role))
    assert found(node_os_extra_files=extra("/etc/motd", "/etc/cron.d/x")) == []
    assert asked == []
    found(node_os_extra_files=extra("/etc/nccl.conf"))
    assert set(asked) == {"rdma", "node_os"}


def test_pyxis_is_a_part_of_hosts_that_do_not_run_its_role() -> None:
    files = extra("/etc/slurm/plugstack.conf.d/pyxis.conf")
    (line,) = found("ctl1", slurm_extra_files=files, **PYXIS)
    assert "the part pyxis" in line
    assert found("ctl1", slurm_extra_files=files) == []


def test_paths_of_two_variables_are_refused_where_both_are_written() -> None:
    variables = {"node_os_extra_files": extra("/etc/a"), "rdma_extra_files": extra("/etc/a")}
    (line,) = found(**variables)
    assert "node_os_extra_files[0] /etc/a: rdma_extra_files[0] /etc/a writes" in line
    assert found("ctl1", **variables) == []
    assert found(**variables, rdma_manage=False) == []
    unit = "bedplate-rdma.service"
    drop_in = extra(f"/etc/systemd/system/{unit}.d/a.conf")
    (line,) = found(rdma_extra_files=drop_in, rdma_drop_ins={unit: {"a.conf": ""}})
    assert "rdma_drop_ins: bedplate-rdma.service: a.conf" in line


def test_drop_ins_of_a_unit_without_effect_are_refused() -> None:
    irqs: dict[str, Any] = {"node_tuning_drop_ins": {"irqbalance.service": {"a.conf": ""}}}
    assert found(**irqs, node_tuning_irqs="irqbalance") == []
    masked = found(**irqs, node_tuning_irqs="numa")
    unit = {"slurmd.service": {"a.conf": ""}}
    both = found(slurm_drop_ins=unit, container_runtime_drop_ins={"slurmd.service": {"b.conf": ""}}, **PYXIS)
    assert found(slurm_drop_ins=unit, container_runtime_drop_ins=unit) == []
    sentences.check(SENTENCES, "drop-ins of a unit without effect", [*masked, *both])


def test_opensm_writes_site_files_on_its_hosts() -> None:
    assert "opensm" in ROLES
    assert not host().writes_site_files("opensm")
    assert host("ctl1", ("opensm",), opensm_options=5).writes_site_files("opensm")
