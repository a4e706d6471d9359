"""The filters on the fabric, called as templates call them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleError

from tests.unit.filters import documented

ROOT = Path(__file__).parents[3]
POD = ROOT / "inventories/examples/pod-32/pod-32.bedplate.yml"
RACK = ROOT / "inventories/examples/rack-4/rack-4.bedplate.yml"
CALLS = {
    "fabric_artefacts": "('/srv')",
    "fabric_comparison": "([{'name': 'x', 'text': 'x'}])",
    "fabric_directory": "('/srv')",
    "fabric_discovered": "([{'name': 'x', 'text': 'x'}])",
    "fabric_proofs": "",
    "fabric_sources": "",
}
NOTHING = "has no switch and no HCA in it; line 1 is 'x'; allowed: what ibnetdiscover prints"


def template(expression: str, path: object = str(POD), **variables: Any) -> Any:
    return documented.template(expression, path, **variables)


def call(name: str, path: object) -> Any:
    return template(f"bedplate_cluster_file | bedplate.cluster.{name}{CALLS[name]}", path)


def test_these_are_the_filters_of_the_file():
    assert documented.names("fabric") == sorted(CALLS)


@pytest.mark.parametrize("name", CALLS)
def test_the_examples_of_the_documentation(name: str):
    documented.check_examples(name, str(POD))


@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_path_is_said(name: str):
    with pytest.raises(AnsibleError, match=f"{name} takes the path of a cluster file"):
        call(name, 7)
    if name == "fabric_directory":  # does not look into it
        return
    with pytest.raises(AnsibleError, match="cannot be read"):
        call(name, "/none.bedplate.yml")


@pytest.mark.parametrize("name", ["fabric_artefacts", "fabric_comparison"])
def test_a_cluster_without_a_fabric_has_no_plan(name: str):
    with pytest.raises(AnsibleError, match=f"{name}: .*rack-4.bedplate.yml:5: the file: there is no section `fabric`"):
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


@pytest.mark.parametrize("inside", ["", "foo", "foo/fabric", "fabric-2", "group_vars"])
def test_files_of_the_fabric_are_not_put_where_ansible_reads_an_inventory(inside: str):
    with pytest.raises(
        AnsibleError, match=f"is inside the directory of the inventory, {POD.parent}: .*{POD.parent}/fabric"
    ):
        template("bedplate_cluster_file | bedplate.cluster.fabric_directory(where)", where=f"{POD.parent}/{inside}")


def test_files_of_the_fabric_go_beside_the_cluster_file_or_elsewhere(tmp_path: Path):
    for where, found in (
        ("", f"{POD.parent}/fabric"), (f"{POD.parent}/fabric/new", f"{POD.parent}/fabric/new"), (f"{POD.parent}-2", f"{POD.parent}-2"),
        (str(tmp_path), str(tmp_path)), ("~/x", str(Path.home() / "x")),
    ):  # fmt: skip
        assert template("bedplate_cluster_file | bedplate.cluster.fabric_directory(where)", where=where) == found


def test_wrong_options_are_said():
    found = [{"name": "x", "text": "x"}]
    with pytest.raises(AnsibleError, match="fail_on is 'warn'; allowed: error, warning, notice, never"):
        template("bedplate_cluster_file | bedplate.cluster.fabric_comparison(found, fail_on='warn')", found=found)
    with pytest.raises(AnsibleError, match="hosts is no option; allowed: host, storage, group"):
        template("bedplate_cluster_file | bedplate.cluster.fabric_discovered(found, hosts='x')", found=found)
    with pytest.raises(AnsibleError, match="is no version of Slurm"):
        template("bedplate_cluster_file | bedplate.cluster.fabric_artefacts('/srv', 'new')")
