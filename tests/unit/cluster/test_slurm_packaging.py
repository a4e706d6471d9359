# SPDX-License-Identifier: GPL-3.0-or-later
"""`slurm.packages` and `slurm.users`: packagings by name, a site's own table, and all mistakes at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.schema.slurm_sections import PACKAGINGS
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.slurm_packaging import system_mistakes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables.packagings import OWN, names
from tests.kit import sentences
from tests.kit.rendered_parts import KEY

SENTENCES = Path(__file__).with_name("sentences.txt")
BASE = """\
plugin: bedplate.cluster.racks
site: s
cluster: c
networks: {management: {cidr: 10.0.0.0/24, start: 10.0.0.11}}
profiles:
  gpu: {gpus: {model: h100, count: 8}, sockets: 1, cores_per_socket: 2, memory_mib: 1024}
racks: {r1: {nodes: a1, profile: gpu}}
hosts: {ctl1: {address: 10.0.0.10}, login1: {address: 10.0.0.9}}
services: {controllers: [ctl1], login: [login1]}
partitions: {all: {nodes: all}}
"""
EL = 'gpu_stack: {os: rocky-9, source: nvidia, driver: "580", keys: {nvidia: nvidia.asc}}\n'
TABLE = """\
slurm:
  packages:
    manager: apt
    controller: [site-slurmctld]
    compute: [site-slurmd, munge]
    login: [site-sackd=24.11.5-1]
    release: ["site-*"]
    makes_users: false
    sackd: true
    state: /srv/state
"""


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Cluster]:
    def loaded(*sections: str) -> Cluster:
        path = tmp_path / "c.bedplate.yml"
        (tmp_path / "nvidia.asc").write_text(KEY)
        path.write_text(BASE + "".join(sections))
        return load(str(path))

    return loaded


def test_the_packagings_of_the_cluster_file_are_those_of_the_table() -> None:
    assert set(PACKAGINGS) == {*names(), OWN}


@pytest.mark.parametrize(
    ("sections", "name", "manager"),
    [
        ([], "debian", "apt"),
        (["slurm: {packages: schedmd}\n"], "schedmd", "apt"),
        (["slurm: {packages: schedmd}\n", EL], "schedmd", "dnf"),
        (["slurm: {packages: openhpc}\n"], "openhpc", "dnf"),
        (["slurm: {packages: {packaging: schedmd, manager: dnf}}\n"], "schedmd", "dnf"),
        # Where nothing is stated, the GPU software alone may be of another system.
        ([EL], "debian", "apt"),
    ],
)
def test_a_packaging_by_name(read: Callable[..., Cluster], sections: list[str], name: str, manager: str) -> None:
    found = read(*sections).slurm.packages
    assert (found.name, found.manager) == (name, manager)


def test_a_sites_own_table(read: Callable[..., Cluster]) -> None:
    cluster = read(TABLE)
    found = cluster.slurm.packages
    assert (found.name, found.manager) == (OWN, "apt")
    assert found.packages["compute"] == ("site-slurmd", "munge")
    assert found.packages["rest"] == ()
    assert found.paths["state"] == "/srv/state"
    assert cluster.has_sackd
    assert not read(TABLE.replace("sackd: true", "sackd: false")).has_sackd


def test_numbers_of_users_with_their_place(read: Callable[..., Cluster]) -> None:
    cluster = read("slurm:\n  users:\n    slurm: {uid: 981}\n    munge: {uid: 980, gid: 990}\n")
    slurm, munge = cluster.slurm.users["slurm"], cluster.slurm.users["munge"]
    assert (slurm.uid, slurm.gid, munge.uid, munge.gid) == (981, 981, 980, 990)
    assert slurm.place == f"{cluster.path}:13: slurm.users.slurm"
    assert read().slurm.users == {}


@pytest.mark.parametrize(
    ("case", "sections", "where"),
    [
        ("an unknown packaging", ["slurm:\n  packages: schemd\n"], ["slurm.packages"]),
        ("a packaging that is no text", ["slurm:\n  packages: [schedmd]\n"], ["slurm.packages"]),
        ("no packages for the manager", ["slurm:\n  packages: {packaging: openhpc, manager: apt}\n"], ["slurm.packages.manager"]),
        ("nodes with another manager", ["slurm:\n  packages: debian\n", EL], ["slurm.packages"]),
        ("a key of the own table", ["slurm:\n  packages: {packaging: schedmd, compute: [x]}\n"], ["slurm.packages.compute"]),
        ("an empty own table", ["slurm:\n  packages: own\n"], ["slurm.packages"] * 7),
        ("one missing key", [TABLE.replace("    sackd: true\n", "")], ["slurm.packages"]),
        ("no pattern of the release", [TABLE.replace('    release: ["site-*"]\n', "")], ["slurm.packages"]),
        ("a section that is no mapping", ["slurm: 5\n"], ["slurm"]),
        ("a key without a value", [TABLE.replace("sackd: true", "sackd:")], ["slurm.packages.sackd"]),
        ("no package of the release", [TABLE.replace("site-slurmctld", "slurmctld")], ["slurm.packages.controller"]),
        ("a name that is no package", [TABLE.replace("site-slurmctld", "site slurmctld")], ["slurm.packages.controller[0]"]),
        ("a pattern that is not allowed", [TABLE.replace('"site-*"', '"site-[a"')], ["slurm.packages.release[0]"]),
        ("a relative path", [TABLE.replace("/srv/state", "srv/state")], ["slurm.packages.state"]),
        ("no packaging", ["slurm:\n  packages:\n"], ["slurm.packages"]),
        ("no packaging in a section", ["slurm:\n  packages:\n    packaging:\n    manager:\n"],
         ["slurm.packages.packaging", "slurm.packages.manager"]),
        ("a list without a value", ["slurm:\n  packages: {packaging: schedmd, compute: }\n"], ["slurm.packages.compute"]),
        ("no users", ["slurm:\n  users:\n"], ["slurm.users"]),
        ("a gid without a value", ["slurm:\n  users: {slurm: {uid: 5, gid: }}\n"], ["slurm.users.slurm.gid"]),
        ("no release", ["slurm:\n  version:\n"], ["slurm.version"]),
        ("a script without a value", ["slurm:\n  scripts:\n    prolog:\n"], ["slurm.scripts.prolog"]),
        ("a parent without a value", ["slurm:\n  accounts:\n    research: {parent: }\n"],
         ["slurm.accounts", "slurm.accounts.research.parent"]),
        ("a uid that is too large", ["slurm:\n  users: {slurm: {uid: 4294967295}}\n"], ["slurm.users.slurm.uid"]),
        ("a user without a uid", ["slurm:\n  users: {slurm: {gid: 5}}\n"], ["slurm.users.slurm"]),
        ("one uid for two users", ["slurm:\n  users: {slurm: {uid: 5}, munge: {uid: 5, gid: 6}}\n"], ["slurm.users.munge.uid"]),
        ("a user of another program", ["slurm:\n  users: {mysql: {uid: 5}}\n"], ["slurm.users.mysql"]),
    ],
)  # fmt: skip
def test_mistakes(read: Callable[..., Cluster], case: str, sections: list[str], where: list[str]) -> None:
    with pytest.raises(ClusterFileError) as caught:
        read(*sections)
    found = caught.value.mistakes
    assert [one.where for one in found] == where
    text = (BASE + "".join(sections)).splitlines()
    assert all("slurm" in "".join(text[10 : one.line]) for one in found)
    sentences.check(SENTENCES, f"slurm packages: {case}", [one.message for one in found])


def test_nodes_without_packages_are_found_where_slurm_is_installed(read: Callable[..., Cluster]) -> None:
    """The file passes: GPU software alone needs no packages of Slurm."""
    cluster = read(EL)
    (line,) = system_mistakes(cluster)
    number = Path(cluster.path).read_text().splitlines().index(EL.rstrip()) + 1
    assert line.startswith(f"{cluster.path}:{number}: gpu_stack.os: rocky-9: ")
    sentences.check(SENTENCES, "slurm packages: nodes of EL, and nothing stated", [line.split(": ", 2)[2]])
    assert system_mistakes(read("slurm: {packages: schedmd}\n", EL)) == []
    assert system_mistakes(read("slurm: {packages: {}}\n", EL)) != []
    assert system_mistakes(read()) == []


@pytest.mark.parametrize("key", ["options", "cgroup", "slurmdbd", "qos", "accounts", "scripts"])
def test_a_section_of_free_keys_may_have_all_of_them_commented_out(read: Callable[..., Cluster], key: str) -> None:
    assert read(f"slurm:\n  {key}:\n    # none yet\n").slurm == read("slurm: {}\n").slurm


def test_nodes_of_two_managers_need_two_cluster_files(tmp_path: Path) -> None:
    path = tmp_path / "c.bedplate.yml"
    (tmp_path / "nvidia.asc").write_text(KEY)
    deb = "  deb: {gpus: {model: h100, count: 8}, sockets: 1, cores_per_socket: 2, memory_mib: 1024, gpu_stack: {os: debian-13}}\n"
    base = BASE.replace("racks: {", deb + "racks: {r2: {nodes: b1, profile: deb}, ")
    path.write_text(f"{base}slurm:\n  packages: schedmd\n{EL}")
    with pytest.raises(ClusterFileError) as caught:
        load(str(path))
    (found,) = caught.value.mistakes
    assert (found.where, found.line) == ("slurm.packages", 13)
    assert "profile deb have apt and nodes of profile gpu have dnf" in found.message
    sentences.check(SENTENCES, "slurm packages: nodes of two managers", [found.message])
