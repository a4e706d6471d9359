"""The filters on the fabric, called as templates call them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

ROOT = Path(__file__).parents[3]
POD = ROOT / "inventories/examples/pod-32/pod-32.bedplate.yml"
RACK = ROOT / "inventories/examples/rack-4/rack-4.bedplate.yml"
CALLS = {
    "fabric_artefacts": "('/srv')",
    "fabric_comparison": "([{'name': 'x', 'text': 'x'}])",
    "fabric_discovered": "([{'name': 'x', 'text': 'x'}])",
    "fabric_proofs": "",
    "fabric_sources": "",
}
NOTHING = "has no switch and no HCA in it; line 1 is 'x'; allowed: what ibnetdiscover prints"


def template(expression: str, path: object = str(POD), **variables: Any) -> Any:
    templar = Templar(DataLoader(), variables={"bedplate_cluster_file": path, **variables})
    return templar.template(trust_as_template("{{ " + expression + " }}"))


def call(name: str, path: object) -> Any:
    return template(f"bedplate_cluster_file | bedplate.cluster.{name}{CALLS[name]}", path)


def test_these_are_the_filters_of_the_file():
    source = (ROOT / "plugins/filter/fabric.py").read_text()
    assert sorted(re.findall(r'^ {12}"(\w+)": ', source, re.MULTILINE)) == sorted(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_the_examples_of_the_documentation(name: str):
    text = yaml.safe_load((ROOT / f"plugins/filter/{name}.yml").read_text())["EXAMPLES"]
    shown = re.findall(r"((?:^ *# => .*\n)+)", text, re.MULTILINE)
    for task, lines in zip(yaml.safe_load(text), shown, strict=True):
        wanted = re.sub(r"^ *# => ", "", lines, flags=re.MULTILINE)
        trusted = {
            key: trust_as_template(value) if isinstance(value, str) else value
            for key, value in task.get("vars", {}).items()
        }
        message = trust_as_template(task["ansible.builtin.debug"]["msg"])
        result = Templar(DataLoader(), variables={"bedplate_cluster_file": str(POD), **trusted}).template(message)
        assert result == yaml.safe_load(wanted) or (isinstance(result, str) and result.strip() == wanted.strip())


@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_path_is_said(name: str):
    with pytest.raises(AnsibleError, match=f"{name} takes the path of a cluster file"):
        call(name, 7)
    with pytest.raises(AnsibleError, match="cannot be read"):
        call(name, "/none.bedplate.yml")


@pytest.mark.parametrize("name", ["fabric_artefacts", "fabric_comparison"])
def test_a_cluster_without_a_fabric_has_no_plan(name: str):
    with pytest.raises(AnsibleError, match=f"{name}: .*rack-4.bedplate.yml: there is no section `fabric`"):
        call(name, str(RACK))


@pytest.mark.parametrize("name", ["fabric_comparison", "fabric_discovered"])
def test_a_text_without_a_fabric_is_no_fabric_with_everything_missing(name: str):
    with pytest.raises(AnsibleError, match=re.escape(NOTHING)):
        call(name, str(POD))
    with pytest.raises(AnsibleError, match="is nothing that was discovered"):
        template(f"bedplate_cluster_file | bedplate.cluster.{name}(['text'])")
    with pytest.raises(AnsibleError, match="nothing was discovered: no text was given"):
        template(f"bedplate_cluster_file | bedplate.cluster.{name}([])")


def test_a_site_without_a_plan_has_a_source_and_may_ask_for_its_topology():
    assert [source["lldp"] for source in call("fabric_sources", str(RACK))] == [False]
    with pytest.raises(AnsibleError, match="LLDP tells no switch from a host, so a plan is needed"):
        template(
            "bedplate_cluster_file | bedplate.cluster.fabric_discovered(found)",
            str(RACK),
            found=[{"name": "gpu01", "text": '{"lldp": {"interface": []}}'}],
        )


def test_wrong_options_are_said():
    found = [{"name": "x", "text": "x"}]
    with pytest.raises(AnsibleError, match="fail_on is 'warn'; allowed: error, warning, info, never"):
        template("bedplate_cluster_file | bedplate.cluster.fabric_comparison(found, fail_on='warn')", found=found)
    with pytest.raises(AnsibleError, match="hosts is no option; allowed: host, storage, group"):
        template("bedplate_cluster_file | bedplate.cluster.fabric_discovered(found, hosts='x')", found=found)
    with pytest.raises(AnsibleError, match="is no version of Slurm"):
        template("bedplate_cluster_file | bedplate.cluster.fabric_artefacts('/srv', 'new')")
