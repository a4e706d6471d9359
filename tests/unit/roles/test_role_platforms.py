"""The metadata of the GPU roles names each system on which they install something, and no other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack import parts, stack_table

ROOT = Path(__file__).parents[3]
SYSTEMS = {
    ("Debian", "bookworm"): "debian-12",
    ("Debian", "trixie"): "debian-13",
    ("Ubuntu", "jammy"): "ubuntu-22.04",
    ("Ubuntu", "noble"): "ubuntu-24.04",
    ("EL", "9"): "rocky-9",
    ("EL", "10"): "rocky-10",
}


@pytest.mark.parametrize("role", ["gpu_driver", "cuda", "dcgm", "container_runtime"])
def test_a_role_names_the_systems_of_its_table(role: str) -> None:
    table = set(stack_table.default().systems)
    engines = json.loads(Path(parts.__file__).with_name("container_engines.json").read_text())["systems"]
    expected = set(engines) if role == "container_runtime" else table
    rows = yaml.safe_load((ROOT / "roles" / role / "meta/main.yml").read_text())["galaxy_info"]["platforms"]
    assert {SYSTEMS[row["name"], version] for row in rows for version in row["versions"]} == expected
