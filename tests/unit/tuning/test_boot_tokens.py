"""The kernel command line of nodes that boot from the network, as their boot server needs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.tuning.boot_tokens import (
    BootTokens,
    grouped,
    text,
    to_json,
    tokens_of,
)
from tests.unit.stand_ins import ROOT, StandIns, cluster_file


def test_nodes_of_one_profile_with_equal_tokens_are_one_group() -> None:
    rows = grouped([("n1", "a", ["x=1"]), ("n3", "a", ["x=2"]), ("n2", "a", ["x=1"]), ("m1", "b", ["x=1", "y"])])
    assert rows == [BootTokens("a", "n[1-2]", "x=1"), BootTokens("a", "n3", "x=2"), BootTokens("b", "m1", "x=1 y")]
    assert text(rows[2:]).splitlines()[1] == "x=1 y"
    assert json.loads(to_json(rows))[2] == {"profile": "b", "nodes": "m1", "tokens": "x=1 y"}


@pytest.mark.parametrize("boot", ["loader", "none"])
def test_a_node_with_its_own_boot_loader_has_no_tokens_for_a_server(boot: str) -> None:
    assert tokens_of({"node_tuning": {"boot": boot, "tokens": ["x"]}}) is None
    assert tokens_of({}) is None
    assert tokens_of({"node_tuning": {"boot": "network", "tokens": []}}) == []


@pytest.mark.playbooks
def test_the_playbook_prints_and_writes_them_and_connects_to_nothing(tmp_path: Path) -> None:
    """Variables of a host count as in a run of the role."""
    profiles = {"disk": {}, "net": {"boot": "network", "hugepages": {"2M": 64}}}
    site = StandIns(tmp_path, [], cluster_file(profiles, {"disk": "d[1-2]", "net": "n[1-3]"}))
    for folder in ("action", "modules"):
        (site.top / "plugins" / folder).mkdir(exist_ok=True)
        for name in ("boot_tokens.py", "role_variables.py"):
            (site.top / "plugins" / folder / name).symlink_to(ROOT / "plugins" / folder / name)
    (site.top / "roles").rmdir()
    (site.top / "roles").symlink_to(ROOT / "roles")
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars/n3.yml").write_text("node_tuning_cmdline: [audit=0]\nansible_connection: ssh\n")
    for name in ("boot_tokens.yml", "validate.yml"):
        (tmp_path / name).write_text((ROOT / "playbooks" / name).read_text())
    playbook = tmp_path / "boot_tokens.yml"
    file = tmp_path / "tokens.json"
    done = site.run(playbook, "-e", f"boot_tokens_file={file}")
    assert done.returncode == 0, done.stdout + done.stderr
    common = "iommu=pt default_hugepagesz=2M hugepagesz=2M hugepages=0:64 transparent_hugepage=madvise"
    assert json.loads(file.read_text()) == [
        {"profile": "net", "nodes": "n[1-2]", "tokens": common},
        {"profile": "net", "nodes": "n3", "tokens": f"{common} audit=0"},
    ]
    assert f"# profile net: n[1-2]\n{common}\n" in done.stdout
    assert "changed=1" in done.stdout
    again = site.run(playbook, "-e", f"boot_tokens_file={file}")
    assert (again.returncode, "changed=1" in again.stdout) == (0, False)
    # Nodes with a boot loader alone take no tokens from a server that has some.
    text_before = file.read_bytes()
    done = site.run(playbook, "--limit", "d1", "-e", f"boot_tokens_file={file}")
    assert (done.returncode, "changed=1" in done.stdout) == (0, False)
    assert f"no node of this run has a profile with `boot: network`; {file} is not written" in done.stdout
    assert file.read_bytes() == text_before
    done = site.run(playbook, "--limit", "n1", "-e", f"boot_tokens_file={file}", "--check")
    assert (done.returncode, "changed=1" in done.stdout) == (0, True)
    assert file.read_bytes() == text_before
