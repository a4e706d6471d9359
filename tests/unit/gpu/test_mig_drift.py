"""MIG on a node: what the role brings, and what verify tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import mig_drift
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.unit_plan import Unit, read_units
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common import shipped
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts.container_part import CDI_UNIT
from tests.kit import sentences
from tests.unit.gpu.tree import Tree
from tests.unit.gpu_stack.parts.test_driver_part import DEBIAN, FILE, found

SENTENCES = Path(__file__).parent / "sentences.txt"

A, B = "0000:0f:00.0", "0000:3b:00.0"


def deployed(tmp_path: Path, mig: str = "[{3g.40gb: 2}, {}]") -> dict[str, Any]:
    text = FILE.replace("{model: MODEL, count: COUNT}", f"{{model: h100, count: 2, detect: nvml, mig: {mig}}}")
    path = tmp_path / "c.bedplate.yml"
    path.write_text(text + DEBIAN)
    return found(load(path))


def units(told: dict[str, Any], loaded: str | None) -> list[Unit]:
    """Return the units as they are to be where this version of the driver is loaded."""
    found, mistakes = read_units(told["units"])
    assert mistakes == []
    return [unit.where(loaded) for unit in found]


def test_a_node_gets_layout_program_and_unit(tmp_path: Path) -> None:
    told = deployed(tmp_path)
    files = {entry["path"]: entry.get("content") for entry in told["files"]}
    assert json.loads(files["/etc/bedplate/mig.json"]) == {"gpus": [["3g.40gb", "3g.40gb"], []]}
    assert dict(shipped.files("gpu.mig_program")).items() <= files.items()
    unit = files["/etc/systemd/system/bedplate-mig.service"]
    assert f"\nEnvironment=PYTHONPATH={shipped.library('gpu.mig_program')} PYTHONDONTWRITEBYTECODE=1\n" in unit
    assert f"\nExecStart={shipped.command('gpu.mig_program')} /etc/bedplate/mig.json\n" in unit
    assert "\nBefore=nvidia-persistenced.service nvidia-dcgm.service bedplate-cdi.service slurmd.service\n" in unit
    # Only where it has run: at boot it comes later by itself, and not every node has containers.
    assert f"\nExecStartPost=-/usr/bin/systemctl --no-block try-restart {CDI_UNIT}\n" in unit
    assert "\nConditionPathExists=/proc/driver/nvidia/version\n" in unit
    assert told["expected"]["mig"] == [["3g.40gb", "3g.40gb"], []]
    assert told["expected"]["units"][0] == "bedplate-mig.service"
    assert told["expected"]["whole"] is False
    # It goes with the unit, when the file says nothing of MIG any more; `systemctl disable` knows none that is gone.
    (link,) = [entry for entry in told["files"] if entry.get("state") == "link"]
    assert link["path"] == "/etc/systemd/system/multi-user.target.wants/bedplate-mig.service"
    assert link["target"] == "/etc/systemd/system/bedplate-mig.service"


def test_the_unit_is_first_and_runs_now_only_with_this_driver(tmp_path: Path) -> None:
    told = deployed(tmp_path)
    library = [path for path, _text in shipped.files("gpu.mig_program")]
    for loaded, state, after in (
        (None, None, []),
        (told["expected"]["driver"]["version"], "started", ["/etc/bedplate/mig.json", *library]),
    ):
        first = units(told, loaded)[0]
        assert (first.name, first.enabled, first.state) == ("bedplate-mig.service", True, state)
        assert list(first.restart_after) == after


def test_without_mig_in_the_file_there_is_none_of_it(tmp_path: Path) -> None:
    told = deployed(tmp_path, "[]")
    assert not [entry for entry in told["files"] if "mig" in entry["path"]]
    assert not [unit for unit in units(told, told["expected"]["driver"]["version"]) if "mig" in unit.name]
    assert told["expected"]["mig"] == []


@pytest.fixture
def facts(tmp_path: Path) -> dict[str, Any]:
    """Return the facts of a machine with two GPUs, of which the first is in two halves."""
    tree = Tree(tmp_path)
    tree.driver()
    tree.gpu(A, 1)
    tree.gpu(B, 0)
    for instance in ("gi1/ci0", "gi2/ci0"):
        tree.write(f"proc/driver/nvidia/capabilities/gpu1/mig/{instance}/access", "")
    return dict(tree.facts())


HALVES = [["3g.40gb", "3g.40gb"], []]
LISTED = {"GPU-1": ("3g.40gb", "3g.40gb"), "GPU-0": ()}


def test_what_is_as_wanted_is_no_finding(facts: dict[str, Any]) -> None:
    assert list(mig_drift.findings(HALVES, facts, LISTED)) == []
    assert list(mig_drift.findings(HALVES, facts, None)) == []
    assert list(mig_drift.findings([], facts, None)) == []


@pytest.mark.parametrize(
    ("wanted", "listed", "told"),
    [
        (HALVES, {**LISTED, "GPU-1": ("3g.40gb", "4g.40gb")}, ("mig", f"MIG of GPU {A}", "2 x 3g.40gb", "1 x 3g.40gb, 1 x 4g.40gb")),
        ([["7g.80gb"], []], None, ("mig", f"MIG of GPU {A}", "1 x 7g.80gb", "2 instances")),
        ([[], []], LISTED, ("mig", f"MIG of GPU {A}", "a whole GPU", "2 x 3g.40gb")),
        ([*HALVES, []], LISTED, ("gpu-count", "GPUs", "3", f"2 ({A}, {B})")),
    ],
)  # fmt: skip
def test_each_difference_names_the_gpu(facts: dict[str, Any], wanted: Any, listed: Any, told: tuple[str, ...]) -> None:
    (finding,) = mig_drift.findings(wanted, facts, listed)
    assert (finding.kind, finding.where, finding.expected, finding.found) == told
    if wanted != HALVES:
        sentences.check(SENTENCES, f"MIG, expected: {wanted}", [finding])


def test_an_instance_that_no_program_can_use_is_told_of(facts: dict[str, Any]) -> None:
    facts["gpus"][0]["mig_instances"][1]["ci"] = []
    (finding,) = mig_drift.findings(HALVES, facts, None)
    assert (finding.kind, finding.where, finding.expected) == ("mig", f"MIG of GPU {A}", "2 x 3g.40gb")
    assert finding.found.count("1 ") == 2
    facts["gpus"][0]["mig_instances"] = None
    (unknown,) = mig_drift.findings(HALVES, facts, None)
    assert unknown.found == "not known"
    sentences.check(SENTENCES, "MIG: an instance that no program can use, and unknown ones", [finding, unknown])


def test_gpus_that_stay_split_where_jobs_get_whole_ones_are_told_of(facts: dict[str, Any]) -> None:
    (finding,) = mig_drift.split_gpus(facts)
    assert (finding.kind, finding.where, finding.found) == ("mig", f"MIG of GPU {A}", "on, with 2 instances")
    assert f"`nvidia-smi -i {A} -mig 0`" in finding.remedy
    sentences.check(SENTENCES, "MIG: a GPU that stays split", [finding])
    # In MIG mode without instances no program can use it.
    facts["gpus"][0].update(mig_instances=[], mig=True)
    assert len(list(mig_drift.split_gpus(facts))) == 1
    facts["gpus"][0].update(mig_instances=None, mig=False)
    assert list(mig_drift.split_gpus(facts)) == []
    facts["gpus"][0].update(mig=True)
    assert list(mig_drift.split_gpus({**facts, "driver": {"version": None}})) == []


@pytest.mark.parametrize(("detect", "whole"), [("explicit", True), ("nvml", False), ("nvidia", False)])
def test_whoever_detects_gpus_himself_finds_instances(tmp_path: Path, detect: str, whole: bool) -> None:
    path = tmp_path / "c.bedplate.yml"
    path.write_text(
        FILE.replace("{model: MODEL, count: COUNT}", f"{{model: h100, count: 2, detect: {detect}}}") + DEBIAN
    )
    assert found(load(path))["expected"]["whole"] is whole


@pytest.mark.parametrize("change", [{"gpus": []}, {"driver": {"version": None}}])
def test_without_gpus_or_driver_nothing_is_said_of_mig(facts: dict[str, Any], change: dict[str, Any]) -> None:
    assert list(mig_drift.findings(HALVES, {**facts, **change}, None)) == []


def test_what_nvidia_smi_does_not_tell_is_a_text() -> None:
    listing = "GPU 0: NVIDIA H100 (UUID: GPU-1)\n  MIG 3g.40gb Device 0: (UUID: MIG-1)\n"
    assert mig_drift.listing(lambda _: Outcome(0, listing, "")) == {"GPU-1": ("3g.40gb",)}
    assert mig_drift.listing(lambda _: Outcome(None, "", "")) == "nvidia-smi -L: no answer"
    assert mig_drift.listing(lambda _: Outcome(9, "", "")) == "nvidia-smi -L: ended with 9"
    assert "neither a GPU" in str(mig_drift.listing(lambda _: Outcome(0, "what?\n", "")))
