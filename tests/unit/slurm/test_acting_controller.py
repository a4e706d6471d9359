# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a run may start the primary: by what each controller of the run sees."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.acting_controller import decide

NAMES = ["ctl1", "ctl2"]


def sees(acting: str, *up: str) -> dict[str, Any]:
    return {"acting": acting, "up": list(up), "controllers": NAMES}


UNREACHABLE = {"unreachable": True, "changed": False}


@pytest.mark.parametrize(
    ("answers", "acting", "keeps"),
    [
        ({"ctl1": sees("ctl1", *NAMES), "ctl2": sees("ctl1", *NAMES)}, "ctl1", False),
        # Failed over.
        ({"ctl1": sees("ctl2", "ctl2"), "ctl2": sees("ctl2", "ctl2")}, "ctl2", True),
        # Left out by --limit, or off: the primary is no part of the run, and nothing starts it.
        ({"ctl1": {}, "ctl2": sees("ctl2", "ctl2")}, "ctl2", False),
        ({"ctl1": UNREACHABLE, "ctl2": sees("ctl2", "ctl2")}, "ctl2", False),
        ({"ctl1": sees("ctl2", "ctl2"), "ctl2": {}}, "ctl2", True),
        # Cut off from each other, the primary works.
        ({"ctl1": sees("ctl1", "ctl1"), "ctl2": sees("ctl1", "ctl2")}, "ctl1", False),
        # Cut off from each other, the standby works.
        ({"ctl1": sees("ctl2"), "ctl2": sees("ctl2", "ctl2")}, "ctl2", True),
        ({"ctl1": sees(""), "ctl2": sees("ctl2", "ctl2")}, "ctl2", True),
        # A first start, and a cluster that is off: the primary is started.
        ({"ctl1": sees(""), "ctl2": sees("")}, "", False),
        ({"ctl1": sees("", "ctl2"), "ctl2": sees("", "ctl2")}, "", False),
        ({"ctl2": sees("ctl1", *NAMES)}, "ctl1", False),
        ({}, "", False),
        ({"ctl1": {"skipped": True}, "ctl2": {"failed": True}}, "", False),
        # slurmctld of the primary does not answer on its own host: a heartbeat that the other one sees is of a process that hangs.
        ({"ctl1": sees(""), "ctl2": sees("ctl1", "ctl2")}, "", False),
    ],
)
def test_the_primary_stays_stopped_while_a_standby_is_in_charge(answers: dict[str, Any], acting: str, keeps: bool):
    found = decide(NAMES, answers)
    assert (found.acting, found.keeps_primary_down, bool(found.text)) == (acting, keeps, keeps)


def test_the_message_names_both_and_the_way_back():
    text = decide(NAMES, {"ctl1": sees("ctl2", "ctl2")}).text
    assert text.startswith("ctl1 is the primary and does not run; ctl2 is in charge.")
    assert "playbooks/takeover.yml -e takeover_by=ctl1" in text


def test_a_cluster_without_controllers_has_none_in_charge():
    assert decide([], {}).acting == ""
