"""The role node_tuning as Ansible runs it: which module comes after which, and what a refusal leaves undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.stand_ins import StandIns
from tests.unit.tuning.node import FILE

pytestmark = pytest.mark.playbooks
MODULES = ("huge_pages", "deploy", "kernel_cmdline")
FAILED = [{"failed": True, "msg": "no"}]


@pytest.fixture
def site(tmp_path: Path) -> StandIns:
    made = StandIns(tmp_path, MODULES, FILE)
    made.role("node_tuning")
    (tmp_path / "play.yml").write_text(
        "- hosts: gpu1\n  gather_facts: false\n  roles: [bedplate.cluster.node_tuning]\n"
    )
    return made


def called(site: StandIns, *arguments: str) -> list[str]:
    site.run(site.base / "play.yml", *arguments)
    return [name for _host, name, _arguments in site.calls()]


@pytest.mark.ansible_core
def test_pages_are_taken_or_refused_before_files_and_the_boot_loader_comes_last(site: StandIns) -> None:
    assert called(site) == ["kernel_cmdline", *MODULES]
    probe = site.calls()[0][2]
    assert probe["probe"]
    given = {name: arguments for _host, name, arguments in site.calls()}
    assert given["huge_pages"]["machine"] == "gpu1"
    assert [(one["node"], one["size"], one["count"]) for one in given["huge_pages"]["pages"]] == [
        (0, "1G", 0), (1, "1G", 1), (0, "2M", 16), (1, "2M", 8),
    ]  # fmt: skip
    assert given["huge_pages"]["reserve_mib"] == 4096 // 50
    assert given["huge_pages"]["pages_at"] == "now"
    assert set(given["huge_pages"]["pending"]) <= set(given["kernel_cmdline"]["tokens"])
    assert given["kernel_cmdline"]["note"] == "node_tuning"
    assert probe["tokens"] == given["kernel_cmdline"]["tokens"]
    assert called(site, "--check") == ["kernel_cmdline", *MODULES]


@pytest.mark.parametrize(("refusing", "before"), [("huge_pages", MODULES[:1]), ("deploy", MODULES[:2])])
def test_what_is_refused_reaches_no_boot_loader(site: StandIns, refusing: str, before: tuple[str, ...]) -> None:
    site.answers = {"gpu1": {refusing: FAILED}}
    assert called(site) == ["kernel_cmdline", *before]


def test_a_node_without_a_boot_loader_is_refused_before_anything_is_changed(site: StandIns) -> None:
    site.answers = {"gpu1": {"kernel_cmdline": FAILED}}
    assert called(site) == ["kernel_cmdline"]


@pytest.mark.parametrize(("boot", "calls"), [("network", ["kernel_cmdline", *MODULES]), ("none", [*MODULES[:2]])])
def test_a_node_without_an_own_boot_loader_is_compared_or_left_alone(
    site: StandIns, boot: str, calls: list[str]
) -> None:
    text = FILE.replace("    memory_mib:", f"    boot: {boot}\n    memory_mib:")
    (site.base / "c.bedplate.yml").write_text(text)
    assert called(site) == calls
    own = [arguments for _host, name, arguments in site.calls() if name == "kernel_cmdline"]
    assert [one["boot"] for one in own] == [boot] * len(own)


def test_a_node_without_pages_is_not_asked_for_them(site: StandIns) -> None:
    text = FILE.replace(", hugepages: {2M: 16}", "").replace(", hugepages: {2M: 8, 1G: 1}", "")
    (site.base / "c.bedplate.yml").write_text(text)
    assert called(site) == ["kernel_cmdline", "deploy", "kernel_cmdline"]
