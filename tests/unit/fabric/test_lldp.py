"""LLDP's neighbours as a discovered fabric."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.lldp import LldpError, neighbours
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.lldp_discovery import (
    discovery_of,
)
from tests.unit.fabric.lldp_answers import fabric, neighbour


def test_forms_of_lldpctl():
    bare = {"lldp": {"interface": neighbour("swp1", "gpu1", "eth0")}}
    listed = {"lldp": {"interface": [neighbour("swp1", "gpu1", "eth0")]}}
    full = {
        "lldp": [
            {
                "interface": [
                    {
                        "name": "swp1",
                        "chassis": [
                            {"id": [{"type": "mac", "value": "9c:05:91:00:ab:01"}], "name": [{"value": "gpu1"}]}
                        ],
                        "port": [
                            {"id": [{"type": "mac", "value": "9c:05:91:00:ab:02"}], "descr": [{"value": "eth0"}]},
                        ],
                    }
                ]
            }
        ]
    }
    nameless = {
        "lldp": {
            "interface": {
                "swp1": {
                    "chassis": {"id": {"type": "mac", "value": "9c:05:91:00:ab:01"}},
                    "port": {"id": {"type": "mac", "value": "9c:05:91:00:ab:02"}},
                }
            }
        }
    }
    expected = [("swp1", "gpu1", "eth0", "9c:05:91:00:ab:01")]
    assert [list(neighbours(one)) for one in (bare, listed, full)] == [expected] * 3
    assert list(neighbours(nameless)) == [("swp1", "", "9c:05:91:00:ab:02", "9c:05:91:00:ab:01")]
    assert list(neighbours({"lldp": {}})) == []


@pytest.mark.parametrize("answer", [{}, {"lldp": "off"}, {"lldp": {"interface": ["swp1"]}}])
def test_what_is_no_answer_is_told_with_the_box(answer: dict[str, Any]):
    with pytest.raises(LldpError):
        list(neighbours(answer))
    plan = fabric()
    unread = discovery_of({"sp1": answer}, plan).unread
    assert len(unread) == 1
    assert unread[0][1].startswith("sp1: ")


def test_interface_that_is_no_map_is_told_of():
    assert list(neighbours({"lldp": {"interface": [{"swp1": "gpu1"}]}})) == [("swp1", "", "", "")]
