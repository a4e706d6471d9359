"""What verify expects of Slurm on nodes: options alone, rendered once a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible import constants

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.conf_reader import parse
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import controller_files
from ansible_collections.bedplate.cluster.plugins.plugin_utils.verify import slurm_expected

CLUSTER = """
plugin: bedplate.cluster.racks
site: test
cluster: test
networks: {management: {cidr: 10.0.0.0/24, start: 10.0.0.11}}
profiles: {n: {sockets: 1, cores_per_socket: 2, threads_per_core: 1, memory_mib: 1024, reserved_memory_mib: 64}}
racks: {r1: {nodes: "n[1-2]", profile: n}}
hosts: {ctl1: {address: 10.0.0.2}}
services: {controllers: [ctl1]}
partitions: {all: {nodes: all}}
slurm: {version: "24.11", options: {MailProg: "/bin/mail -s jobs"}}
"""


def test_nodes_are_given_the_options_once_and_no_line_of_a_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.bedplate.yml"
    path.write_text(CLUSTER)
    cluster = load(path)
    monkeypatch.setattr(constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    rendered = []
    real = controller_files.files

    def counted(*arguments: object) -> dict[str, str]:
        rendered.append(arguments)
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(controller_files, "files", counted)
    given = [slurm_expected._given(cluster, "") for _node in range(2)]
    assert len(rendered) == 1
    assert given[0] == given[1]
    conf = parse(given[0]["slurm.conf"])
    assert conf.option("MessageTimeout") == "30"
    assert parse(real(cluster)["slurm.conf"]).option("MailProg") == conf.option("MailProg")
    assert not {"NodeName", "PartitionName", "SlurmctldHost", "NodeSet"} & {next(iter(pairs)) for pairs in conf.lines}
    assert parse(given[0]["cgroup.conf"]).option("ConstrainDevices") == "yes"


def two_controllers(tmp_path: Path) -> Cluster:
    path = tmp_path / "t.bedplate.yml"
    text = CLUSTER.replace("controllers: [ctl1]", "controllers: [ctl1, ctl2], database: ctl1")
    text = text.replace("hosts: {", "hosts: {ctl2: {address: 10.0.0.3}, ")
    path.write_text(text.replace("options: {", "options: {StateSaveLocation: /srv/slurm, "))
    return load(path)


def test_each_controller_reads_the_accounts_as_another_one_may_be_off(tmp_path: Path) -> None:
    cluster = two_controllers(tmp_path)
    assert list(slurm_expected._once(cluster, ["controller", "database"])) == [
        "slurm_database",
        "slurm_accounts",
    ]
    assert list(slurm_expected._once(cluster, ["controller"])) == ["slurm_accounts"]
    assert slurm_expected._once(cluster, ["compute"]) == {}


@pytest.mark.parametrize(
    ("host", "up", "is_stopped"),
    [
        ("ctl1", ["ctl2"], True),
        ("ctl1", ["ctl1", "ctl2"], False),
        ("ctl1", ["ctl1"], False),
        # Slurm does not answer at all: then its unit is the finding, as an error.
        ("ctl1", [], False),
        ("ctl2", ["ctl1"], False),
        ("ctl2", ["ctl2"], False),
    ],
)
def test_a_stopped_primary_is_a_warning_while_a_standby_is_in_charge(
    tmp_path: Path, host: str, up: list[str], is_stopped: bool
) -> None:
    found = slurm_expected.stopped_primary(two_controllers(tmp_path), host, {"up": up})
    assert (found is not None) is is_stopped
    if found:
        assert (found.severity, "ctl2" in found.found, "takeover_by=ctl1" in found.remedy) == ("warning", True, True)
    assert slurm_expected.stopped_primary(two_controllers(tmp_path), host, {}) is None


def test_only_slurmctld_may_be_stopped() -> None:
    units = [
        {"name": "munge.service", "state": "started"},
        {"name": "slurmctld.service", "state": "started", "enabled": True},
    ]
    deployed = slurm_expected._without_daemon({"manifest": "m", "units": units})
    assert deployed == {"manifest": "m", "units": [units[0], {"name": "slurmctld.service", "enabled": True}]}


def test_lines_that_controllers_keep_for_jobs_are_not_compared_on_nodes(tmp_path: Path) -> None:
    path = tmp_path / "t.bedplate.yml"
    path.write_text(CLUSTER)
    files = controller_files.files(load(path))
    part = slurm_expected._parts(load(path), ["compute"], files, "", {})["slurm_files"]
    assert (part["records"], set(part["files"])) == (False, {"slurm.conf", "cgroup.conf"})
