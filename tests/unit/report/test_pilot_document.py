"""The document of a pilot run: one entry for each kind of node, and no secret in any place."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.report import pilot_document
from ansible_collections.bedplate.cluster.plugins.plugin_utils.report.expected import package_patterns, table_findings
from ansible_collections.bedplate.cluster.plugins.plugin_utils.report.pilot_document import (
    LeakError,
    Run,
    document_of,
    pseudonyms_of,
)
from tests.unit.report.test_pseudonyms import SECRETS

H100 = "NVIDIA H100 80GB HBM3"


def result(gpus: int = 8, **system: str) -> dict[str, Any]:
    """Return what the module reports of a node."""
    cards = [
        {"address": f"0000:{number + 16:x}:00.0", "vendor": "0x10de", "device": "0x2330", "minor": number, "name": H100, "numa": 0}
        for number in range(gpus)
    ]  # fmt: skip
    return {
        "hardware": {
            "shape": {"sockets": 2, "cores_per_socket": 56, "threads_per_core": 2, "numa": [{"cores": "0-55"}]},
            "memory_mib": 2063690,
            "gpus": cards,
            "nics": [],
            "container": False,
            "problems": [],
        },
        "software": {
            "found": {
                "system": {"id": "ubuntu", "version_id": "24.04", "pretty_name": "x", "cmdline": "quiet", **system},
                "gpu": {
                    "gpus": [{"address": card["address"], "uuid": f"GPU-{number}", "ecc": True} for number, card in enumerate(cards)],
                    "nvswitches": [{"address": f"0000:a{number}:00.0", "device": "0x22a3"} for number in range(4)],
                    "driver": {"version": "580.126.09", "parameters": ["EnableGpuFirmware: 18"]},
                    "running_kernel": "6.8.0-90-generic",
                },
                "packages": [{"name": "libcublas-12-9", "version": "12.9.1.4-1"}],
                "sources": [{"path": "/etc/apt/sources.list", "lines": ["deb http://x/ubuntu noble main"]}],
                "dkms": ["nvidia 580.126.09 6.8.0-90-generic"],
            },
            "raw": [{"command": "nvidia-smi -L", "code": 0, "stdout": "GPU 0: x", "stderr": ""}],
            "unread": [],
            "names": {"host": ["gpu017"], "domain": ["west.corp"], "user": ["alice", "Bob Smith"], "serial": ["SN77AX"]},
        },
        "differences": [],
        "expected": {},
    }  # fmt: skip


NAMES = {"host": ["node-a-3", "ctl1.west.corp"], "serial": ["1652923002233", "To/Be 4711"], "secret": ["hunter2hunter"]}


def document(results: dict[str, Any]) -> dict[str, Any]:
    run = Run(results, NAMES)
    return document_of(run, pseudonyms_of(run))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every text."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in below:
        yield from leaves(one, (*path, key))
    if isinstance(value, str):
        yield path


def planted(path: tuple[Any, ...], text: str) -> dict[str, Any]:
    one = result(gpus=1)
    one["software"]["unread"] = [{"reader": "dkms", "text": "x"}]
    one["differences"] = [{"kind": "nic", "where": "w", "expected": "e", "found": "f"}]
    one["expected"] = {"model": "h100", "gpu_stack": {"os": "ubuntu-24.04", "kernel": "x"}}
    at: Any = one
    for key in path[:-1]:
        at = at[key]
    if path:
        at[path[-1]] = text
    return one


# Kinds of findings are words of the code, and names are what is redacted.
PATHS = [path for path in leaves(planted((), "")) if path[:2] != ("software", "names") and path[-1] != "kind"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: ".".join(map(str, path)))
def test_no_secret_is_in_the_document_wherever_it_was_found(path: tuple[Any, ...]) -> None:
    for kind, secret in SECRETS.items():
        one = planted(path, f"x {secret} y")
        text = json.dumps(document({"gpu017": one, "node-a-3": result()})).lower()
        assert secret.lower() not in text, kind


def test_a_key_that_a_node_made_is_redacted() -> None:
    one = result()
    one["software"]["found"]["gpu"]["driver"]["gpu017.west.corp"] = "x"
    assert "gpu017" not in json.dumps(document({"gpu017": one}))


def test_the_reason_of_a_node_that_did_not_answer_is_redacted() -> None:
    report = document(
        {
            "gpu017": result(),
            "gpu018.west.corp": {"unreachable": True, "msg": "ssh alice@gpu018.west.corp: 10.1.2.3 refused"},
        }
    )
    (row,) = report["not_read"]
    assert (row["unreachable"], "refused" in row["reason"]) == (True, True)
    assert [one for one in ("alice", "gpu018", "10.1.2.3") if one in json.dumps(report)] == []
    assert report["nodes"] == 2


def test_nodes_of_one_kind_share_an_entry_and_what_varies_is_listed() -> None:
    odd, other = result(), result(gpus=4)
    odd["software"]["found"]["gpu"]["gpus"][3]["ecc"] = False
    report = document({"gpu017": result(), "gpu018": odd, "gpu019": other})
    assert [len(kind["nodes"]) for kind in report["kinds"]] == [2, 1]
    (row,) = report["kinds"][0]["varying"]
    assert row["path"] == "found.gpu.gpus.3.ecc"
    assert [(one["value"], one["nodes"]) for one in row["values"]] == [
        (True, [report["kinds"][0]["nodes"][0]]),
        (False, [report["kinds"][0]["nodes"][1]]),
    ]


def test_a_package_keeps_a_version_that_looks_like_an_address() -> None:
    assert document({"gpu017": result()})["kinds"][0]["found"]["packages"] == [
        {"name": "libcublas-12-9", "version": "12.9.1.4-1"}
    ]


def test_a_known_name_in_the_version_of_a_sites_own_package_is_redacted() -> None:
    one = result()
    one["software"]["found"]["packages"] = [{"name": "libcublas-12-9", "version": "12.9.1.4-1.gpu017"}]
    (package,) = document({"node-a-1": one})["kinds"][0]["found"]["packages"]
    assert package["version"].startswith("12.9.1.4-1.<host-")


def test_tokens_of_the_kernel_that_the_table_does_not_know_are_redacted_with_their_words() -> None:
    found = document({"node-a-1": result(cmdline="quiet rescue-of-team iommu=pt ds=nocloud inst.kickstart=team7")})
    words = found["kinds"][0]["found"]["system"]["cmdline"].split()
    assert (words[0], words[2]) == ("quiet", "iommu=pt")
    assert [word.partition("=")[2].partition("-")[0] or word.partition("-")[0] for word in words[3:]] == ["<value"] * 2
    assert "team" not in found["kinds"][0]["found"]["system"]["cmdline"]


def test_an_equal_difference_of_several_nodes_is_one_row_with_all_of_them() -> None:
    results = {f"n{number}": result() for number in range(3)}
    for one in results.values():
        one["software"]["unread"] = [{"reader": "dkms", "text": "weird on n1"}]
    report = document(results)
    (row,) = report["kinds"][0]["differences"]
    assert (row["kind"], row["where"], len(row["nodes"]), report["differences"]) == ("unread", "dkms", 3, 1)
    assert "n1" not in row["found"].split()


def test_a_value_that_is_still_there_stops_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run({"gpu017": result(pretty_name="made for gpu017")}, NAMES)
    pseudonyms = pseudonyms_of(run)
    monkeypatch.setattr(pilot_document, "_redacted", lambda value, _pseudonyms, key="": copy.deepcopy(value))
    with pytest.raises(LeakError, match="a known host name"):
        document_of(run, pseudonyms)


def rows(expected: dict[str, Any], one: dict[str, Any]) -> list[tuple[str, str, str]]:
    found = table_findings(expected, one["software"]["found"], one["hardware"])
    return [(row.kind, row.where, row.found) for row in found]


def test_a_node_that_the_table_knows_has_no_difference() -> None:
    assert rows({"model": "h100"}, result()) == []
    assert rows({}, result()) == []


def test_what_the_table_does_not_know_is_a_difference() -> None:
    one = result(version_id="27.04")
    one["software"]["found"]["gpu"]["driver"]["version"] = "999.1-beta"
    one["software"]["found"]["gpu"]["nvswitches"] = []
    for card in one["hardware"]["gpus"][:2]:
        card["name"] = "NVIDIA R100"
    assert rows({"model": "h200"}, one) == [
        ("table-system", "operating system", "ubuntu 27.04"),
        ("table-model", "GPU model", "NVIDIA R100, PCI device 0x10de:0x2330"),
        ("profile-model", "GPU model", "unknown, h100"),
        ("table-driver", "driver version", "999.1-beta"),
        ("table-platform", "NVSwitches", "no NVSwitch on the PCI bus"),
    ]


def test_a_board_without_one_of_its_nvswitches_is_a_difference() -> None:
    one = result()
    del one["software"]["found"]["gpu"]["nvswitches"][0]
    assert rows({}, one) == [("table-platform", "NVSwitches", "3 (0000:a1:00.0, 0000:a2:00.0, 0000:a3:00.0)")]


def test_the_versions_of_all_packages_of_the_table_are_read() -> None:
    # DCGM's proprietary modules, and what compiles the open kernel module.
    assert {"datacenter-gpu-manager-4-proprietary", "g++"} <= set(package_patterns())


def test_a_driver_below_the_models_least_is_a_difference() -> None:
    one = result()
    for card in one["hardware"]["gpus"]:
        card["name"] = "NVIDIA B200"
    one["software"]["found"]["gpu"]["driver"]["version"] = "570.124.06"
    assert ("table-driver", "lowest driver of b200", "570.124.06") in rows({}, one)


def test_the_packages_are_those_of_the_table() -> None:
    found = package_patterns()
    assert {
        "nvidia-kernel-open-dkms",
        "kmod-nvidia-open-dkms",
        "nvidia-fabricmanager-*",
        "libnccl2",
        "nvidia-container-toolkit",
    } <= set(found)
    assert not [one for one in found if "{" in one or " " in one]
