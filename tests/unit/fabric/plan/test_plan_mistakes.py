"""What is wrong with a plan is told with file, line and key, all at once, and what is alike once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric import variable_values as arguments
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import PlanProblem
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan import buildable
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checks import RULES
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.plan_mistakes import (
    MENDED_BY,
    keys_of,
    mistake_lines,
)
from tests.kit import plays
from tests.unit.fabric.messages import check_messages

ROOT = Path(__file__).parents[4]
POD = (ROOT / "inventories/examples/pod-32/pod-32.bedplate.yml").read_text()
FABRIC = '{kind: rail-optimised, spines: "spine[01-04]", rails: 8, uplinks: 32}'
UPLINKS = """
  kind: rail-optimised
  spines: "spine[01-04]"
  uplinks: 33
"""


def site(directory: Path, fabric: str = FABRIC, *edits: tuple[str, str], name: str = "pod") -> Path:
    text = POD[: POD.index("fabric: {")] + f"fabric: {fabric}\n"
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    path = directory / f"{name}.bedplate.yml"
    path.write_text(text)
    return path


def said(directory: Path, fabric: str = FABRIC, *edits: tuple[str, str]) -> list[str]:
    """Return the mistakes, each with the line of the file that it names in the place of its number."""
    path = site(directory, fabric, *edits)
    lines, found = path.read_text().splitlines(), []
    for mistake in buildable.fabric_mistakes(load(path)):
        match = re.match(rf"{re.escape(str(path))}:(\d+): (\S+|the file): ", mistake)
        assert match, mistake
        found.append(f"{lines[int(match[1]) - 1].strip()} | {match[2]}: {mistake[match.end() :]}")
    return found


def keys(found: list[str]) -> list[tuple[str, str]]:
    """Return line and key of each mistake."""
    parts = [one.partition(" | ") for one in found]
    return [(line, rest.partition(": ")[0]) for line, _bar, rest in parts]


def test_mistakes_that_have_nothing_to_do_with_each_other_come_together(tmp_path: Path):
    edits = (
        ("{address: 10.20.0.11}", "{address: 10.20.0.11, nics: {name: a, leaf: su1-r9}}"),
        ("{address: 10.20.0.12}", "{address: 10.20.0.12, nics: {name: a, leaf: su1-r1, port: 5}}"),
    )
    more = '  spare: ["su1-r[0-1]:[60-70]", "u:1"]\n  missing: ["su1-r0:1", "leaf-a01:17", "su1-r1:99", "su1-r0:1"]'
    found = said(tmp_path, UPLINKS + more, *edits)
    assert keys(found) == [
        ("ctl1: {address: 10.20.0.11, nics: {name: a, leaf: su1-r9}}", "hosts.ctl1.nics"),
        ("ctl2: {address: 10.20.0.12, nics: {name: a, leaf: su1-r1, port: 5}}", "hosts.ctl2.nics"),
        *(("uplinks: 33", "fabric.uplinks") for _number in range(2)),
        *(('spare: ["su1-r[0-1]:[60-70]", "u:1"]', f"fabric.spare[{number}]") for number in (0, 1)),
        *(('missing: ["su1-r0:1", "leaf-a01:17", "su1-r1:99", "su1-r0:1"]', f"fabric.missing[{number}]") for number in (1, 2, 3)),
    ]  # fmt: skip
    check_messages("mistakes of a plan: that have nothing to do with each other", found)


def test_what_follows_from_another_mistake_is_left_out(tmp_path: Path):
    # A leaf of servers has its uplinks to the spines, and a cable that is left out may be an uplink.
    edits = (("{address: 10.20.0.11}", "{address: 10.20.0.11, nics: {name: a, leaf: svc}}"),)
    found = said(tmp_path, f'{UPLINKS}  leaves: svc\n  missing: ["su1-r0:64", "svc:20"]', *edits)
    assert keys(found) == [("uplinks: 33", "fabric.uplinks")]
    check_messages("mistakes of a plan: uplinks that cannot be split", found)


@pytest.mark.parametrize(
    ("fabric", "key"),
    [
        (FABRIC.replace("32", "33"), "uplinks"),
        (FABRIC.replace('spines: "spine[01-04]", ', ""), "fabric"),
        ('{kind: three-tier, spines: "s[1-8]", cores: "c[1-5]", uplinks: 32, switch_ports: 512}', "cores"),
        ('{kind: rail-only, spines: "s[1-3]"}', "spines"),
        ('{kind: leaf-spine, spines: "s[1-2]", switch_ports: 40}', "switch_ports"),
        ('{kind: dragonfly, spines: "s[1-2]", switch_ports: 40, technology: ethernet}', "switch_ports"),
    ],
)
def test_numbers_of_which_nothing_can_be_built_name_their_key(tmp_path: Path, fabric: str, key: str):
    found = said(tmp_path, fabric)
    assert {one for _line, one in keys(found)} == {key if key == "fabric" else f"fabric.{key}"}
    check_messages(f"nothing can be built: {fabric}", found)


def test_invariants_do_not_wait_for_names_that_are_wrong(tmp_path: Path):
    edits = (("{address: 10.20.0.11}", "{address: 10.20.0.11, nics: {name: a, leaf: nowhere}}"),)
    found = said(tmp_path, UPLINKS.replace("33", "28") + '  spare: "u:1"', *edits)
    assert [key for _line, key in keys(found)] == ["hosts.ctl1.nics", "fabric.spare", "fabric.uplinks"]
    check_messages("mistakes of a plan: invariants beside wrong names", found)


def test_invariants_wait_for_what_they_would_follow_from(tmp_path: Path):
    edits = (
        ("{address: 10.20.0.11}", "{address: 10.20.0.11, nics: [{name: a, leaf: svc}, {name: b, leaf: nowhere}]}"),
    )
    tenants = "  partitions: {red: {pkey: 0x10, members: [ctl1]}}"
    found = said(tmp_path, f"{UPLINKS.replace('33', '28')}  leaves: svc\n{tenants}", *edits)
    assert [key for _line, key in keys(found)] == ["hosts.ctl1.nics[1]"]


def test_leaves_that_are_all_too_full_are_one_line(tmp_path: Path):
    text = '{spines: "s[1-2]", switch_ports: 30, spare: "leaf-b01:[1-2]"}'
    found = said(tmp_path, text, ("leaf: su1, ", ""))
    assert [key for _line, key in keys(found)] == ["fabric.switch_ports"] * 2
    check_messages("mistakes of a plan: leaves that are too full", found)


def test_tenants_wait_for_servers_that_are_not_plugged_in(tmp_path: Path):
    edits = (("{address: 10.20.0.11}", "{address: 10.20.0.11, nics: {name: a, leaf: nowhere}}"),)
    tenants = "  partitions: {red: {pkey: 0x10, members: [ctl1]}}"
    found = said(tmp_path, f"{UPLINKS.replace('33', '32')}{tenants}", *edits)
    assert [key for _line, key in keys(found)] == ["hosts.ctl1.nics"]


def test_a_port_that_is_kept_free_twice_is_lost_once(tmp_path: Path):
    fabric = f'{UPLINKS.replace("33", "28")}  oversubscription: 2\n  spare: ["su1-r0:[61-64]", "su1-r0:64"]'
    found = said(tmp_path, fabric)
    assert [key for _line, key in keys(found)] == ["fabric.spare[1]"]
    check_messages("mistakes of a plan: a port that is kept free twice", found)


def test_problems_of_many_switches_are_one_line_with_what_mends_them(tmp_path: Path):
    found = said(tmp_path, UPLINKS.replace("33", "28"))
    assert keys(found) == [("uplinks: 28", "fabric.uplinks")]
    assert found[0].endswith("fabric.uplinks, fabric.oversubscription, fabric.missing, racks [docs/fabric.md, P4]")
    check_messages("mistakes of a plan: an invariant that many switches break", found)


def test_a_problem_has_the_line_of_the_profile_it_is_about(tmp_path: Path):
    path = site(tmp_path)
    problems = [PlanProblem("P6", f"rack b0{n}, gpu00{n}", "has no HCA on rail 3") for n in (1, 2)]
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if text == "    nics:")
    assert mistake_lines(load(path), problems) == [
        f"{path}:{line}: profiles.h100x8.nics: racks b[01-02], gpu[001-002]: has no HCA on rail 3. "
        "Mended by profiles.<name>.nics, racks [docs/fabric.md, P6]"
    ]


def test_only_what_is_alike_is_one_line(tmp_path: Path):
    cluster = load(site(tmp_path))
    problems = [PlanProblem(rule, where, "odd") for rule, where in (
        ("P3", "gpu001 mlx5_0"), ("P3", "gpu002 mlx5_0"), ("P3", "gpu002 mlx5_1"), ("P4", "gpu002 mlx5_0"), ("P10", "partitions line 3"),
        ("P2", "a[b"), ("P2", "c"),
    )]  # fmt: skip
    assert sorted(re.sub(r"^\S+ \S+ (.*)\. Mended .*, (P\d+)\]$", r"\2 \1", line) for line in mistake_lines(cluster, problems)) == [
        "P10 partitions line 3: odd", "P2 a[b, c: odd", "P3 gpu002 mlx5_1: odd", "P3 gpu[001-002] mlx5_0: odd", "P4 gpu002 mlx5_0: odd",
    ]  # fmt: skip


def test_a_record_and_subnet_managers_that_are_wrong_do_not_wait_for_the_plan(tmp_path: Path):
    (tmp_path / "pod.guids.json").write_text('{"su1-r0": {"node": "x"}}')
    path = site(tmp_path, FABRIC.replace("32", "33"), ("  rest: ctl1\n", "  rest: ctl1\n  subnet_managers: ctl1\n"))
    found = buildable.fabric_mistakes(load(path))
    assert [re.sub(r"^[^:]*/|:\d+", "", one).split(":")[:2] for one in found] == [
        ["pod.bedplate.yml", " fabric.uplinks"],
        ["pod.guids.json", ' "su1-r0"'],
        ["pod.bedplate.yml", " services.subnet_managers"],
    ]
    check_messages("mistakes of a plan: beside a wrong record and wrong managers", found, tmp_path)


def test_the_docs_have_every_invariant_and_the_keys_that_mend_it():
    text = (ROOT / "docs/fabric.md").read_text()
    table = text.partition("<!-- invariants: begin -->\n")[2].partition("<!-- invariants: end -->")[0]
    rows = [
        f"| {rule} | {title} | {', '.join(f'`{key}`' for key in keys_of(rule).split(', '))} |"
        for rule, (title, _) in RULES.items()
    ]
    assert table == "\n".join(["| | what holds | mended by |", "| --- | --- | --- |", *rows, ""])
    assert set(MENDED_BY) == set(RULES)


FILE = "/srv/site/site.bedplate.yml"


def test_a_directory_that_ansible_would_read_as_inventory_is_told_of():
    found = arguments.mistakes({"fabric_directory": "/srv/site/files"}, FILE)
    assert [one.split(": ")[:2] for one in found] == [["this run", "fabric_directory"]]
    check_messages("variables: fabric_directory in the inventory", found)
    for right in ("/srv/site/fabric", "/srv/site/fabric/today", "/srv/files", None):
        assert arguments.mistakes({"fabric_directory": right}, FILE) == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("fabric_slurm_version", "99.1"),
        ("fabric_fail_on", "wrning"),
        ("fabric_fail_on", ["error"]),
        ("fabric_port_step", "0"),
        ("fabric_simulation_timeout", True),
        ("fabric_host_pattern", "("),
        ("fabric_record", "yess"),
        ("fabric_topology_partial", 2),
        ("fabric_saved", [""]),
        ("fabric_saved", "a.txt,,b.txt"),
        ("fabric_saved", {"compute": "a.txt", "storage": None}),
    ],
)
def test_a_variable_that_no_playbook_takes_is_told_of(name: str, value: object):
    found = arguments.mistakes({name: value}, FILE)
    assert [one.split(": ")[:2] for one in found] == [["this run", name]]
    check_messages(f"variables: {name} is {value}", found)


def test_variables_that_are_right_or_not_there_are_no_mistake():
    assert arguments.mistakes({}, FILE) == []
    given = {
        "fabric_slurm_version": "24.11",
        "fabric_fail_on": "never",
        "fabric_port_step": 4,
        "fabric_host_pattern": "n.*",
        "fabric_record": "yes",
        "fabric_topology_partial": False,
    }
    for saved in ("a.txt", "a.txt, b.txt", ["a.txt"], {"compute": "a.txt", "storage": ["b.txt", "c.txt"]}):
        assert arguments.mistakes({"fabric_saved": saved}, FILE) == []
    assert arguments.mistakes({**given, "fabric_simulation_timeout": "600", "fabric_group_pattern": None}, FILE) == []


def play(playbook: str, *arguments: str | Path) -> str:
    done = plays.play(f"playbooks/{playbook}.yml", *arguments)
    assert done.returncode == 2, done.stdout
    return done.stdout


@pytest.mark.playbooks
@pytest.mark.parametrize("playbook", ["validate", "fabric", "fabric_check", "fabric_compare"])
def test_every_playbook_shows_the_same_lines(tmp_path: Path, playbook: str):
    path = site(tmp_path, f'{UPLINKS}  spare: "su1-r0:[65-70]"')
    output = play(playbook, "-i", path, "-e", "fabric_slurm_version=99.1")
    assert "caused by" not in output
    lines = output[output.index("[ERROR]") :].splitlines()
    assert lines[0] == "[ERROR]: Task failed: Action failed: 3 mistakes, and nothing was touched:"
    assert lines[1:4] == [
        *arguments.mistakes({"fabric_slurm_version": "99.1"}, str(path)),
        *buildable.fabric_mistakes(load(path)),
    ]


@pytest.mark.playbooks
@pytest.mark.parametrize("playbook", ["fabric", "fabric_check", "fabric_compare"])
def test_a_cluster_without_a_fabric_is_told_so_in_one_sentence(playbook: str):
    output = play(playbook, "-i", "inventories/examples/rack-4")
    assert "rack-4.bedplate.yml:5: the file: " in output
    assert "caused by" not in output
