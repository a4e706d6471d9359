# SPDX-License-Identifier: GPL-3.0-or-later
"""Readers of a BMC's JSON and of ipmitool's output accept any value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish import fields, ipmi
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.client import Answer
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.errors import BmcError, messages_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.machine_reading import (
    boot_of,
    slot_of,
    system_of,
)

KEYS = [
    "@odata.id", "Actions", "#ComputerSystem.Reset", "target", "ResetType@Redfish.AllowableValues", "Boot", "HttpBootUri",
    "BootSourceOverrideTarget", "BootSourceOverrideEnabled", "SerialNumber", "Links", "ManagedBy", "Chassis", "Image", "Inserted",
    "MediaTypes", "error", "@Message.ExtendedInfo", "MessageId", "Message", "MessageArgs", "PowerState", "@Redfish.Settings",
]  # fmt: skip
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=8)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), inner, max_size=6)
    ),
    max_leaves=25,
)
OBJECTS = st.dictionaries(st.sampled_from(KEYS), JSON, max_size=12)


@settings(max_examples=150, deadline=None)
@given(OBJECTS)
def test_any_object_is_read(body: dict[str, Any]) -> None:
    system = system_of(Answer("/x", 200, body))
    assert isinstance(system.serial, str)
    assert slot_of(body, "/y").path
    boot = boot_of(body)
    assert boot is None or isinstance(boot.is_off, bool)
    messages = messages_of(body, ["secret-canary"])
    assert len(messages) <= 10
    str(BmcError("other", "gpu001", "failed", "Read it.", messages=messages))


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_messages_of_any_json(body: Any) -> None:
    for message in messages_of({"error": {"@Message.ExtendedInfo": body}}) + messages_of(body):
        assert len(message.text) <= 500
        assert message.text.isprintable()


@given(st.text(max_size=200))
def test_any_output_of_ipmitool(output: str) -> None:
    assert ipmi.boot_flags(output).device


@pytest.mark.parametrize(
    ("value", "number"), [(3.9, 3), (7, 7), (True, 0), ("7", 0), (None, 0), (float("inf"), 0), (float("nan"), 0)]
)
def test_numbers(value: object, number: int) -> None:
    assert fields.number({"a": {"b": value}}, "a", "b") == number


def test_values_of_another_type_are_missing() -> None:
    body = {"a": ["x", 1, {"@odata.id": "/z"}], "b": {"@odata.id": 5}, "c": " text "}
    assert fields.texts(body, "a") == ("x",)
    assert fields.links(body, "a") == ("/z",)
    assert (fields.link(body, "b"), fields.text(body, "c"), fields.flag(body, "c")) == ("", "text", None)
