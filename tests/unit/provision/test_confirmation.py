"""What a person confirms, what Slurm allows, and what a run begins: all mistakes at once, and everything unknown refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.provision.progress import Progress
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import written
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.node_states import parse
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.node_work import report
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.machine_record import Machine
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision import provision_variables, slurm_gate
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.confirmation import ConfirmationError, confirm
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.desk import Look, Seen
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.planning import Plan, plan_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.wanted import image_mistakes, wanted_of

SHA256 = "5f" * 32
IMAGE = {"sha256": SHA256, "bytes": 5, "raw_sha256": "a" * 64, "raw_bytes": 24 << 20, "root_start": 2 << 20}


def cluster_of(folder: Path, **sections: Any) -> Cluster:
    small = {"sockets": 1, "cores_per_socket": 2, "memory_mib": 4096, "bmc": {"protocol": "redfish"}}
    data = {
        "plugin": "bedplate.cluster.racks",
        "site": "s",
        "cluster": "c",
        "networks": {
            "management": {"cidr": "10.0.0.0/24", "gateway": "10.0.0.254"},
            "bmc": {"cidr": "10.0.1.0/24"},
            "provision": {"cidr": "10.0.2.0/24"},
        },
        "profiles": {"small": {**small, "image": "trixie"}, "bare": small},
        "racks": {
            "r1": {"nodes": "gpu[01-02]", "profile": "small"},
            "r2": {"nodes": "gpu[03-04]", "profile": "small"},
            "r3": {"nodes": "gpu05", "profile": "bare"},
        },
        "hosts": {"ctl1": {"address": "10.0.0.200"}},
        "services": {"controllers": ["ctl1"]},
        "partitions": {"all": {"nodes": "all"}},
        "images": {"trixie": {"os": "debian-13", "file": "trixie.img.zst", "sha256": SHA256}},
        "provision": {"host": "ctl1", "address": "10.0.2.200"},
        **sections,
    }
    path = folder / "c.bedplate.yml"
    path.write_text(yaml.safe_dump({key: one for key, one in data.items() if one}, sort_keys=False))
    return load(str(path))


def record_of(cluster: Cluster, **changed: Machine) -> dict[str, Machine]:
    found = {
        node.name: Machine(f"SN{at}", "", f"02:00:00:00:00:0{at}", f"D{at}", "ab" * 32)
        for at, node in enumerate(cluster.nodes, 1)
    }
    return {**found, **changed}


def confirmed(
    folder: Path, limit: set[str] | None = None, record: dict[str, Machine] | None = None, **choices: object
) -> Any:
    cluster = cluster_of(folder)
    chosen = provision_variables.choices({f"provision_{name}": one for name, one in choices.items()})
    return confirm(chosen, cluster, record_of(cluster) if record is None else record, limit)


def test_names_and_disks(tmp_path: Path) -> None:
    found = confirmed(tmp_path, nodes="gpu[01-03]", wipe="gpu01")
    assert ([node.name for node in found.nodes], found.wiped) == (["gpu01", "gpu02", "gpu03"], {"gpu01"})
    narrowed = confirmed(tmp_path, limit={"gpu02", "gpu04"}, nodes="gpu[01-03]", wipe="gpu[01-02]")
    assert ([node.name for node in narrowed.nodes], narrowed.wiped) == (["gpu02"], {"gpu02"})


@pytest.mark.parametrize(
    ("choices", "says"),
    [
        ({"nodes": "all"}, ["'all' is not allowed"]),
        ({"nodes": "gpu[01"}, ["unbalanced"]),
        ({"nodes": "gpu09"}, ["not a node"]),
        ({"nodes": "ctl1"}, ["outside the racks"]),
        ({"nodes": "gpu01", "wipe": "gpu[01-02]"}, ["gpu02 not in provision_nodes"]),
        ({"nodes": "gpu[01-03]", "wipe": "gpu[01-03]"}, ["provision_count is missing", "r1, r2", "provision_count=3"]),
        ({"nodes": "gpu[01-03]", "wipe": "gpu[01-03]", "count": 2}, ["provision_count: 2", "3 nodes"]),
        ({"nodes": "gpu05"}, ["gpu05: no image"]),
        ({"nodes": "gpu01", "without_slurm": "gpu[01"}, ["provision_without_slurm: unbalanced"]),
        ({"nodes": "gpu01", "without_slurm": "gpu[01-02]"}, ["provision_without_slurm: gpu02 not in provision_nodes"]),
        ({"nodes": "gpu01", "wipe": "gpu[01"}, ["provision_wipe: "]),
        # All at once.
        (
            {"nodes": "gpu[01-02],gpu05", "wipe": "gpu03", "count": 7},
            ["gpu03 not in", "provision_count: 7", "no image"],
        ),
    ],
)
def test_mistakes(choices: dict[str, object], says: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfirmationError) as error:
        confirmed(tmp_path, **choices)
    assert [text for text in says if text not in str(error.value)] == []


def test_the_number_allows_more_than_one_rack(tmp_path: Path) -> None:
    assert len(confirmed(tmp_path, nodes="gpu[01-03]", wipe="gpu[01-03]", count=3).wiped) == 3


@pytest.mark.parametrize("key", ["serial", "boot_mac", "disk_serial", "bmc_fingerprint"])
def test_an_incomplete_record(key: str, tmp_path: Path) -> None:
    record = record_of(cluster_of(tmp_path))
    record["gpu02"].__dict__[key] = ""
    with pytest.raises(ConfirmationError, match=f"^gpu02: {key} not on record"):
        confirmed(tmp_path, record=record, nodes="gpu[01-02]")


def test_a_machine_without_a_record_and_a_file_without_the_section(tmp_path: Path) -> None:
    with pytest.raises(ConfirmationError, match="serial, boot_mac, disk_serial, bmc_fingerprint not on record"):
        confirmed(tmp_path, record={}, nodes="gpu01")
    cluster = cluster_of(
        tmp_path, provision=None, networks={"management": {"cidr": "10.0.0.0/24"}, "bmc": {"cidr": "10.0.1.0/24"}}
    )
    with pytest.raises(ConfirmationError, match="no section `provision`"):
        confirm(provision_variables.choices({"provision_nodes": "gpu01"}), cluster, record_of(cluster))


def test_a_machine_that_cannot_be_verified_and_an_image_that_is_not_declared(tmp_path: Path) -> None:
    chosen = provision_variables.choices({"provision_nodes": "gpu01"})
    cluster = cluster_of(tmp_path)
    with pytest.raises(ConfirmationError, match="gpu01: image 'trixie' is not in `images`"):
        confirm(chosen, replace(cluster, images={}), record_of(cluster))
    ipmi = {"sockets": 1, "cores_per_socket": 2, "memory_mib": 4096, "bmc": {"protocol": "ipmi"}, "image": "trixie"}
    ipmi["boot"] = {"firmware": "uefi", "method": "pxe"}
    cluster = cluster_of(tmp_path, profiles={"small": ipmi, "bare": ipmi})
    with pytest.raises(ConfirmationError, match="gpu01: its BMC is commanded by IPMI"):
        confirm(chosen, cluster, record_of(cluster))


def test_variables() -> None:
    assert any("is missing" in one for one in provision_variables.mistakes({}))
    (text,) = provision_variables.mistakes({"provision_nodes": "gpu01", "provision_wipes": "gpu01"})
    assert "did you mean provision_wipe?" in text
    # A bound that closes the order of a machine while it writes its disk.
    assert provision_variables.mistakes({"provision_nodes": "gpu01", "provision_install_seconds": 0}) != []
    assert len(provision_variables.mistakes({"provision_nodes": None})) == 1
    assert len(provision_variables.mistakes({"provision_nodes": "gpu01", "provision_port": 0, "bmc_port": "x"})) == 2


def test_the_order_of_a_node(tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path)
    chosen = provision_variables.choices({"provision_nodes": "gpu[01-02]", "provision_wipe": "gpu02"})
    record = record_of(cluster, gpu01=Machine("To be filled by O.E.M.", "", "02:00:00:00:00:01", "D1", "ab" * 32))
    found = confirm(chosen, cluster, record)
    assert image_mistakes(found, cluster, {"trixie": IMAGE}, {}) == []
    (wrong,) = image_mistakes(found, cluster, {"trixie": {**IMAGE, "sha256": "0" * 64}}, {})
    assert SHA256 in wrong
    assert image_mistakes(found, cluster, {}, {"trixie": "cut"}) == ["image trixie: cut"]
    orders, mistakes = wanted_of(found, cluster, record, {"trixie": IMAGE}, "ssh-ed25519 A a\n")
    assert [one.partition(":")[0] for one in mistakes] == ["gpu01"], mistakes
    assert "placeholder" in mistakes[0]
    one = orders["gpu02"]
    assert dict(one.machine) == {
        "node": "gpu02", "serial": "SN2", "mac": "02:00:00:00:00:02", "disk": "D2", "wipe": "yes", "address": "10.0.2.2/24",
        "gateway": "none",
    }  # fmt: skip
    assert one.network == ("10.0.0.2/24", "10.0.0.254")
    assert b"10.0.0.2/24" in one.files(("x", "y"))["/etc/systemd/network/10-bedplate.network"].data


def of_slurm(state: str, jobs: str = "") -> dict[str, Any]:
    snapshot = parse(f"NodeName=gpu01 State={state}", jobs, "")
    return report(["gpu01"], snapshot.nodes)["gpu01"].facts()


OWN = f"Reason={written('provision', slurm_gate.RUN, 'installs image trixie')} [root@2026-11-28T10:00:00]"


@pytest.mark.parametrize(
    ("state", "jobs", "is_allowed"),
    [
        (f"IDLE+DRAIN {OWN}", "", True),
        (f"DOWN+DRAIN {OWN}", "", True),
        (f"IDLE+DRAIN {OWN}", "12|SUSPENDED|gpu01|1:00:00", False),
        (f"ALLOCATED+DRAIN {OWN}", "12|RUNNING|gpu01|1:00:00", False),
        (f"IDLE+DRAIN+COMPLETING {OWN}", "", False),
        ("IDLE", "", False),
        ("IDLE+DRAIN Reason=fan is loud [ann@2026-11-28T10:00:00]", "", False),
        (f"IDLE+DRAIN {OWN.replace('trixie', 'trixie for Ann')}", "", False),
        (f"IDLE+DRAIN Reason={written('roll', 'a1', 'x')} [root@2026-11-28T10:00:00]", "", False),
        (f"IDLE+DRAIN Reason={written('provision', 'other', 'x')} [root@2026-11-28T10:00:00]", "", False),
        ("IDLE+DRAIN Reason=Kill task failed [root@2026-11-28T10:00:00]", "", False),
    ],
)
def test_slurm_allows_only_what_this_means_has_drained(state: str, jobs: str, is_allowed: bool) -> None:
    assert bool(slurm_gate.refusal(of_slurm(state, jobs))) is not is_allowed


def test_a_refusal_names_state_and_reason_once() -> None:
    text = slurm_gate.refusal(of_slurm("DOWN Reason=dead psu [ann@2026-11-28T10:00:00]", ""))
    assert text.count("dead psu") == 1, text


def test_slurm_allows_nothing_that_only_looks_drained() -> None:
    drained = {"outcome": "drained", "state": "IDLE+DRAIN"}
    own = {**drained, "kind": "provision", "run": slurm_gate.RUN}
    assert slurm_gate.refusal(own) == ""
    assert "job 12 on it" in slurm_gate.refusal({**own, "jobs": ["12"]})
    assert slurm_gate.refusal({**own, "outcome": "draining"})
    # Only a prediction has no reason yet, and only where it would drain the node.
    assert slurm_gate.refusal({**drained, "changed": True}, check=True) == ""
    assert slurm_gate.refusal({**drained, "changed": True})
    assert slurm_gate.refusal({**drained, "changed": False}, check=True)
    assert slurm_gate.refusal({"why": "unknown to Slurm", "state": "IDLE"})


def test_a_node_unknown_to_slurm_is_allowed_and_everything_unknown_else_refuses() -> None:
    unknown = report(["gpu09"], {})["gpu09"].facts()
    assert slurm_gate.refusals(["gpu09"], {"nodes": {"gpu09": unknown}}, "") == {}
    assert set(slurm_gate.refusals(["gpu08"], {"nodes": {}}, "gpu08")) == {"gpu08"}
    for answer in (
        {},
        {"skipped": True},
        {"failed": True, "msg": "slurmctld does not answer"},
        {"unreachable": True, "nodes": {}},
    ):
        assert set(slurm_gate.refusals(["gpu01", "gpu02"], answer, "gpu02")) == {"gpu01"}
        assert set(slurm_gate.refusals(["gpu01"], answer, "gpu[")) == {"gpu01"}


def test_a_run_begins_no_order_on_a_node_that_it_does_not_know(tmp_path: Path) -> None:
    cluster = cluster_of(tmp_path)
    record = record_of(cluster)
    chosen = provision_variables.choices({"provision_nodes": "gpu[01-02]"})
    wanted, _mistakes = wanted_of(confirm(chosen, cluster, record), cluster, record, {"trixie": IMAGE}, "")
    digest = wanted["gpu01"].digest

    def plan(seen: Seen, errors: dict[str, str] | None = None) -> Plan:
        look = Look({"gpu01": seen}, errors or {}, {}, {}, 100.0)
        return plan_of({"gpu01": wanted["gpu01"]}, look, (), lambda _progress, _now: True)

    assert plan(Seen()).new == ["gpu01"]
    assert plan(Seen(), {"gpu01": "cut"}).refused == {"gpu01": "cut"}
    assert "no run has recorded it" in plan(Seen(open="a" * 32)).refused["gpu01"]
    for state in ("armed", "started"):
        progress = Progress("gpu01", state, "a" * 32, digest)
        assert plan(Seen(progress, {"state": "armed"})).work["gpu01"] == progress
        for order in ("expired", "released"):
            assert plan(Seen(progress, {"state": order})).work["gpu01"].state == "planned"
    # The SSH host key of an order that was made before is not known.
    verified = Progress("gpu01", "verified", "a" * 32, digest)
    assert plan(Seen(verified, {"state": "armed"})).work["gpu01"] == Progress("gpu01", order="a" * 32)


def test_a_silent_slurm_has_resumed_nothing() -> None:
    for answer in ({}, {"failed": True, "msg": "no route."}, {"unreachable": True, "nodes": {}}):
        found = slurm_gate.unresumed(["gpu01"], answer)
        assert "not resumed in Slurm, which does not answer" in found["gpu01"]
    assert slurm_gate.unresumed(["gpu01"], {"nodes": {"gpu01": {"outcome": "resumed"}}}) == {}
    assert set(slurm_gate.unresumed(["gpu01"], {"nodes": {}})) == {"gpu01"}
