"""What the user sees of a cluster file: the real ansible-inventory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def inventory(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("ansible-inventory")), *map(str, arguments)]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("example", "machines", "node", "address"),
    [
        ("lab", 5, "gpu04", "10.213.0.14"),
        ("examples/rack-4", 5, "gpu04", "10.10.0.14"),
        ("examples/pod-32", 36, "gpu032", "10.20.1.32"),
        ("examples/site-1024", 1029, "b0256", "10.30.5.0"),
        ("examples/site-10000", 10004, "gpu10000", "10.64.40.16"),
    ],
)
def test_every_example_is_listed(example, machines, node, address):
    done = inventory("-i", f"inventories/{example}", "--list")
    assert (done.returncode, done.stderr) == (0, "")
    listed = json.loads(done.stdout)
    assert len(listed["_meta"]["hostvars"]) == machines
    assert listed["_meta"]["hostvars"][node]["ansible_host"] == address
    assert node in listed["gpu_nodes"]["hosts"]


def test_all_mistakes_are_shown_on_lines_of_their_own_and_the_command_fails(tmp_path):
    path = tmp_path / "lab.bedplate.yml"
    text = (ROOT / "inventories/lab/lab.bedplate.yml").read_text()
    for old, new in (("count: 2", "count: 3"), ("rack:r1", "rack:r7"), ("controllers: [ctl1]", "controllers: [ctl]")):
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    done = inventory("-i", path, "--list")
    assert done.returncode != 0
    shown = [
        line.removeprefix(f"{path}:").partition(": ")[2]
        for line in done.stderr.splitlines()
        if line.startswith(str(path))
    ]
    assert shown[:3] == [
        "profiles.sim.gpus.devices: '/dev/nvidia[0-1]' are 2 files, and 'count' is 3.",
        "services.controllers[0]: host 'ctl' is unknown. Did you mean 'ctl1'?",
        "partitions.debug.nodes: rack 'r7' is unknown. Allowed: r1, r2.",
    ]
    assert "3 mistakes in the cluster file:" in done.stderr
    assert "Traceback" not in done.stderr


def test_what_is_no_yaml_names_the_line_and_the_command_fails(tmp_path):
    path = tmp_path / "lab.bedplate.yml"
    path.write_text("plugin: bedplate.cluster.racks\nsite: [lab\n")
    done = inventory("-i", path, "--list")
    assert done.returncode != 0
    assert f"{path}:" in done.stderr
