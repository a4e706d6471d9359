# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts of plays that are chosen from variables and results."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.filter import host_choice as filters
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.host_choice import (
    hosts_that_set,
    reboot_needed,
    serial_mistakes,
)

HOSTVARS: dict[str, dict[str, Any]] = {
    "set": {"bedplate_reboot": "allowed"},
    "wrong": {"bedplate_reboot": "perhaps"},
    "null": {"bedplate_reboot": None},
    "default": {"bedplate_reboot": "never"},
    "undefined": {},
}


def test_a_host_is_chosen_once_unless_it_has_the_default() -> None:
    assert hosts_that_set(HOSTVARS, [*HOSTVARS, "set"], "bedplate_reboot", "never") == ["set", "wrong", "null"]


@pytest.mark.parametrize(
    ("result", "chosen"),
    [
        ({"reasons": {"gpu_driver": "driver is not loaded"}}, True),
        ({"reasons": {}}, False),
        # Without a result the node is not rebooted; a result that cannot be read is refused by the play.
        (None, False),
        ("", False),
        ({"unreachable": True}, True),
    ],
)
def test_a_host_is_checked_that_has_reasons_for_a_reboot(result: object, chosen: bool) -> None:
    hostvars = {"n1": {"__reboot_asked": result} if result is not None else {}}
    assert reboot_needed(hostvars, ["n1"], "__reboot_asked") == (["n1"] if chosen else [])


def test_a_syntax_check_has_no_hostvars() -> None:
    assert filters.hosts_that_set({}, ["n1"], "bedplate_reboot", "never") == []
    assert filters.reboot_needed({}, ["n1"]) == []


@pytest.mark.parametrize(
    ("value", "is_valid"),
    [
        (None, True),
        ("5", True),
        (5, True),
        ("20%", True),
        ([1, "50%"], True),
        ([], False),
        (0, False),
        ("x", False),
        ([1, "x"], False),
    ],
)
def test_a_size_of_batches_is_checked_before_the_run(value: object, is_valid: bool) -> None:
    assert (serial_mistakes({"bedplate_serial": value}) == []) is is_valid
