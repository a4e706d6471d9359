"""The secrets of a run are checked before any node is touched, all mistakes at once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import ClusterSecrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.given_secrets import GivenSecrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretStore
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles import run_secrets

BASE = (Path(__file__).parents[1] / "cluster" / "base.yml").read_text()
ACCESS = "package_access:\n  logins: [{url: 'http://m', user: a, password: mirror_password}]\n"
ENTRY = {"path": "/etc/token", "secret": "site_token"}


def mistakes(
    folder: Path,
    roles: list[str],
    values: Any = None,
    make: bool = False,
    section: str = "",
    entries: tuple[Any, ...] = (),
) -> list[str]:
    file = folder / "site.bedplate.yml"
    file.write_text(BASE + section)
    given = GivenSecrets(values, lambda value: value, Path.read_bytes)
    found = ClusterSecrets(given, lambda: folder / "secrets", make)
    return run_secrets.mistakes(found, load(str(file)), roles, {"rdma": entries})


def test_slurm_needs_two_keys() -> None:
    assert sorted(run_secrets.of_role("slurm")) == ["jwt_key", "munge_key"]


def test_all_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    found = mistakes(tmp_path, ["node_os", "rdma", "slurm"], section=ACCESS, entries=(ENTRY,))
    assert sorted(text.split(":")[0] for text in found) == [
        "secret jwt_key", "secret mirror_password", "secret munge_key", "secret site_token",
    ]  # fmt: skip
    assert not (tmp_path / "secrets").exists()


def test_what_can_be_made_is_no_mistake_but_a_foreign_password_is(tmp_path: Path) -> None:
    (text,) = mistakes(tmp_path, ["node_os", "slurm"], make=True, section=ACCESS)
    assert text.startswith("secret mirror_password: not found")


def test_a_run_without_the_roles_needs_none(tmp_path: Path) -> None:
    assert mistakes(tmp_path, [], section=ACCESS, entries=(ENTRY,)) == []


def test_a_run_needs_the_secrets_of_its_own_roles(tmp_path: Path) -> None:
    assert [text.split(":")[0] for text in mistakes(tmp_path, ["rdma"], entries=(ENTRY,))] == ["secret site_token"]
    assert mistakes(tmp_path, ["cuda"], entries=(ENTRY,)) == []


@pytest.mark.parametrize(
    ("name", "is_slip"), [("munge_keys", True), ("mungekey", True), ("api_key", False), ("site_token", False)]
)
def test_a_name_that_is_nearly_a_known_one(tmp_path: Path, name: str, is_slip: bool) -> None:
    found = mistakes(tmp_path, [], {name: "x" * 40}, entries=(ENTRY,))
    assert (found != []) is is_slip
    assert not is_slip or "Did you mean munge_key?" in found[0]


def test_a_variable_that_is_no_map_is_one_mistake(tmp_path: Path) -> None:
    (text,) = mistakes(tmp_path, ["node_os", "slurm"], ["x" * 40], section=ACCESS)
    assert text.startswith("bedplate_secrets: is a list")


def test_a_password_with_a_blank_is_refused(tmp_path: Path) -> None:
    assert mistakes(tmp_path, ["node_os"], {"mirror_password": "good\n"}, section=ACCESS) == []
    (text,) = mistakes(tmp_path, ["node_os"], {"mirror_password": "two words"}, section=ACCESS)
    assert text.startswith("secret mirror_password: ")
    assert "two" not in text


def test_a_secret_of_the_directory_is_read(tmp_path: Path) -> None:
    store = SecretStore(tmp_path / "secrets")
    for name in ("munge_key", "jwt_key"):
        store.get(name)
    assert mistakes(tmp_path, ["slurm"]) == []
    (tmp_path / "secrets/jwt_key").chmod(0o444)
    (text,) = mistakes(tmp_path, ["slurm"])
    assert "jwt_key is open to others" in text


PLAYBOOKS = Path(__file__).parents[3] / "playbooks"
ROLES_WITH_SITE_FILES = {
    path.parts[-3]
    for path in (PLAYBOOKS.parent / "roles").glob("*/parts/*.yml")
    if "\nsite_files: true" in path.read_text()
}


def imported(path: Path) -> list[dict[str, Any]]:
    """Return the plays that a playbook imports, and what it imports them with."""
    return [play for play in yaml.safe_load(path.read_text()) if "ansible.builtin.import_playbook" in play]


@pytest.mark.parametrize("name", ["site", "os", "tuning", "rdma", "interconnect", "gpu", "scheduler"])
def test_a_playbook_checks_the_secrets_of_every_role_whose_site_files_it_writes(name: str) -> None:
    plays = imported(PLAYBOOKS / f"{name}.yml")
    first, *phases = plays[[one["ansible.builtin.import_playbook"] for one in plays].index("validate.yml") :]
    texts = [(PLAYBOOKS / phase["ansible.builtin.import_playbook"]).read_text() for phase in phases]
    deployed = {role for text in texts for role in re.findall(r"__role: (\w+)", text)}
    if name == "scheduler":
        deployed.discard("container_runtime")  # pyxis alone, which has no files of the site
    assert set(first["vars"]["__validate_secrets"]) == deployed & ROLES_WITH_SITE_FILES


@pytest.mark.parametrize("password", ["\n", "\r\n"])
def test_a_password_of_a_line_end_alone_is_refused(tmp_path: Path, password: str) -> None:
    (text,) = mistakes(tmp_path, ["node_os"], {"mirror_password": password}, section=ACCESS)
    assert text.startswith("secret mirror_password: ")


@pytest.mark.parametrize(
    ("name", "near"), [("mirror_passwords", "mirror_password"), ("mirror_signing_keys", "mirror_signing_key")]
)
def test_a_name_that_is_nearly_one_of_the_mirror(tmp_path: Path, name: str, near: str) -> None:
    values = {"mirror_password": "good", near: "good", name: "good"}
    (text,) = mistakes(tmp_path, ["node_os"], values, section=ACCESS)
    assert text.startswith(f"bedplate_secrets.{name}: ")
    assert f"Did you mean {near}?" in text
