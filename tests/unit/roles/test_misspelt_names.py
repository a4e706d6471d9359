"""Names that Ansible ignores without a word, because they are nearly a name of bedplate."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles import misspelt_names

TABLE = Path(__file__).parents[3] / "tools/playbooks.yml"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("gpu_drivers_version", "gpu_driver_version"),
        ("bedplate_secrets_dirr", "bedplate_secrets_dir"),
        ("bedplate_hardwares", "bedplate_hardware"),
        ("slrum_version", "slurm_version"),
        ("bedplate_hardware", ""),
        ("gpu_vendor", ""),
        ("ansible_user", ""),
    ],
)
def test_a_variable_that_is_nearly_a_known_one(name: str, near: str) -> None:
    found = misspelt_names.variables([name])
    assert (near in found[name]) if near else found == {}


def test_variables_of_the_playbooks_are_known() -> None:
    names = {name for name in re.findall(r"bedplate_\w+", TABLE.read_text()) if name != "bedplate_end"}
    assert names
    assert names <= set(misspelt_names.OWN)


@pytest.mark.parametrize(
    ("names", "mistakes"),
    [
        (["all", "slurm_controler", "compute_nodes"], 1),
        (["compute_node"], 1),
        (["compute_node", "compute_nodes"], 0),
        (["all", "ungrouped", "slurm_controllers", "rack_1", "web"], 0),
    ],
)
def test_a_group_that_is_nearly_a_known_one(names: list[str], mistakes: int) -> None:
    assert len(misspelt_names.groups(names)) == mistakes


def test_files_of_variables_for_no_group_and_no_host(tmp_path: Path) -> None:
    for name in (
        "group_vars/all.yml", "group_vars/gpu_nodes/a.yml", "group_vars/gpu_node.yml", "group_vars/other",
        "group_vars/README.md", "group_vars/all.yml~", "group_vars/.hidden.yml", "host_vars/a.example.org",
        "host_vars/gpu1.yml", "host_vars/gpu01.yml",
    ):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    hosts = ["gpu1", "a.example.org"]
    found = list(misspelt_names.unread_files([tmp_path], ["all", "gpu_nodes"], hosts))
    assert [line.partition(":")[0].removeprefix(f"{tmp_path}/") for line in found] == [
        "group_vars/gpu_node.yml", "group_vars/other", "host_vars/gpu01.yml",
    ]  # fmt: skip
    assert "'gpu_nodes'" in found[0]


@pytest.mark.parametrize(
    ("tag", "near"),
    [
        ("slurm", "scheduler"), ("node_os", "os"), ("cuda", "gpu"), ("schedular", "scheduler"), ("rdma_file", "rdma_files"),
        ("rdma", ""), ("slurm_files", ""), ("all", ""), ("verify", ""), ("mine", ""),
    ],
)  # fmt: skip
def test_a_tag_that_no_task_has(tag: str, near: str) -> None:
    assert [line.endswith(f"Did you mean {near}?") for line in misspelt_names.tags([tag])] == ([True] if near else [])
    assert misspelt_names.tags([tag], own=[tag]) == []


def test_the_tags_of_roles_are_those_of_the_playbooks() -> None:
    found: dict[str, set[str]] = {}
    plays = [
        play for path in (TABLE.parents[1] / "playbooks").rglob("*.yml") for play in yaml.safe_load(path.read_text())
    ]
    known = {*misspelt_names.TAGS.values(), *misspelt_names.OTHER_TAGS}
    for play in plays:
        assert set(play.get("tags", ())) <= known
        for role in re.findall(r"'__role': '(\w+)'", str(play)):
            found.setdefault(role, set()).update(play["tags"])
    for role, tag in misspelt_names.TAGS.items():
        assert tag in found[role]
