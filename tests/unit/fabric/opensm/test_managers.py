"""The subnet managers of a cluster file as they are deployed: files, units, the proof, and what is asked for afterwards."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core import guid_record
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm import managers
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan import buildable, cluster_plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.requested_proofs import of_managers
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.simulated_fabric import simulated_plan
from tests.kit.fabric_files import judged
from tests.unit.fabric.messages import check_messages

ROOT = Path(__file__).parents[4]
SCENARIO = ROOT / "molecule/opensm"
FILE = """
plugin: bedplate.cluster.racks
site: s
cluster: rails
networks: {management: {cidr: 10.0.0.0/24}}
profiles:
  gpu: {sockets: 1, cores_per_socket: 2, memory_mib: 1024, nics: [{name: mlx5_0, rail: 0}, {name: mlx5_1, rail: 1}]}
racks:
  r1: {nodes: "n[1-2]", profile: gpu, leaf: su1}
  r2: {nodes: "n[3-4]", profile: gpu, leaf: su2}
hosts: {ctl1: {address: 10.0.0.200}}
services: {controllers: [n1], subnet_managers: [n3, n1]}
partitions: {gpu: {nodes: all}}
fabric: {kind: rail-only, rails: 2, spines: "s[1-4]", speed: HDR}
"""


def cluster(directory: Path, text: str = FILE, learned: bool = True) -> Cluster:
    """Return a cluster whose GUIDs are on record, but where `learned` is false."""
    path = directory / "rails.bedplate.yml"
    path.write_text(text)
    found = load(str(path))
    if learned:
        full = simulated_plan(cluster_plan.plan_of(found))
        guid_record.path_of(found.path).write_text(guid_record.text_of(guid_record.record_of(full)))
    return found


def texts(found: list[dict[str, str]]) -> dict[str, str]:
    return {entry["path"]: entry["content"] for entry in found}


def options(text: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in text.splitlines())


def test_each_plane_has_an_opensm_with_files_logs_and_a_port_of_its_own(tmp_path: Path):
    read = cluster(tmp_path)
    found = texts(managers.files(read, "n1", {}))
    guids = json.loads((tmp_path / "rails.guids.json").read_text())
    for number in (0, 1):
        conf = options(found[f"/etc/opensm/rail{number}/opensm.conf"])
        assert conf["guid"] == guids[f"n1 mlx5_{number}"]["port"]
        assert conf["log_file"] == f"/var/log/opensm/rail{number}/opensm.log"
        named = [value for value in conf.values() if value.startswith("/etc/")]
        assert set(named) <= set(found)
        others = [name for name in guids if name.endswith(f"mlx5_{1 - number}")]
        files = {Path(path).name: text for path, text in found.items() if f"/rail{number}/" in path}
        text = "".join(judged(managers.infiniband_plan(read), files, f"rail{number}").values())
        assert not [name for name in others if guids[name]["port"] in text]


def test_the_first_host_is_master_in_every_plane(tmp_path: Path):
    found = cluster(tmp_path)
    for host, priority, expected in (("n3", "15", "master"), ("n1", "14", "standby")):
        confs = [
            options(text)
            for path, text in texts(managers.files(found, host, {})).items()
            if path.endswith("opensm.conf")
        ]
        assert [conf["sm_priority"] for conf in confs] == [priority, priority]
        assert [one["expected"] for one in managers.facts_request(found, host, {})] == [expected, expected]


def test_a_change_restarts_opensm_unless_it_reads_the_file_again(tmp_path: Path):
    found = cluster(tmp_path)
    written = set(texts(managers.files(found, "n1", {})))
    units = managers.units(found, "n1", {}, {"nice.conf": "[Service]\n"})[1:]
    assert [unit["name"] for unit in units] == ["opensm-plane@rail0.service", "opensm-plane@rail1.service"]
    reloaded = {path for unit in units for path in unit["reload_after"]}
    restarted = {path for unit in units for path in unit["restart_after"]}
    assert reloaded == {path for path in written if path.endswith("partitions.conf")}
    assert written <= reloaded | restarted
    assert not reloaded & restarted
    assert "/etc/systemd/system/opensm-plane@rail0.service.d/nice.conf" in restarted
    assert units[1]["reload_command"][-1] == "opensm-plane@rail1.service"


def test_debians_own_opensm_is_stopped_as_ours_starts_and_not_before(tmp_path: Path):
    assert managers.units(cluster(tmp_path), "n1", {}, {})[0] == {
        "name": "opensm.service",
        "masked": True,
        "state": "stopped",
    }
    for task in yaml.safe_load((ROOT / "roles/opensm/tasks/packages.yml").read_text()):
        assert not [one for one in task.get("bedplate.cluster.units", {}).get("units", ()) if "state" in one]


def test_an_instance_of_a_plane_that_is_called_otherwise_now_is_stopped(tmp_path: Path):
    there = ["opensm-plane@rail0.service", "opensm-plane@old.service"]
    units = {one["name"]: one for one in managers.units(cluster(tmp_path), "n1", {}, {}, there)}
    assert units["opensm-plane@old.service"] == {
        "name": "opensm-plane@old.service",
        "enabled": False,
        "state": "stopped",
        "drop_ins": {},
    }
    assert [name for name, one in units.items() if one["state"] == "started"] == [
        "opensm-plane@rail0.service",
        "opensm-plane@rail1.service",
    ]


def test_choices_are_in_the_files_and_in_what_is_asked_for(tmp_path: Path):
    given = {"routing_engines": ["updn"], "no_fallback": True, "options": {"max_wire_smps": 64, "qos": False}}
    found = cluster(tmp_path)
    conf = options(texts(managers.files(found, "n1", given))["/etc/opensm/rail0/opensm.conf"])
    assert (conf["routing_engine"], conf["max_wire_smps"], conf["qos"]) == ("updn,no_fallback", "64", "FALSE")
    assert [one.engine for one in managers.planned_managers(found, given)] == ["updn", "updn"]
    assert [one.engine for one in managers.planned_managers(found, {})] == ["ftree", "ftree"]


CHOICES: dict[str, dict[str, Any]] = {
    "option that is misspelt": {"options": {"max_wire_smp": 64}},
    "option without a value": {"options": {"max_wire_smps": None}},
    "option of the plan": {"options": {"sm_priority": 3}},
    "engine that is misspelt": {"routing_engines": ["ftre"]},
    "choice that is none": {"engines": ["ftree"]},
}


@pytest.mark.parametrize("name", CHOICES)
def test_a_wrong_choice_is_refused(tmp_path: Path, name: str):
    with pytest.raises(ValueError) as error:  # noqa: PT011 - which one it is, is in the snapshot
        managers.files(cluster(tmp_path), "n1", CHOICES[name])
    check_messages(f"managers: {name}", error.value)


def test_a_key_is_read_by_root_alone_and_is_not_in_what_is_proved(tmp_path: Path):
    found = cluster(tmp_path)
    given = {"options": {"sm_key": "0x1234567890", "max_wire_smps": 8}}
    conf = [one for one in managers.files(found, "n1", given) if one.get("sensitive")]
    assert [(one["path"], one["mode"]) for one in conf] == [
        (f"/etc/opensm/rail{number}/opensm.conf", "0600") for number in (0, 1)
    ]
    assert all("sm_key 0x1234567890\n" in one["content"] for one in conf)
    assert not [one for one in managers.files(found, "n1", {}) if "sensitive" in one]
    proved = repr(managers.master_files(found, given))
    assert "0x1234567890" not in proved
    assert "max_wire_smps 8" in proved


def test_a_large_fabric_has_more_time_for_its_proof(tmp_path: Path):
    few = of_managers(cluster(tmp_path), {})[0].seconds
    many = of_managers(cluster(tmp_path, FILE.replace("n[3-4]", "n[3-18]")), {})[0].seconds
    assert (few, many) == (300 + 4 * 2 // 4, 300 + 18 * 2 // 4)


def test_guids_that_are_not_on_record_are_named_once_with_what_to_do(tmp_path: Path):
    with pytest.raises(managers.ManagersError) as error:
        managers.files(cluster(tmp_path, learned=False), "n1", {})
    said = str(error.value).split("\n")
    assert len(said) == len(set(said))
    assert all("fabric_compare.yml -e fabric_record=true" in line for line in said)
    check_messages("managers: GUIDs that are not on record", error.value)


def test_a_host_without_an_adapter_and_a_fabric_without_opensm_are_refused(tmp_path: Path):
    with pytest.raises(managers.ManagersError) as error:
        managers.files(cluster(tmp_path, FILE.replace("[n3, n1]", "[n3, ctl1]")), "ctl1", {})
    check_messages("managers: a host without an adapter", error.value, tmp_path)
    with pytest.raises(managers.ManagersError) as error:
        managers.files(
            cluster(
                tmp_path,
                FILE.replace("kind: rail-only", "technology: ethernet, kind: leaf-spine").replace("rails: 2, ", ""),
                learned=False,
            ),
            "n1",
            {},
        )
    check_messages("managers: a fabric of Ethernet", error.value, tmp_path)


def test_what_no_opensm_could_manage_is_refused_before_any_machine_is_touched(tmp_path: Path):
    def key(text: str, learned: bool = False) -> str:
        (wrong,) = found = buildable.fabric_mistakes(cluster(tmp_path, text, learned))
        wrongs.extend(found)
        return wrong.split(": ")[1]

    wrongs: list[str] = []
    assert key(FILE.replace("[n3, n1]", "[n3, ctl1]"), learned=True) == "services.subnet_managers[1]"
    ethernet = FILE.replace("kind: rail-only", "technology: ethernet, kind: leaf-spine").replace("rails: 2, ", "")
    assert key(ethernet) == "services.subnet_managers"
    (bare, _fabric, _end) = FILE.partition("fabric: ")
    for text in (bare, re.sub(r", nics: .*\]", "", FILE)):
        assert key(text) == "services.subnet_managers"
    check_messages("managers: what no OpenSM could manage", wrongs, tmp_path)
    assert buildable.fabric_mistakes(cluster(tmp_path)) == []
    assert (
        buildable.fabric_mistakes(cluster(tmp_path, bare.replace(", subnet_managers: [n3, n1]", ""), learned=False))
        == []
    )


def test_a_plane_without_a_manager_and_a_standby_that_lacks_one_plane_are_findings(tmp_path: Path):
    found = cluster(tmp_path)
    whole = managers.infiniband_plan(found)
    assert managers.missing_managers(found, whole) == []
    whole.managers = [one for one in whole.managers if one.hca != "n1 mlx5_1"]
    (finding,) = managers.missing_managers(found, whole)
    assert (finding.severity, finding.where) == ("warning", "n1, plane rail1")
    whole.managers = [one for one in whole.managers if one.hca == "n3 mlx5_0"]
    assert [(one.severity, one.where) for one in managers.missing_managers(found, whole)] == [
        ("warning", "n1, plane rail0"),
        ("error", "n3, plane rail1"),
        ("error", "n1, plane rail1"),
    ]


def test_nobody_asks_ports_whose_guids_are_not_on_record(tmp_path: Path):
    for ask in (
        lambda found: managers.facts_request(found, "n1", {}),
        lambda found: managers.planned_managers(found, {}),
    ):
        with pytest.raises(managers.ManagersError) as error:
            ask(cluster(tmp_path, learned=False))
        check_messages("managers: ports whose GUIDs are not on record", error.value, tmp_path)


def test_the_proof_is_of_what_is_deployed_and_changes_with_it(tmp_path: Path):
    found = cluster(tmp_path)
    (proof,) = of_managers(found, {})
    master = texts(managers.files(found, "n3", {}))
    for plane, files in proof.files.items():
        assert {f"/etc/opensm/{plane}/{name}": text for name, text in files.items()}.items() <= master.items()
    assert list(proof.files) == ["rail0", "rail1"] == proof.plan.planes
    assert (proof.tree, proof.blocks) == (None, None)
    digest = managers.proof_digest(found, {})
    assert managers.proof_digest(found, {}) == digest
    assert managers.proof_digest(found, {"no_fallback": True}) != digest
    assert managers.proof_digest(found, {"options": {"sm_key": "0x1"}}) == digest
    other = cluster(tmp_path, FILE.replace("n[3-4]", "n[3-5]"))
    assert managers.proof_digest(other, {}) != digest


def test_what_is_asked_for_covers_every_set_of_pkeys(tmp_path: Path):
    (asked, _other) = managers.facts_request(cluster(tmp_path), "n1", {})
    (wanted, _other) = managers.planned_managers(cluster(tmp_path), {})
    assert set(asked["ports"]) == set(wanted.pkeys) <= set(wanted.names)
    assert {tuple(keys) for keys in wanted.pkeys.values()} == {(0xFFFF,)}
    assert asked["guid"] in wanted.names


def test_the_record_of_the_scenario_is_that_of_its_simulated_fabric(tmp_path: Path):
    path = shutil.copy(SCENARIO / "opensm.bedplate.yml", tmp_path)
    full = simulated_plan(cluster_plan.plan_of(load(str(path))))
    assert (SCENARIO / "opensm.guids.json").read_text() == guid_record.text_of(guid_record.record_of(full))
