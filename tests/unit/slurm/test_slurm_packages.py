# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's packages stay at one release: pinned, held, and refused where another one is installed."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.slurm_packages import values
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables.packagings import packaging
from tests.kit import sentences

SENTENCES = Path(__file__).with_name("sentences.txt")
LAB = Path(__file__).parents[3] / "inventories/lab/lab.bedplate.yml"
# Debian's, by a daemon of every part.
SLURMS = [
    "slurmctld", "slurmd", "slurmdbd", "slurmrestd", "sackd", "slurm-client", "slurm-wlm-basic-plugins", "slurm-wlm-jwt-plugin",
    "slurm-wlm-mysql-plugin", "libpam-slurm-adopt", "libslurm-dev", "libslurm42t64", "libslurm-perl", "libslurmdb-perl", "libpmi0t64",
    "libpmi2-0t64", "slurm-smd-slurmd", "slurm-smd-libpam-slurm-adopt",
]  # fmt: skip
# The first is a monitor of networks.
OTHERS = ["slurm", "slurm-drmaa1", "munge", "mariadb-server", "libpmix2t64", "prometheus-slurm-exporter", "libmunge2"]


@pytest.fixture
def cluster() -> Cluster:
    return load(LAB)


def matched(name: str, entries: list[str]) -> bool:
    return any(fnmatchcase(name, entry.partition("=")[0]) for entry in entries)


def test_all_that_is_slurms_is_held_and_pinned_and_nothing_of_others(cluster: Cluster) -> None:
    told = values(cluster, ["slurmd", "munge"])
    (pin,) = told["apt_pins"][0]["pins"]
    pinned = pin["packages"].split()
    for entries in (told["follow"], pinned):
        assert [name for name in SLURMS if not matched(name, entries)] == []
        assert [name for name in OTHERS if matched(name, entries)] == []
    assert (pin["pin"], pin["priority"]) == ("version 24.11.*", 1001)
    assert told["hold"] == ["slurmd"]


def test_a_first_installation_is_the_newest_of_the_release(cluster: Cluster) -> None:
    assert values(cluster, ["slurmd", "munge"])["packages"] == ["slurmd=24.11.*", "munge"]


def test_a_stated_version_is_that_of_all_of_slurms_packages(cluster: Cluster) -> None:
    told = values(cluster, ["slurmd", "munge"], "24.11.5-4")
    assert told["packages"] == ["slurmd=24.11.5-4", "munge"]
    assert {"slurm-wlm*=24.11.5-4", "slurmctld=24.11.5-4"} <= set(told["follow"])
    # An older release may have left one behind, of which there is no such version.
    assert "libslurm[0-9]*" in told["follow"]
    assert [pin["pin"] for pin in told["apt_pins"][0]["pins"]] == ["version 24.11.5-4"]


@pytest.mark.parametrize(
    ("names", "version", "where"),
    [
        (["slurmd=26.05.5-1"], "", "slurmd"),
        (["munge"], "24.05.1-1", "slurm_package_version"),
        (["slurmd=24.110.1-1"], "", "slurmd"),
    ],
)
def test_a_version_of_another_release_is_refused(cluster: Cluster, names: list[str], version: str, where: str) -> None:
    with pytest.raises(ValueError, match=rf"^{where}: .* 24\.11,") as caught:
        values(cluster, names, version)
    stated = repr(version or names[0].partition("=")[2])
    assert stated in str(caught.value)
    text = str(caught.value).replace(f"{where}: {stated}", "NAME: VERSION")
    sentences.check(SENTENCES, "a version of another release", [text])


def test_an_epoch_is_no_release(cluster: Cluster) -> None:
    assert values(cluster, ["slurmd"], "1:24.11.5-4")["packages"] == ["slurmd=1:24.11.5-4"]


def test_a_version_of_another_package_is_its_own(cluster: Cluster) -> None:
    assert values(cluster, ["munge=0.5.16-1", "slurmd=24.11.5-4"])["packages"] == [
        "munge=0.5.16-1",
        "slurmd=24.11.5-4",
    ]


def test_the_release_of_what_is_installed_is_fixed(cluster: Cluster) -> None:
    fixed = values(cluster, ["slurmd"])["fixed"]
    assert fixed["version"] == "24.11.*"
    assert fixed["packages"] == list(packaging().release)
    assert "docs/upgrade-slurm.md" in fixed["advice"]


def test_an_upgrade_changes_every_installed_package_of_slurm_and_keeps_libraries(cluster: Cluster) -> None:
    found = values(cluster, ["slurmd"], upgrade=True)
    assert found["fixed"]["packages"] == []
    release = packaging()
    assert found["follow"] == [*(f"{name}=24.11.*" for name in release.release), *release.libraries]
    assert values(cluster, ["slurmd"])["follow"] == [*release.release, *release.libraries]
