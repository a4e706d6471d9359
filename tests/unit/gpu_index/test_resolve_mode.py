# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run does with the lock, by the value of `gpu_resolve`: molecule/gpu_stack plays it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from jinja2 import Environment

PHASE = Path(__file__).parents[3] / "playbooks/phases/gpu_resolve.yml"


@pytest.mark.parametrize(
    ("stated", "mode"),
    [
        ({}, "missing"),
        ({"gpu_resolve": None}, "missing"),
        ({"gpu_resolve": ""}, "missing"),
        ({"gpu_resolve": "missing"}, "missing"),
        ({"gpu_resolve": "update"}, "update"),
        ({"gpu_resolve": "off"}, "off"),
        # As YAML reads it without quotes.
        ({"gpu_resolve": False}, "off"),
    ],
)
def test_a_lock_is_updated_only_where_a_run_states_that(stated: dict[str, object], mode: str) -> None:
    ((task, *_others),) = (play["tasks"] for play in yaml.safe_load(PHASE.read_text()))
    text = task["bedplate.cluster.gpu_resolve"]["mode"]
    assert Environment(autoescape=False).from_string(text).render(stated) == mode
