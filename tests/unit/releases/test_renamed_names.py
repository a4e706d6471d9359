"""Old names of keys and variables are refused with the new ones, before any machine is touched."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.schema.cluster_file import CLUSTER_FILE
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.schema.fields import rows
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.role_interfaces import interfaces
from ansible_collections.bedplate.cluster.plugins.plugin_utils.releases import renamed_names
from ansible_collections.bedplate.cluster.plugins.plugin_utils.releases.renamed_names import (
    KINDS,
    RenamedName,
    renamed_key,
    table,
)

ROOT = Path(__file__).parents[3]
BASE = (ROOT / "tests/unit/cluster/base.yml").read_text()
RENAMED = (
    RenamedName("key", "profiles.<name>.socket_count", "sockets", "0.7.0"),
    RenamedName("key", "racks.<name>.nodes.hosts", "names", "0.7.0"),
    RenamedName("key", "room", "site", "0.8.0"),
    RenamedName("variable", "slurm_rest_address", "slurm_rest_listen", "0.7.0"),
    RenamedName("variable", "fabric_dir", "fabric_directory", "0.7.0"),
)


@pytest.fixture
def renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renamed_names, "table", lambda: RENAMED)


def mistakes(directory: Path, old: str, new: str) -> list[tuple[int, str, str]]:
    text = BASE.replace(old, new, 1)
    assert text != BASE
    path = directory / "lab.bedplate.yml"
    path.write_text(text)
    with pytest.raises(ClusterFileError) as caught:
        load(str(path))
    return [(one.line, one.where, one.message) for one in caught.value.mistakes]


def line_of(text: str) -> int:
    return BASE[: BASE.index(text)].count("\n") + 1


def test_an_old_required_key_is_one_mistake_with_line_place_and_new_name(renamed: None, tmp_path: Path):
    ((line, where, message),) = mistakes(tmp_path, "    sockets: 2", "    socket_count: 2")
    assert (line, where) == (line_of("    sockets: 2"), "profiles.gpu8.socket_count")
    assert "0.7.0" in message
    assert "'sockets'" in message


def test_an_old_key_beside_the_new_one_is_to_be_removed(renamed: None, tmp_path: Path):
    ((_line, where, message),) = mistakes(tmp_path, "    sockets: 2", "    socket_count: 2\n    sockets: 2")
    assert (where, "Remove it" in message) == ("profiles.gpu8.socket_count", True)


def test_an_old_key_at_the_top_is_named(renamed: None, tmp_path: Path):
    ((line, where, message),) = mistakes(tmp_path, "site: lab", "room: lab")
    assert (line, where) == (line_of("site: lab"), "room")
    assert "'site'" in message


def test_an_unknown_key_is_still_unknown(renamed: None, tmp_path: Path):
    (_line, where, message), *_others = mistakes(tmp_path, "    sockets: 2", "    socket_cont: 2\n    sockets: 2")
    assert where == "profiles.gpu8.socket_cont"
    assert "renamed" not in message


@pytest.mark.parametrize(
    ("path", "new"),
    [
        (("profiles", "a", "socket_count"), "sockets"),
        (("racks", "r1", "nodes", 0, "hosts"), "names"),
        (("racks", "r1", "nodes", "hosts"), "names"),
        (("profiles", "a", "b", "socket_count"), None),
        (("socket_count",), None),
        (("racks", "r1", None), None),
    ],
)
def test_a_name_of_the_users_stands_for_any(renamed: None, path: tuple[str | int | None, ...], new: str | None):
    found = renamed_key(path)
    assert (found and found.new) == new


def test_the_table_of_this_release_names_what_there_is():
    """An old name that is still one would be refused; a new one that is none would send users astray."""
    keys = {row[0] for row in rows(CLUSTER_FILE)}
    variables = {name for found in interfaces().values() for name in found}
    for row in table():
        assert row.kind in KINDS
        assert re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", row.since)
        if row.kind == "key":
            new = row.new if "." in row.new else f"{row.old.rpartition('.')[0]}.{row.new}".lstrip(".")
            assert (row.old in keys, new in keys) == (False, True), row
        else:
            assert row.old not in variables, row


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the collection with another table."""
    base = tmp_path_factory.mktemp("tree")
    inside = base / "collections/ansible_collections/bedplate/cluster"
    for folder in ("plugins", "roles", "playbooks", "meta"):
        shutil.copytree(ROOT / folder, inside / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "galaxy.yml", inside)
    shutil.copy(ROOT / "ansible.cfg", base)
    data = {"renamed": [vars(row) for row in RENAMED]}
    (inside / "plugins/plugin_utils/releases/renamed.json").write_text(json.dumps(data))
    site = base / "site"
    (site / "host_vars").mkdir(parents=True)
    (site / "group_vars").mkdir()
    (site / "lab.bedplate.yml").write_text((ROOT / "inventories/lab/lab.bedplate.yml").read_text())
    return base


def validate(tree: Path, *arguments: str, playbook: str = "validate.yml") -> tuple[int, str]:
    inside = tree / "collections/ansible_collections/bedplate/cluster"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    environment |= {"ANSIBLE_CONFIG": str(tree / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "-i", tree / "site", inside / "playbooks" / playbook, *arguments],
        cwd=tree, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, " ".join((done.stdout + done.stderr).split())


@pytest.mark.playbooks
def test_old_variables_are_refused_where_they_are_set(tree: Path):
    (tree / "site/group_vars/compute_nodes.yml").write_text("slurm_rest_address: 0.0.0.0\n")
    (tree / "site/host_vars/gpu02.yml").write_text("fabric_dir: /srv\n")
    code, output = validate(tree)
    for path in ("group_vars/compute_nodes.yml", "host_vars/gpu02.yml"):
        (tree / "site" / path).unlink()
    assert code == 2, output
    assert "2 mistakes, and nothing was touched" in output
    assert "group compute_nodes: slurm_rest_address was renamed in 0.7.0. Write 'slurm_rest_listen'." in output
    assert "host gpu02: fabric_dir was renamed in 0.7.0. Write 'fabric_directory'." in output


@pytest.mark.playbooks
def test_an_old_variable_of_the_command_line_is_refused(tree: Path):
    code, output = validate(tree, "-e", "fabric_dir=/srv")
    assert code == 2, output
    assert "1 mistake, and nothing was touched" in output
    assert "this run: fabric_dir was renamed in 0.7.0. Write 'fabric_directory'." in output


@pytest.mark.playbooks
def test_an_old_variable_is_one_mistake_with_all_its_places(tree: Path):
    files = {"compute_nodes": "slurm_rest_address: 0.0.0.0\n", "all": "fabric_dir: /srv\n"}
    for name, text in files.items():
        (tree / f"site/group_vars/{name}.yml").write_text(text)
    code, output = validate(tree, "-e", "slurm_rest_address=127.0.0.1")
    for name in files:
        (tree / f"site/group_vars/{name}.yml").unlink()
    assert code == 2, output
    assert "2 mistakes, and nothing was touched" in output
    assert "group compute_nodes and 1 more: slurm_rest_address was renamed" in output
    assert " group all: fabric_dir was renamed" in output


@pytest.mark.playbooks
def test_an_old_variable_of_a_play_is_refused(tree: Path):
    path = tree / "site.yml"
    variables = {"fabric_dir": "/srv", "slurm_rest_address": "0.0.0.0"}
    path.write_text(json.dumps([{"import_playbook": "bedplate.cluster.validate", "vars": variables}]))
    code, output = validate(tree, playbook=str(path))
    assert code == 2, output
    assert "2 mistakes, and nothing was touched" in output
    for name in variables:
        assert f"this run: {name} was renamed" in output


@pytest.mark.playbooks
def test_an_old_variable_beside_the_new_one_is_to_be_removed(tree: Path):
    code, output = validate(tree, "-e", "fabric_dir=/srv fabric_directory=/srv")
    assert code == 2, output
    assert "fabric_dir was renamed in 0.7.0. Remove it: 'fabric_directory' is set." in output


@pytest.mark.playbooks
@pytest.mark.parametrize("name", ["verify.yml", "reboot.yml", "tuning.yml"])
def test_each_playbook_refuses_an_old_variable_before_it_connects(tree: Path, name: str):
    code, output = validate(tree, "-e", "slurm_rest_address=0.0.0.0", playbook=name)
    assert code == 2, output
    assert "1 mistake, and nothing was touched" in output
    assert "UNREACHABLE" not in output


@pytest.mark.playbooks
def test_new_names_pass(tree: Path):
    code, output = validate(tree, "-e", "fabric_directory=/srv/fabric", "-e", "slurm_rest_listen=127.0.0.1:6820")
    assert code == 0, output
