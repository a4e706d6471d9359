"""Bare metal of the cluster file: names, images and the network of installations, every mistake at its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import SystemDisk
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.metal.bare_metal import provision_address
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
SHA = "ab" * 32
IMAGES = f"images:\n  trixie: {{file: images/trixie.img.zst, sha256: {SHA}, os: debian-13}}\n"
PROVISION = "provision:\n  host: ctl1\n"
PROFILE = ("    memory_mib: 64000", "    memory_mib: 64000\n    image: trixie")
TOP = ("profiles:\n", IMAGES + PROVISION + "profiles:\n")


NETWORK = "{cidr: 10.0.2.0/24}"
OTHER_SYSTEM = (
    TOP[0],
    "gpu_stack: {os: debian-13, source: nvidia, driver: '580', keys: {nvidia: /k.asc}}\n"
    + TOP[1].replace("os: debian-13", "os: ubuntu-24.04", 1),
)


def at(address: str) -> tuple[str, str]:
    return TOP[0], TOP[1].replace("ctl1\n", f"ctl1\n  address: {address}\n")


def with_profile(*lines: str) -> tuple[str, str]:
    return "    memory_mib: 64000", "\n".join(["    memory_mib: 64000", *(f"    {line}" for line in lines)])


def with_network(text: str) -> tuple[str, str]:
    return "  bmc:\n    cidr: 10.0.1.0/24\n", f"  bmc:\n    cidr: 10.0.1.0/24\n  provision: {text}\n"


def test_a_file_without_these_keys_is_as_before(bench):
    cluster = bench.load()
    assert (cluster.images, cluster.provision) == ({}, None)
    assert {profile.boot for profile in cluster.profiles.values()} == {"loader"}
    assert {(node.image, node.profile.metal.has_bmc) for node in cluster.nodes} == {("", False)}


def test_what_a_file_says_of_bare_metal(bench):
    profile = with_profile(
        "bmc: {}",
        "boot: {tokens: none, method: http, secure_boot: true}",
        'system_disk: {size_gb: "900-1000,1920", bus: nvme, models: ["*PM9A3*"]}',
        "image: trixie",
        "bios: h100x8",
        "firmware: q3",
    )
    for folder, name in (("bios", "h100x8"), ("firmware", "q3")):
        (bench.path.parent / folder).mkdir()
        (bench.path.parent / folder / f"{name}.yml").touch()
    more = "  window_minutes: 30\n  bmc: {at_once: 16, timeout: 20, ca: keys/bmc.pem}\n"
    exception = ("        state: drain\n", "        image: noble\n        state: drain\n")
    other = IMAGES + f"  noble: {{file: /srv/noble.img.zst, sha256: {SHA}, os: ubuntu-24.04}}\n" + PROVISION + more
    cluster = bench.load(("profiles:\n", other + "profiles:\n"), profile, exception)
    node = cluster.node("gpu01")
    metal = node.profile.metal
    assert (metal.has_bmc, metal.protocol, metal.boot_firmware, metal.method) == (True, "redfish", "uefi", "http")
    assert (metal.secure_boot, metal.bios, metal.firmware, node.profile.boot) == (True, "h100x8", "q3", "none")
    assert metal.system_disk == SystemDisk(((900, 1000), (1920, 1920)), "nvme", ("*PM9A3*",))
    assert [cluster.node(name).image for name in ("gpu01", "gpu02", "cpu01")] == ["trixie", "noble", ""]
    assert cluster.images["trixie"].file == str(bench.path.parent / "images/trixie.img.zst")
    assert cluster.images["noble"].file == "/srv/noble.img.zst"
    provision = cluster.provision
    assert (provision.host, provision.address, provision.window_minutes) == ("ctl1", "10.0.0.10", 30)
    assert (provision.at_once, provision.per_bmc, provision.timeout) == (16, 1, 20)
    assert provision.ca == str(bench.path.parent / "keys/bmc.pem")
    assert provision_address(cluster, node) == node.address


def test_a_text_for_boot_is_where_the_kernel_command_line_comes_from(bench):
    metal = bench.load(with_profile("boot: network")).profiles["gpu8"]
    assert (metal.boot, metal.metal.method) == ("network", "media")


def test_in_the_network_provision_a_node_has_the_place_that_it_has_in_management(bench):
    provision = PROVISION + "  address: 10.0.2.10\n"
    cluster = bench.load(with_network(NETWORK), ("profiles:\n", provision + "profiles:\n"))
    assert cluster.provision.address == "10.0.2.10"
    assert [provision_address(cluster, cluster.node(name)) for name in ("gpu01", "cpu04")] == ["10.0.2.11", "10.0.2.18"]


@pytest.mark.parametrize(
    ("size", "bus", "model", "fits"),
    [
        (960_197_124_096, "nvme", "SAMSUNG MZQL2960HCJR PM9A3", True),
        (960_197_124_096, "NVMe", "samsung pm9a3", True),
        (1_920_383_410_176, "nvme", "PM9A3", False),
        (960_197_124_096, "sata", "PM9A3", False),
        (960_197_124_096, "nvme", "Micron 7450", False),
        (899_999_999_999, "nvme", "PM9A3", False),
    ],
)
def test_which_disk_is_a_system_disk(size, bus, model, fits):
    assert SystemDisk(((900, 1000),), "nvme", ("*PM9A3*",)).fits(size, bus, model) is fits


MISTAKES = {
    "secure boot with a BIOS": ([with_profile("boot: {firmware: bios, secure_boot: true}")], "profiles.gpu8.boot.secure_boot"),
    "HTTP boot with a BIOS": ([with_profile("boot: {firmware: bios, method: http}")], "profiles.gpu8.boot.method"),
    "media with IPMI": ([with_profile("bmc: {protocol: ipmi}", "boot: {method: media}")], "profiles.gpu8.boot.method"),
    "an image over IPMI": ([with_profile("bmc: {protocol: ipmi}", "image: trixie"), TOP], "profiles.gpu8"),
    "a BMC without its network": ([("  bmc:\n    cidr: 10.0.1.0/24\n", ""), with_profile("bmc: {}")], "profiles.gpu8.bmc"),
    "another boot method": ([with_profile("boot: {method: cd}")], "profiles.gpu8.boot.method"),
    "a disk like any other": ([with_profile("system_disk: {}")], "profiles.gpu8.system_disk"),
    "a disk with its larger size first": ([with_profile("system_disk: {size_gb: 1000-900}")], "profiles.gpu8.system_disk.size_gb"),
    "a disk with a unit": ([with_profile("system_disk: {size_gb: 960GB}")], "profiles.gpu8.system_disk.size_gb"),
    "an unknown image": ([with_profile("image: trixy"), TOP], "profiles.gpu8.image"),
    "an image without images": ([with_profile("image: trixie")], "profiles.gpu8.image"),
    "an unknown image of a node": (
        [("        state: drain\n", "        image: trixy\n"), ("        reason: GPU 3 lost\n", ""), TOP],
        "racks.r1.exceptions.gpu02.image",
    ),
    "BIOS settings without a file": ([with_profile("bios: h100x8")], "profiles.gpu8.bios"),
    "firmware without a file": ([with_profile("firmware: ../q3")], "profiles.gpu8.firmware"),
    "a short digest": ([PROFILE, (TOP[0], TOP[1].replace(SHA, SHA[:-1]))], "images.trixie.sha256"),
    "a digest in capitals": ([PROFILE, (TOP[0], TOP[1].replace(SHA, SHA.upper()))], "images.trixie.sha256"),
    "an image without a file": ([PROFILE, (TOP[0], TOP[1].replace("file: images/trixie.img.zst, ", ""))], "images.trixie"),
    "an unknown host": ([(TOP[0], TOP[1].replace("ctl1", "ctl2"))], "provision.host"),
    "a node that would install itself": ([(TOP[0], TOP[1].replace("ctl1", "gpu01"))], "provision.host"),
    "no host": ([("profiles:\n", "provision: {window_minutes: 10}\nprofiles:\n")], "provision"),
    "a window without time": ([(TOP[0], TOP[1].replace("ctl1\n", "ctl1\n  window_minutes: 0\n"))], "provision.window_minutes"),
    "an address without a network": ([at("10.0.2.9")], "provision.address"),
    "a network without an address": ([TOP, with_network(NETWORK)], "provision"),
    "an address outside": ([at("10.0.3.9"), with_network(NETWORK)], "provision.address"),
    "a node's address": ([at("10.0.2.12"), with_network(NETWORK)], "networks.provision.cidr"),
    "a small network": ([at("10.0.2.1"), with_network("{cidr: 10.0.2.0/28}")], "networks.provision.cidr"),
    "a start of its own": ([at("10.0.2.1"), with_network("{cidr: 10.0.2.0/24, start: 10.0.2.50}")], "networks.provision.start"),
    "another system than the GPU software's": ([PROFILE, OTHER_SYSTEM], "images.trixie.os"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_one_slip_is_one_mistake_at_its_line(bench, name):
    edits, where = MISTAKES[name]
    error = bench.error(*edits)
    (mistake,) = error.mistakes
    assert mistake.where == where
    line = bench.path.read_text().splitlines()[mistake.line - 1]
    assert (
        line.strip().startswith(where.rpartition(".")[2]) or where.split(".")[1] in line or where.split(".")[2] in line
    )
    sentences.check(SENTENCES, f"bare metal: {name}", [mistake.message])


def test_all_mistakes_at_once_in_the_order_of_the_file(bench):
    error = bench.error(
        with_profile("boot: {firmware: bios, secure_boot: true, method: http}", "image: trixy", "bios: h100x8"),
        (TOP[0], TOP[1].replace("ctl1", "ctl2")),
    )
    assert [one.where for one in error.mistakes] == [
        "provision.host",
        "profiles.gpu8.boot.secure_boot",
        "profiles.gpu8.boot.method",
        "profiles.gpu8.image",
        "profiles.gpu8.bios",
    ]
