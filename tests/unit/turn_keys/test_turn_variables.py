# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of a turn: a misspelt name or a wrong value is a mistake."""

from __future__ import annotations

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.run_secrets import of_role
from ansible_collections.bedplate.cluster.plugins.plugin_utils.turn_keys.turn_variables import (
    KEYS,
    VARIABLES,
    TurnChoices,
    choices,
    controller_mistakes,
    mistakes,
)
from lab.paths import ROOT


@pytest.mark.parametrize(
    ("variables", "mistake"),
    [
        ({"turn_keys": "munge"}, "turn_keys: 'munge'; allowed: munge_key, jwt_key"),
        ({"turn_keys": "munge_key,back"}, "turn_keys: 'munge_key,back'"),
        ({"turn_keys": ""}, "turn_keys: ''"),
        ({"turn_keys": True}, "turn_keys: True"),
        ({"turn_keys": None}, "turn_keys: empty"),
        ({"turn_keys_window": -1}, "turn_keys_window: -1; allowed: seconds from 0 to 86400"),
        ({"turn_keys_window": "long"}, "turn_keys_window: 'long'"),
        ({"turn_keys_without": 7}, "turn_keys_without: 7; allowed: names of machines"),
        ({"turn_keys_witout": "n1"}, "turn_keys_witout is not a variable of playbooks/turn_keys.yml; did"),
    ],
)
def test_mistakes(variables: dict[str, object], mistake: str):
    (found,) = mistakes(variables)
    assert found.startswith(mistake)
    with pytest.raises(ValueError, match="turn_keys"):
        choices(variables)


def test_a_turn_without_slurm_is_a_mistake():
    assert controller_mistakes(["ctl1"]) == []
    (found,) = controller_mistakes([])
    assert "slurm_controllers" in found


def test_values_of_the_command_line_and_of_a_file():
    assert choices({}) == TurnChoices()
    text = choices({"turn_keys": "jwt_key,munge_key", "turn_keys_without": "n1, n2", "turn_keys_window": "600"})
    assert text == TurnChoices(("munge_key", "jwt_key"), without=("n1", "n2"), window=600.0)
    assert choices({"turn_keys": ["jwt_key"], "turn_keys_without": ["n1"]}).keys == ("jwt_key",)
    assert choices({"turn_keys": "back"}) == TurnChoices(back=True)


def test_the_reference_has_each_variable():
    listed = yaml.safe_load((ROOT / "tools/playbooks.yml").read_text())["playbooks"]["turn_keys"]["variables"]
    assert set(listed) == set(VARIABLES)


def test_each_key_is_one_that_the_role_writes():
    assert set(KEYS) <= set(of_role("slurm"))
    for key in KEYS.values():
        parts = [path.read_text() for path in (ROOT / "roles/slurm/parts").glob("*.yml")]
        with_key = [text for text in parts if f"secret: {key.secret}\n" in text]
        assert with_key
        assert all(f"path: {key.path}\n" in text for text in with_key)
