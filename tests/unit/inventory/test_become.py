"""What runs on the control node never becomes root there, whatever the inventory says of all hosts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]


def _on_the_control_node() -> Iterator[tuple[str, dict[str, Any]]]:
    for path in [*ROOT.glob("playbooks/*.yml"), *ROOT.glob("roles/*/tasks/*.yml")]:
        for one in yaml.safe_load(path.read_text()) or ():
            # Their actions connect to nobody.
            actions = {"bedplate.cluster.role_variables"} & set(one)
            if (
                "become" in one
                or (one.get("delegate_to") == "localhost" and not actions)
                or one.get("connection") == "local"
            ):
                yield f"{path.parent.name}/{path.name}: {one['name']}", one


FOUND = dict(_on_the_control_node())


@pytest.mark.parametrize("name", FOUND)
def test_a_play_on_the_control_node_outranks_the_inventory(name: str) -> None:
    """A keyword does not: Ansible takes ansible_become of group_vars/all before it, and the implicit localhost has that."""
    assert FOUND[name].get("become") is False
    assert FOUND[name]["vars"]["ansible_become"] is False


def test_all_of_them_are_seen() -> None:
    assert len(FOUND) >= 8
