"""Paths that a site names and that a part, or another variable of the site, writes too."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.part_paths import PartPath
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.path_conflicts import (
    SitePath,
    candidates,
    conflicts,
    part_mistake,
    site_mistake,
    site_paths,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.role_mistakes import ROLES
from tests.kit import sentences

SENTENCES = Path(__file__).with_name("sentences.txt")


def site(path: str, state: str = "file", role: str = "node_os") -> SitePath:
    (found,) = site_paths(role, [{"path": path, "state": state}], None)
    return found


@pytest.mark.parametrize(
    ("mine", "theirs", "is_conflict"),
    [
        (("/etc/a", "file"), ("/etc/a", "file"), True),
        (("/etc/a", "directory"), ("/etc/a", "directory"), True),
        (("/etc/a", "file"), ("/etc/ab", "file"), False),
        (("/etc/a", "file"), ("/etc/a/b", "file"), True),
        (("/etc/a", "block"), ("/etc/a/b", "file"), True),
        (("/etc/a", "directory"), ("/etc/a/b", "file"), False),
        (("/etc/a/b", "file"), ("/etc/a", "file"), True),
        (("/etc/a/b", "file"), ("/etc/a", "directory"), False),
        # It may be there before, and lead to a directory.
        (("/etc/a", "link"), ("/etc/a/b", "file"), False),
        (("/etc/a/b", "file"), ("/etc/a", "link"), False),
        (("/etc/a", "block"), ("/etc/a", "block"), False),
        (("/etc/a", "block"), ("/etc/a", "file"), True),
        (("/etc/a", "file"), ("/etc/a", "block"), True),
        (("/etc/a/b/c", "file"), ("/etc/a/{{ item.name }}", "file"), True),
    ],
)
def test_paths_that_exclude_each_other(mine: tuple[str, str], theirs: tuple[str, str], is_conflict: bool) -> None:
    assert conflicts(site(*mine), PartPath("rdma", "rdma", *theirs, manifest="rdma")) is is_conflict


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (("/etc/a", "link"), ("/etc/a/b", "file")),
        (("/etc/a/b", "file"), ("/etc/a", "link")),
        (("/etc/a", "block"), ("/etc/a", "block")),
    ],
)
def test_in_one_task_a_link_is_no_directory_yet_and_a_manifest_has_one_block(
    mine: tuple[str, str], theirs: tuple[str, str]
) -> None:
    assert conflicts(site(*mine, role="rdma"), PartPath("rdma", "rdma", *theirs, manifest="rdma"))


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("/etc/motd", set()),
        ("/etc/nccl.conf", {"rdma"}),
        ("/etc/hosts", {"node_os"}),
        ("/etc/opensm/ib0", {"opensm"}),
        ("/etc/opensm/ib0/opensm.conf", {"opensm"}),
        ("/usr/local/lib/bedplate/rdma/x", set()),
        (
            "/usr/local/lib/bedplate",
            {
                "driver",
                "node_tuning",
                "rdma",
                "controller",
                "backup",
                "munge_pair",
                "node_health",
                "health_control",
                "slurm_exporter",
                "provision",
            },
        ),
    ],
)
def test_parts_that_may_write_a_path_are_found_without_a_decision(path: str, parts: set[str]) -> None:
    assert {one.part for one in candidates(site(path), ROLES)} == parts


def test_entries_that_cannot_be_have_no_path() -> None:
    assert list(site_paths("rdma", ["x", {}, {"path": 5}, {"path": "etc/x"}], {"a.service": 5})) == []
    assert list(site_paths("rdma", 5, [])) == []


def test_a_drop_in_is_a_file_of_its_unit() -> None:
    (one,) = site_paths("slurm", None, {"slurmd.service": {"a.conf": ""}})
    assert (one.path, one.unit) == ("/etc/systemd/system/slurmd.service.d/a.conf", "slurmd.service")
    (one,) = site_paths("opensm", None, {"a.conf": ""})
    extra = site("/etc/systemd/system/opensm-plane@ib0.service.d/a.conf")
    assert site_mistake(one, extra)
    assert not site_mistake(one, site("/etc/systemd/system/opensm-plane@ib0.service.d/b.conf"))


def test_mistakes_name_the_entry_and_the_part() -> None:
    nccl = PartPath("rdma", "rdma", "/etc/nccl.conf", manifest="rdma", template="nccl.conf.j2")
    conf = PartPath("slurm", "controller", "/etc/slurm/slurm.conf", manifest="slurm_controller")
    folder = PartPath("container_runtime", "enroot", "/var/lib/enroot", "directory")
    limits = "60-bedplate-limits.conf"
    path = f"/etc/systemd/system/slurmd.service.d/{limits}"
    (drop_in,) = site_paths("slurm", None, {"slurmd.service": {limits: ""}})
    lines = [
        part_mistake(site("/etc/nccl.conf"), nccl),
        part_mistake(site("/etc/slurm/slurm.conf"), conf),
        part_mistake(site("/etc/slurm"), conf),
        part_mistake(site("/etc/nccl.conf/x"), nccl),
        part_mistake(site("/var/lib/enroot", "directory"), folder),
        part_mistake(drop_in, PartPath("node_tuning", "node_tuning", path, template=f"{limits}.j2")),
        part_mistake(drop_in, PartPath("node_tuning", "node_tuning", path)),
    ]
    sentences.check(SENTENCES, "a path of the site that a part writes too", lines)


def test_mistakes_of_two_variables_name_both() -> None:
    other = site("/etc/a", role="rdma")
    lines = [
        site_mistake(site("/etc/a"), other),
        site_mistake(site("/etc/a/b"), other),
        site_mistake(other, site("/etc/a/b")),
    ]
    sentences.check(SENTENCES, "a path of two variables of the site", lines)
    assert lines[1] == lines[2]
    assert site_mistake(site("/etc/a", "directory"), site("/etc/a/b", role="rdma")) == ""
