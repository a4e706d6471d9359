# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of options against the parser of the installed Slurm."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables import options
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables.options import check, known

pytestmark = pytest.mark.tools("scontrol")
UNKNOWN = "unrecognized key"
BASE = "ClusterName=test\nSlurmctldHost=localhost\n"
# Kinds whose options share lines of slurm.conf, with the beginning of the line.
LINES = {"slurm": "", "node": "NodeName=n1 ", "partition": "PartitionName=p ", "downnodes": "DownNodes=n1 "}
Parse = Callable[[str], str]


@pytest.fixture
def parse(tmp_path: Path) -> Parse:
    """Let scontrol read a slurm.conf and return what it complains about."""
    conf = tmp_path / "slurm.conf"

    def run(text: str) -> str:
        conf.write_text(BASE + text + "\n")
        command = ["scontrol", "show", "hostnames", "x"]
        env = {**os.environ, "SLURM_CONF": str(conf)}
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=30, check=False).stderr

    return run


@pytest.fixture
def version(parse: Parse, tmp_path: Path) -> str:
    parse("")
    env = {**os.environ, "SLURM_CONF": str(tmp_path / "slurm.conf")}
    return subprocess.run(["scontrol", "-V"], env=env, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("kind", LINES)
def test_slurm_knows_every_option_of_the_table(parse: Parse, version: str, kind: str) -> None:
    first = LINES[kind].partition("=")[0]
    names = [name for name in known(version, kind) if name not in (first, "SlurmctldHost", "ClusterName")]
    assert len(names) > 1
    assert UNKNOWN in parse(LINES[kind] + "Qwxyz=1")
    separator = "\n" if kind == "slurm" else " "
    problems = parse(LINES[kind] + separator.join(f"{name}=1" for name in names))
    assert UNKNOWN not in problems


def test_slurm_does_not_know_what_the_table_says_is_gone_or_still_to_come(parse: Parse, version: str) -> None:
    table = json.loads(Path(options.__file__).with_name("options.json").read_text())["options"]["slurm"]
    release = options.release(version)
    gone = [
        name
        for name, option in table.items()
        if release < option.get("since", release) or release >= option.get("removed", "99")
    ]
    assert gone
    assert {name: UNKNOWN in parse(f"{name}=1") for name in gone} == dict.fromkeys(gone, True)
    assert {problem.key for problem in check(version, "slurm", dict.fromkeys(gone, "1"))} == set(gone)


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("MessageTimeout", {"30": True, "0x10": True, "010": True, "UNLIMITED": True, "65536": False, "-1": False}),
        ("MessageTimeout", {"30s": False, "1k": False, "089": False, "": False}),
        ("MaxJobCount", {"100k": True, "4194304k": False, "1m": False}),
        ("DisableRootJobs", {"yes": True, "No": True, "TRUE": True, "up": True, "1": True, "on": False, "2": False}),
    ],
)
def test_values_are_read_as_slurm_reads_them(parse: Parse, version: str, key: str, values: dict[str, bool]) -> None:
    accepted = {value: "Unable to process configuration file" not in parse(f"{key}={value}") for value in values}
    assert accepted == values
    assert {value: not check(version, "slurm", {key: value}) for value in values} == values
