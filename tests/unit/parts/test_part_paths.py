"""Paths and units of parts without their contents are those that the rendered parts have."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.part_files import parts_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.part_paths import (
    UNREAD,
    host_paths,
    host_units,
    literal_paths,
    manifests_of,
    matches,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.render import render_part
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.role_mistakes import ROLES
from tests.kit.rendered_parts import CLUSTERS, decided

CASES = [path for path in CLUSTERS if path.name in ("lab.bedplate.yml",)]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str, dict[str, Any], dict[str, Any]]]:
    """Return role, part, its values, and its values before a task has read the node, of each kind of host."""
    folder = tmp_path_factory.mktemp("rare")
    return [(role, part, dict(values), dict(before)) for role, part, values, before in decided(folder, CASES)]


def test_paths_and_units_are_those_of_the_rendered_part(parts: list[tuple[str, str, dict[str, Any], Any]]) -> None:
    assert len(parts) > 50
    for role, part, values, _before in parts:
        rendered = render_part(role, part, values)
        entries = [*rendered.get("sources", []), *rendered.get("files", [])]
        found = list(host_paths(role, part, values))
        unread = {one.path for one in found} - {entry["path"] for entry in entries}
        expected = [(entry["path"], entry.get("state", "file")) for entry in entries]
        assert sorted((one.path, one.state) for one in found if one.path not in unread) == sorted(expected)
        assert unread == set() or (role, part) in UNREAD
        units = [(unit["name"], unit.get("masked") is True) for unit in rendered["units"]]
        if (role, part) not in UNREAD:
            assert [(one.name, one.masked) for one in host_units(role, part, values)] == units


def test_values_that_need_the_node_are_listed(parts: list[tuple[str, str, Any, Any]]) -> None:
    differing = {
        (role, part, name)
        for role, part, values, before in parts
        for name in values
        if values[name] != before.get(name)
    }
    assert differing
    assert differing <= {(role, part, name) for (role, part), names in UNREAD.items() for name in names}


def test_a_path_that_needs_the_node_is_one_that_a_host_may_get() -> None:
    values = {"files": [], "secret_files": [], "proved": []}
    assert "/etc/opensm/proved" in [one.path for one in host_paths("opensm", "opensm", values)]


def test_a_path_has_its_template_where_a_site_can_replace_it() -> None:
    found = {one.path: one for one in literal_paths("rdma", "rdma")}
    assert found["/etc/nccl.conf"].template == "nccl.conf.j2"
    assert found["/etc/nccl.conf"].source == "roles/rdma/parts/rdma.yml"
    # It is of the role node_os, and no variable replaces it in another role.
    assert found["/etc/apt/preferences.d/bedplate-rdma.pref"].template == ""
    assert "/usr/local/lib/bedplate/rdma" in found


def test_every_role_has_a_manifest_for_files_of_the_site() -> None:
    assert all(manifests_of(role) for role in ROLES)
    assert "{{" not in str([manifests_of(role) for role in ROLES])
    assert {one.manifest for role in ROLES for part in parts_of(role) for one in literal_paths(role, part)} >= {"rdma"}


@pytest.mark.parametrize(
    ("pattern", "path", "is_match"),
    [
        ("/etc/slurm/{{ item.name }}", "/etc/slurm/a/b", True),
        ("/etc/slurm/{{ item.name }}", "/etc/slurm", False),
        ("/etc/a-{{ item.name }}.repo", "/etc/a-.repo", False),
        ("/etc/a.b", "/etc/axb", False),
    ],
)
def test_a_placeholder_is_any_name(pattern: str, path: str, is_match: bool) -> None:
    assert matches(pattern, path) is is_match
