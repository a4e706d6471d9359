# SPDX-License-Identifier: GPL-3.0-or-later
"""The reader of thresholds.json: model over default, site over model, and mistakes that name quantity and key."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import NodeProfile
from ansible_collections.bedplate.cluster.plugins.module_utils.health.tables import thresholds
from ansible_collections.bedplate.cluster.plugins.module_utils.health.tables.threshold_row import ThresholdError
from ansible_collections.bedplate.cluster.plugins.module_utils.health.tables.thresholds import rows_for

DATA = json.loads(Path(thresholds.__file__).with_name("thresholds.json").read_text(encoding="utf-8"))
NEEDED = (
    "driver-loaded gpu-count-pci gpu-count-driver gpu-lost driver-match ecc-mode ecc-uncorrected-volatile ecc-corrected sram-threshold "
    "remap-pending remap-failure remap-uncorrectable remap-bank-none nvlink-down nvlink-crc nvlink-replay fabric-state pcie-width "
    "pcie-replay pcie-aer-fatal pcie-aer-nonfatal thermal-margin throttle-hw throttle-software-thermal power-brake recovery-action "
    "persistence ib-port-state ib-rate ib-link-downed ib-local-link-integrity ib-excessive-buffer-overrun ib-symbol-error huge-pages "
    "mount-hung mount-absent driver-hang clock-skew foreign advice"
)


def test_all_needed_quantities_have_a_row() -> None:
    assert set(NEEDED.split()) <= set(thresholds.default().rows)


def test_the_model_changes_the_default_and_the_site_changes_the_model() -> None:
    site = {"thermal-margin": {"critical": -5, "debounce": 5}}
    assert rows_for(NodeProfile(model="h100"))["thermal-margin"].critical == -2
    assert rows_for(NodeProfile(model="B200"))["thermal-margin"].critical == -3
    row = rows_for(NodeProfile(model="b200", thresholds=site))["thermal-margin"]
    assert (row.critical, row.debounce, row.warn, row.kind) == (-5, 5, 2, "at_least")
    assert rows_for(NodeProfile(model="b200"))["thermal-margin"].critical == -3


def test_a_site_can_remove_a_limit_and_a_whole_check() -> None:
    site = {"pcie-replay": {"critical": None}, "persistence": {"applies": "never"}}
    rows = rows_for(NodeProfile(model="h100", gpus=8, thresholds=site))
    assert (rows["pcie-replay"].warn, rows["pcie-replay"].critical) == (50, None)
    assert rows["persistence"].applies == "never"


@pytest.mark.parametrize(
    ("site", "words"),
    [
        ({"ecc-corected": {"warn": 1}}, ["ecc-corected"]),
        ({"ecc-corrected": {"wran": 1}}, ["ecc-corrected", "wran"]),
        ({"ecc-corrected": {"kind": "level"}}, ["ecc-corrected", "kind"]),
        ({"ecc-corrected": {"clears_by": "time"}}, ["ecc-corrected", "clears_by"]),
        ({"ecc-corrected": {"at_most": "note"}}, ["ecc-corrected", "at_most"]),
        ({"ecc-corrected": {"warn": [1]}}, ["ecc-corrected", "warn", "[1]", "a number"]),
        ({"ecc-corrected": {"warn": True}}, ["ecc-corrected", "warn", "true", "a number"]),
        ({"ecc-corrected": {"warn": "100"}}, ["ecc-corrected", "warn"]),
        ({"ecc-corrected": {"warn": math.nan}}, ["ecc-corrected", "warn"]),
        ({"ecc-corrected": {"warn": math.inf}}, ["ecc-corrected", "warn"]),
        ({"ecc-corrected": {"warn": 0}}, ["ecc-corrected"]),
        ({"ecc-corrected": {"window": 0}}, ["ecc-corrected", "window"]),
        ({"ecc-corrected": {"window": 86401}}, ["ecc-corrected", "window"]),
        ({"ecc-corrected": {"debounce": 3}}, ["ecc-corrected", "debounce"]),
        ({"fabric-state": {"critical": ""}}, ["fabric-state"]),
        ({"nvlink-down": {"debounce": 0}}, ["nvlink-down", "debounce"]),
        ({"nvlink-down": {"debounce": 2.5}}, ["nvlink-down", "debounce", "2.5", "whole number"]),
        ({"nvlink-down": {"quiet": 1}}, ["nvlink-down", "quiet", "1", "true or false"]),
        ({"nvlink-down": {"class_critical": "fatal"}}, ["nvlink-down", "class_critical", "fatal"]),
        ({"nvlink-down": {"applies": "nvidia"}}, ["nvlink-down", "applies", "nvidia"]),
        ({"pcie-replay": {"warn": 500}}, ["pcie-replay", "critical"]),
        ({"thermal-margin": {"critical": 5}}, ["thermal-margin", "critical"]),
        ({"power-brake": {"class_warn": "degraded"}}, ["power-brake", "degraded", "note at most"]),
        ({"foreign": {"class_critical": "cannot-run"}}, ["foreign", "cannot-run", "degraded at most"]),
        ({"advice": {"class_critical": "reset"}}, ["advice", "reset", "degraded at most"]),
        ({"mount-hung": {"class_warn": "reset"}}, ["mount-hung", "class_critical"]),
        ({"gpu-count-pci": {"critical": "profile.cpus"}}, ["gpu-count-pci"]),
        ({"gpu-count-pci": {"critical": "eight"}}, ["gpu-count-pci"]),
        ({"ib-rate": 400}, ["ib-rate", "400"]),
    ],
)
def test_mistakes_of_a_site_are_named(site: Mapping[str, Any], words: list[str]) -> None:
    with pytest.raises(ThresholdError) as error:
        rows_for(NodeProfile(model="h100", gpus=8, thresholds=site))
    assert [word for word in words if word not in str(error.value)] == []


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"from": ""}, "from"),
        ({"kind": "sum"}, "kind"),
        ({"unit": "1/d"}, "unit"),
        ({"counts": "states", "kind": "delta"}, "counts=states"),
        ({"since_reset": True}, "since_reset"),
        ({"names": {}}, "names"),
        ({"verified": "yes"}, "verified"),
        ({"models": [{"names": ["h100"], "warn": 5}]}, "models"),
        ({"models": [{"names": ["h100"], "warn": 5, "kind": "level", "from": "x", "verified": False}]}, "kind"),
        ({"models": [{"names": ["h100"], "warn": -5, "from": "x", "verified": False}]}, "ecc-corrected"),
        ({"models": [{"names": ["x", "x"], "warn": 5, "from": "x", "verified": False}]}, "two rows"),
    ],
)
def test_mistakes_of_the_table_are_named(change: Mapping[str, Any], word: str) -> None:
    row = {**DATA["rows"]["ecc-corrected"], **change}
    with pytest.raises(ThresholdError, match=word):
        thresholds.build({**DATA, "rows": {"ecc-corrected": row}})


def test_a_known_bad_driver_needs_all_keys() -> None:
    with pytest.raises(ThresholdError, match="known_bad_drivers"):
        thresholds.build({**DATA, "known_bad_drivers": [{"version": "1"}]})


@pytest.mark.parametrize("change", [{"class": "fatal"}, {"after_days": -1}])
def test_a_known_bad_driver_has_a_class_and_an_age(change: Mapping[str, Any]) -> None:
    with pytest.raises(ThresholdError, match="known_bad_drivers"):
        thresholds.build({**DATA, "known_bad_drivers": [{**DATA["known_bad_drivers"][0], **change}]})
