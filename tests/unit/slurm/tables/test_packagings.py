# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of Slurm's packagings: complete rows, names that the role uses by default, and packages that exclude each other."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.role_choices import defaults as role_defaults
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.part_files import part_file
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables import packagings as table
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables.conf_text import defaults
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables.packagings import (
    PARTS,
    packaging,
    packagings,
)

EVERY = [pytest.param(one, id=f"{one.name}-{one.manager}") for one in packagings()]
OWN = {
    "database": ["site-slurmdbd"], "controller": ["site-slurmctld"], "compute": ["site-slurmd"], "login": ["site-slurm"],
    "rest": [], "headers": ["site-slurm-dev"], "release": ["site-slurm*"], "makes_users": False, "sackd": False, "state": "/srv/state",
}  # fmt: skip


def matched(name: str, patterns: list[str] | tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, one) for one in patterns)


def test_the_sources_of_every_row_are_stated() -> None:
    data = json.loads(Path(table.__file__).with_name("packagings.json").read_text())
    for one in packagings():
        assert {one.name, f"{one.name} {one.manager}"} & set(data["evidence"])


@pytest.mark.parametrize("one", EVERY)
def test_each_part_has_the_package_of_its_daemon(one: table.Packaging) -> None:
    daemons = {
        "database": "slurmdbd",
        "controller": "slurmctld",
        "compute": "slurmd",
        "login": "sackd",
        "rest": "slurmrestd",
    }
    assert set(one.packages) == {*PARTS, "client", "headers"}
    for part, daemon in daemons.items():
        assert [name for name in one.packages[part] if daemon in name.split("-")], part
        assert "munge" in one.packages[part]
    assert not [name for name in one.packages["client"] if "sackd" in name]
    assert set(one.paths) == {"configuration", "state", "spool", "log"}


@pytest.mark.parametrize("one", EVERY)
def test_all_packages_but_munge_and_mariadb_have_slurms_version(one: table.Packaging) -> None:
    for part, names in one.packages.items():
        assert [name for name in names if not one.is_slurms(name)] == [
            name for name in names if name in ("munge", "mariadb-server")
        ], part


def test_debians_row_is_what_the_role_has_by_default() -> None:
    found, role = packaging("debian"), role_defaults("slurm")
    for part in PARTS:
        assert list(found.packages[part]) == role[f"slurm_{part}_packages"]
    pyxis = role_defaults("container_runtime")["container_runtime_pyxis_packages"]
    assert [*found.system.compiler, *found.packages["headers"]] == pyxis
    assert (found.paths["state"], found.paths["spool"]) == (
        defaults("slurm")["StateSaveLocation"],
        defaults("slurm")["SlurmdSpoolDir"],
    )


def test_the_units_of_the_role_are_those_that_every_packaging_has() -> None:
    names = {"slurmctld.service", "slurmd.service", "slurmdbd.service", "slurmrestd.service", "sackd.service"}
    units = {unit["name"] for part in PARTS for unit in part_file("slurm", part)["units"]}
    assert names <= units
    assert units - names == {"munge.service", "mariadb.service", "systemd-logind.service"}


@pytest.mark.parametrize("one", EVERY)
def test_no_packaging_excludes_its_own_packages(one: table.Packaging) -> None:
    own = [name for names in one.packages.values() for name in names]
    assert [name for name in own if matched(name, one.foreign([]))] == []


@pytest.mark.parametrize(
    ("name", "manager", "others"),
    [
        ("debian", "apt", ["slurm-smd-slurmd", "slurm-smd"]),
        ("schedmd", "apt", ["slurmd", "slurmctld", "slurm-wlm-basic-plugins", "slurm-client", "libpam-slurm-adopt"]),
        ("schedmd", "dnf", ["slurm-ohpc", "slurm-slurmd-ohpc", "slurm-ohpc-slurmrestd"]),
        ("openhpc", "dnf", ["slurm", "slurm-slurmd"]),
    ],
)
def test_packages_of_another_packaging_are_foreign(name: str, manager: str, others: list[str]) -> None:
    found = packaging(name, manager).foreign([])
    assert [one for one in others if not matched(one, found)] == []
    assert not matched("munge", found)


def test_a_packaging_that_a_site_names_packages_of_is_not_foreign() -> None:
    assert packaging("debian").foreign(["slurm-smd-slurmd", "munge"]) == []


def test_a_packaging_has_no_packages_for_another_package_manager() -> None:
    with pytest.raises(table.PackagingError, match=r"openhpc.* apt; it has: dnf"):
        packaging("openhpc", "apt")
    with pytest.raises(table.PackagingError, match="debian, schedmd, openhpc"):
        packaging("opensuse")


def test_a_sites_own_table() -> None:
    found = table.own("apt", OWN)
    assert found.packages["client"] == found.packages["login"] == ("site-slurm",)
    assert found.paths == {**packaging().paths, "state": "/srv/state"}
    assert not found.has_sackd("26.05")
    assert "slurm" not in found.makes_users
    assert matched("slurmd", found.foreign([]))
    assert matched("slurm-smd-slurmd", found.foreign([]))
    # Packages that are built anew under Debian's names.
    assert not matched("slurmd", table.own("apt", {**OWN, "release": ["slurmd", "slurmctld"]}).foreign([]))
