"""The filters on subnet managers, called as templates call them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.bedplate.cluster.plugins.plugin_utils.verify import of_opensm
from tests.unit.filters import documented

ROOT = Path(__file__).parents[3]
SCENARIO = ROOT / "molecule/opensm/opensm.bedplate.yml"
RACK = ROOT / "inventories/examples/rack-4/rack-4.bedplate.yml"
CALLS = {
    "opensm_files": "('sm1')",
    "opensm_units": "('sm1')",
    "opensm_proof": "",
    "opensm_asked": "('sm1')",
    "opensm_verdict": "({})",
}
SM1, SM2 = "021d6a2cd3704201", "02d6019952577601"


def template(expression: str, path: object = str(SCENARIO), **variables: Any) -> Any:
    return documented.template(expression, path, **variables)


def call(name: str, path: object) -> Any:
    return template(f"bedplate_cluster_file | bedplate.cluster.{name}{CALLS[name]}", path)


def test_these_are_the_filters_of_the_file():
    assert documented.names("opensm") == sorted(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_the_examples_of_the_documentation(name: str):
    documented.check_examples(name, str(SCENARIO))


@pytest.mark.parametrize("name", CALLS)
def test_what_is_wrong_is_said_with_the_name_of_the_filter(name: str):
    with pytest.raises(AnsibleError, match=f"{name} takes the path of a cluster file"):
        call(name, 7)
    with pytest.raises(AnsibleError, match=f"{name}: .*rack-4.bedplate.yml:5: the file: there is no section `fabric`"):
        call(name, str(RACK))


def facts(state: str, **changed: Any) -> dict[str, Any]:
    log = {"state": state, "engine": "ftree", "up": True, "partitions": "", "errors": {}, "last": ""}
    seen = [{"guid": SM1, "priority": 15, "state": "master"}, {"guid": SM2, "priority": 14, "state": "standby"}]
    plane = {
        "plane": "",
        "unit": "active",
        "port": ["mlx5_0", "1"],
        "ports": [],
        "managers": seen,
        "log": log,
        "pkeys": {SM1: [65535], SM2: [0x8001, 65535]},
    }
    return {"planes": [{**plane, **changed}]}


def verdict(told: dict[str, Any]) -> Any:
    return template("bedplate_cluster_file | bedplate.cluster.opensm_verdict(told)", told=told)


def test_the_verdict_on_what_is_as_planned():
    found = verdict({"sm1": facts("MASTER"), "sm2": facts("STANDBY")})
    assert (found["failed"], found["findings"]) == (False, [])
    assert found["table"] == found["summary"] == "molecule: sm1 mlx5_0 is master with ftree, 1 standby"


def test_the_verdict_on_a_host_that_was_not_reached():
    for sm2 in ({"unreachable": True}, {}):
        found = verdict({"sm1": facts("MASTER"), "sm2": sm2})
        assert found["failed"]
        assert "ERROR    host  sm2, molecule: the host was not reached" in found["table"]


def test_the_verdict_on_a_host_where_the_module_failed():
    found = verdict({"sm1": facts("MASTER"), "sm2": {"failed": True, "msg": "smpquery not installed on this host"}})
    assert "sm2, molecule: its subnet manager could not be asked: smpquery not installed" in found["table"]
    assert "not reached" not in found["table"]


def test_hosts_that_a_limit_leaves_out_are_named_and_not_judged():
    found = verdict({"sm2": facts("STANDBY")})
    assert (found["failed"], found["findings"]) == (False, [])
    assert found["summary"] == "molecule: sm1 mlx5_0 is master, 1 standby; not asked in this run: sm1"
    found = verdict({"sm1": facts("MASTER", unit="failed")})
    assert found["failed"]
    assert found["summary"] == "1 finding on the subnet managers; not asked in this run: sm2"


def test_a_warning_fails_nothing():
    found = verdict({"sm1": facts("MASTER", pkeys={SM1: [65535]}), "sm2": facts("STANDBY", pkeys={})})
    assert not found["failed"]
    assert [one["severity"] for one in found["findings"]] == ["warning"]


def test_verify_has_the_findings_of_the_verdict():
    told = {"sm1": {"opensm": facts("MASTER", unit="failed")}, "sm2": {"opensm": facts("STANDBY")}}
    (found,), _summary = of_opensm.verdict(str(SCENARIO), told)
    assert (found.kind, found.where, found.severity) == ("opensm-unit", "sm1, molecule", "error")
    assert (found.expected, found.found) == ("opensm-plane@fabric.service active", "failed")
    assert found.remedy.startswith("`systemctl status opensm-plane@fabric.service`")


def test_verify_names_a_subnet_manager_that_was_not_reached():
    results = {"sm1": {"opensm": facts("MASTER")}, "sm2": {"unreachable": True, "msg": "off"}}
    (found,), _summary = of_opensm.verdict(str(SCENARIO), results)
    assert (found.kind, found.where) == ("opensm-host", "sm2, molecule")
    assert "not reached" in found.found


@pytest.mark.parametrize(("choice", "differing"), [({"max_wire_smps": 8}, []), ({"max_wire_smps": 9}, ["sm2"])])
def test_hosts_that_choose_differently_are_named(choice: dict[str, int], differing: list[str]):
    tasks = yaml.safe_load((ROOT / "roles/opensm/tasks/validate.yml").read_text())
    (fact,) = (
        one["ansible.builtin.set_fact"] for one in tasks if "ansible.builtin.set_fact" in one and "run_once" not in one
    )
    (judged,) = (one for one in tasks if "ansible.builtin.assert" in one)

    def digest(chosen: object) -> str:
        templar = Templar(DataLoader(), variables={"__opensm_choices": chosen})
        return str(templar.template(trust_as_template(fact["__opensm_chosen"])))

    hosts = {
        name: {"inventory_hostname": name, "__opensm_chosen": digest({"options": one})}
        for name, one in (("sm1", {"max_wire_smps": 8}), ("sm2", choice))
    }
    given = {"ansible_play_batch": list(hosts), "hostvars": hosts}
    given |= {name: trust_as_template(text) for name, text in judged["vars"].items()}
    templar = Templar(DataLoader(), variables=given)
    assert templar.template(trust_as_template("{{ __opensm_differing }}")) == differing
    assert "{{ __opensm_differing | join(', ') }} is otherwise" in judged["ansible.builtin.assert"]["fail_msg"]
