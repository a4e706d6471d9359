# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of a role's variables on a host: templates are rendered, types are checked, defaults stay as they are."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.role_choices import (
    RoleChoiceError,
    defaults,
    role_choices,
)


def rendered(value: Any) -> Any:
    """Render one template as Ansible does, and lists and mappings that have it."""
    if isinstance(value, dict):
        return {key: rendered(one) for key, one in value.items()}
    if isinstance(value, list):
        return [rendered(one) for one in value]
    return ["chrony.example"] if value == "{{ servers }}" else "10.0.0.1" if value == "{% if a %}{% endif %}" else value


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("{{ servers }}", ["chrony.example"]),
        (["{% if a %}{% endif %}"], ["10.0.0.1"]),
        (["plain"], ["plain"]),
    ],
)
def test_templates_are_rendered_wherever_they_are(value: Any, found: list[str]) -> None:
    assert role_choices("node_os", {"node_os_time_servers": value}, rendered)["time_servers"] == found


def test_a_template_in_an_entry_is_rendered() -> None:
    entries = [{"path": "/etc/a", "content": "{% if a %}{% endif %}"}]
    found = role_choices("node_os", {"node_os_extra_files": entries}, rendered)["extra_files"]
    assert found == [{"path": "/etc/a", "content": "10.0.0.1"}]


def test_who_changes_a_value_does_not_change_the_default_of_other_hosts() -> None:
    for given in ({}, {"node_os_packages": []}):
        role_choices("node_os", given, rendered)["packages"].append("mine")
    assert role_choices("node_os", {}, rendered)["packages"] == defaults("node_os")["node_os_packages"] == []


def test_all_values_of_a_wrong_type_are_named() -> None:
    with pytest.raises(RoleChoiceError) as error:
        role_choices("node_os", {"node_os_packages": {"a": 1}, "node_os_manage_hosts": "perhaps"}, rendered)
    assert {line.split(":")[0] for line in str(error.value).splitlines()} == {
        "node_os_packages",
        "node_os_manage_hosts",
    }
