"""The rows of broken_configurations.yml, as far as they need no cluster: the reader or slurmctld refuses each in its own words."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.filter.slurm import slurm_files
from ansible_collections.bedplate.cluster.plugins.module_utils.common import finding
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf import config_trial, script_check
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretStore, size_mistake
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import script_guard, scripts
from tests.kit.broken import ROWS, configuration

FAMILIES = ("file", "guard", "test", "start")
# What the output of every refused run may have, whatever was wrong.
EVERY_RUN = (
    "Restored: the previous files are on disk, and munge.service, slurmctld.service run on them again. Correct the above and run again.",
    "slurm.conf cgroup.conf plugstack.conf job_submit.lua topology.conf /etc/slurm /var/lib/bedplate job_submit cgroup hash munge secret",
)


def rows(family: str) -> Any:
    return pytest.mark.parametrize(
        "row", [row for row in ROWS if row["refused"] == family], ids=lambda row: row["reason"]
    )


def test_there_are_rows_enough_and_few_are_quick() -> None:
    assert len({row["reason"] for row in ROWS}) == len(ROWS) >= 37
    assert {row["refused"] for row in ROWS} == set(FAMILIES)
    assert 4 <= sum(bool(row.get("quick")) for row in ROWS) <= 10


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["reason"])
def test_a_row_has_words_of_its_own(row: dict[str, Any]) -> None:
    assert not [text for text in EVERY_RUN if re.search(row["says"], text)]
    assert [other["reason"] for other in ROWS if other["says"] == row["says"]] == [row["reason"]]


def _fits(text: str) -> list[str]:
    return [row["reason"] for row in ROWS if re.search(row["says"], " ".join(text.split()))]


@rows("file")
def test_the_reader_refuses(row: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ClusterFileError) as caught:
        load(configuration(row, tmp_path))
    assert _fits(str(caught.value)) == [row["reason"]]


@pytest.mark.parametrize("family", [one for one in FAMILIES if one != "file"])
def test_the_reader_takes_what_others_refuse(family: str, tmp_path: Path) -> None:
    for row in (row for row in ROWS if row["refused"] == family):
        load(configuration(row, tmp_path))


@pytest.mark.tools("slurmctld", "scontrol")
@rows("test")
def test_slurmctld_refuses(row: dict[str, Any], tmp_path: Path) -> None:
    path = configuration(row, tmp_path)
    topology = row["files"].get("topology.conf", "") if "files" in row else ""
    result = config_trial.run(slurm_files(str(path), None, topology))
    assert not result.accepted
    assert _fits(result.message) == [row["reason"]]


@pytest.fixture
def machine() -> Iterator[Path]:
    """A folder in place of /opt of one machine; all users may enter it, unlike those of tmp_path."""
    folder = Path(tempfile.mkdtemp(prefix="bedplate-guard-"))
    yield folder
    shutil.rmtree(folder)


def _empty(folder: Path) -> None:
    """Make the folder that of a machine before a row's commands."""
    shutil.rmtree(folder)
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "hostname").write_text("machine\n")
    (folder / "hostname").chmod(0o644)


@pytest.mark.skipif(os.geteuid() != 0, reason="root owns scripts")
@pytest.mark.parametrize(
    "row", [row for row in ROWS if row["refused"] == "guard" and "secrets" not in row], ids=lambda row: row["reason"]
)
def test_the_guard_refuses_scripts(row: dict[str, Any], tmp_path: Path, machine: Path) -> None:
    """Check the machines one after the other; one folder is /opt of each."""
    places = {"/etc/hostname": f"{machine}/hostname", "/opt": str(machine)}
    text = yaml.safe_dump({**row, "says": ""})
    for old, new in places.items():
        text = text.replace(old, new)
    moved = yaml.safe_load(text)
    cluster = load(configuration(moved, tmp_path))
    limit = [one.partition("=")[2] for one in row.get("arguments", ())]
    answers: dict[str, Any] = {}
    for host in limit or script_guard.hosts(cluster):
        _empty(machine)
        subprocess.run(moved.get("before", {}).get(host, "true"), shell=True, check=True)
        found = script_check.findings_of(scripts.expected(cluster, host), tmp_path / "etc")
        answers[host] = {"findings": finding.to_json(found), "in_force": {}}
    said = script_guard.refuse(cluster, answers, {})
    for new, old in {
        f"{machine}/hostname": "/etc/hostname",
        str(machine): "/opt",
        f"{tmp_path}/etc/": "/etc/slurm/",
    }.items():
        said = said.replace(new, old)
    assert _fits(said) == [row["reason"]], said


def test_the_guard_refuses_a_secret_of_another_cluster(tmp_path: Path) -> None:
    (row,) = [row for row in ROWS if ".munge_key.known" in row.get("secrets", {})]
    assert _fits(SecretStore(tmp_path).refusal("munge_key")) == [row["reason"]]


def test_the_check_before_a_run_refuses_a_short_key():
    (row,) = [row for row in ROWS if row["refused"] == "guard" and row.get("secrets", {}).get("munge_key") == "abc"]
    assert _fits(f"munge_key: {size_mistake('munge_key', b'abc')}") == [row["reason"]]
