# SPDX-License-Identifier: GPL-3.0-or-later
"""Apply the rules of an attribute registry: what blocks an attribute, which values a parent sets, which values are allowed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ....module_utils.common.text import did_you_mean, few
from .attribute_registry import (
    BOOLEAN,
    ENUMERATION,
    INTEGER,
    PASSWORD,
    STRING,
    Attribute,
    AttributeRegistry,
    Condition,
    Dependency,
    is_true,
)

Values = Mapping[str, Any]
CURRENT = "CurrentValue"
# Property of the registry that forbids to write an attribute -> the field of Attribute with its value without any dependency.
BLOCKING = {"ReadOnly": "read_only", "GrayOut": "gray_out", "Hidden": "hidden"}
_OPERATORS = {
    "EQU": lambda found, desired: found == desired,
    "NEQ": lambda found, desired: found != desired,
    "GTR": lambda found, desired: found > desired,
    "GEQ": lambda found, desired: found >= desired,
    "LSS": lambda found, desired: found < desired,
    "LEQ": lambda found, desired: found <= desired,
}
_SIGNS = {"EQU": "=", "NEQ": "is not", "GTR": ">", "GEQ": ">=", "LSS": "<", "LEQ": "<="}


@dataclass(frozen=True)
class Block:
    """Hold why an attribute cannot be written: the reason in words, and the attributes that block it, empty if it is always read-only."""

    reason: str
    parents: tuple[str, ...] = ()


def parents_of(registry: AttributeRegistry, name: str) -> frozenset[str]:
    """Return the other attributes on whose values this attribute's value or state depends."""
    return frozenset(
        condition.attribute
        for dependency in registry.dependencies
        if dependency.attribute == name and (dependency.property in BLOCKING or dependency.property == CURRENT)
        for condition in dependency.conditions
        if condition.attribute != name
    )


def block_of(registry: AttributeRegistry, name: str, values: Values, *, now: bool) -> Block | None:
    """Return why an attribute cannot be written while attributes have these values; None if it can be written.

    `now`: the values are those of the machine, so the registry's own state of the attribute counts too. Otherwise the values are planned:
    then the dependencies decide, and the registry's own state counts only for an attribute without dependencies, because a BMC may write
    today's state there (iDRAC).
    """
    attribute = registry.of(name)
    for property_, field in BLOCKING.items():
        rules = [one for one in registry.dependencies if one.attribute == name and one.property == property_]
        state = bool(getattr(attribute, field)) and (now or not rules)
        cause: Dependency | None = None
        for rule in rules:
            if _holds(registry, rule, values):
                state, cause = is_true(rule.value), rule
        if state:
            return _block(property_, cause, rules, values)
    return None


def _block(property_: str, cause: Dependency | None, rules: list[Dependency], values: Values) -> Block:
    if cause:
        said = f"{property_} while {_words(cause)}"
        return Block(said, _attributes(cause))
    frees = [one for one in rules if not is_true(one.value)]
    if frees:
        return Block(f"{property_} until {' or '.join(_words(one) for one in frees)}", _attributes(*frees))
    if rules:
        # The registry says blocked and names what blocks, but the values do not agree: the registry is of another moment.
        now = ", ".join(f"{one} = {values.get(one)}" for one in _attributes(*rules))
        return Block(f"{property_} in the registry; it depends on {now}", _attributes(*rules))
    return Block(f"{property_} in the registry, without a dependency")


def _attributes(*rules: Dependency) -> tuple[str, ...]:
    return tuple(dict.fromkeys(condition.attribute for rule in rules for condition in rule.conditions))


def _words(rule: Dependency) -> str:
    text = ""
    for number, one in enumerate(rule.conditions):
        text += f" {one.term.lower()} " if number else ""
        text += f"{one.attribute} {_SIGNS.get(one.operator, one.operator)} {one.value}"
    return text


@dataclass(frozen=True)
class Forced:
    """Hold a value that the registry gives to an attribute, and the condition in words."""

    value: Any
    reason: str
    parents: tuple[str, ...]


def forced(registry: AttributeRegistry, before: Values, after: Values) -> dict[str, Forced]:
    """Return attribute -> value for the attributes to which the registry gives another value when attributes change.

    A dependency sets a value when its conditions begin to hold, and nothing while they hold: an attribute that must not change then has a
    dependency of its state as well.
    """
    found: dict[str, Forced] = {}
    for rule in registry.dependencies:
        if rule.property != CURRENT or after.get(rule.attribute) == rule.value:
            continue
        if _holds(registry, rule, after) and not _holds(registry, rule, before):
            found[rule.attribute] = Forced(
                rule.value, f"the registry sets {rule.value} when {_words(rule)}", _attributes(rule)
            )
    return found


def _holds(registry: AttributeRegistry, rule: Dependency, values: Values) -> bool:
    """Return whether the conditions of a dependency hold, from left to right. A value that is not known fulfils no condition."""
    result = _met(registry, rule.conditions[0], values)
    for condition in rule.conditions[1:]:
        met = _met(registry, condition, values)
        result = result or met if condition.term.upper() == "OR" else result and met
    return result


def _met(registry: AttributeRegistry, condition: Condition, values: Values) -> bool:
    if condition.property == CURRENT:
        if condition.attribute not in values:
            return False
        found = values[condition.attribute]
    elif condition.property in BLOCKING:
        found = getattr(registry.of(condition.attribute), BLOCKING[condition.property])
    else:
        return False
    operator = _OPERATORS.get(condition.operator)
    desired = is_true(condition.value) if isinstance(found, bool) else condition.value
    try:
        return bool(operator and operator(found, desired))
    except TypeError:
        return False


def mistake(attribute: Attribute, desired: Any) -> str:
    """Return the mistake in a value for an attribute, with the allowed values; "" for a legal value."""
    return next(_mistakes(attribute, desired), "")


def _mistakes(attribute: Attribute, desired: Any) -> Iterator[str]:
    kind = attribute.kind
    if kind == PASSWORD:
        yield "is a password, which a BIOS profile must not contain"
    elif kind == BOOLEAN and not isinstance(desired, bool):
        yield f"{_shown(desired)} is not a boolean. Allowed: true, false"
    elif kind == INTEGER:
        yield from _wrong_number(attribute, desired)
    elif kind in (ENUMERATION, STRING) and not isinstance(desired, str):
        yield f"{_shown(desired)} is not a string{allowed(attribute, '. Allowed: ')}. Quote it in the profile"
    elif kind == ENUMERATION and attribute.values and desired not in attribute.values:
        near = did_you_mean(desired, attribute.values, fold=True)
        yield f"{_shown(desired)} is not a legal value.{near} Allowed: {allowed(attribute)}"
    elif kind == STRING:
        yield from _wrong_text(attribute, str(desired))


def _wrong_number(attribute: Attribute, desired: Any) -> Iterator[str]:
    if not isinstance(desired, int) or isinstance(desired, bool):
        yield f"{_shown(desired)} is not an integer{allowed(attribute, '. Allowed: ')}"
        return
    low, high = attribute.lower, attribute.upper
    if (low is not None and desired < low) or (high is not None and desired > high):
        yield f"{desired} is outside the limits. Allowed: {allowed(attribute)}"
    elif attribute.step and low is not None and (desired - low) % attribute.step:
        yield f"{desired} is between two steps. Allowed: {allowed(attribute)}"


def _wrong_text(attribute: Attribute, desired: str) -> Iterator[str]:
    low, high = attribute.min_length, attribute.max_length
    if (low is not None and len(desired) < low) or (high is not None and len(desired) > high):
        yield f"it has {len(desired)} characters. Allowed: {allowed(attribute)}"
    if attribute.pattern:
        try:
            fits = re.fullmatch(attribute.pattern, desired)
        except re.error:  # an expression of another dialect than Python's
            return
        if not fits:
            yield f"{_shown(desired)} does not match the expression. Allowed: {attribute.pattern}"


def allowed(attribute: Attribute, lead: str = "") -> str:
    """Return the allowed values of an attribute as text with this lead, "" if its registry states none.

    >>> allowed(Attribute("a", "Integer", lower=0, upper=4)), allowed(Attribute("b", "Enumeration", values=("On", "Off")))
    ('0 to 4', 'On, Off')
    """
    text = few(attribute.values, 12)
    if attribute.kind == INTEGER and (attribute.lower is not None or attribute.upper is not None):
        text = f"{'' if attribute.lower is None else attribute.lower} to {'' if attribute.upper is None else attribute.upper}".strip()
        text += f" in steps of {attribute.step}" if attribute.step and attribute.step > 1 else ""
    elif attribute.kind == BOOLEAN:
        text = "true, false"
    elif attribute.kind == STRING and (attribute.min_length or attribute.max_length is not None):
        text = f"{attribute.min_length or 0} to {'any number of' if attribute.max_length is None else attribute.max_length} characters"
    return f"{lead}{text}" if text else ""


def _shown(desired: Any) -> str:
    return (
        repr(desired)
        if isinstance(desired, str)
        else str(desired).lower()
        if isinstance(desired, bool)
        else str(desired)
    )
