"""The order of reboots, and which answers allow one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.bedplate.cluster.plugins.filter.reboot_plan import reboot_plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.reboot_order import may_reboot, value_mistakes
from tests.kit import sentences
from tests.unit.stand_ins import cluster_file

SENTENCES = Path(__file__).parent / "sentences.txt"

CLUSTER = cluster_file({"b": {}, "a": {}}, {"b": "n[1-12]", "a": "m[1-3]"})
YES = {"reasons": {"node_tuning": "x"}, "in_use": []}


@pytest.fixture
def hostvars(tmp_path: Path) -> dict[str, dict[str, Any]]:
    file = tmp_path / "c.bedplate.yml"
    file.write_text(CLUSTER)
    names = [*(f"n{number}" for number in range(12, 0, -1)), "m2", "m1"]
    return {name: {"bedplate_cluster_file": str(file), "__reboot_asked": dict(YES)} for name in names}


def test_canaries_first_then_by_profile_in_the_order_of_the_file(hostvars: dict[str, dict[str, Any]]) -> None:
    """However the groups of a run are ordered."""
    assert reboot_plan(hostvars, hostvars) == {
        "hosts": ["m1", "n1", "m2", *(f"n{number}" for number in range(2, 13))],
        "serial": [2, 10],
    }


def test_the_smallest_batch_counts_and_nobody_is_a_pattern_that_fits_none(hostvars: dict[str, dict[str, Any]]) -> None:
    hostvars["n3"]["bedplate_reboot_batch"] = "3"
    assert reboot_plan(hostvars, hostvars)["serial"] == [2, 3]
    assert reboot_plan(["n1", "n3"], hostvars) == {"hosts": ["n1", "n3"], "serial": [1, 3]}
    assert reboot_plan([], hostvars) == {"hosts": ["!all"], "serial": [1, 10]}


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        {"skipped": True},
        {"reasons": {}, "in_use": []},
        {"reasons": {"rdma": "x"}},
        {"reasons": {"rdma": "x"}, "in_use": None},
        {"reasons": {"rdma": "x"}, "in_use": ["slurmd runs"]},
    ],
)
def test_no_answer_is_no_reboot(answer: object, hostvars: dict[str, dict[str, Any]]) -> None:
    assert not may_reboot(answer)
    hostvars["n1"]["__reboot_asked"] = answer
    assert "n1" not in reboot_plan(hostvars, hostvars)["hosts"]
    assert may_reboot(YES)


@pytest.mark.parametrize("size", [0, -1, "x", "", True, 2.5, None, "\u0663"])
def test_a_size_that_is_none_is_refused(size: object, hostvars: dict[str, dict[str, Any]]) -> None:
    hostvars["n1"]["bedplate_reboot_batch"] = size
    with pytest.raises(AnsibleFilterError, match=r"bedplate_reboot_batch: ") as caught:
        reboot_plan(hostvars, hostvars)
    if size == 0:
        sentences.check(SENTENCES, "a size that is none", [caught.value])


@pytest.mark.parametrize("value", ["allowed", "never"])
def test_a_known_value_is_no_mistake(value: str) -> None:
    assert value_mistakes("bedplate_reboot", value) == []
    assert value_mistakes("bedplate_reboot_batch", 3) == value_mistakes("bedplate_reboot_batch", "3") == []


@pytest.mark.parametrize("value", ["perhaps", "Allowed", True, False, None, "", 1, ["allowed"], {}])
def test_other_values_are_mistakes_with_what_is_allowed(value: object) -> None:
    (text,) = value_mistakes("bedplate_reboot", value)
    assert text.endswith("allowed: allowed, never")
    (text,) = value_mistakes("bedplate_reboot_batch", value if value != 1 else 0)
    assert "; allowed: a number of nodes from 1" in text
