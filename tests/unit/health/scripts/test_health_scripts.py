# SPDX-License-Identifier: GPL-3.0-or-later
"""The scripts of `health` join those of the site: the prolog first, the record of the job first and the cleaning last whatever fails."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.script_check import findings_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import (
    health_additions,
    render,
    script_guard,
    scripts,
)

BASE = (Path(__file__).parents[2] / "cluster/base.yml").read_text()
OPTIONS = {"Prolog", "Epilog", "HealthCheckProgram"}


class Site:
    """A cluster file with scripts beside it, whose calls are in `log`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"

    def script(self, name: str, status: int = 0) -> None:
        (self.folder / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{self.log}\nexit {status}\n')

    def load(self, health: str = "health: {}\n", block: str = "") -> Cluster:
        path = self.folder / "lab.bedplate.yml"
        path.write_text(BASE.replace("slurm:\n", f"slurm:\n{block}", 1) + health)
        return load(path)

    def install(self, cluster: Cluster, option: str) -> str:
        """Install the scripts of a node below a folder, those of health with logs instead; return the path that the option names."""
        root = self.folder / "root"
        for entry in scripts.files(cluster, "gpu01"):
            path = root / entry["path"].lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            name = path.name.partition("-")[2] if path.name[:2].isdigit() else path.name
            own = f'#!/bin/sh\necho "{name} $*" >>{self.log}\n' if name.startswith("bedplate-") else entry["content"]
            path.write_text(own.replace(scripts.DIRECTORY, f"{root}{scripts.DIRECTORY}"))
            path.chmod(0o755)
        return f"{root}{scripts.options(cluster)[option]}"

    def run(self, cluster: Cluster, option: str) -> tuple[int, list[str]]:
        status = subprocess.run([self.install(cluster, option), "x y"], check=False).returncode
        return status, [line.removesuffix(" x y") for line in self.log.read_text().splitlines()]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_without_health_nothing_is_added(site):
    cluster = site.load("")
    assert scripts.options(cluster) == {}
    assert scripts.hosts(cluster) == []


def test_with_health_alone_three_options_name_its_scripts_on_all_nodes(site):
    cluster = site.load()
    options = scripts.options(cluster)
    assert set(options) == set(scripts.stated(cluster)) == OPTIONS
    # The prolog of a node without others needs no runner: it is one process.
    assert options["Prolog"].endswith("/bedplate-prolog.sh")
    assert options["HealthCheckProgram"].endswith("/bedplate-health-check.sh")
    assert set(scripts.hosts(cluster)) >= {node.name for node in cluster.nodes}
    text = render.slurm_files(cluster)["slurm.conf"].splitlines()
    assert f"Prolog={options['Prolog']}" in text
    installed = {entry["path"] for entry in scripts.files(cluster, "gpu01")}
    assert set(options.values()) <= installed
    assert scripts.files(cluster, "ctl1") == []


def test_every_node_can_run_them(site):
    cluster = site.load()
    assert findings_of(scripts.expected(cluster, "gpu01"), site.folder) == []


def test_an_open_gate_has_no_prolog(site):
    assert set(scripts.options(site.load("health: {gate: false}\n"))) == OPTIONS - {"Prolog"}
    site.script("own.sh")
    cluster = site.load("health: {gate: false}\n", "  scripts: {prolog: own.sh}\n")
    assert scripts.options(cluster)["Prolog"].endswith("/own.sh")


def test_the_health_prolog_is_first(site):
    site.script("own.sh")
    cluster = site.load(block="  scripts: {prolog: own.sh, health_check: own.sh}\n")
    assert site.run(cluster, "Prolog") == (0, ["bedplate-prolog.sh", "own.sh"])
    site.log.unlink()
    assert site.run(cluster, "HealthCheckProgram") == (0, ["bedplate-health-check.sh", "own.sh"])


@pytest.mark.parametrize("status", [0, 7])
def test_an_epilog_of_the_site_that_fails_hides_neither_the_job_nor_its_remains(site, status):
    site.script("one.sh", status)
    site.script("two.sh")
    cluster = site.load(block="  scripts: {epilog: [one.sh, two.sh]}\n")
    site_calls = ["one.sh"] if status else ["one.sh", "two.sh"]
    assert site.run(cluster, "Epilog") == (status, ["bedplate-epilog.sh", *site_calls, "bedplate-node-clean.sh"])


def test_a_host_that_cannot_run_them_points_to_the_section(site):
    cluster = site.load()
    line = int(script_guard.place(cluster, "Prolog").rpartition(":")[2])
    assert (site.folder / "lab.bedplate.yml").read_text().splitlines()[line - 1].startswith("health:")


def test_the_scripts_of_the_cluster_file_stay_as_they_are(site):
    site.script("own.sh")
    cluster = site.load(block="  scripts: {epilog: own.sh}\n")
    assert scripts.options(cluster) == scripts.options(cluster)
    assert [entry["file"] for entry in cluster.slurm.scripts["epilog"]] == [str(site.folder / "own.sh")]


@pytest.mark.parametrize(
    ("version", "option"),
    [("23.11", "JobContainerType"), ("25.05", "JobContainerType"), ("25.11", "NamespaceType")],
)
def test_a_private_tmp_needs_the_plugin_of_its_release(tmp_path: Path, version: str, option: str) -> None:
    cluster = Site(tmp_path).load()
    assert cluster.health
    slurm = dataclasses.replace(cluster.slurm, version=version)
    health = dataclasses.replace(cluster.health, private_tmp="/var/tmp/jobs")
    found = health_additions.options(dataclasses.replace(cluster, slurm=slurm, health=health))
    assert {one for one in found if one in health_additions.PRIVATE_TMP} == {option}


@pytest.mark.parametrize(("version", "is_shared"), [("22.05", False), ("23.02", True), ("25.05", True)])
def test_mounts_of_autofs_are_shared_where_slurm_can(tmp_path: Path, version: str, is_shared: bool) -> None:
    cluster = Site(tmp_path).load()
    assert cluster.health
    slurm = dataclasses.replace(cluster.slurm, version=version)
    health = dataclasses.replace(cluster.health, private_tmp="/var/tmp/jobs")
    (text,) = health_additions.files(dataclasses.replace(cluster, slurm=slurm, health=health)).values()
    assert ("Shared=true" in text) is is_shared
