"""A variable that looks like a role's and is none fails before any machine is touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.role_interfaces import (
    interfaces,
    message,
    unknown_variables,
)

ROOT = Path(__file__).parents[2]
KNOWN = {"slurm": {"slurm_rest_listen", "slurm_cluster_file"}, "node_os": {"node_os_hosts"}}
SPEC = """\
argument_specs:
  main: {short_description: One, options: {demo_one: {type: str}, demo_two: {type: str}}}
  other: {short_description: Other, options: {demo_three: {type: str}}}
  bare: {short_description: Takes nothing}
"""


def test_a_role_takes_the_variables_of_all_its_entry_points(tmp_path: Path):
    (tmp_path / "demo/meta").mkdir(parents=True)
    (tmp_path / "demo/meta/argument_specs.yml").write_text(SPEC)
    (tmp_path / "without").mkdir()
    assert interfaces(tmp_path) == {"demo": {"demo_one", "demo_two", "demo_three"}}


def test_the_roles_of_the_collection_are_found():
    assert set(interfaces()) == {path.name for path in (ROOT / "roles").iterdir() if path.is_dir()}


@pytest.mark.parametrize(
    ("names", "unknown"),
    [
        (["slurm_rest_listen", "node_os_hosts"], {}),
        (["slurm_rest_listn"], {"slurm_rest_listn": "slurm"}),
        (["node_os_host", "slurm_x"], {"node_os_host": "node_os", "slurm_x": "slurm"}),
        # Neither the name of a role alone nor what only begins alike is a variable of the role.
        (["slurm", "slurmdbd_x", "node_osx", "__slurm_parts", "site"], {}),
    ],
)
def test_only_what_begins_with_the_name_of_a_role_is_its_variable(names: list[str], unknown: dict[str, str]):
    assert unknown_variables(names, KNOWN) == unknown


def test_the_message_has_the_nearest_name():
    assert message("slurm_rest_listn", "slurm", KNOWN) == (
        "slurm_rest_listn is no variable of the role slurm; did you mean slurm_rest_listen?"
    )


def test_the_message_says_where_to_look_when_no_name_is_near():
    assert message("slurm_zzzzzzzz", "slurm", KNOWN) == (
        "slurm_zzzzzzzz is no variable of the role slurm; see `ansible-doc -t role bedplate.cluster.slurm`"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (
            ["-e", "slurm_rest_listn=1"],
            2,
            "slurm_rest_listn is no variable of the role slurm; did you mean slurm_rest_listen?",
        ),
        ([], 0, "failed=0"),
    ],
    ids=["misspelt", "right"],
)
def test_validate_yml(arguments: list[str], code: int, said: str):
    command = [Path(sys.executable).with_name("ansible-playbook"), "playbooks/validate.yml", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    environment |= {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "true", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    output = done.stdout + done.stderr
    assert done.returncode == code, output
    assert said in output
