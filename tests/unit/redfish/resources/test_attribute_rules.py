# SPDX-License-Identifier: GPL-3.0-or-later
"""What blocks an attribute, what a parent sets, and which values are allowed."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources.attribute_registry import (
    Attribute,
    AttributeRegistry,
    Condition,
    Dependency,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.resources.attribute_rules import (
    allowed,
    block_of,
    forced,
    mistake,
    parents_of,
)


def when(attribute: str, operator: str, value: Any, term: str = "AND", property_: str = "CurrentValue") -> Condition:
    return Condition(attribute, property_, operator, value, term)


def registry(*dependencies: Dependency, **attributes: Attribute) -> AttributeRegistry:
    return AttributeRegistry("/r", attributes, dependencies)


def read_only(*conditions: Condition, value: Any = True) -> AttributeRegistry:
    return registry(Dependency(conditions, "A", "ReadOnly", value))


@pytest.mark.parametrize(
    ("operator", "value", "found", "blocked"),
    [
        ("EQU", "X", "X", True),
        ("EQU", "X", "Y", False),
        ("NEQ", "X", "Y", True),
        ("NEQ", "X", "X", False),
        ("GTR", 3, 4, True),
        ("GTR", 3, 3, False),
        ("GEQ", 3, 3, True),
        ("GEQ", 3, 2, False),
        ("LSS", 3, 2, True),
        ("LSS", 3, 3, False),
        ("LEQ", 3, 3, True),
        ("LEQ", 3, 4, False),
        ("GTR", 3, "text", False),
        ("MATCH", "X", "X", False),
    ],
)
def test_operators(operator: str, value: Any, found: Any, blocked: bool) -> None:
    assert (block_of(read_only(when("P", operator, value)), "A", {"P": found}, now=True) is not None) == blocked


@pytest.mark.parametrize("operator", ["EQU", "NEQ"])
def test_parent_without_a_value_blocks_nothing(operator: str) -> None:
    assert block_of(read_only(when("P", operator, "X")), "A", {}, now=True) is None


@pytest.mark.parametrize(
    ("term", "values", "blocked"),
    [
        ("AND", {"P": 1, "Q": 1}, True),
        ("AND", {"P": 1, "Q": 2}, False),
        ("OR", {"P": 1, "Q": 2}, True),
        ("OR", {"P": 2, "Q": 1}, True),
        ("OR", {"P": 2, "Q": 2}, False),
    ],
)
def test_terms(term: str, values: dict[str, int], blocked: bool) -> None:
    rules = read_only(when("P", "EQU", 1), when("Q", "EQU", 1, term))
    block = block_of(rules, "A", values, now=True)
    assert (block is not None) == blocked
    if block:
        assert (block.reason, block.parents) == (f"ReadOnly while P = 1 {term.lower()} Q = 1", ("P", "Q"))


@pytest.mark.parametrize("property_", ["ReadOnly", "GrayOut", "Hidden"])
@pytest.mark.parametrize("value", [True, "true", "True"])
def test_each_blocking_property(property_: str, value: Any) -> None:
    rules = registry(Dependency((when("P", "EQU", 1),), "A", property_, value))
    block = block_of(rules, "A", {"P": 1}, now=True)
    assert block
    assert block.reason == f"{property_} while P = 1"


def test_state_of_today_does_not_count_for_planned_values() -> None:
    """An iDRAC writes today's state into its registry."""
    rules = registry(Dependency((when("P", "NEQ", "Custom"),), "A", "ReadOnly", True), A=Attribute("A", read_only=True))
    today = block_of(rules, "A", {"P": "Perf"}, now=True)
    assert today
    assert today.parents == ("P",)
    assert block_of(rules, "A", {"P": "Custom"}, now=False) is None


def test_registry_of_another_moment_names_what_it_depends_on() -> None:
    rules = registry(Dependency((when("P", "NEQ", "Custom"),), "A", "ReadOnly", True), A=Attribute("A", read_only=True))
    block = block_of(rules, "A", {"P": "Custom"}, now=True)
    assert block
    assert (block.reason, block.parents) == ("ReadOnly in the registry; it depends on P = Custom", ("P",))


def test_dependency_that_frees() -> None:
    rules = registry(
        Dependency((when("P", "EQU", "Custom"),), "A", "ReadOnly", False), A=Attribute("A", read_only=True)
    )
    block = block_of(rules, "A", {"P": "Perf"}, now=True)
    assert block
    assert (block.reason, block.parents) == ("ReadOnly until P = Custom", ("P",))
    assert block_of(rules, "A", {"P": "Custom"}, now=True) is None


def test_always_read_only() -> None:
    rules = registry(A=Attribute("A", read_only=True))
    for now in (True, False):
        block = block_of(rules, "A", {}, now=now)
        assert block
        assert block.parents == ()


def test_later_dependency_wins() -> None:
    rules = registry(
        Dependency((when("P", "EQU", 1),), "A", "ReadOnly", True),
        Dependency((when("Q", "EQU", 1),), "A", "ReadOnly", False),
    )
    assert block_of(rules, "A", {"P": 1, "Q": 1}, now=True) is None


def test_dependency_on_another_attributes_state() -> None:
    rules = registry(
        Dependency((when("P", "EQU", True, property_="ReadOnly"),), "A", "Hidden", True),
        P=Attribute("P", read_only=True),
    )
    assert block_of(rules, "A", {}, now=True)
    other = registry(Dependency((when("P", "EQU", 1, property_="UpperBound"),), "A", "Hidden", True))
    assert block_of(other, "A", {"P": 1}, now=True) is None


def test_forced_values() -> None:
    rules = registry(Dependency((when("P", "EQU", "HPC"),), "A", "CurrentValue", "Off"))
    web, hpc = {"P": "Web", "A": "On"}, {"P": "HPC", "A": "On"}
    found = forced(rules, web, hpc)
    assert {name: (one.value, one.parents) for name, one in found.items()} == {"A": ("Off", ("P",))}
    assert forced(rules, web, {**hpc, "A": "Off"}) == {}
    assert forced(rules, hpc, web) == {}
    assert forced(rules, hpc, {**hpc, "B": "other"}) == {}, "the condition held before"


def test_parents() -> None:
    rules = registry(
        Dependency((when("P", "EQU", 1), when("A", "EQU", 1)), "A", "CurrentValue", 2),
        Dependency((when("Q", "EQU", 1),), "A", "ReadOnly", True),
        Dependency((when("R", "EQU", 1),), "A", "WarningText", "text"),
        Dependency((when("S", "EQU", 1),), "B", "ReadOnly", True),
    )
    assert parents_of(rules, "A") == {"P", "Q"}


ENUM = Attribute("A", "Enumeration", values=("Enabled", "Disabled"))
NUMBER = Attribute("A", "Integer", lower=0, upper=56, step=2)
TEXT = Attribute("A", "String", min_length=2, max_length=4, pattern="[a-z]+")


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        (ENUM, "Enabled"),
        (NUMBER, 0),
        (NUMBER, 56),
        (TEXT, "abcd"),
        (Attribute("A", "Boolean"), True),
        (Attribute("A", "String", pattern="(?<broken"), "x"),
        (Attribute("A"), 1),
        (Attribute("A", "Enumeration"), "Any"),
        (Attribute("A", "Integer", lower=0, step=0), 7),
    ],
)
def test_legal_values(attribute: Attribute, value: Any) -> None:
    assert mistake(attribute, value) == ""


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [
        (ENUM, "enabled", ["'Enabled'", "Enabled, Disabled"]),
        (ENUM, True, ["true", "Quote it", "Enabled, Disabled"]),
        (NUMBER, 58, ["0 to 56 in steps of 2"]),
        (NUMBER, -2, ["0 to 56"]),
        (NUMBER, 3, ["steps of 2"]),
        (NUMBER, "4", ["'4'", "integer"]),
        (NUMBER, True, ["true"]),
        (TEXT, "a", ["1 characters", "2 to 4"]),
        (TEXT, "abcde", ["5 characters"]),
        (TEXT, "AB", ["[a-z]+"]),
        (Attribute("A", "Boolean"), "true", ["true, false"]),
        (Attribute("A", "Password"), "secret", ["password"]),
    ],
)
def test_mistakes(attribute: Attribute, value: Any, words: list[str]) -> None:
    found = mistake(attribute, value)
    assert all(word in found for word in words), found


def test_password_is_not_repeated() -> None:
    assert "canary" not in mistake(Attribute("A", "Password"), "canary")


def test_allowed_is_empty_without_limits() -> None:
    assert allowed(Attribute("A", "String")) == allowed(Attribute("A", "Integer")) == allowed(Attribute("A")) == ""
