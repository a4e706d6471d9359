"""A plugin that a release has renamed or taken away is refused by its old name, with what to write instead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
REMOVED = {
    kind: {name: entry["tombstone"] for name, entry in found.items()}
    for kind, found in yaml.safe_load((ROOT / "meta/runtime.yml").read_text())["plugin_routing"].items()
}


def plugins(kind: str) -> set[str]:
    return {path.stem for path in (ROOT / "plugins" / kind).iterdir()}


@pytest.mark.parametrize("kind", REMOVED)
def test_what_is_taken_away_is_gone_and_what_is_named_instead_is_there(kind: str):
    assert not set(REMOVED[kind]) & plugins(kind)
    names = {f"bedplate.cluster.{name}" for folder in ("filter", "modules", "lookup") for name in plugins(folder)}
    for name, tombstone in REMOVED[kind].items():
        assert any(one in tombstone["warning_text"] for one in names), name


@pytest.mark.playbooks
@pytest.mark.parametrize("name", REMOVED["filter"])
def test_an_old_filter_is_refused_with_the_new_way(name: str):
    done = subprocess.run(
        [Path(sys.executable).with_name("ansible"), "localhost", "-m", "debug", "-a", f"msg={{{{ 'x' | bedplate.cluster.{name} }}}}"],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"},
    )  # fmt: skip
    output = " ".join((done.stdout + done.stderr).split())
    assert done.returncode != 0
    assert " ".join(REMOVED["filter"][name]["warning_text"].split()) in output
