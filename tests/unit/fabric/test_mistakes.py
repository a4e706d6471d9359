"""What is wrong with a plan is told with file, line and key, all at once, and what is alike once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.checks import RULES
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import Problem
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric import arguments, verdict
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.mistakes import MENDED_BY, keys_of, told

ROOT = Path(__file__).parents[3]
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
    for mistake in verdict.mistakes(load(path)):
        match = re.match(rf"{re.escape(str(path))}:(\d+): (\S+|the file): ", mistake)
        assert match, mistake
        found.append(f"{lines[int(match[1]) - 1].strip()} | {match[2]}: {mistake[match.end() :]}")
    return found


def test_mistakes_that_have_nothing_to_do_with_each_other_come_together(tmp_path: Path):
    edits = (
        ("{address: 10.20.0.11}", "{address: 10.20.0.11, nics: {name: a, leaf: su1-r9}}"),
        ("{address: 10.20.0.12}", "{address: 10.20.0.12, nics: {name: a, leaf: su1-r1, port: 5}}"),
    )
    more = '  spare: ["su1-r[0-1]:[60-70]", "u:1"]\n  missing: ["su1-r0:1", "leaf-a01:17", "su1-r1:99", "su1-r0:1"]'
    found = said(tmp_path, UPLINKS + more, *edits)
    assert [line.split("; ")[0] for line in found] == [
        "ctl1: {address: 10.20.0.11, nics: {name: a, leaf: su1-r9}} | hosts.ctl1.nics: leaf 'su1-r9' is unknown. "
        "Did you mean 'su1-r7'? One for hosts alone is named in fabric.leaves.",
        "ctl2: {address: 10.20.0.12, nics: {name: a, leaf: su1-r1, port: 5}} | hosts.ctl2.nics: su1-r1:5 has the cable of gpu005 mlx5_1 "
        "already. Take another port.",
        "uplinks: 33 | fabric.uplinks: 33 uplinks of a leaf cannot be split evenly over 4 spines",
        "uplinks: 33 | fabric.uplinks: su1-r[0-1] have 64 ports each and 32 hosts' ports and 5 that are kept free, so 27 are left and not "
        "33 for uplinks to 4 spines",
        'spare: ["su1-r[0-1]:[60-70]", "u:1"] | fabric.spare[0]: su1-r[0-1] have no ports 65-70. Allowed: 1 to 64.',
        "spare: [\"su1-r[0-1]:[60-70]\", \"u:1\"] | fabric.spare[1]: the plan has no switch 'u'.",
        "missing: [\"su1-r0:1\", \"leaf-a01:17\", \"su1-r1:99\", \"su1-r0:1\"] | fabric.missing[1]: the plan has no switch 'leaf-a01'.",
        'missing: ["su1-r0:1", "leaf-a01:17", "su1-r1:99", "su1-r0:1"] | fabric.missing[2]: su1-r1 has no port 99. Allowed: 1 to 64.',
        'missing: ["su1-r0:1", "leaf-a01:17", "su1-r1:99", "su1-r0:1"] | fabric.missing[3]: su1-r0:1 is named twice.',
    ]  # fmt: skip


def test_what_follows_from_another_mistake_is_left_out(tmp_path: Path):
    # A leaf of servers has its uplinks to the spines, and a cable that is left out may be an uplink.
    edits = (("{address: 10.20.0.11}", "{address: 10.20.0.11, nics: {name: a, leaf: svc}}"),)
    (found,) = said(tmp_path, f'{UPLINKS}  leaves: svc\n  missing: ["su1-r0:64", "svc:20"]', *edits)
    assert "33 uplinks of a leaf cannot be split evenly" in found


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
    assert {line.partition(" | ")[2].partition(":")[0] for line in found} == {
        key if key == "fabric" else f"fabric.{key}"
    }


def test_invariants_do_not_wait_for_names_that_are_wrong(tmp_path: Path):
    edits = (("{address: 10.20.0.11}", "{address: 10.20.0.11, nics: {name: a, leaf: nowhere}}"),)
    found = said(tmp_path, UPLINKS.replace("33", "28") + '  spare: "u:1"', *edits)
    assert [re.match(r".* \| (\S+):", line)[1] for line in found] == [
        "hosts.ctl1.nics",
        "fabric.spare",
        "fabric.uplinks",
    ]  # type: ignore[index]
    assert "32 cables from below and 28 up are 1.14 to 1" in found[2]


def test_invariants_wait_for_what_they_would_follow_from(tmp_path: Path):
    edits = (
        ("{address: 10.20.0.11}", "{address: 10.20.0.11, nics: [{name: a, leaf: svc}, {name: b, leaf: nowhere}]}"),
    )
    tenants = "  partitions: {red: {pkey: 0x10, members: [ctl1]}}"
    (found,) = said(tmp_path, f"{UPLINKS.replace('33', '28')}  leaves: svc\n{tenants}", *edits)
    assert "leaf 'nowhere' is unknown" in found


def test_leaves_that_are_all_too_full_are_one_line(tmp_path: Path):
    text = '{spines: "s[1-2]", switch_ports: 30, spare: "leaf-b01:[1-2]"}'
    assert [
        line.partition(" and a switch")[0].partition(" | ")[2] for line in said(tmp_path, text, ("leaf: su1, ", ""))
    ] == [
        "fabric.switch_ports: leaf-b01 would have 32 cables and 2 ports that are kept free,",
        "fabric.switch_ports: leaf-b[02-08] would have 32 cables each,",
    ]


def test_tenants_wait_for_servers_that_are_not_plugged_in(tmp_path: Path):
    edits = (("{address: 10.20.0.11}", "{address: 10.20.0.11, nics: {name: a, leaf: nowhere}}"),)
    tenants = "  partitions: {red: {pkey: 0x10, members: [ctl1]}}"
    (found,) = said(tmp_path, f"{UPLINKS.replace('33', '32')}{tenants}", *edits)
    assert "leaf 'nowhere' is unknown" in found


def test_a_port_that_is_kept_free_twice_is_lost_once(tmp_path: Path):
    fabric = f'{UPLINKS.replace("33", "28")}  oversubscription: 2\n  spare: ["su1-r0:[61-64]", "su1-r0:64"]'
    (found,) = said(tmp_path, fabric)
    assert found.endswith("| fabric.spare[1]: su1-r0:64 is named twice.")


def test_problems_of_many_switches_are_one_line_with_what_mends_them(tmp_path: Path):
    (found,) = said(tmp_path, UPLINKS.replace("33", "28"))
    assert found == (
        "uplinks: 28 | fabric.uplinks: su1-r[0-7]: 32 cables from below and 28 up are 1.14 to 1, and 1 to 1 is allowed. "
        "Mended by fabric.uplinks, fabric.oversubscription, fabric.missing, racks [docs/fabric.md, P4]"
    )


def test_a_problem_has_the_line_of_the_profile_it_is_about(tmp_path: Path):
    path = site(tmp_path)
    problems = [Problem("P6", f"rack b0{n}, gpu00{n}", "has no HCA on rail 3") for n in (1, 2)]
    line = next(n for n, text in enumerate(path.read_text().splitlines(), 1) if text == "    nics:")
    assert told(load(path), problems) == [
        f"{path}:{line}: profiles.h100x8.nics: racks b[01-02], gpu[001-002]: has no HCA on rail 3. "
        "Mended by profiles.<name>.nics, racks [docs/fabric.md, P6]"
    ]


def test_only_what_is_alike_is_one_line(tmp_path: Path):
    cluster = load(site(tmp_path))
    problems = [Problem(rule, where, "odd") for rule, where in (
        ("P3", "gpu001 mlx5_0"), ("P3", "gpu002 mlx5_0"), ("P3", "gpu002 mlx5_1"), ("P4", "gpu002 mlx5_0"), ("P8", "cn_guid.conf line 3"),
        ("P2", "a[b"), ("P2", "c"),
    )]  # fmt: skip
    assert sorted(re.sub(r"^\S+ \S+ (.*)\. Mended .*, (P\d)\]$", r"\2 \1", line) for line in told(cluster, problems)) == [
        "P2 a[b, c: odd", "P3 gpu002 mlx5_1: odd", "P3 gpu[001-002] mlx5_0: odd", "P4 gpu002 mlx5_0: odd", "P8 cn_guid.conf line 3: odd",
    ]  # fmt: skip


def test_a_record_and_subnet_managers_that_are_wrong_do_not_wait_for_the_plan(tmp_path: Path):
    (tmp_path / "pod.guids.json").write_text('{"su1-r0": {"node": "x"}}')
    path = site(tmp_path, FABRIC.replace("32", "33"), ("  rest: ctl1\n", "  rest: ctl1\n  subnet_managers: ctl1\n"))
    found = "\n".join(verdict.mistakes(load(path)))
    assert "33 uplinks" in found
    assert 'pod.guids.json:1: "su1-r0": node is "x"' in found
    assert "services.subnet_managers: ctl1 has no HCA in the plan" in found


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
    (told,) = arguments.mistakes({"fabric_directory": "/srv/site/files"}, FILE)
    assert told.startswith(
        "this run: fabric_directory: /srv/site/files is inside the directory of the inventory, /srv/site: "
    )
    for right in ("/srv/site/fabric", "/srv/site/fabric/today", "/srv/files", None):
        assert arguments.mistakes({"fabric_directory": right}, FILE) == []


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("fabric_slurm_version", "99.1", "'99.1' is no version of Slurm; allowed: such as 22.05 or 24.11.5"),
        ("fabric_fail_on", "wrning", "'wrning' is none of what can end a run; allowed: error, warning, notice, never"),
        (
            "fabric_fail_on",
            ["error"],
            "['error'] is none of what can end a run; allowed: error, warning, notice, never",
        ),
        ("fabric_port_step", "0", "'0' is no number; allowed: 1 or more"),
        ("fabric_simulation_timeout", True, "True is no number; allowed: 1 or more"),
        ("fabric_host_pattern", "(", "'(' is no regular expression: missing ), unterminated subpattern at position 0"),
    ],
)
def test_a_variable_that_no_playbook_takes_is_told_of(name: str, value: object, why: str):
    assert arguments.mistakes({name: value}, FILE) == [f"this run: {name}: {why}"]


def test_variables_that_are_right_or_not_there_are_no_mistake():
    assert arguments.mistakes({}, FILE) == []
    given = {
        "fabric_slurm_version": "24.11",
        "fabric_fail_on": "never",
        "fabric_port_step": 4,
        "fabric_host_pattern": "n.*",
    }
    assert arguments.mistakes({**given, "fabric_simulation_timeout": "600", "fabric_group_pattern": None}, FILE) == []


def play(playbook: str, *arguments: str | Path) -> str:
    command = [Path(sys.executable).with_name("ansible-playbook"), f"playbooks/{playbook}.yml", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    environment |= {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "true", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.playbooks
@pytest.mark.parametrize("playbook", ["validate", "fabric", "fabric_check", "fabric_compare"])
def test_every_playbook_shows_the_same_lines(tmp_path: Path, playbook: str):
    path = site(tmp_path, f'{UPLINKS}  spare: "su1-r0:[65-70]"')
    output = play(playbook, "-i", path, "-e", "fabric_slurm_version=99.1")
    assert "caused by" not in output
    lines = output[output.index("[ERROR]") :].splitlines()
    assert lines[0] == "[ERROR]: Task failed: Action failed: 3 mistakes, and nothing was touched:"
    assert lines[1:4] == [
        "this run: fabric_slurm_version: '99.1' is no version of Slurm; allowed: such as 22.05 or 24.11.5",
        *verdict.mistakes(load(path)),
    ]


@pytest.mark.playbooks
@pytest.mark.parametrize("playbook", ["fabric", "fabric_check", "fabric_compare"])
def test_a_cluster_without_a_fabric_is_told_so_in_one_sentence(playbook: str):
    output = play(playbook, "-i", "inventories/examples/rack-4")
    assert "rack-4.bedplate.yml:5: the file: there is no section `fabric`, so there is nothing to plan" in output
    assert "caused by" not in output
