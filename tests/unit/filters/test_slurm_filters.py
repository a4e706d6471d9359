"""The filters that plan Slurm, called as templates call them."""

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
LAB = ROOT / "inventories/lab/lab.bedplate.yml"
POD = ROOT / "inventories/examples/pod-32/pod-32.bedplate.yml"
FILTERS = [
    "slurm_accounts",
    "slurm_daemons",
    "slurm_expected",
    "slurm_files",
    "slurm_parts",
    "slurm_wanted",
    "slurmdbd_conf",
]


def template(expression: str, path: object = str(LAB), **variables: Any) -> Any:
    templar = Templar(DataLoader(), variables={"bedplate_cluster_file": path, **variables})
    return templar.template(trust_as_template("{{ " + expression + " }}"))


def test_these_are_the_filters_of_the_file():
    source = (ROOT / "plugins/filter/slurm.py").read_text()
    assert sorted(re.findall(r'^ {12}"(\w+)": ', source, re.MULTILINE)) == FILTERS


@pytest.mark.parametrize("name", FILTERS)
def test_the_examples_of_the_documentation(name):
    text = yaml.safe_load((ROOT / f"plugins/filter/{name}.yml").read_text())["EXAMPLES"]
    shown = re.findall(r"((?:^ *# => .*\n)+)", text, re.MULTILINE)
    for task, lines in zip(yaml.safe_load(text), shown, strict=True):
        wanted = re.sub(r"^ *# => ", "", lines, flags=re.MULTILINE)
        result = template(task["ansible.builtin.debug"]["msg"].strip("{} "), **task.get("vars", {}))
        assert result.strip() == wanted.strip() if isinstance(result, str) else result == yaml.safe_load(wanted)


@pytest.mark.parametrize(
    ("host", "parts"),
    [
        ("ctl1", ["controller", "rest"]),
        ("ctl2", ["controller"]),
        ("db1", ["database"]),
        ("login1", ["login"]),
        ("x", []),
    ],
)
def test_parts_of_a_machine(host, parts):
    assert template(f"bedplate_cluster_file | bedplate.cluster.slurm_parts('{host}')", str(POD)) == parts


def test_accounts_of_the_pod():
    assert template("bedplate_cluster_file | bedplate.cluster.slurm_accounts", str(POD))["accounts"] == {
        "research": {
            "description": "Model training",
            "parent": "root",
            "users": ["alice", "bob"],
            "default_qos": "normal",
        }
    }


@pytest.mark.parametrize("name", FILTERS)
def test_what_is_no_path_is_said(name):
    argument = "('ctl1')" if name == "slurm_parts" else ""
    with pytest.raises(AnsibleError, match=f"{name} takes the path of a cluster file"):
        template(f"bedplate_cluster_file | bedplate.cluster.{name}{argument}", 7)
    with pytest.raises(AnsibleError, match="cannot be read"):
        template(f"bedplate_cluster_file | bedplate.cluster.{name}{argument}", "/none.bedplate.yml")
