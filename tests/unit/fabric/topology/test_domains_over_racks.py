"""NVLink domains over several racks: the plan, Slurm's blocks and IMEX have the same nodes, and mistakes are at their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.nvlink_domains import domain_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checked_plan import PlanError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.cluster_plan import domains_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import render
from tests.kit import sentences
from tests.kit.fabric_files import artefacts
from tests.unit.fabric.messages import FILE, check_messages
from tests.unit.fabric.topology.nvlink_site import ALL_RACKS, make_site

# GB200 NVL36x2: 9 nodes in each of two racks are one domain.
PAIRS = (ALL_RACKS, '  n[1-4]: {leaf: su1, nodes: "n[01-36]", profile: gb200, nvlink_domain_name: "d[1-2]"}\n')


def racks(*lines: str) -> tuple[str, str]:
    return ALL_RACKS, "".join(f"  {line}\n" for line in lines)


def rack(number: int, first: int, last: int, more: str = "") -> str:
    return f'n{number}: {{leaf: su1, nodes: "n[{first:02}-{last:02}]", profile: gb200{more}}}'


def test_racks_of_a_range_are_split_over_the_names(tmp_path: Path):
    cluster = make_site(tmp_path, PAIRS)
    assert [(one.name, fold(one.hosts), one.racks, one.expected) for one in domains_of(cluster)] == [
        ("d1", "n[01-18]", ("n1", "n2"), 18),
        ("d2", "n[19-36]", ("n3", "n4"), 18),
    ]


@pytest.mark.parametrize("version", ["24.11", "25.05"])
def test_slurm_has_a_block_for_both_racks(tmp_path: Path, version: str):
    cluster = make_site(tmp_path, PAIRS, ("fabric:", f'slurm: {{version: "{version}"}}\nfabric:'))
    lines = "BlockName=d1 Nodes=n[01-18]\nBlockName=d2 Nodes=n[19-36]\nBlockSizes=18,36\n"
    assert lines in artefacts(cluster)["slurm/topology.conf"]
    assert lines in render.slurm_files(cluster)["topology.conf"]
    assert {name: one["nodes"] for name, one in render.expected(cluster)["topology"].items()} == {
        "d1": "n[01-18]",
        "d2": "n[19-36]",
    }


def test_imex_has_the_nodes_of_both_racks(tmp_path: Path):
    cluster = make_site(tmp_path, PAIRS)
    assert fold(node.name for node in domain_of(cluster, cluster.node("n10"))) == "n[01-18]"
    assert fold(node.name for node in domain_of(cluster, cluster.node("n19"))) == "n[19-36]"


def test_racks_with_one_name_may_be_several_domains(tmp_path: Path):
    name = ", nvlink_domain_name: d"
    cluster = make_site(tmp_path, racks(rack(1, 1, 12, name), rack(2, 13, 24, name), rack(3, 25, 36, name)))
    assert [(one.name, fold(one.hosts), one.racks) for one in domains_of(cluster)] == [
        ("d-1", "n[01-18]", ("n1", "n2")),
        ("d-2", "n[19-36]", ("n2", "n3")),
    ]
    artefacts(cluster)


def test_a_domain_over_racks_with_too_few_nodes_is_refused(tmp_path: Path):
    short = (ALL_RACKS, '  n[1-2]: {leaf: su1, nodes: "n[01-16]", profile: gb200, nvlink_domain_name: d1}\n')
    with pytest.raises(PlanError, match=r"\[docs/fabric.md, P12\]") as error:
        artefacts(make_site(tmp_path, short))
    check_messages("blocks: a domain over two racks that is not whole", error.value, tmp_path)
    stated = (short[0], short[1].replace("gb200,", "gb200, nvlink_domain: 16,"))
    assert [(one.name, one.expected, one.absent) for one in domains_of(make_site(tmp_path, stated))] == [("d1", 16, 2)]


def test_without_names_a_domain_does_not_leave_its_rack(tmp_path: Path):
    with pytest.raises(PlanError, match="9 hosts, expected 18"):
        artefacts(make_site(tmp_path, (ALL_RACKS, '  n[1-2]: {leaf: su1, nodes: "n[01-18]", profile: gb200}\n')))


D1, D2 = ", nvlink_domain_name: d1", ", nvlink_domain_name: d2"
H100 = (
    "  cpu:",
    "  h100: {gpus: {model: h100, count: 8}, sockets: 2, cores_per_socket: 56, memory_mib: 880000, nvlink_domain: 18,\n"
    "         nics: {name: mlx5_0, rail: 0}}\n  cpu:",
)
OTHER = 'n2: {leaf: su1, nodes: "n[10-18]", profile: h100, nvlink_domain_name: d1}'
WRONG = {
    "sizes": ("racks.n2.nvlink_domain_name", [racks(rack(1, 1, 9, D1), rack(2, 10, 18, f"{D1}, nvlink_domain: 17"))]),
    "models": ("racks.n2.nvlink_domain_name", [H100, racks(rack(1, 1, 9, D1), OTHER)]),
    "order": (
        "racks.n3.nvlink_domain_name",
        [racks(rack(1, 1, 9, D1), rack(2, 10, 18, D2), rack(3, 19, 27, D1), rack(4, 28, 36, D2))],
    ),
    "name of a rack": (
        "racks.n2.nvlink_domain_name",
        [racks(rack(1, 1, 18), rack(2, 19, 36, ", nvlink_domain_name: n1"))],
    ),
    "no domain": (
        "racks.c.nvlink_domain_name",
        [racks(rack(1, 1, 18), 'c: {leaf: su1, nodes: "cpu[1-2]", profile: cpu, nvlink_domain_name: d1}')],
    ),
    "uneven": (
        "racks.n[1-3].nvlink_domain_name",
        [(ALL_RACKS, '  n[1-3]: {leaf: su1, nodes: "n[01-27]", profile: gb200, nvlink_domain_name: "d[1-2]"}\n')],
    ),
    "no name": (
        "racks.n[1-2].nvlink_domain_name",
        [(ALL_RACKS, '  n[1-2]: {leaf: su1, nodes: "n[01-18]", profile: gb200, nvlink_domain_name: "a/b"}\n')],
    ),
    "without nodes": ("racks.s1", [("hosts:\n", "  s1: {nvlink_domain_name: d1}\nhosts:\n")]),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_are_at_their_lines(tmp_path: Path, case: str):
    where, edits = WRONG[case]
    with pytest.raises(ClusterFileError) as caught:
        make_site(tmp_path, *edits)
    assert where in [one.where for one in caught.value.mistakes]
    lines = (tmp_path / "nv.bedplate.yml").read_text().splitlines()
    for one in caught.value.mistakes:
        assert lines[one.line - 1].startswith(f"  {one.where.split('.')[1]}:")
    sentences.check(FILE, f"NVLink domain over racks: {case}", [one.message for one in caught.value.mistakes])


def test_two_domains_of_one_name_are_refused(tmp_path: Path):
    """Racks n1 with two domains, and a rack n1-1: the plan would have two blocks of one name."""
    edits = (
        ("nvlink_domain: 18", "nvlink_domain: 9"),
        racks(rack(1, 1, 18), 'n1-1: {leaf: su1, nodes: "n[19-27]", profile: gb200}'),
    )
    with pytest.raises(PlanError, match="is the name of 2 NVLink domains"):
        artefacts(make_site(tmp_path, *edits))
