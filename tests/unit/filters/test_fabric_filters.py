"""The filters on the fabric, called as templates call them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.kit import sentences
from tests.unit.filters import documented

SENTENCES = Path(__file__).parent / "sentences.txt"

ROOT = Path(__file__).parents[3]
POD = ROOT / "inventories/examples/pod-32/pod-32.bedplate.yml"
RACK = ROOT / "inventories/examples/rack-4/rack-4.bedplate.yml"
CALLS = {
    "fabric_adoption": "([{'name': 'x', 'text': 'x'}])",
    "fabric_artefacts": "('/srv')",
    "fabric_audit": "([{'name': 'x', 'text': 'x'}])",
    "fabric_comparison": "([{'name': 'x', 'text': 'x'}])",
    "fabric_directory": "('/srv')",
    "fabric_discovered": "([{'name': 'x', 'text': 'x'}])",
    "fabric_names": "",
    "fabric_reads": "(['compute'])",
    "fabric_routes": "([{'name': 'x', 'text': 'x'}])",
    "fabric_simulation_time": "",
    "fabric_sources": "",
}


def refusal(expression: str, path: object = str(POD), **variables: Any) -> str:
    return documented.refusal(expression, path, **variables)


def template(expression: str, path: object = str(POD), **variables: Any) -> Any:
    return documented.template(expression, path, **variables)


def call(name: str, path: object) -> Any:
    return template(f"bedplate_cluster_file | bedplate.cluster.{name}{CALLS[name]}", path)


def test_these_are_the_filters_of_the_file():
    assert documented.names("fabric") == sorted([*CALLS, "fabric_discoveries"])


@pytest.mark.parametrize("name", [*CALLS, "fabric_discoveries"])
def test_the_examples_of_the_documentation(name: str):
    documented.check_examples(name, str(POD))


@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_path_is_said(name: str):
    said = refusal(f"bedplate_cluster_file | bedplate.cluster.{name}{CALLS[name]}", 7)
    assert said.startswith(f"{name} ")
    assert said.endswith(" 7")
    if name == "fabric_directory":  # does not look into it
        sentences.check(SENTENCES, "no path for a directory", [said])
        return
    sentences.check(SENTENCES, "no path", [said.replace(name, "FILTER")])
    said = refusal(f"bedplate_cluster_file | bedplate.cluster.{name}{CALLS[name]}", "/none.bedplate.yml")
    assert said.startswith(f"{name}: /none.bedplate.yml:1: ")
    sentences.check(SENTENCES, "no such file", [said.replace(name, "FILTER")])


@pytest.mark.parametrize("name", ["fabric_artefacts", "fabric_comparison"])
def test_a_cluster_without_a_fabric_has_no_plan(name: str):
    said = refusal(f"bedplate_cluster_file | bedplate.cluster.{name}{CALLS[name]}", str(RACK))
    assert said.startswith(f"{name}: {RACK.relative_to(ROOT)}:5: the file: ")
    assert "`fabric`" in said
    sentences.check(SENTENCES, "a cluster without a fabric", [said.replace(name, "FILTER")])


@pytest.mark.parametrize(
    "name", ["fabric_comparison", "fabric_discovered", "fabric_routes", "fabric_adoption", "fabric_audit"]
)
def test_a_text_without_a_fabric_is_no_fabric_with_everything_missing(name: str):
    nothing = refusal(f"bedplate_cluster_file | bedplate.cluster.{name}([{{'name': 'x', 'text': 'x'}}])")
    assert [one for one in (f"{name}: x: ", " line 1 ", "'x'", "ibnetdiscover") if one not in nothing] == []
    text = refusal(f"bedplate_cluster_file | bedplate.cluster.{name}(['text'])")
    assert text.startswith(f"{name}: 'text' ")
    empty = refusal(f"bedplate_cluster_file | bedplate.cluster.{name}([])")
    assert empty.startswith(f"{name}: ")
    if name == "fabric_routes":  # it needs two texts of each plane
        sentences.check(SENTENCES, "no routes", [empty])
        return
    said = [one.replace(name, "FILTER") for one in (nothing, text, empty)]
    sentences.check(SENTENCES, "texts without a fabric", said)


def test_a_site_without_a_plan_has_a_source_and_may_ask_for_its_topology():
    assert [source["lldp"] for source in call("fabric_sources", str(RACK))] == [False]
    said = refusal(
        "bedplate_cluster_file | bedplate.cluster.fabric_discovered(found)",
        str(RACK),
        found=[{"name": "gpu01", "text": '{"lldp": {"interface": []}}'}],
    )
    assert "LLDP" in said
    sentences.check(SENTENCES, "LLDP without a plan", [said])


@pytest.mark.parametrize("inside", ["", "foo", "foo/fabric", "fabric-2", "group_vars"])
def test_files_of_the_fabric_are_not_put_where_ansible_reads_an_inventory(inside: str):
    said = refusal("bedplate_cluster_file | bedplate.cluster.fabric_directory(where)", where=f"{POD.parent}/{inside}")
    place = POD.parent.relative_to(ROOT)
    assert [value for value in (f"{place}/{inside} ", f" {place}: ", f" {place}/fabric") if value not in said] == []
    if inside == "foo":
        sentences.check(SENTENCES, "a directory in the inventory", [said])


def test_files_of_the_fabric_go_beside_the_cluster_file_or_elsewhere(tmp_path: Path):
    for where, found in (
        ("", f"{POD.parent}/fabric"), (f"{POD.parent}/fabric/new", f"{POD.parent}/fabric/new"), (f"{POD.parent}-2", f"{POD.parent}-2"),
        (str(tmp_path), str(tmp_path)), ("~/x", str(Path.home() / "x")),
    ):  # fmt: skip
        assert template("bedplate_cluster_file | bedplate.cluster.fabric_directory(where)", where=where) == found


def test_wrong_options_are_said():
    found = [{"name": "x", "text": "x"}]
    value = refusal("bedplate_cluster_file | bedplate.cluster.fabric_comparison(found, fail_on='warn')", found=found)
    assert [one for one in ("fail_on", "'warn'", "error", "warning", "notice", "never") if one not in value] == []
    option = refusal("bedplate_cluster_file | bedplate.cluster.fabric_discovered(found, hosts='x')", found=found)
    assert [one for one in ("option hosts;", " host,", "storage", "group") if one not in option] == []
    update = refusal("bedplate_cluster_file | bedplate.cluster.fabric_adoption(found, update='yes')", found=found)
    assert [one for one in ("update", "'yes'") if one not in update] == []
    limit = refusal("bedplate_cluster_file | bedplate.cluster.fabric_audit(found, fail_on='warn')", found=found)
    assert limit.replace("fabric_audit", "fabric_comparison") == value
    version = refusal("bedplate_cluster_file | bedplate.cluster.fabric_artefacts('/srv', 'new')")
    assert re.search(r"'new' .*Slurm", version)
    sentences.check(SENTENCES, "wrong options", [value, option, update, version])


def test_answers_of_hosts_that_failed_have_no_part_in_a_discovery():
    one, other = {"name": "a"}, {"name": "b"}
    answers = [
        {
            "results": [
                {"item": {"fabric": "compute"}, "discoveries": [one]},
                {"item": {"fabric": "storage"}, "failed": True},
            ]
        },
        {"unreachable": True},
        {"results": [{"item": {"fabric": "storage"}, "discoveries": [other]}]},
    ]
    for fabric, found in (("compute", [one]), ("storage", [other]), ("other", [])):
        assert template("found | bedplate.cluster.fabric_discoveries(fabric)", found=answers, fabric=fabric) == found


@pytest.mark.parametrize("name", [name for name in CALLS if name not in ("fabric_names", "fabric_reads")])
def test_an_unknown_fabric_is_refused(name: str):
    arguments = CALLS[name].strip("()")
    said = refusal(f"bedplate_cluster_file | bedplate.cluster.{name}({arguments}{', ' if arguments else ''}fabric='x')")
    assert said.startswith(f"{name}: 'x' is not a fabric of ")
    sentences.check(SENTENCES, "an unknown fabric", [said.replace(name, "FILTER")])
