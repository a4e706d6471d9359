"""What the role brings to a node, and what its variables may not ask for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.file_entries import mistakes as file_mistakes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.rdma import rdma_packages
from ansible_collections.bedplate.cluster.plugins.plugin_utils.rdma.rdma_part import RdmaError
from tests.kit import sentences

from .machine import FILE, deployed

SENTENCES = Path(__file__).parent / "sentences.txt"

NAMES = "/etc/udev/rules.d/60-rdma-persistent-naming.rules"
PINS = "/etc/apt/preferences.d/bedplate-rdma.pref"
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nabc\n-----END PGP PUBLIC KEY BLOCK-----\n"
UNNAMED = FILE
for _pci in ("0000:3b:00.0", "0000:5e:00.0", "0000:86:00.0"):
    UNNAMED = UNNAMED.replace(f', pci: "{_pci}"', "")


def contents(told: dict[str, Any]) -> dict[str, str]:
    return {entry["path"]: entry["content"] for entry in told["files"] if "content" in entry}


def test_every_nic_has_its_name_address_and_mtu(tmp_path: Path) -> None:
    told = deployed(tmp_path)
    nics = told["expected"]["settings"]["nics"]
    assert [(nic["name"], nic["pci"], nic["address"], nic["mtu"], nic["shared"]) for nic in nics] == [
        ("mlx5_0", "0000:3b:00.0", "10.9.0.11/23", 9000, True),
        ("mlx5_1", "0000:5e:00.0", "10.9.1.11/23", 9000, True),
        ("mlx5_2", "0000:86:00.0", "", 0, False),
    ]
    assert json.loads(contents(told)["/etc/bedplate/rdma.json"]) == told["expected"]["settings"]


STORAGE = FILE.replace("  rails: {", "  storage: {cidr: 10.60.0.0/16}\n  rails: {").replace(
    '{name: mlx5_2, pci: "0000:86:00.0"}', '{name: mlx5_2, pci: "0000:86:00.0", network: storage}'
)


def test_a_storage_nic_has_an_address_and_the_mtu_and_is_no_rail(tmp_path: Path) -> None:
    told = deployed(tmp_path, STORAGE)
    nic = told["expected"]["settings"]["nics"][2]
    assert (nic["name"], nic["address"], nic["mtu"], nic["shared"], nic["rail"]) == (
        "mlx5_2",
        "10.60.0.11/16",
        9000,
        True,
        False,
    )
    assert "table" not in nic
    files = contents(told)
    # Other programs leave it alone, and NCCL does not use it.
    assert "0000:86:00.0" in files["/etc/udev/rules.d/62-bedplate-unmanaged.rules"]
    assert "/etc/systemd/network/05-bedplate-mlx5_2.network" in files
    assert told["expected"]["nccl"]["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1"


def test_a_storage_nic_on_infiniband_keeps_the_drivers_mtu(tmp_path: Path) -> None:
    told = deployed(tmp_path, STORAGE.replace("technology: ethernet", "technology: infiniband"))
    nic = told["expected"]["settings"]["nics"][2]
    assert (nic["address"], nic["mtu"]) == ("10.60.0.11/16", 0)


OTHER = STORAGE.replace("network: storage}", "network: storage, fabric: storage, rail: 0}")


def test_infiniband_beside_ethernet_has_the_modules_of_both_and_its_own_mtu(tmp_path: Path) -> None:
    for first, second, mtus in (("ethernet", "infiniband", [9000, 9000, 0]), ("infiniband", "ethernet", [0, 0, 9000])):
        fabrics = (
            f"fabrics:\n  compute: {{spines: s, technology: {first}}}\n  storage: {{spines: t, technology: {second}}}"
        )
        text = OTHER.replace("fabric: {spines: spine, technology: ethernet}", fabrics)
        expected = deployed(tmp_path, text)["expected"]
        assert [nic["mtu"] for nic in expected["settings"]["nics"]] == mtus
        assert {"ib_ipoib", "ib_uverbs"} < set(expected["modules"])
        # The rails of addresses and NCCL, and lossless priorities, are those of the first fabric.
        assert expected["nccl"]["NCCL_IB_HCA"] == "=mlx5_0,mlx5_1"
        assert [nic["rail"] for nic in expected["settings"]["nics"]] == [True, True, False]
        assert expected["settings"]["nics"][2]["address"] == "10.60.0.11/16"
        assert bool(expected["settings"]["roce"]) == (first == "ethernet")
        stated = deployed(tmp_path, text, mtu=4200)["expected"]["settings"]["nics"]
        assert [nic["mtu"] for nic in stated] == [4200, 4200, mtus[2]]


def test_names_by_the_record_of_another_fabric(tmp_path: Path) -> None:
    fabrics = "fabrics:\n  compute: {spines: s}\n  storage: {spines: t}"
    text = UNNAMED.replace("{name: mlx5_2}", "{name: mlx5_2, fabric: storage}")
    (tmp_path / "c.storage.guids.json").write_text(json.dumps({"gpu1 mlx5_2": {"node": "0xc42a1030065d1a2"}}))
    nics = deployed(tmp_path, text.replace("fabric: {spines: spine, technology: ethernet}", fabrics))["expected"][
        "settings"
    ]["nics"]
    assert [nic["guid"] for nic in nics] == ["", "", "0c42a1030065d1a2"]


ROUTED = FILE.replace(
    "  rails: {cidr: 10.9.0.0/23, rails: 0-1}\n",
    "  a: {cidr: 10.9.0.0/24, rails: 0, gateway: 10.9.0.1, routes: [10.48.0.0/16]}\n"
    "  b: {cidr: 10.9.1.0/24, rails: 1, gateway: 10.9.1.254}\n",
)


def test_a_rail_whose_network_has_a_gateway_has_a_table_and_routes(tmp_path: Path) -> None:
    nics = deployed(tmp_path, ROUTED)["expected"]["settings"]["nics"]
    keys = ("address", "gateway", "table", "routes", "shared")
    assert [[nic.get(key) for key in keys] for nic in nics] == [
        ["10.9.0.11/24", "10.9.0.1", 4200, ["10.9.1.0/24", "10.48.0.0/16"], True],
        ["10.9.1.11/24", "10.9.1.254", 4201, ["10.9.0.0/24"], True],
        ["", None, None, None, False],
    ]


def test_a_rail_without_a_gateway_is_not_routed_and_not_behind_that_of_others(tmp_path: Path) -> None:
    told = deployed(tmp_path, ROUTED.replace(", gateway: 10.9.1.254", ""))
    first, second, _third = told["expected"]["settings"]["nics"]
    assert first["routes"] == ["10.48.0.0/16"]
    assert not {"gateway", "table", "routes"}.intersection(second)


def test_an_address_of_a_variable_has_no_route(tmp_path: Path) -> None:
    rails = [{"name": "mlx5_0", "rail": 0, "address": "10.77.0.1/24"}]
    (nic,) = deployed(tmp_path, ROUTED, rails=rails)["expected"]["settings"]["nics"]
    assert (nic["address"], "table" in nic, nic["shared"]) == ("10.77.0.1/24", False, False)


def test_roce_says_the_same_to_the_nic_to_rdma_cm_and_to_nccl(tmp_path: Path) -> None:
    told = deployed(tmp_path, dscp=34, priority=4)
    assert told["expected"]["settings"]["roce"] == {
        "tos": 138,
        "dscp": 34,
        "priority": 4,
        "cnp_dscp": 48,
        "cnp_priority": 6,
        "retransmission": None,
    }
    assert contents(told)["/etc/nccl.conf"].splitlines()[1:] == ["NCCL_IB_HCA==mlx5_0,mlx5_1", "NCCL_IB_TC=138"]


def test_without_lossless_priorities_nccl_has_no_class(tmp_path: Path) -> None:
    told = deployed(tmp_path, lossless=False)
    assert told["expected"]["settings"]["roce"] is None
    assert told["expected"]["nccl"] == {"NCCL_IB_HCA": "=mlx5_0,mlx5_1"}


def test_infiniband_gets_ipoib_and_no_priorities(tmp_path: Path) -> None:
    told = deployed(tmp_path, FILE.replace("ethernet", "infiniband"), modules=["nvidia-peermem"])
    assert told["expected"]["settings"]["roce"] is None
    assert {nic["mtu"] for nic in told["expected"]["settings"]["nics"]} == {0}
    modules = ["ib_umad", "ib_uverbs", "ib_ipoib", "rdma_cm", "rdma_ucm", "nvidia-peermem"]
    assert contents(told)["/etc/modules-load.d/bedplate-rdma.conf"].split() == modules
    unit = contents(told)["/etc/systemd/system/bedplate-rdma.service"]
    assert f"ExecStartPre=-/sbin/modprobe --all {' '.join(modules)}\n" in unit


def test_nccls_file_may_be_somebody_elses_or_have_more(tmp_path: Path) -> None:
    assert "/etc/nccl.conf" not in contents(deployed(tmp_path, nccl_manage=False))
    assert "NCCL_DEBUG=WARN\n" in contents(deployed(tmp_path, nccl={"NCCL_DEBUG": "WARN"}))["/etc/nccl.conf"]


def test_nccl_connects_by_the_interfaces_that_the_site_names(tmp_path: Path) -> None:
    told = deployed(tmp_path, nccl_socket_interfaces=["eno1", "bond0.40"])
    assert "NCCL_SOCKET_IFNAME==eno1,bond0.40\n" in contents(told)["/etc/nccl.conf"]
    assert told["expected"]["nccl"]["NCCL_SOCKET_IFNAME"] == "=eno1,bond0.40"
    assert "NCCL_SOCKET_IFNAME" not in contents(deployed(tmp_path))["/etc/nccl.conf"]


@pytest.mark.parametrize(
    ("choices", "name"),
    [
        ({"nccl_socket_interfaces": ["=eno1"]}, "rdma_nccl_socket_interfaces"),
        ({"nccl_socket_interfaces": ["^docker"]}, "rdma_nccl_socket_interfaces"),
        ({"nccl_socket_interfaces": ["a" * 16]}, "rdma_nccl_socket_interfaces"),
        ({"nccl_socket_interfaces": ["eno1"], "nccl_manage": False}, "rdma_nccl_socket_interfaces"),
        ({"nccl_socket_interfaces": ["eno1"], "nccl": {"NCCL_SOCKET_IFNAME": "eth"}}, "rdma_nccl"),
    ],
)
def test_interfaces_that_nccl_could_not_match_are_refused(tmp_path: Path, choices: dict[str, Any], name: str) -> None:
    with pytest.raises(RdmaError) as caught:
        deployed(tmp_path, **choices)
    (line,) = str(caught.value).splitlines()
    assert line.partition(":")[0] == name


def test_names_by_pci_address_come_with_the_device(tmp_path: Path) -> None:
    lines = contents(deployed(tmp_path))[NAMES].splitlines()
    assert lines[1:5] == [
        'ACTION!="add", GOTO="bedplate_end"',
        'SUBSYSTEM!="infiniband", GOTO="bedplate_end"',
        'KERNELS=="0000:3b:00.0", PROGRAM="rdma_rename %k NAME_FIXED mlx5_0", GOTO="bedplate_end"',
        'KERNELS=="0000:3b:00.0", GOTO="bedplate_end"',
    ]
    # A NIC that the file does not know does not keep a name that it may want.
    assert lines[-2:] == ['PROGRAM="rdma_rename %k NAME_FALLBACK"', 'LABEL="bedplate_end"']


def test_names_by_the_guid_on_record(tmp_path: Path) -> None:
    guids = {
        f"gpu1 mlx5_{one}": {"node": f"0xc42a1030065d1a{one}", "port": f"0xc42a1030065d1a{one}"} for one in range(3)
    }
    (tmp_path / "c.guids.json").write_text(json.dumps(guids))
    told = deployed(tmp_path, UNNAMED)
    assert told["expected"]["settings"]["nics"][1]["guid"] == "0c42a1030065d1a1"
    assert 'ATTR{node_guid}=="0c42:a103:0065:d1a1", PROGRAM="rdma_rename %k NAME_FIXED mlx5_1"' in contents(told)[NAMES]


def test_the_kernels_names_stay_where_the_file_has_such_and_does_not_say_whose(tmp_path: Path) -> None:
    assert 'PROGRAM="rdma_rename %k NAME_KERNEL"' in contents(deployed(tmp_path, UNNAMED))[NAMES]
    text = UNNAMED.replace("mlx5_0", "rocep59s0").replace("mlx5_1", "rocep94s0").replace("mlx5_2", "rocep134s0")
    assert NAMES not in contents(deployed(tmp_path, text))


def test_a_device_that_comes_starts_the_unit_again(tmp_path: Path) -> None:
    rules = contents(deployed(tmp_path))["/etc/udev/rules.d/61-bedplate-rdma.rules"].splitlines()
    start = 'RUN+="/usr/bin/systemctl --no-block restart bedplate-rdma.service"'
    assert f'SUBSYSTEM=="infiniband", {start}' in rules
    assert f'SUBSYSTEM=="net", DRIVERS=="mlx5_core", {start}' in rules


def test_who_has_no_nics_or_is_not_managed_gets_nothing(tmp_path: Path) -> None:
    assert deployed(tmp_path, host="cpu1") == {}
    assert deployed(tmp_path, host="ctl1") == {}
    assert deployed(tmp_path, manage=False) == {}


def test_the_distributions_software_by_its_family(tmp_path: Path) -> None:
    assert deployed(tmp_path, os="rocky-9")["manager"] == "dnf"
    told = deployed(tmp_path)
    assert (told["manager"], told["sources"], told["hold"]) == ("apt", [], [])
    assert {"rdma-core", "perftest", "infiniband-diags", "mstflint"} <= set(told["packages"])
    assert deployed(tmp_path, stack="keep")["packages"] == []


def test_doca_is_one_version_from_one_repository(tmp_path: Path) -> None:
    (tmp_path / "doca.asc").write_text(KEY)
    choices = {
        "stack": "doca",
        "doca_url": "http://mirror.example/doca",
        "doca_key": str(tmp_path / "doca.asc"),
        "doca_version": "3.2.1-044000",
    }
    told = deployed(tmp_path, **choices)
    assert (told["packages"], told["hold"], told["expected"]["doca"]) == (
        ["doca-ofed=3.2.1-044000"],
        ["doca-ofed"],
        True,
    )
    sources = {entry["path"]: entry["content"] for entry in told["sources"]}
    assert (
        "URIs: http://mirror.example/doca\nSuites: ./\nSigned-By:\n -----BEGIN"
        in sources["/etc/apt/sources.list.d/bedplate-doca.sources"]
    )
    assert "Package: doca-ofed\nPin: version 3.2.1-044000\nPin-Priority: 1001\n" in sources[PINS]
    on_el = deployed(tmp_path, os="rocky-9", **choices)
    assert on_el["hold"] == []
    assert "gpgcheck=1\nrepo_gpgcheck=1\n" in next(
        one["content"] for one in on_el["sources"] if one["path"].endswith(".repo")
    )
    assert any("doca-ofed" in str(one) and "3.2.1-044000" in str(one) for one in on_el["sources"])


def test_every_system_of_the_table_has_a_family_with_both_stacks() -> None:
    table = rdma_packages.package_table()
    for family in table["systems"].values():
        row = table["families"][family]
        assert row["inbox"]
        assert row["doca"] == ["doca-ofed"]
        assert row["manager"] in ("apt", "dnf")


def test_deploy_takes_the_files(tmp_path: Path) -> None:
    assert file_mistakes("rdma", deployed(tmp_path)["files"], []) == []


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(RdmaError) as caught:
        deployed(
            tmp_path, stack="doca", os="debian-99", doca_key="/nowhere", doca_version="3.*", mtu=900, priority=8, cnp_dscp=26,
            modules=["ib umad"], nccl={"NCCL_IB_TC": 0, "DEBUG": 1},
        )  # fmt: skip
    lines = str(caught.value).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "rdma_os", "rdma_doca_url", "rdma_doca_version", "rdma_doca_key", "rdma_mtu", "rdma_priority", "rdma_cnp_dscp",
        "rdma_modules", "rdma_nccl", "rdma_nccl",
    ]  # fmt: skip
    sentences.check(SENTENCES, "mistakes in the variables of rdma", lines)


def test_notifications_are_not_in_the_lossless_priority(tmp_path: Path) -> None:
    with pytest.raises(RdmaError, match=r"^rdma_cnp_dscp: 27 .* 3, .*rdma_priority") as caught:
        deployed(tmp_path, cnp_dscp=27)
    sentences.check(SENTENCES, "notifications in the lossless priority", [caught.value])
