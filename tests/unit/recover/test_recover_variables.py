# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of a recovery and its limit: all mistakes at once, and each default is a value that is allowed."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover.recover_variables import (
    VARIABLES,
    choices,
    mistakes,
    run_mistakes,
)
from lab.paths import ROOT

PRINT = "SHA256:" + "a" * 43
NODES = ["gpu01", "gpu02"]


@pytest.mark.parametrize(
    ("variables", "mistake"),
    [
        ({"recover_host_key": "x"}, "recover_host_key is not a variable of playbooks/recover.yml; did"),
        ({"recover_host_key_file": 7}, "recover_host_key_file: 7; allowed: the path"),
        ({"recover_host_key_confirm": ["x"]}, "recover_host_key_confirm: ['x']; allowed: a fingerprint"),
        ({"recover_guids": True}, "recover_guids: True; allowed: accept"),
        ({"recover_reboot_deadline": "1h"}, "recover_reboot_deadline: '1h'; allowed: whole seconds"),
        ({"recover_ended": "x"}, "recover_ended: 'x'; allowed: the 8 digits"),
        (
            {"recover_host_key_file": "k", "recover_host_key_confirm": PRINT},
            "recover_host_key_file and recover_host_key_confirm: set one source",
        ),
    ],
)
def test_mistakes(variables: dict[str, Any], mistake: str):
    (found,) = mistakes(variables)
    assert found.startswith(mistake)


def test_an_empty_source_is_not_stated():
    assert not mistakes({"recover_host_key_file": "", "recover_host_key_confirm": PRINT})


def test_a_run_without_a_limit_is_refused_with_an_example():
    (found,) = run_mistakes({}, None, ["ctl1", *NODES], NODES)
    assert "--limit gpu01" in found


def test_a_limit_with_other_machines_is_refused_with_all_of_them():
    (found,) = run_mistakes({}, "ctl1,login1,gpu01", ["ctl1", "login1", "gpu01"], NODES)
    assert ("ctl1" in found, "login1" in found, "not a compute node: ctl1, login1;" in found) == (True, True, True)


def test_all_mistakes_are_returned_at_once():
    assert len(run_mistakes({"recover_host_key_confirm": "SHA256:x"}, "ctl1,gpu01", ["ctl1", "gpu01"], NODES)) == 2


def test_a_subnet_manager_is_recovered_alone():
    (found,) = run_mistakes({}, "gpu01,gpu02", NODES, NODES, ["gpu01"])
    assert "subnet manager gpu01" in found
    assert not run_mistakes({}, "gpu01", ["gpu01"], NODES, ["gpu01"])


def test_compute_nodes_are_allowed():
    assert not run_mistakes({"recover_host_key_confirm": PRINT}, "gpu01", ["gpu01"], NODES)
    assert not run_mistakes({}, "compute_nodes", NODES, NODES)


def test_defaults_are_allowed_and_as_documented():
    assert choices({}) == {name.removeprefix("recover_"): one.default for name, one in VARIABLES.items()}
    documented = yaml.safe_load((ROOT / "tools/playbooks.yml").read_text())["playbooks"]["recover"]["variables"]
    assert {name: one["default"] for name, one in documented.items()} == {
        name: one.default for name, one in VARIABLES.items()
    }
