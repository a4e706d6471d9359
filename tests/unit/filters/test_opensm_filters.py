"""The filters on subnet managers, called as templates call them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.verify import opensm_readback
from tests.kit import sentences
from tests.unit.filters import documented

SENTENCES = Path(__file__).parent / "sentences.txt"

ROOT = Path(__file__).parents[3]
SCENARIO = ROOT / "molecule/opensm/opensm.bedplate.yml"
RACK = ROOT / "inventories/examples/rack-4/rack-4.bedplate.yml"
CALLS = {
    "opensm_files": "('sm1')",
    "opensm_units": "('sm1')",
    "opensm_proof_digest": "",
    "opensm_facts_request": "('sm1')",
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
    expression = f"bedplate_cluster_file | bedplate.cluster.{name}{CALLS[name]}"
    said = documented.refusal(expression, 7)
    assert said.startswith(f"{name} ")
    sentences.check(SENTENCES, "no path", [said.replace(name, "FILTER")])
    said = documented.refusal(expression, str(RACK))
    assert said.startswith(f"{name}: {RACK.relative_to(documented.ROOT)}:5: the file: ")
    sentences.check(SENTENCES, "a cluster without a fabric", [said.replace(name, "FILTER")])


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
    assert found["table"] == found["summary"]
    assert re.search(r"molecule: sm1 mlx5_0 .*ftree, 1 standby$", found["summary"])
    sentences.check(SENTENCES, "subnet managers as planned", [found["summary"]])


def test_the_verdict_on_a_host_that_was_not_reached():
    for sm2 in ({"unreachable": True}, {}):
        found = verdict({"sm1": facts("MASTER"), "sm2": sm2})
        assert found["failed"]
        (finding,) = [one for one in found["findings"] if one["kind"] == "host"]
        assert (finding["where"], finding["severity"]) == ("sm2, molecule", "error")
        sentences.check(SENTENCES, "a host that was not reached", [found["table"]])


def test_the_verdict_on_a_host_where_the_module_failed():
    found = verdict({"sm1": facts("MASTER"), "sm2": {"failed": True, "msg": "smpquery not installed on this host"}})
    (finding,) = [one for one in found["findings"] if one["kind"] == "host"]
    assert finding["where"] == "sm2, molecule"
    assert "smpquery" in finding["found"]
    sentences.check(SENTENCES, "a host where the module failed", [found["table"]])


def test_hosts_that_a_limit_leaves_out_are_named_and_not_judged():
    found = verdict({"sm2": facts("STANDBY")})
    assert (found["failed"], found["findings"]) == (False, [])
    assert re.search(r"molecule: sm1 mlx5_0 .* 1 standby; .*: sm1$", found["summary"])
    failed = verdict({"sm1": facts("MASTER", unit="failed")})
    assert failed["failed"]
    assert re.search(r"^1 .*: sm2$", failed["summary"])
    sentences.check(SENTENCES, "hosts that a limit leaves out", [found["summary"], failed["summary"]])


def test_a_warning_fails_nothing():
    found = verdict({"sm1": facts("MASTER", pkeys={SM1: [65535]}), "sm2": facts("STANDBY", pkeys={})})
    assert not found["failed"]
    assert [one["severity"] for one in found["findings"]] == ["warning"]


def test_verify_has_the_findings_of_the_verdict():
    told = {"sm1": {"opensm": facts("MASTER", unit="failed")}, "sm2": {"opensm": facts("STANDBY")}}
    (found,), _summary = opensm_readback.verdict(load(SCENARIO), told)
    assert (found.kind, found.where, found.severity) == ("opensm-unit", "sm1, molecule", "error")
    assert (found.expected, found.found) == ("opensm-plane@fabric.service active", "failed")
    assert found.remedy.startswith("`systemctl status opensm-plane@fabric.service`")


def test_verify_names_a_subnet_manager_that_was_not_reached():
    results = {"sm1": {"opensm": facts("MASTER")}, "sm2": {"unreachable": True, "msg": "off"}}
    (found,), _summary = opensm_readback.verdict(load(SCENARIO), results)
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
    assert "{{ __opensm_differing | join(', ') }} differs from" in judged["ansible.builtin.assert"]["fail_msg"]
