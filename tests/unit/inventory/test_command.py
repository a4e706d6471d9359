"""What the user sees of a cluster file: the real ansible-inventory."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

# Every test starts the whole command, a second of CPU or more each.
pytestmark = pytest.mark.playbooks


def inventory(*arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("ansible-inventory")), *map(str, arguments)]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1", **more}
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


@pytest.mark.ansible_core
def test_all_mistakes_are_shown_once_on_lines_of_their_own_and_the_command_fails(tmp_path):
    path = tmp_path / "lab.bedplate.yml"
    text = (ROOT / "inventories/lab/lab.bedplate.yml").read_text()
    for old, new in (("count: 2", "count: 3"), ("rack:r1", "rack:r7"), ("controllers: [ctl1]", "controllers: [ctl]")):
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    done = inventory("-i", tmp_path, "--list")
    assert (done.returncode, done.stdout) == (1, "")
    first, *mistakes = done.stderr.splitlines()
    assert first.startswith("[ERROR]: 3 ")
    assert [line.removeprefix(f"{path}:").split(": ")[1] for line in mistakes if line] == [
        "profiles.sim.gpus.devices",
        "services.controllers[0]",
        "partitions.debug.nodes",
    ]


@pytest.mark.ansible_core
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("plugin: bedplate.cluster.racks\nsite: [lab\n", "is not YAML: "),
        # Ansible's own plugin for YAML would take each of its keys for a group.
        ("site: lab\n", "'plugin' is missing: "),
    ],
    ids=["no YAML", "no plugin"],
)
def test_no_other_plugin_tries_a_cluster_file(tmp_path, text, said):
    path = tmp_path / "lab.bedplate.yml"
    path.write_text(text)
    done = inventory("-i", path, "--list")
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{path}:" in done.stderr
    assert done.stderr.count(said) == 1
    assert done.stderr.count("[ERROR]") == 1
    assert "[WARNING]" not in done.stderr


@pytest.mark.ansible_core
def test_a_collection_without_a_configuration_of_its_own_tells_the_mistakes_alone(tmp_path):
    """As it is installed by ansible-galaxy: Ansible's own plugins in Ansible's own order."""
    (tmp_path / "ansible.cfg").write_text(f"[defaults]\ncollections_path = {ROOT / 'collections'}\n")
    path = tmp_path / "lab.bedplate.yml"
    text = (ROOT / "inventories/lab/lab.bedplate.yml").read_text()
    path.write_text(text.replace("sockets:", "sokets:"))
    done = inventory("-i", path, "--list", ANSIBLE_CONFIG=str(tmp_path / "ansible.cfg"))
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.strip().splitlines()) == 2
    assert f"{path}:" in done.stderr.strip().splitlines()[1]
    assert "'sockets'" in done.stderr
    path.write_text(text)
    done = inventory("-i", path, "--list", ANSIBLE_CONFIG=str(tmp_path / "ansible.cfg"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "gpu04" in json.loads(done.stdout)["_meta"]["hostvars"]


def test_mistakes_are_told_where_they_do_not_end_the_command(tmp_path):
    (tmp_path / "lab.bedplate.yml").write_text("plugin: bedplate.cluster.racks\nsiite: lab\n")
    (tmp_path / "more").write_text("[others]\nlogin1\n")
    done = inventory("-i", tmp_path, "--list", ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED="false")
    assert done.returncode == 0
    assert json.loads(done.stdout)["others"] == {"hosts": ["login1"]}
    assert "siite" in done.stderr


def test_other_inventories_are_read_beside_a_cluster_file_and_alone(tmp_path):
    shutil.copy(ROOT / "inventories/lab/lab.bedplate.yml", tmp_path)
    (tmp_path / "hosts.yml").write_text("storage: {hosts: {nfs1: {}}}\n")
    (tmp_path / "hosts.ini").write_text("[others]\nlogin1 site_room=2\n")
    (tmp_path / "hosts").write_text("[others]\nlogin2\n")
    for directory in ("group_vars", "host_vars"):
        (tmp_path / directory).mkdir()
    (tmp_path / "host_vars/gpu01.yml").write_text("site_room: 1\n")
    done = inventory("-i", tmp_path, "--list")
    assert (done.returncode, done.stderr) == (0, "")
    listed = json.loads(done.stdout)
    assert listed["storage"]["hosts"] == ["nfs1"]
    assert sorted(listed["others"]["hosts"]) == ["login1", "login2"]
    assert len(listed["compute_nodes"]["hosts"]) == 4
    assert [listed["_meta"]["hostvars"][name]["site_room"] for name in ("gpu01", "login1")] == [1, 2]
    for name, host in (("hosts.yml", "nfs1"), ("hosts.ini", "login1"), ("hosts", "login2"), ("nfs1,nfs2", "nfs1")):
        done = inventory("-i", name if "," in name else tmp_path / name, "--graph")
        assert (done.returncode, done.stderr) == (0, "")
        assert f"|--{host}\n" in done.stdout


@pytest.mark.ansible_core
def test_what_every_task_loads_is_loaded_before_ansible_forks(tmp_path):
    """A task on a host finds the filters loaded: they were in the process that it was forked from."""
    play = tmp_path / "play.yml"
    play.write_text(
        "- hosts: gpu01\n  gather_facts: false\n  tasks:\n"
        "    - ansible.builtin.debug: {msg: '{{ lookup(\"bedplate_modules\") }}'}\n"
    )
    (tmp_path / "lookup_plugins").mkdir()
    (tmp_path / "lookup_plugins" / "bedplate_modules.py").write_text(
        "import sys\nfrom ansible.plugins.lookup import LookupBase\n\n\nclass LookupModule(LookupBase):\n"
        "    def run(self, terms, variables=None, **kwargs):\n        return [' '.join(sorted(sys.modules))]\n"
    )
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "inventories/lab", str(play)]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    loaded = done.stdout.split()
    assert "ansible_collections.bedplate.cluster.plugins.filter.slurm" in loaded
    assert "ansible_collections.bedplate.cluster.plugins.action.deploy" in loaded
    assert any(name.startswith("ansible.plugins.filter.core_") for name in loaded)


@pytest.mark.parametrize("name", ["lab.yml", "lab.bedplate.yml.txt"])
def test_a_cluster_file_with_another_name_is_told_of_by_one_warning(tmp_path, name):
    path = tmp_path / name
    path.write_text((ROOT / "inventories/lab/lab.bedplate.yml").read_text())
    done = inventory("-i", path, "--list")
    assert done.returncode != 0
    said = [line for line in done.stderr.splitlines() if "bedplate.cluster.racks" in line and ".bedplate.yml" in line]
    assert len(said) == 1
    assert said[0].startswith(f"[WARNING]: {path} ")


def test_files_of_others_are_told_of_by_none(tmp_path):
    path = tmp_path / "other.yml"
    path.write_text("# plugin: bedplate.cluster.racks\nall: {hosts: {one: {plugin: bedplate.cluster.racks}}}\n")
    done = inventory("-i", path, "--list")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(("tasks", "loaded"), [("[]", "False"), ("[{ansible.builtin.debug: {msg: x}}]", "True")])
def test_a_command_with_tasks_loads_the_filters_before_it_forks_and_one_without_loads_none(
    tmp_path: Path, tasks: str, loaded: str
) -> None:
    seen = tmp_path / "seen"
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, sys\nfrom pathlib import Path\n"
        "NAME = 'ansible_collections.bedplate.cluster.plugins.filter.slurm'\n"
        f"atexit.register(lambda: Path({str(seen)!r}).write_text(str(NAME in sys.modules)))\n"
    )
    play = tmp_path / "play.yml"
    play.write_text(f"- hosts: gpu01\n  gather_facts: false\n  tasks: {tasks}\n")
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "-i", "inventories/lab", str(play)]
    environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    # The forks end without this; what was written is of the process that forks.
    assert seen.read_text() == loaded
