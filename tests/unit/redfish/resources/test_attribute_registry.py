# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the registry of a BIOS is found, and which entries of it are read."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources import attribute_registry
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources.attribute_registry import (
    NO_REGISTRY,
    Attribute,
    find,
    parse,
)
from tests.kit.redfish_trees import Reader, Tree, tree_of

BIOS = {
    "dell": "/redfish/v1/Systems/System.Embedded.1/Bios",
    "hpe": "/redfish/v1/systems/1/bios/",
    "lenovo": "/redfish/v1/Systems/1/Bios",
    "nvidia": "/redfish/v1/Systems/System_0/Bios",
    "supermicro": "/redfish/v1/Systems/1/Bios",
}


def found_in(tree: Tree, name: str) -> attribute_registry.AttributeRegistry:
    return find(Reader(tree), tree[BIOS[name]])


@pytest.mark.parametrize(
    ("name", "attributes", "dependencies"),
    [("dell", 14, 5), ("hpe", 9, 22), ("lenovo", 7, 3), ("nvidia", 7, 0), ("supermicro", 6, 2)],
)
def test_registry_of_a_tree(name: str, attributes: int, dependencies: int) -> None:
    registry = found_in(tree_of(name), name)
    assert (len(registry.attributes), len(registry.dependencies)) == (attributes, dependencies)
    assert set(tree_of(name)[BIOS[name]]["Attributes"]) <= set(registry.attributes)


def test_english_registry_is_read_if_others_are_listed_first() -> None:
    tree = tree_of("lenovo")
    tree["/schemas/registries/zh/BiosAttributeRegistry.1.0.0.json"] = {"RegistryEntries": {"Attributes": []}}
    assert found_in(tree, "lenovo").path == "/schemas/registries/BiosAttributeRegistry.1.0.0.json"


def test_name_of_the_bios_resource_decides_between_two() -> None:
    tree = tree_of("hpe")
    tree["/redfish/v1/Registries"]["Members"].insert(
        0, {"@odata.id": "/redfish/v1/Registries/BiosAttributeRegistryA56.v1_0_0"}
    )
    assert len(found_in(tree, "hpe").attributes) == 9


def test_two_registries_and_no_name_are_not_guessed() -> None:
    tree = tree_of("nvidia")
    tree["/redfish/v1/Registries"]["Members"].append({"@odata.id": "/redfish/v1/Registries/BiosAttributeRegistry2"})
    assert found_in(tree, "nvidia") == NO_REGISTRY


def test_registry_file_that_the_collection_does_not_list() -> None:
    tree = tree_of("hpe")
    del tree["/redfish/v1/Registries"]
    assert len(found_in(tree, "hpe").attributes) == 9


def test_registry_below_the_bios_resource() -> None:
    tree = tree_of("dell")
    for path in [one for one in tree if one.startswith("/redfish/v1/Registries")]:
        del tree[path]
    assert len(found_in(tree, "dell").attributes) == 14


def test_no_registry() -> None:
    tree = tree_of("lenovo")
    del tree["/schemas/registries/BiosAttributeRegistry.1.0.0.json"]
    registry = found_in(tree, "lenovo")
    assert registry == NO_REGISTRY
    assert registry.of("Any") == Attribute("Any")


def test_entries_without_name_or_target_are_left_out() -> None:
    entries: dict[str, Any] = {
        "Attributes": [
            {"Type": "String"},
            "text",
            {"AttributeName": "A", "Value": [{"ValueDisplayName": "Only"}, {}, "text"]},
        ],
        "Dependencies": [
            "text",
            {"Dependency": None},
            {"Dependency": {"MapToAttribute": "A"}},
            {"Type": "Formula", "Dependency": {}},
        ],
    }
    registry = parse({"RegistryEntries": entries})
    assert registry.dependencies == ()
    assert registry.attributes == {"A": Attribute("A", values=("Only",))}


def test_immutable_attribute_is_read_only() -> None:
    registry = parse({"RegistryEntries": {"Attributes": [{"AttributeName": "A", "Immutable": True}]}})
    assert registry.of("A").read_only
