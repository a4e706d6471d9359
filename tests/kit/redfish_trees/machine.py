# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine behind a tree: it stages BIOS settings, and applies at a reset what its registry allows. The rest it drops, as XCC does.

It reads dependencies by itself, and not with bedplate's rules: the tests compare both.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from tests.kit.redfish_trees import Tree

_BLOCKING = ("ReadOnly", "GrayOut", "Hidden")


class Machine:
    """A tree that changes. `frozen` are attributes that the machine never takes, although it accepts them."""

    def __init__(self, tree: Tree, frozen: frozenset[str] = frozenset()) -> None:
        self.tree, self.frozen = copy.deepcopy(tree), frozen
        self.bios = next(one for one in self.tree.values() if "@Redfish.Settings" in one and "Attributes" in one)
        self.settings = self.tree[self.bios["@Redfish.Settings"]["SettingsObject"]["@odata.id"]]
        registry = next(one["RegistryEntries"] for one in self.tree.values() if "RegistryEntries" in one)
        self.entries: dict[str, dict[str, Any]] = {one["AttributeName"]: one for one in registry["Attributes"]}
        self.rules: list[dict[str, Any]] = [one["Dependency"] for one in registry.get("Dependencies", [])]
        self.resets = 0

    @property
    def values(self) -> dict[str, Any]:
        """The current values."""
        found: dict[str, Any] = self.bios["Attributes"]
        return found

    def patch(self, body: Mapping[str, Any]) -> None:
        """Stage attributes. Raises KeyError for an unknown attribute and ValueError for an unknown value: HTTP 400."""
        for name, value in body["Attributes"].items():
            listed = [one["ValueName"] for one in self.entries[name].get("Value", [])]
            if listed and value not in listed:
                raise ValueError(name)
            self.settings["Attributes"][name] = value

    def reset(self) -> None:
        """Apply staged values that are not blocked with the values of this moment, then what they set in turn."""
        self.resets += 1
        staged = {name: one for name, one in self.settings["Attributes"].items() if one != self.values.get(name)}
        before = dict(self.values)
        for name, value in staged.items():
            if name not in self.frozen and not self.is_blocked(name, before):
                self.values[name] = value
        for _ in range(5):
            for rule in self.rules:
                to, value = rule["MapToAttribute"], rule["MapToValue"]
                if (
                    rule["MapToProperty"] == "CurrentValue"
                    and self.met(rule, self.values)
                    and not self.met(rule, before)
                ):
                    self.values[to] = value
        for name in self.settings["Attributes"]:
            self.settings["Attributes"][name] = self.values[name]
        # An iDRAC renders the state of the moment into its registry.
        for name, entry in self.entries.items():
            if any(rule["MapToAttribute"] == name and rule["MapToProperty"] == "ReadOnly" for rule in self.rules):
                entry["ReadOnly"] = self.is_blocked(name, self.values)

    def is_blocked(self, name: str, values: Mapping[str, Any]) -> bool:
        """Whether the registry forbids to change an attribute."""
        blocking = [
            rule for rule in self.rules if rule["MapToAttribute"] == name and rule["MapToProperty"] in _BLOCKING
        ]
        if not blocking:
            return bool(self.entries.get(name, {}).get("ReadOnly"))
        return any(self.met(rule, values) for rule in blocking)

    @staticmethod
    def met(rule: Mapping[str, Any], values: Mapping[str, Any]) -> bool:
        """Whether all conditions of a dependency hold; the trees have EQU, NEQ and AND alone."""
        return all(
            (values.get(one["MapFromAttribute"]) == one["MapFromValue"]) == (one["MapFromCondition"] == "EQU")
            for one in rule["MapFrom"]
        )
