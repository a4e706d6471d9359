"""Every role says what it takes, is tested, and inventories name no variable that no role has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

ROOT = Path(__file__).parents[3]
ROLES = sorted(path for path in (ROOT / "roles").iterdir() if path.is_dir())


def load(path: Path) -> dict:
    return yaml.safe_load(path.read_text()) or {}


def options(role: Path) -> dict[str, dict]:
    entries = load(role / "meta/argument_specs.yml")["argument_specs"].values()
    return {name: option for entry in entries for name, option in entry.get("options", {}).items()}


def test_there_are_roles():
    assert ROLES


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_defaults_equal_the_argument_specs(role: Path):
    specified = {name: option.get("default") for name, option in options(role).items() if not option.get("required")}
    assert load(role / "defaults/main.yml") == specified


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_ansible_accepts_the_defaults_where_others_include_a_role(role: Path):
    """Ansible validates them at each entry point, unless `rolespec_validate: false`; bedplate's own playbooks check them once a run."""
    values = load(role / "defaults/main.yml")
    for spec in load(role / "meta/argument_specs.yml")["argument_specs"].values():
        known = {name: keys for name, keys in spec.get("options", {}).items() if name in values}
        assert ArgumentSpecValidator(known).validate({name: values[name] for name in known}).error_messages == []


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_entry_point_has_a_specification(role: Path):
    entries = set(load(role / "meta/argument_specs.yml")["argument_specs"])
    files = {path.stem for path in (role / "tasks").glob("*.yml")}
    internal = {
        path.stem
        for path in (role / "tasks").glob("*.yml")
        if path.stem
        in (
            "packages",
            "repository",
            "deploy",
            "write",
            "run",
            "qos",
            "script_guard",
            "stopped_primary",
            "upgraded",
            "restored",
            "crypt",
            "turned",
            "fence",
        )
    }
    assert files - internal == entries


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_public_names_carry_the_name_of_the_role(role: Path):
    assert [name for name in options(role) if not name.startswith(role.name + "_")] == []


SHARED = {
    "cuda": "gpu_stack",
    "dcgm": "gpu_stack",
    "health_control": "health",
    "image": "provision",
    "node_health": "health",
    "node_tuning": "node_settings",
    "rdma": "node_settings",
}


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_role_has_a_scenario_with_assertions(role: Path):
    # Small roles of one playbook share a scenario, whose tests name them by what they bring.
    scenario = SHARED.get(role.name, role.name)
    tests = list((ROOT / "molecule" / scenario / "tests").glob("test_*.py"))
    # What needs a kernel of its own is tested on a virtual machine.
    tests += (ROOT / "tests/guest").glob(f"test_{role.name}.py")
    assert tests
    if scenario != role.name:
        playbooks = {
            "gpu_stack": ("gpu",),
            "health": ("health",),
            "node_settings": ("tuning", "rdma"),
            "provision": ("provision_host",),
        }[scenario]
        named = f"__role: {role.name}}}"
        assert any(named in (ROOT / f"playbooks/phases/{one}.yml").read_text() for one in playbooks)
        assert any(f"_{role.name}_" in test.read_text() or role.name in test.read_text() for test in tests)
    assert any("assert " in test.read_text() for test in tests)


@pytest.mark.parametrize("scenario", sorted(ROOT.glob("molecule/*/molecule.yml")), ids=lambda path: path.parent.name)
def test_every_scenario_has_tests(scenario: Path):
    assert any("assert " in test.read_text() for test in scenario.parent.glob("tests/test_*.py"))


def variables() -> list[tuple[str, str]]:
    """Return (file, variable) for everything that inventories, scenarios and playbooks set."""
    found = []
    for base in ("inventories", "molecule"):
        for path in (ROOT / base).rglob("*.yml"):
            if path.parent.name in ("group_vars", "host_vars") or path.parent.parent.name in (
                "group_vars",
                "host_vars",
            ):
                found += [(str(path.relative_to(ROOT)), name) for name in load(path)]
    return found


def test_variables_of_inventories_exist():
    names = {role.name: set(options(role)) for role in ROLES}
    unknown = [
        (path, name)
        for path, name in variables()
        for role, known in names.items()
        if re.match(rf"(__)?{role}_", name) and name not in known
    ]
    assert unknown == []


def test_a_misspelt_variable_is_found():
    known = options(ROOT / "roles" / "slurm")
    assert "slurm_rest_listen" in known
    assert "slurm_rest_listn" not in known


@pytest.mark.parametrize("role", ROLES, ids=lambda role: role.name)
def test_every_role_has_a_readme_of_one_screen(role: Path):
    assert 10 <= len((role / "README.md").read_text().splitlines()) <= 60
