"""The subnet managers of a cluster file as they are deployed: files, units, the proof, and what is asked for afterwards."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric import opensm
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.plan_data import from_data
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.simulation import simulated_plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric import managers, plan, record, verdict

ROOT = Path(__file__).parents[3]
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
        full = simulated_plan(plan.plan_of(found))
        record.path_of(found.path).write_text(record.text_of(record.record_of(full)))
    return found


def texts(found: list[dict[str, str]]) -> dict[str, str]:
    return {entry["path"]: entry["content"] for entry in found}


def options(text: str) -> dict[str, str]:
    return dict(line.split(" ", 1) for line in text.splitlines())


def test_each_plane_has_an_opensm_with_files_logs_and_a_port_of_its_own(tmp_path: Path):
    found = texts(managers.files(cluster(tmp_path), "n1", {}))
    guids = json.loads((tmp_path / "rails.guids.json").read_text())
    for number in (0, 1):
        conf = options(found[f"/etc/opensm/rail{number}/opensm.conf"])
        assert conf["guid"] == guids[f"n1 mlx5_{number}"]["port"]
        assert conf["log_file"] == f"/var/log/opensm/rail{number}/opensm.log"
        named = [value for value in conf.values() if value.startswith("/etc/")]
        assert set(named) <= set(found)
        others = [name for name in guids if name.endswith(f"mlx5_{1 - number}")]
        text = "".join(text for path, text in found.items() if f"/rail{number}/" in path)
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
        assert [one["expected"] for one in managers.asked(found, host, {})] == [expected, expected]


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
    assert [one.engine for one in managers.wanted(found, given)] == ["updn", "updn"]
    assert [one.engine for one in managers.wanted(found, {})] == ["ftree", "ftree"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"options": {"max_wire_smp": 64}}, "did you mean max_wire_smps?"),
        ({"options": {"max_wire_smps": None}}, "option max_wire_smps is ''; allowed: text on one line"),
        ({"options": {"sm_priority": 3}}, "the order of services.subnet_managers makes it"),
        ({"routing_engines": ["ftre"]}, "routing engine 'ftre' is not known to OpenSM"),
        (
            {"engines": ["ftree"]},
            "engines is nothing that can be chosen; allowed: routing_engines, no_fallback, options",
        ),
    ],
)
def test_a_wrong_choice_is_refused(tmp_path: Path, given: dict[str, Any], said: str):
    with pytest.raises(ValueError, match=re.escape(said)):
        managers.files(cluster(tmp_path), "n1", given)


def test_a_key_is_read_by_root_alone_and_is_not_in_what_is_proved(tmp_path: Path):
    found = cluster(tmp_path)
    given = {"options": {"sm_key": "0x1234567890", "max_wire_smps": 8}}
    conf = [one for one in managers.files(found, "n1", given) if one.get("sensitive")]
    assert [(one["path"], one["mode"]) for one in conf] == [
        (f"/etc/opensm/rail{number}/opensm.conf", "0600") for number in (0, 1)
    ]
    assert all("sm_key 0x1234567890\n" in one["content"] for one in conf)
    assert not [one for one in managers.files(found, "n1", {}) if "sensitive" in one]
    proof = json.dumps(managers.proof(found, given))
    assert "0x1234567890" not in proof
    assert "max_wire_smps 8" in proof


def test_a_large_fabric_has_more_time_for_its_proof(tmp_path: Path):
    few = managers.proof(cluster(tmp_path), {})["timeout"]
    many = managers.proof(cluster(tmp_path, FILE.replace("n[3-4]", "n[3-18]")), {})["timeout"]
    assert many == few + 14 * 2 // 4
    tasks = yaml.safe_load((ROOT / "roles/opensm/tasks/validate.yml").read_text())
    assert "opensm_prove_timeout or __opensm_proof.timeout" in str(tasks)


def test_guids_that_are_not_on_record_are_named_once_with_what_to_do(tmp_path: Path):
    with pytest.raises(ValueError, match="needs port GUIDs") as raised:
        managers.files(cluster(tmp_path, learned=False), "n1", {})
    said = str(raised.value).split("\n")
    assert len(said) == len(set(said))
    assert all("fabric_compare.yml -e fabric_record=true" in line for line in said)


def test_a_host_without_an_adapter_and_a_fabric_without_opensm_are_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="ctl1 is to run OpenSM and has no HCA in the plan"):
        managers.files(cluster(tmp_path, FILE.replace("[n3, n1]", "[n3, ctl1]")), "ctl1", {})
    with pytest.raises(ValueError, match="technology is ethernet, which has no subnet managers"):
        managers.files(
            cluster(
                tmp_path,
                FILE.replace("kind: rail-only", "technology: ethernet, kind: leaf-spine").replace("rails: 2, ", ""),
                learned=False,
            ),
            "n1",
            {},
        )


def test_what_no_opensm_could_manage_is_refused_before_any_machine_is_touched(tmp_path: Path):
    (wrong,) = verdict.mistakes(cluster(tmp_path, FILE.replace("[n3, n1]", "[n3, ctl1]")))
    assert "services.subnet_managers[1]: ctl1 has no HCA in the plan" in wrong
    assert "state hosts.ctl1.nics (fabric.leaves names switches for such hosts alone)" in wrong
    ethernet = FILE.replace("kind: rail-only", "technology: ethernet, kind: leaf-spine").replace("rails: 2, ", "")
    (wrong,) = verdict.mistakes(cluster(tmp_path, ethernet, learned=False))
    assert "services.subnet_managers: n3, n1: fabric.technology is ethernet" in wrong
    (bare, _fabric, _end) = FILE.partition("fabric: ")
    for text, lacks in (
        (bare, "there is no section `fabric`"),
        (re.sub(r", nics: .*\]", "", FILE), "no profile of a node has `nics`"),
    ):
        (wrong,) = verdict.mistakes(cluster(tmp_path, text, learned=False))
        assert "services.subnet_managers: n3, n1 cannot run OpenSM, whose files cannot be made" in wrong
        assert lacks in wrong
    assert verdict.mistakes(cluster(tmp_path)) == []
    assert verdict.mistakes(cluster(tmp_path, bare.replace(", subnet_managers: [n3, n1]", ""), learned=False)) == []


def test_a_plane_without_a_manager_and_a_standby_that_lacks_one_plane_are_findings(tmp_path: Path):
    found = cluster(tmp_path)
    whole = managers.plan_of(found)
    assert managers.absent(found, whole) == []
    whole.managers = [one for one in whole.managers if one.hca != "n1 mlx5_1"]
    (finding,) = managers.absent(found, whole)
    assert (finding.severity, finding.where) == ("warning", "n1, plane rail1")
    whole.managers = [one for one in whole.managers if one.hca == "n3 mlx5_0"]
    assert [(one.severity, one.where) for one in managers.absent(found, whole)] == [
        ("warning", "n1, plane rail0"),
        ("error", "n3, plane rail1"),
        ("error", "n1, plane rail1"),
    ]


def test_nobody_asks_ports_whose_guids_are_not_on_record(tmp_path: Path):
    for ask in (lambda found: managers.asked(found, "n1", {}), lambda found: managers.wanted(found, {})):
        with pytest.raises(
            ValueError, match=r"GUIDs are not on record.* playbooks/fabric_compare.yml -e fabric_record=true"
        ):
            ask(cluster(tmp_path, learned=False))


def test_a_file_that_opensm_would_misread_is_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    right = opensm.files
    monkeypatch.setattr(opensm, "files", lambda *given: {**right(*given), opensm.ROOTS: "0x01\n"})
    with pytest.raises(ValueError, match=r"root_guid.conf.*\[P7\]"):
        managers.files(cluster(tmp_path), "n1", {})


def test_the_proof_is_of_what_is_deployed_and_changes_with_it(tmp_path: Path):
    found = cluster(tmp_path)
    proof = managers.proof(found, {})
    master = texts(managers.files(found, "n3", {}))
    for one in proof["planes"]:
        assert {
            f"/etc/opensm/{one['plane']}/{name}": text for name, text in one["files"].items()
        }.items() <= master.items()
    assert [one["plane"] for one in proof["planes"]] == ["rail0", "rail1"] == from_data(proof["plan"]).planes
    assert managers.proof(found, {})["digest"] == proof["digest"]
    assert managers.proof(found, {"no_fallback": True})["digest"] != proof["digest"]
    other = cluster(tmp_path, FILE.replace("n[3-4]", "n[3-5]"))
    assert managers.proof(other, {})["digest"] != proof["digest"]


def test_what_is_asked_for_covers_every_set_of_pkeys(tmp_path: Path):
    (asked, _other) = managers.asked(cluster(tmp_path), "n1", {})
    (wanted, _other) = managers.wanted(cluster(tmp_path), {})
    assert set(asked["ports"]) == set(wanted.pkeys) <= set(wanted.names)
    assert {tuple(keys) for keys in wanted.pkeys.values()} == {(0xFFFF,)}
    assert asked["guid"] in wanted.names


def test_the_record_of_the_scenario_is_that_of_its_simulated_fabric(tmp_path: Path):
    path = shutil.copy(SCENARIO / "opensm.bedplate.yml", tmp_path)
    full = simulated_plan(plan.plan_of(load(str(path))))
    assert (SCENARIO / "opensm.guids.json").read_text() == record.text_of(record.record_of(full))
