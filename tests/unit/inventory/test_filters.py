"""The filters that tell of machines, called as templates call them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

ROOT = Path(__file__).parents[3]
LAB = ROOT / "inventories/lab/lab.bedplate.yml"
POD = ROOT / "inventories/examples/pod-32/pod-32.bedplate.yml"


def template(expression: str, path: object = str(LAB)):
    templar = Templar(DataLoader(), variables={"bedplate_cluster_file": path})
    return templar.template(trust_as_template("{{ " + expression + " }}"))


def sidecar(name: str) -> dict:
    return yaml.safe_load((ROOT / "plugins" / "filter" / f"{name}.yml").read_text(encoding="utf-8"))


def test_a_node_is_what_its_documentation_shows():
    contains = sidecar("node")["RETURN"]["_value"]["contains"]
    documented = {key: value["sample"] for key, value in contains.items()}
    assert template("bedplate_cluster_file | bedplate.cluster.node('gpu03')") == documented


@pytest.mark.parametrize("name", ["node", "nodes", "etc_hosts"])
def test_the_examples_of_the_documentation(name):
    examples = sidecar(name)["EXAMPLES"]
    for task, shown in zip(
        yaml.safe_load(examples), re.findall(r"((?:^ *# => .*\n)+)", examples, re.MULTILINE), strict=True
    ):
        templar = Templar(DataLoader(), variables={"bedplate_cluster_file": str(LAB)})
        templar.available_variables |= {key: trust_as_template(value) for key, value in task.get("vars", {}).items()}
        result = templar.template(trust_as_template(task["ansible.builtin.debug"]["msg"]))
        lines = [line.strip().removeprefix("# => ") for line in shown.splitlines()]
        assert (f'"{result}"' if len(lines) == 1 else result) == "\n".join(lines) + "\n" * (len(lines) > 1)


def test_a_host_has_no_hardware():
    assert template("bedplate_cluster_file | bedplate.cluster.node('ctl1')") == {
        "name": "ctl1",
        "fqdn": "ctl1.lab.internal",
        "address": "10.213.0.10",
        "bmc_address": None,
        "rack": None,
        "nics": [],
    }


def test_all_nodes_are_as_each_of_them():
    nodes = template("bedplate_cluster_file | bedplate.cluster.nodes", str(POD))
    assert len(nodes) == 32
    assert nodes[8] == template("bedplate_cluster_file | bedplate.cluster.node('gpu009')", str(POD))
    assert nodes[8]["rack"]["name"] == "b03"
    assert nodes[8]["profile"]["gpus"]["cores"] == ["0-55"] * 4 + ["56-111"] * 4


def test_etc_hosts_has_bmcs_and_full_names():
    lines = template("bedplate_cluster_file | bedplate.cluster.etc_hosts", str(POD)).splitlines()
    assert lines[1:3] == ["127.0.0.1 localhost", "::1 localhost ip6-localhost ip6-loopback"]
    assert "10.20.1.32 gpu032.pod.example.org gpu032" in lines
    assert "10.20.5.32 gpu032-bmc.pod.example.org gpu032-bmc" in lines
    assert "10.20.0.11 ctl1.pod.example.org ctl1" in lines
    assert len(lines) == 3 + 2 * 32 + 4


@pytest.mark.parametrize(
    ("expression", "path", "message"),
    [
        ("bedplate_cluster_file | bedplate.cluster.node('gpu3')", str(LAB), "'gpu03'?"),
        ("bedplate_cluster_file | bedplate.cluster.nodes", 7, ", not 7"),
        (
            "bedplate_cluster_file | bedplate.cluster.etc_hosts",
            "/none.bedplate.yml",
            "etc_hosts: /none.bedplate.yml:1: ",
        ),
    ],
)
def test_what_goes_wrong_is_said(expression, path, message):
    with pytest.raises(AnsibleError) as caught:
        template(expression, path)
    assert message in str(caught.value)
