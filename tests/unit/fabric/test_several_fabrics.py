"""Several fabrics in a cluster file: each has plan, files, records, findings and subnet managers of its own; one has today's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import TABLES, ToolOutput
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.sm_log import MASTER
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric import chosen_fabrics
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.adopt import adoption
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.comparison import (
    comparison_report,
    discovery_sources,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core import guid_record
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.link_rates import rate_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm import managers
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan import buildable
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checked_plan import planned
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.cluster_plan import plan_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.report.fabric_files import written
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import (
    connect,
    discovery_of,
    ibnetdiscover_text,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.requested_proofs import (
    of_managers,
    run_all,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import cluster_topology
from ansible_collections.bedplate.cluster.plugins.plugin_utils.verify import opensm_readback
from tests.kit.plays import play
from tests.unit.fabric.lldp_answers import answers
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.opensm.test_managers import FILE as RAIL_ONLY
from tests.unit.fabric.pod import ROOT, books, cut, node, swap
from tests.unit.fabric.test_running_routes import read as read_routes
from tests.unit.fabric.two_fabrics import COMPUTE, MIXED, STORAGE, TWO, cluster, record

EXAMPLES = sorted((ROOT / "inventories/examples").glob("*/*.bedplate.yml"))
ONE = {path.stem: path.read_text() for path in EXAMPLES if path.stem != "site-10000.bedplate"}
ONE |= {"rail-only": RAIL_ONLY}


def as_several(text: str) -> str:
    """Return a file whose `fabric` is `fabrics: {compute: ...}`."""
    head, _key, rest = text.partition("\nfabric:")
    section = re.match(r"[^\n]*\n(?:(?: [^\n]*|#[^\n]*)?\n)*", f"{rest}\n")
    assert section
    inner = section[0].rstrip("\n").replace("\n", "\n  ")
    return f"{head}\nfabrics:\n  compute:{inner}\n{rest[len(section[0]) :]}"


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.simulation if "site-1024" in name else ())
        for name, text in ONE.items()
        if "\nfabric:" in text
    ],
)
def test_a_single_fabric_has_the_same_files_in_either_form(name: str, tmp_path: Path):
    clusters = []
    for form, text in (("one", ONE[name]), ("several", as_several(ONE[name]))):
        (tmp_path / form).mkdir()
        path = tmp_path / form / "x.bedplate.yml"
        path.write_text(text)
        clusters.append(load(path))
        record(clusters[-1].view())
    one, several = clusters
    assert several.view() is several
    assert list(several.views) == ["compute"] == list(one.views)
    (old, _told), (new, _other) = written(planned(one)), written(planned(several))
    assert "fabric.html" in old
    # The page has findings, and these name keys as the file has them.
    assert old == {name: text.replace("fabrics.compute.", "fabric.") for name, text in new.items()}
    assert {name for name in old if old[name] != new[name]} <= {"fabric.html"}
    assert cluster_topology.files(one) == cluster_topology.files(several)
    records = [guid_record.path_of(found.path, found.stated.part) for found in clusters]
    assert records[0].name == records[1].name == "x.guids.json"
    for host in one.services.subnet_managers:
        assert managers.files(one, host, {}) == managers.files(several, host, {})
        assert managers.units(one, host, {}, {}) == managers.units(several, host, {}, {})
        assert managers.facts_request(one, host, {}) == managers.facts_request(several, host, {})
    if one.services.subnet_managers:
        assert managers.proof_digest(one, {}) == managers.proof_digest(several, {})


def test_each_fabric_has_its_own_switches_adapters_and_directory(tmp_path: Path):
    found = cluster(tmp_path, learned=True)
    assert buildable.fabric_mistakes(found, needed=True) == []
    plans = {name: planned(view).plan for name, view in found.views.items()}
    assert list(plans["compute"].switches) == ["su1-r0", "su1-r1", "su2-r0", "su2-r1", "spine1", "spine2"]
    assert list(plans["storage"].switches) == ["storage-su1", "st2", "core-s1"]
    assert list(plans["storage"].hcas) == [
        *(f"n{number} mlx5_2" for number in range(1, 5)), "sm1 mlx5_1", "sm2 mlx5_1", "oss1 mlx5_0",
    ]  # fmt: skip
    assert not plans["storage"].hcas.keys() & plans["compute"].hcas.keys()
    assert [plan.name for plan in plans.values()] == ["duo", "duo storage"]
    files = {name: written(planned(view))[0] for name, view in found.views.items()}
    assert {"slurm/topology.conf", "opensm/fabric/opensm.conf", "ibsim/fabric.net"} < files["compute"].keys()
    assert {"opensm/storage/opensm.conf", "ibsim/storage.net", "cabling.csv"} < files["storage"].keys()
    assert not [name for name in files["storage"] if name.startswith("slurm/") or "left-out" in name]
    assert {path.name for path in tmp_path.glob("*.json")} == {"duo.guids.json", "duo.storage.guids.json"}


def test_a_second_fabric_changes_no_file_of_the_first(tmp_path: Path):
    alone = TWO.replace(f"  storage: {STORAGE}\n", "")
    alone = re.sub(r"(, )?\{name: \w+, fabric: storage.*?\}", "", alone).replace("      - \n", "")
    alone = alone.replace(", leaves: {storage: st2}", "").replace("nics: []", "bmc_address: null")
    for name in ("alone", "both"):
        (tmp_path / name).mkdir()
    one, both = cluster(tmp_path / "alone", alone), cluster(tmp_path / "both")
    for found in (one, both):
        record(found.view())
    assert written(planned(one))[0] == written(planned(both.view()))[0]
    assert cluster_topology.files(one) == cluster_topology.files(both)
    assert managers.files(one, "sm1", {}) == [
        entry for entry in managers.files(one, "sm1", {}) if "/storage/" not in entry["path"]
    ]


def test_rails_of_addresses_and_nccl_are_those_of_the_first_fabric(tmp_path: Path):
    found = cluster(tmp_path, TWO, ("{name: mlx5_2, fabric: storage}", "{name: mlx5_2, fabric: storage, rail: 0}"))
    nics = found.profiles["gpu"].nics
    assert [nic.rail for nic in nics] == [0, 1, None]
    assert [nic.rail for nic in found.view("storage").profiles["gpu"].nics] == [0]
    assert [nic.name for nic in found.view("compute").profiles["gpu"].nics] == ["mlx5_0", "mlx5_1"]


FAULTS = {
    "fabric-and-fabrics": ("fabrics:\n", "fabric: {spines: s9}\nfabrics:\n"),
    "unknown-of-profile": ("{name: mlx5_2, fabric: storage}", "{name: mlx5_2, fabric: storrage}"),
    "unknown-of-host": ("mlx5_0, fabric: storage, purpose", "mlx5_0, fabric: bulk, purpose"),
    "unknown-of-rack": ("leaves: {storage: st2}", "leaves: {storag: st2}"),
    "first-of-rack": ("leaves: {storage: st2}", "leaves: {compute: st2}"),
    "uneven-leaves": ("leaves: {storage: st2}", "leaves: {storage: 'st[2-4]'}"),
    "name-of-a-directory": ("  storage: {kind", "  opensm: {kind"),
    "name-of-a-file": ("  storage: {kind", "  proved: {kind"),
    "name-of-a-plane": ("  storage: {kind", "  storage-rail0: {kind"),
    "unknown-key": ("kind: leaf-spine", "kid: leaf-spine"),
    "managers-twice": ("uplinks: 4,", "uplinks: 4, subnet_managers: [sm1],"),
    "unknown-manager": ("subnet_managers: [sm2, sm1]", "subnet_managers: [sm2, sm3]"),
    "manager-twice": ("subnet_managers: [sm2, sm1]", "subnet_managers: [sm2, sm2]"),
    "top-of-another": ("kind: leaf-spine", "kind: leaf-spine, top: t"),
    "a-core-is-a-spine": ("spines: core-s1", "spines: core-s1, cores: core-s1"),
    "rails-of-another": ("kind: leaf-spine", "kind: leaf-spine, rails: 2"),
    "rack-of-switches": ("kind: leaf-spine", "kind: leaf-spine, switch_racks: {core-s1: r9}"),
    "counts-with-cables": ("kind: leaf-spine", "kind: leaf-spine, cables: c.csv"),
    "member-of-another": ("kind: leaf-spine", "kind: leaf-spine, partitions: {a: {pkey: 1, members: login9}}"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_slip_is_named_with_the_key_of_its_fabric(name: str, tmp_path: Path):
    old, new = FAULTS[name]
    more = [("mlx5_2, fabric: storage", "mlx5_2, fabric: storage, rail: 0")] if name == "rails-of-another" else []
    with pytest.raises(ClusterFileError) as caught:
        cluster(tmp_path, TWO, (old, new), *more)
    check_messages(f"fabrics: {name}", caught.value, tmp_path)
    lines = (tmp_path / "duo.bedplate.yml").read_text().split("\n")
    for one in caught.value.mistakes:
        # `fabric` would be a key that the file does not have.
        assert not re.search(r"(?<!\w)fabric\.[a-z_]+", f"{one.where} {one.message}")
        assert one.line > 1
    changed = [number for number, line in enumerate(lines, 1) if line not in TWO.split("\n")]
    # Rails are a matter of all NICs of a profile.
    assert {one.line for one in caught.value.mistakes} & {*changed, *([10] if "rails" in name else [])}


LATE = {
    "oversubscribed": ("uplinks: 4", "uplinks: 2"),
    "no-spine": ("spines: core-s1, ", ""),
    "a-leaf-of-two": ("leaves: {storage: st2}", "leaves: {storage: su1-r0}"),
    "a-spine-of-two": ("spines: core-s1", "spines: spine1"),
    "a-manager-without-an-adapter": ("subnet_managers: [sm2, sm1]}", "subnet_managers: [sm2, n1, ctl9]}"),
    "managers-of-ethernet": ("{kind: leaf-spine", "{technology: ethernet, kind: leaf-spine"),
    "a-port-that-is-not-there": ("kind: leaf-spine", "kind: leaf-spine, missing: 'st2:40'"),
    "a-list-that-is-not-there": ("kind: leaf-spine, spines: core-s1, uplinks: 3", "kind: leaf-spine, cables: c.csv"),
    "mistakes-of-both": ("uplinks: ", "missing: 'zz:1', uplinks: "),
    # The NIC is the third one of the profile in the file, and the only one in its fabric.
    "a-nic-faster-than-its-leaf": ("{name: mlx5_2, fabric: storage}", "{name: mlx5_2, fabric: storage, speed: XDR}"),
    "another-width": ("{name: mlx5_2, fabric: storage}", "{name: mlx5_2, fabric: storage, speed: HDR100, width: 4x}"),
    "a-leaf-of-another": ("{name: mlx5_1, fabric: storage}", "{name: mlx5_1, fabric: storage, leaf: su1-r0, port: 9}"),
    "a-switch-of-another": ("kind: leaf-spine", "kind: leaf-spine, switches: {spine1: {speed: EDR}}"),
}


@pytest.mark.parametrize("name", LATE)
def test_a_mistake_in_a_plan_is_named_with_the_key_of_its_fabric(name: str, tmp_path: Path):
    edits = [LATE[name]]
    if name == "oversubscribed":
        edits.append(("leaf: su2", "leaf: su1"))
    if "ctl9" in edits[0][1]:
        edits.append(("  oss1:", "  ctl9: {address: 10.0.0.210}\n  oss1:"))
    found = cluster(tmp_path, TWO, *edits)
    lines = buildable.fabric_mistakes(found)
    check_messages(f"fabrics, plan: {name}", lines, tmp_path)
    assert lines
    assert not [line for line in lines if re.search(r"(?<![\w/])fabric\.(?!md)[a-z_]+", line)]


def test_each_fabric_has_its_own_rates(tmp_path: Path):
    slow = ("{name: mlx5_2, fabric: storage}", "{name: mlx5_2, fabric: storage, speed: EDR, width: 2x}")
    found = cluster(tmp_path, TWO, slow, ("spines: core-s1", "spines: core-s1, switches: {st2: {speed: EDR}}"))
    compute, storage = (plan_of(view) for view in found.views.values())
    assert {rate_of(compute, link) for link in compute.links} == {("4x", "HDR")}
    rates = {link.a: "".join(rate_of(storage, link)) for link in storage.links}
    assert [rates[name] for name in ("n1 mlx5_2", "n3 mlx5_2", "sm1 mlx5_1")] == ["2xEDR", "2xEDR", "4xHDR"]


def test_the_record_of_a_fabric_is_not_that_of_another_file(tmp_path: Path):
    (tmp_path / "duo.storage.bedplate.yml").write_text("")
    lines = buildable.fabric_mistakes(cluster(tmp_path))
    check_messages("fabrics: a record of two", lines, tmp_path)
    assert len(lines) == 1


def reported(found, name: str, discovery):
    return comparison_report(found.view(name), [ToolOutput("", ibnetdiscover_text(discovery))])


def test_a_comparison_finds_the_faults_of_its_fabric_alone(tmp_path: Path):
    found = cluster(tmp_path)
    seen = {name: discovery_of(plan_of(view)) for name, view in found.views.items()}
    swap(seen["compute"], "su1-r0", 1, 2)
    cut(seen["storage"], "n4 mlx5_2")
    compute, storage = (reported(found, name, seen[name]) for name in ("compute", "storage"))
    assert (compute.counts, storage.counts) == ({"ok": 24, "swapped": 1}, {"ok": 12, "missing": 1})
    assert storage.summary.startswith("duo storage: 12 of 13 planned cables")
    # Each learns the GUIDs of its own adapters.
    assert "mlx5_2" not in compute.guids
    assert "n1 mlx5_2" in storage.guids
    assert "n1 mlx5_0" not in storage.guids


def test_a_cable_into_the_other_fabric_is_found_in_both(tmp_path: Path):
    found = cluster(tmp_path)
    plan = {name: plan_of(view) for name, view in found.views.items()}
    seen = discovery_of(plan["compute"])
    # One subnet has both, as its discovery from either shows.
    other = discovery_of(plan["storage"])
    seen.nodes.update(other.nodes)
    connect(node(seen, "su1-r0"), 30, node(seen, "core-s1"), 30, "4x", "HDR")
    for name, planned_cables in (("compute", 26), ("storage", 13)):
        report = reported(found, name, seen)
        assert report.failed
        assert report.counts == {"ok": planned_cables, "joined": 1}
        check_messages(f"fabrics: joined, {name}", report.table.split("\n"))


def test_cables_of_a_host_that_are_exchanged_between_fabrics_are_found_in_both(tmp_path: Path):
    found = cluster(tmp_path)
    seen = {name: discovery_of(plan_of(view)) for name, view in found.views.items()}
    taken = {}
    for name, hca in (("compute", "n1 mlx5_0"), ("storage", "n1 mlx5_2")):
        card = node(seen[name], hca)
        cable = card.cables.pop(1)
        del seen[name].nodes[card.guid]
        taken[name] = (card, cable)
    for name, other in (("compute", "storage"), ("storage", "compute")):
        card, cable = taken[other][0], taken[name][1]
        seen[name].nodes[card.guid] = card
        connect(card, 1, seen[name].nodes[cable.guid], cable.port, "4x", "HDR")
        report = reported(found, name, seen[name])
        assert report.failed
        assert report.counts["unknown"] == 1
        # The place is right, and the card is not: its GUID would get the partitions of another one.
        assert f'"{"n1 mlx5_0" if name == "compute" else "n1 mlx5_2"}"' not in report.guids
        check_messages(f"fabrics: exchanged, {name}", report.table.split("\n"))


def test_subnet_managers_run_an_opensm_for_each_fabric(tmp_path: Path):
    found = cluster(tmp_path, learned=True)
    assert found.services.subnet_managers == ("sm1", "sm2")
    paths = [entry["path"] for entry in managers.files(found, "sm1", {})]
    assert {path.split("/")[3] for path in paths} == {"fabric", "storage"}
    confs = {
        (host, plane): next(
            dict(line.split(" ", 1) for line in entry["content"].splitlines())
            for entry in managers.files(found, host, {})
            if entry["path"] == f"/etc/opensm/{plane}/opensm.conf"
        )
        for host in ("sm1", "sm2")
        for plane in ("fabric", "storage")
    }
    assert {key: conf["sm_priority"] for key, conf in confs.items()} == {
        ("sm1", "fabric"): "15", ("sm2", "fabric"): "14", ("sm1", "storage"): "14", ("sm2", "storage"): "15",
    }  # fmt: skip
    assert confs["sm1", "storage"]["log_file"] == "/var/log/opensm/storage/opensm.log"
    assert confs["sm1", "storage"]["node_name_map_name"] == "/etc/opensm/storage/node-name-map"
    assert confs["sm1", "storage"]["guid"] != confs["sm1", "fabric"]["guid"]
    enabled = ["opensm-plane@fabric.service", "opensm-plane@rail0.service"]
    units = {one["name"]: one["state"] for one in managers.units(found, "sm1", {}, {}, enabled)}
    assert units == {
        "opensm.service": "stopped", "opensm-plane@rail0.service": "stopped", "opensm-plane@fabric.service": "started",
        "opensm-plane@storage.service": "started",
    }  # fmt: skip
    request = managers.facts_request(found, "sm2", {})
    assert [(one["plane"], one["expected"]) for one in request] == [("", "standby"), ("storage", "master")]


def answer_of(found, host: str, **differing: str) -> dict:
    """Return what opensm_facts returns on a host where all is as planned; `differing` are states of units by plane."""
    planes = []
    wanted = {one.plane: one for view in found.views.values() for one in managers.planned_managers(view, {})}
    for request in managers.facts_request(found, host, {}):
        plane = wanted[request["plane"]]
        seen = [
            {"guid": one.guid, "priority": one.priority, "state": "standby" if number else "master"}
            for number, one in enumerate(plane.managers)
        ]
        state = MASTER if request["expected"] == "master" else "STANDBY"
        log = {"state": state, "errors": {}, "last": "", "partitions": "", "up": True, "engine": plane.engine}
        planes.append(
            {
                "plane": request["plane"], "unit": differing.get(request["plane"] or "fabric", "active"), "port": True,
                "ports": [], "managers": seen, "log": log, "pkeys": {guid: [0xFFFF] for guid in request["ports"]},
            }
        )  # fmt: skip
    return {"planes": planes}


def test_verify_compares_the_subnet_managers_of_each_fabric(tmp_path: Path):
    found = cluster(tmp_path, learned=True)
    facts = {host: answer_of(found, host) for host in ("sm1", "sm2")}
    findings, summary = opensm_readback.compared(found, facts, {})
    assert findings == []
    check_messages("fabrics: subnet managers as planned", summary.split("; "))
    facts["sm2"] = answer_of(found, "sm2", storage="inactive")
    findings, _summary = opensm_readback.compared(found, facts, {})
    assert [(one.kind, one.where) for one in findings] == [("unit", "sm2, duo storage")]
    check_messages("fabrics: a subnet manager of the second fabric", findings)
    # The standby of one fabric only is not read by the other.
    findings, summary = opensm_readback.compared(found, {"sm1": facts["sm1"]}, {})
    assert "not part of this run: sm2" in summary


def test_another_storage_is_proved_again(tmp_path: Path):
    found = cluster(tmp_path, learned=True)
    before = managers.proof_digest(found, {})
    assert managers.proof_digest(cluster(tmp_path, TWO, ("uplinks: 3", "uplinks: 4")), {}) != before


def test_a_host_may_manage_a_single_one(tmp_path: Path):
    found = cluster(
        tmp_path, TWO, ("subnet_managers: [sm2, sm1]", "subnet_managers: sm2"), ("[sm1, sm2]}", "[sm1]}"), learned=True
    )
    for host, plane in (("sm1", "fabric"), ("sm2", "storage")):
        assert {one["path"].split("/")[3] for one in managers.files(found, host, {})} == {plane}
    assert found.services.subnet_managers == ("sm1", "sm2")


def test_ethernet_beside_infiniband(tmp_path: Path):
    found = cluster(tmp_path, MIXED, learned=True)
    assert buildable.fabric_mistakes(found, needed=True) == []
    files = written(planned(found.view("storage")))[0]
    assert sorted(files) == ["cables-bill.csv", "cabling.csv", "fabric.html", "fabric.svg"]
    assert {one["path"].split("/")[3] for one in managers.files(found, "sm1", {})} == {"fabric"}
    sources = {name: discovery_sources(view) for name, view in found.views.items()}
    assert sources["compute"] == [{"name": "sm1", "lldp": False, "ports": [{"ca": "mlx5_0"}]}]
    assert [one["name"] for one in sources["storage"]] == ["n1", "n2", "n3", "n4", "sm1", "sm2", "oss1"]
    assert all(one["lldp"] for one in sources["storage"])


def test_where_each_fabric_is_read(tmp_path: Path):
    found = cluster(tmp_path)
    both = ["compute", "storage"]
    assert chosen_fabrics.reads(found, both) == {
        "sm1": [{"fabric": "compute", "lldp": False, "ports": [{"ca": "mlx5_0"}]}],
        "sm2": [{"fabric": "storage", "lldp": False, "ports": [{"ca": "mlx5_1"}]}],
    }
    texts = {"storage": "/b", "compute": ["/a1", "/a2"]}
    assert chosen_fabrics.reads(found, both, saved=texts) == {
        "localhost": [{"fabric": "compute", "path": ["/a1", "/a2"]}, {"fabric": "storage", "path": ["/b"]}]
    }
    assert chosen_fabrics.reads(found, ["storage"], saved="/b,/c") == {
        "localhost": [{"fabric": "storage", "path": ["/b", "/c"]}]
    }
    own = [{"name": "x", "fabric": "storage"}, {"name": "y", "fabric": "compute", "lldp": True}]
    assert chosen_fabrics.reads(found, ["storage"], own) == {"x": [{"fabric": "storage"}]}
    assert chosen_fabrics.chosen(found) == both
    assert chosen_fabrics.chosen(found, "storage", chosen_fabrics.ONE) == ["storage"]
    assert chosen_fabrics.chosen(found, scope=chosen_fabrics.FIRST) == ["compute"]


def test_nothing_is_guessed_of_the_fabric_that_is_meant(tmp_path: Path):
    found = cluster(tmp_path)
    both = ["compute", "storage"]
    lines = []
    for work in (
        lambda: chosen_fabrics.chosen(found, scope=chosen_fabrics.ONE),
        lambda: chosen_fabrics.chosen(found, "storag"),
        lambda: chosen_fabrics.reads(found, both, saved="a.txt"),
        lambda: chosen_fabrics.reads(found, both, saved={"compute": "a.txt"}),
        lambda: chosen_fabrics.reads(found, both, saved={"compute": "a.txt", "bulk": "b.txt"}),
        lambda: chosen_fabrics.reads(found, both, [{"name": "x"}]),
        lambda: chosen_fabrics.reads(found, both, [{"name": "x", "fabric": "bulk"}]),
        lambda: chosen_fabrics.reads(found, both, [{"lldp": True}]),
    ):
        with pytest.raises(ValueError, match=r"storage|no name") as caught:
            work()
        lines.append(caught.value)
    check_messages("fabrics: chosen", [*lines, *chosen_fabrics.mistakes(found, "zzz")], tmp_path)
    assert chosen_fabrics.mistakes(found, None) == [] == chosen_fabrics.mistakes(found, "storage")


def test_a_fabric_without_a_plan_is_known_by_name(tmp_path: Path):
    found = cluster(tmp_path, TWO, (f"  storage: {STORAGE}", "  storage: {}"))
    assert found.view("storage").fabric is None
    assert buildable.fabric_mistakes(found, needed=True) == []
    assert chosen_fabrics.chosen(found) == ["compute"]
    assert chosen_fabrics.chosen(found, "storage") == ["storage"]
    assert discovery_sources(found.view("storage")) == [{"name": "n1", "lldp": False, "ports": [{"ca": "mlx5_2"}]}]


def test_a_fabric_without_nics_is_not_discovered_through_a_port_of_another(tmp_path: Path):
    edits = [(f"  storage: {STORAGE}", "  storage: {}")]
    edits += [(text, "") for text in ("\n      - {name: mlx5_2, fabric: storage}", ", {name: mlx5_1, fabric: storage}")]
    edits += [("{name: mlx5_0, fabric: storage, purpose: storage}", "{name: mlx5_0}")]
    found = cluster(tmp_path, TWO, *edits)
    with pytest.raises(ValueError, match="no NIC is in fabric storage"):
        discovery_sources(found.view("storage"))


def test_a_host_that_counts_its_cards_otherwise_keeps_those_on_record(tmp_path: Path):
    found = cluster(tmp_path, learned=True)
    seen = discovery_of(planned(found.view("storage")).plan)
    node(seen, "n1 mlx5_2").description = "n1 mlx5_1"
    report = reported(found, "storage", seen)
    assert not report.failed
    assert report.counts == {"ok": 13, "unnamed": 1}


def test_a_fabric_whose_subnet_managers_are_forgotten_is_refused(tmp_path: Path):
    forgotten = (", subnet_managers: [sm2, sm1]", "")
    with pytest.raises(ClusterFileError) as caught:
        cluster(tmp_path, TWO, forgotten)
    check_messages("fabrics: forgotten managers", caught.value, tmp_path)
    found = cluster(tmp_path, TWO, (", subnet_managers: [sm2, sm1]", ", subnet_managers: []"))
    assert found.view("storage").services.subnet_managers == ()


def test_a_fabric_without_a_plan_is_adopted_by_itself(tmp_path: Path):
    planned_one = cluster(tmp_path)
    text = ibnetdiscover_text(discovery_of(plan_of(planned_one.view("storage"))))
    found = cluster(tmp_path, TWO, (f"  storage: {STORAGE}", "  storage: {}"))
    made = adoption.adoption(found.view("storage"), [ToolOutput("", text)])
    assert made.refused == ""
    assert {Path(name).name for name in made.files} == {"storage-cables.csv", "duo.storage.guids.json"}
    assert made.snippet.startswith("fabrics:\n  storage:\n    cables: storage-cables.csv\n    kind: leaf-spine\n")
    for name, content in made.files.items():
        Path(name).write_text(content)
    section = made.snippet.removeprefix("fabrics:\n")
    after = cluster(tmp_path, TWO, (f"  storage: {STORAGE}", section))
    assert buildable.fabric_mistakes(after, needed=True) == []
    report = comparison_report(after.view("storage"), [ToolOutput("", text)], "notice")
    assert (report.counts, report.failed) == ({"ok": 13}, False)
    # Leaves of the list have real names, and the other fabric is as it was.
    assert planned(after.view("storage")).plan.listed
    assert not planned(after.view()).plan.listed


def test_the_printed_section_has_the_subnet_managers_and_sharp_of_the_present_one(tmp_path: Path):
    services = ("services: {controllers: [n1], subnet_managers: [sm1, sm2]}", "services: {controllers: [n1]}")
    stated = (f"  compute: {COMPUTE[:-1]}", f"  compute: {COMPUTE[:-1]}, subnet_managers: [sm2, sm1], sharp: false")
    found = cluster(tmp_path, TWO, services, stated)
    text = ibnetdiscover_text(discovery_of(plan_of(found.view("compute"))))
    lines = adoption.adoption(found.view("compute"), [ToolOutput("", text)]).snippet.splitlines()
    assert {"    subnet_managers: [sm2, sm1]", "    sharp: false"} < set(lines)
    plain = adoption.adoption(cluster(tmp_path).view("compute"), [ToolOutput("", text)]).snippet
    assert "subnet_managers" not in plain
    assert "sharp" not in plain


@pytest.mark.parametrize("unknown", [False, True], ids=["switches and cards", "cards alone"])
def test_the_text_of_another_fabric_is_not_adopted(unknown: bool, tmp_path: Path):
    seen = discovery_of(plan_of(cluster(tmp_path).view("compute")))
    if unknown:
        # A list of cables may have named the switches of the other fabric.
        for one in seen.switches:
            one.description = f"ib-{one.description}"
    text = ibnetdiscover_text(seen)
    found = cluster(tmp_path, TWO, (f"  storage: {STORAGE}", "  storage: {}"))
    for update in (False, True):
        made = adoption.adoption(found.view("storage"), [ToolOutput("", text)], update)
        assert made.files == {}
    check_messages(f"fabrics: adoption of another one, {'cards' if unknown else 'switches'}", [made.refused])


def test_a_single_card_of_another_fabric_stops_no_adoption(tmp_path: Path):
    seen = discovery_of(plan_of(cluster(tmp_path).view("storage")))
    node(seen, "n1 mlx5_2").description = "n1 mlx5_1"
    found = cluster(tmp_path, TWO, (f"  storage: {STORAGE}", "  storage: {}"))
    made = adoption.adoption(found.view("storage"), [ToolOutput("", ibnetdiscover_text(seen))])
    assert made.refused == ""
    assert (made.worst, "n1: devices mlx5_1 differ" in made.table) == ("error", True)


def test_names_of_another_fabric_are_known_as_far_as_the_file_has_them(tmp_path: Path):
    found = cluster(tmp_path)
    assert found.elsewhere == {}
    assert found.view("compute").elsewhere == dict.fromkeys(
        [
            *(f"n{number} mlx5_2" for number in range(1, 5)),
            *("sm1 mlx5_1", "sm2 mlx5_1", "oss1 mlx5_0", "core-s1", "storage-su1", "st2"),
        ],
        "storage",
    )
    assert {"su1-r0", "su2-r1", "spine1", "n1 mlx5_1"} < found.view("storage").elsewhere.keys()


def test_lldp_of_another_ethernet_is_left_out(tmp_path: Path):
    text = MIXED.replace("{kind: rail-optimised", "{technology: ethernet, kind: rail-optimised")
    found = cluster(tmp_path, text.replace(", subnet_managers: [sm1, sm2]", ""))
    # Each host is queried once for each fabric, and reports the neighbours of all its adapters.
    interfaces_of: dict[str, list] = {}
    for view in found.views.values():
        hosts = {hca.host for hca in plan_of(view).hcas.values()}
        for host, answer in answers(plan_of(view), *hosts).items():
            interfaces_of.setdefault(host, []).extend(answer["lldp"]["interface"])
    texts = [
        ToolOutput(host, json.dumps({"lldp": {"interface": interfaces}})) for host, interfaces in interfaces_of.items()
    ]
    for name in found.views:
        report = comparison_report(found.view(name), texts)
        assert (report.worst, {*report.counts} - {"ok"}) == ("notice", {"partial"})


@pytest.mark.playbooks
def test_the_playbooks_work_on_all_fabrics_and_fail_if_only_the_second_has_a_fault(tmp_path: Path):
    found = cluster(tmp_path)
    seen = {name: discovery_of(plan_of(view)) for name, view in found.views.items()}
    for name, discovery in seen.items():
        (tmp_path / f"{name}.txt").write_text(ibnetdiscover_text(discovery))
    saved = json.dumps({"fabric_saved": {name: str(tmp_path / f"{name}.txt") for name in seen}})
    options = ["-i", found.path, "-e", saved, "-e", "fabric_record=true"]
    done = play(*books("fabric_compare", "fabric", "fabric"), *options)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "duo: 26 of 26 planned cables are as planned, no findings" in done.stdout
    assert "duo storage: 13 of 13 planned cables are as planned, no findings" in done.stdout
    # The recap counts all plays so far: two tasks wrote for both fabrics, then one, and the last run changes nothing.
    assert re.findall(r"^localhost .* changed=(\d+)", done.stdout, re.MULTILINE) == ["2", "3", "3"]
    assert {path.name for path in tmp_path.glob("*.guids.json")} == {"duo.guids.json", "duo.storage.guids.json"}
    for name, view in load(found.path).views.items():
        directory = tmp_path / "fabric" / view.stated.part
        for file, text in written(planned(view))[0].items():
            assert (directory / file).read_text() == text, (name, file)
        assert (directory / "comparison/findings.json").exists()
    cut(seen["storage"], "n4 mlx5_2")
    (tmp_path / "storage.txt").write_text(ibnetdiscover_text(seen["storage"]))
    done = play(*books("fabric_compare"), *options[:4])
    assert done.returncode == 2
    assert "duo: 26 of 26 planned cables are as planned, no findings" in done.stdout
    assert "ERROR    missing" in done.stdout
    assert f"All are in {tmp_path}/fabric/storage/comparison" in done.stdout
    # One of them.
    one = ["-i", found.path, "-e", f"fabric_saved={tmp_path}/compute.txt", "-e", "fabric_name=compute"]
    done = play(*books("fabric_compare", "fabric_audit", "fabric_topology"), *one)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "duo storage" not in done.stdout


@pytest.mark.playbooks
@pytest.mark.parametrize(
    ("book", "given", "said"),
    [
        ("fabric", "fabric_name=storag", "Did you mean 'storage'?"),
        ("fabric_compare", "fabric_saved=/nowhere", "the fabrics are compute, storage"),
        ("fabric_audit", "fabric_saved=/nowhere", "choose one with -e fabric_name=compute"),
    ],
)
def test_a_fabric_that_is_not_clear_is_refused_before_anything_is_read(
    book: str, given: str, said: str, tmp_path: Path
):
    found = cluster(tmp_path)
    done = play(*books(book), "-i", found.path, "-e", given)
    assert done.returncode == 2
    assert said in done.stdout + done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"duo.bedplate.yml"}


# Even fabrics, whose routes have no fault: nodes alone, which are the subnet managers, too.
EVEN = (
    ("  sm1: {address: 10.0.0.200, nics: [{name: mlx5_0}, {name: mlx5_1, fabric: storage}]}\n", ""),
    ("  sm2: {address: 10.0.0.201, nics: [{name: mlx5_0}, {name: mlx5_1, fabric: storage}]}\n", ""),
    (", nics: [{name: mlx5_0, fabric: storage, purpose: storage}]", ""),
    ("{name: mlx5_2, fabric: storage}", "{name: mlx5_2, fabric: storage, rail: 0}"),
    ("subnet_managers: [sm1, sm2]", "subnet_managers: [n1, n2]"),
    ("subnet_managers: [sm2, sm1]", "subnet_managers: [n2, n1]"),
    ("uplinks: 4", "uplinks: 2"),
    ("uplinks: 3", "uplinks: 2"),
)


@pytest.mark.simulation
def test_both_fabrics_are_proved_on_real_tools(tmp_path: Path):
    found = cluster(tmp_path, TWO, *EVEN)
    done = play(*books("fabric_check"), "-i", found.path)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = " ".join(done.stdout.split())
    assert re.search(r"'proved: ftree routes 8 HCAs over 6 switches[^']*; slurmctld takes the topology'", shown)
    assert "storage: proved: ftree routes 4 HCAs over 3 switches" in shown
    proved = {part: json.loads((tmp_path / "fabric" / part / "proved.json").read_text()) for part in ("", "storage")}
    assert [one["hcas"] for listed in proved.values() for one in listed["planes"]] == [8, 4]
    # OpenSM refuses ftree where no adapter is for compute: the second fabric alone has the fault.
    cluster(tmp_path, TWO, *(edit for edit in EVEN if "rail: 0" not in edit[1]))
    choices = json.dumps({"opensm_routing_engines": ["ftree"]})
    done = play(*books("fabric_check"), "-i", found.path, "-e", choices)
    assert done.returncode == 2
    assert re.search(r"failed: \[localhost\] \(item=storage\)", done.stdout)
    assert not re.search(r"failed: \[localhost\] \(item=compute\)", done.stdout)


@pytest.mark.simulation
def test_the_files_of_the_masters_of_both_fabrics_are_proved(tmp_path: Path):
    report = run_all(of_managers(cluster(tmp_path, TWO, *EVEN, learned=True), {}))
    assert report.findings == []
    assert [(one.get("fabric", ""), one["engine"], one["hcas"]) for one in report.planes] == [
        ("", "ftree", 8), ("storage", "ftree", 4),
    ]  # fmt: skip


@pytest.mark.simulation
def test_the_routes_in_force_of_the_second_fabric(tmp_path: Path):
    found = cluster(tmp_path, TWO, *EVEN, learned=True)
    _first, storage = of_managers(found, {})
    (tmp_path / "scratch").mkdir()
    saved = []
    for one in read_routes(storage.plan, storage.files[""], tmp_path / "scratch"):
        saved.append(tmp_path / f"now.{'fts' if one.kind == TABLES else 'txt'}")
        saved[-1].write_text(one.text)
    given = ["-i", found.path, "-e", f"fabric_saved={','.join(map(str, saved))}"]
    done = play(*books("fabric_routes"), *given, "-e", "fabric_name=storage")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "duo storage: 4 HCAs, busiest link 1.00 times the mean" in " ".join(done.stdout.split())
    assert play(*books("fabric_routes"), *given).returncode == 2
