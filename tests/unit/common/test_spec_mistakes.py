"""A value of a wrong type is reported in words of YAML, never with a type of Python."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.role_choices import RoleChoiceError, role_choices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.role_interfaces import options, spec_mistakes

OPTIONS = {name: option for found in options().values() for name, option in found.items()}


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("node_tuning_sysctl", ["a"], ["is a list; allowed: a mapping"]),
        ("slurm_compute_ssh_users", {"a": 1}, ["is a mapping; allowed: a list"]),
        ("slurm_compute_ssh_users", [{"a": 1}], ["has an element that is a mapping; allowed: text"]),
        ("node_os_extra_files", None, ["is empty; allowed: a list"]),
        ("node_os_extra_files", ["a"], ["has an element that is text; allowed: a mapping"]),
        ("rdma_doca_url", {"a": 1}, ["is a mapping; allowed: text"]),
        ("rdma_priority", "x", ["is text; allowed: a whole number"]),
        ("rdma_rails", [{"name": "a", "rail": "x"}], ["key 'rail' is text; allowed: a whole number"]),
        ("rdma_rails", [{"name": "a", "foo": 1}], ["key 'foo' is unknown; allowed: address, name, pci, rail"]),
        ("rdma_rails", [{"name": "a", "rail": 1}], []),
    ],
)
def test_a_wrong_value_in_words(name: str, value: Any, expected: list[str]) -> None:
    assert spec_mistakes(name, OPTIONS[name], value) == expected


def test_a_host_names_the_variable_with_each_mistake() -> None:
    with pytest.raises(RoleChoiceError) as caught:
        role_choices("rdma", {"rdma_priority": [1], "rdma_nccl": ["a"]}, lambda value: value)
    assert sorted(str(caught.value).splitlines()) == [
        "rdma_nccl: is a list; allowed: a mapping",
        "rdma_priority: is a list; allowed: a whole number",
    ]
