"""ansible-doc knows every plugin of the collection."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.filter import (
    fabric,
    host_choice,
    machines,
    opensm,
    recover,
    roll,
    slurm,
    turn_keys,
    upgrade,
)

ROOT = Path(__file__).parents[2]

# ansible-doc reads every plugin, which takes ten seconds, and once for each worker.
pytestmark = pytest.mark.playbooks
SHARED = {"fabric", "host_choice", "machines", "opensm", "recover", "roll", "slurm", "turn_keys", "upgrade"}
"""Files with several filters, each documented in a .yml file of its own."""
KINDS = ["filter", "inventory", "lookup", "module"]


def names(kind: str) -> list[str]:
    """Return the plugins of a kind, from the code: not from the documentation under test."""
    found = {path.stem for path in (ROOT / "plugins" / {"module": "modules"}.get(kind, kind)).glob("*.py")}
    if kind == "filter":
        shared = (fabric, host_choice, machines, opensm, recover, roll, slurm, turn_keys, upgrade)
        found = (found - SHARED) | {name for module in shared for name in module.FilterModule().filters()}
    if kind == "module":
        found |= {path.stem for path in (ROOT / "plugins" / "action").glob("*.py")}
    return sorted(found)


def ask(kind: str) -> dict[str, Any]:
    """Ask ansible-doc for all of a kind in one call; what it does not know, it leaves out with a warning."""
    command = [Path(sys.executable).with_name("ansible-doc"), "-t", kind, "-j"]
    command += [f"bedplate.cluster.{name}" for name in names(kind)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def documents() -> dict[str, dict[str, Any]]:
    with ThreadPoolExecutor() as pool:
        return dict(zip(KINDS, pool.map(ask, KINDS), strict=True))


def test_there_are_plugins_of_every_kind():
    assert all(names(kind) for kind in KINDS)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in KINDS for name in names(kind)])
def test_a_plugin_is_documented(kind: str, name: str, documents: dict[str, dict[str, Any]]):
    assert f"bedplate.cluster.{name}" in documents[kind], f"ansible-doc -t {kind} bedplate.cluster.{name} knows nothing"
    document = documents[kind][f"bedplate.cluster.{name}"]
    assert len(document["doc"]["short_description"]) > 5
    assert document["doc"]["description"]
    assert document["examples"].strip()
    assert document["return"] or kind == "inventory"
