# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of an upgrade: a misspelt name or a wrong value is a mistake, and each default is a value that is allowed."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.upgrade.upgrade_variables import (
    VARIABLES,
    choices,
    mistakes,
    service_mistakes,
)
from lab.paths import ROOT


@pytest.mark.parametrize(
    ("variables", "mistake"),
    [
        (
            {"upgrade_seral": 5},
            "upgrade_seral is not a variable of playbooks/upgrade_slurm.yml; did you mean upgrade_serial?",
        ),
        ({"upgrade_serial": 0}, "upgrade_serial: 0; allowed: a number of nodes from 1"),
        ({"upgrade_serial": []}, "upgrade_serial: []"),
        ({"upgrade_serial": [1, "many"]}, "upgrade_serial: [1, 'many']"),
        ({"upgrade_failures": -1}, "upgrade_failures: -1"),
        ({"upgrade_seconds": "2h"}, "upgrade_seconds: '2h'; allowed: whole seconds"),
        ({"upgrade_without_return": "perhaps"}, "upgrade_without_return: 'perhaps'"),
        ({"upgrade_ended": "xyz"}, "upgrade_ended: 'xyz'"),
    ],
)
def test_mistakes(variables: dict[str, Any], mistake: str):
    (found,) = mistakes(variables)
    assert found.startswith(mistake)


def test_values_of_the_command_line_are_text():
    given = {"upgrade_serial": "20%", "upgrade_failures": "2", "upgrade_without_return": "yes"}
    assert mistakes(given) == []
    found = choices(given)
    assert (found["serial"], found["failures"], found["without_return"], found["seconds"]) == (["20%"], 2, True, 7200)


def test_defaults_are_allowed_and_documented():
    assert not [name for name, one in VARIABLES.items() if one.default != "" and not one.takes(one.default)]
    documented = yaml.safe_load((ROOT / "tools/playbooks.yml").read_text())["playbooks"]["upgrade_slurm"]["variables"]
    assert set(documented) == set(VARIABLES)


def test_services_that_bedplate_does_not_manage():
    assert service_mistakes(["ctl1"], ["ctl1"]) == []
    assert len(service_mistakes([], [])) == 2
