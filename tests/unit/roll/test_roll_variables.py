# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of a roll: a misspelt name or a wrong value is a mistake, and each default is a value that is allowed."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll.roll_variables import (
    VARIABLES,
    choices,
    controller_mistakes,
    mistakes,
)
from lab.paths import ROOT


@pytest.mark.parametrize(
    ("variables", "mistake"),
    [
        ({"roll_percnt": 5}, "roll_percnt is not a variable of playbooks/roll.yml; did"),
        ({"roll_percent": 0}, "roll_percent: 0; allowed: a percentage above 0, at most 100"),
        ({"roll_percent": "many"}, "roll_percent: 'many'"),
        ({"roll_percent": True}, "roll_percent: True"),
        ({"roll_failures": -1}, "roll_failures: -1"),
        ({"roll_failures": 1.5}, "roll_failures: 1.5"),
        ({"roll_deadline": "1h"}, "roll_deadline: '1h'; allowed: whole seconds"),
        ({"roll_waiting_fails": "perhaps"}, "roll_waiting_fails: 'perhaps'; allowed: true or false"),
        ({"roll_when": "later"}, "roll_when: 'later'; allowed: now, reservation"),
        ({"roll_when": "reservation", "roll_start": "tonight"}, "roll_start: 'tonight'"),
        ({"roll_start": "now+2hours"}, "roll_start without roll_when=reservation"),
        ({"roll_plan_digest": "0" * 64}, "roll_plan_digest without roll_plan_file"),
        ({"roll_plan_file": "p.json", "roll_plan_digest": "abc"}, "roll_plan_digest: 'abc'"),
        ({"roll_ended": "3F2A9C1B"}, "roll_ended: '3F2A9C1B'; allowed: the 8 digits and letters a-f of a run"),
        ({"roll_ended": "3f2a"}, "roll_ended: '3f2a'"),
        ({"roll_failures": False}, "roll_failures: False"),
        ({"roll_hours": None}, "roll_hours: empty; allowed: hours from 0.1 to 720"),
    ],
)
def test_mistakes(variables: dict[str, Any], mistake: str):
    found = mistakes(variables)
    assert len(found) == 1
    assert found[0].startswith(mistake)


def test_a_roll_without_slurm_names_the_playbooks_to_run():
    assert controller_mistakes(["ctl1"]) == []
    (found,) = controller_mistakes([])
    assert "slurm_controllers" in found
    assert "playbooks/site.yml" in found
    assert "playbooks/reboot.yml" in found


def test_values_of_the_command_line_are_text():
    assert not mistakes({"roll_percent": "12.5", "roll_failures": "3", "roll_waiting_fails": "true", "other": "x"})
    found = choices({"roll_percent": "12.5", "roll_failures": "3", "roll_waiting_fails": "yes"})
    assert (found["percent"], found["failures"], found["waiting_fails"], found["when"]) == (12.5, 3, True, "now")


@pytest.mark.parametrize(("text", "number"), [("3.0", 3), ("1e3", 1000), (7, 7)])
def test_what_is_taken_for_a_whole_number_is_one(text: object, number: int):
    given = {"roll_failures": text, "roll_deadline": text}
    assert not mistakes(given)
    assert (choices(given)["failures"], choices(given)["deadline"]) == (number, number)


def test_the_pages_have_these_defaults():
    pages = yaml.safe_load((ROOT / "tools/playbooks.yml").read_text())["playbooks"]["roll"]["variables"]
    assert {name: one["default"] for name, one in pages.items()} == {
        name: one.default for name, one in VARIABLES.items()
    }
