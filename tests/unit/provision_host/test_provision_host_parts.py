"""What the roles provision and image decide for the hosts of a cluster file, and which variables they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.image.recipe import Recipe
from ansible_collections.bedplate.cluster.plugins.module_utils.provision import order_server
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.part_files import rendered_template
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision import provision_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision_host import image_part, provision_part

TEXT = """\
plugin: bedplate.cluster.racks
site: s
cluster: c
networks: {management: {cidr: 10.0.0.0/24, start: 10.0.0.11}}
profiles: {cpu: {sockets: 1, cores_per_socket: 2, memory_mib: 1024}}
racks: {r1: {nodes: a1, profile: cpu}}
hosts: {ctl1: {address: 10.0.0.10}, ctl2: {address: 10.0.0.9}}
services: {controllers: [ctl1]}
partitions: {all: {nodes: all}}
"""
IMAGES = f"""\
provision: {{host: ctl2}}
images:
  trixie: {{os: debian-13, file: t.img.zst, sha256: {"1a" * 32}}}
  noble: {{os: ubuntu-24.04, file: /srv/n.img.zst, sha256: {"2b" * 32}}}
"""
GIVEN: dict[str, Any] = {
    "recipes": {"trixie": {"release": "trixie"}},
    "boots": {"noble": "trixie"},
    "key": "",
    "public_key": "",
}


def cluster(folder: Path, more: str = IMAGES) -> Cluster:
    path = folder / "c.bedplate.yml"
    path.write_text(TEXT + more)
    return load(str(path))


def test_only_the_host_of_the_section_is_a_provision_host(tmp_path: Path) -> None:
    found = cluster(tmp_path)
    assert [provision_part.decide(found, host, {"port": 8443}) is None for host in ("ctl1", "ctl2", "a1")] == [
        True,
        False,
        True,
    ]
    assert image_part.decide(found, "ctl1", GIVEN) is None
    assert provision_part.decide(cluster(tmp_path, ""), "ctl2", {"port": 8443}) is None


def test_nginx_has_the_address_and_the_order_server_the_next_port_of_loopback(tmp_path: Path) -> None:
    decision = provision_part.decide(cluster(tmp_path), "ctl2", {"port": 9000})
    assert decision
    values = decision.parts["provision"]
    text = rendered_template("provision", "bedplate-provision.conf.j2", {"values": values})
    assert "listen 10.0.0.9:9000 ssl;" in text
    assert "proxy_pass https://127.0.0.1:9001;" in text
    assert (values["settings"]["address"], values["settings"]["port"]) == ("127.0.0.1", 9001)
    assert decision.expected["provision"]["port"] == 9000


def test_nginx_passes_on_and_sends_what_the_order_server_knows_and_no_more(tmp_path: Path) -> None:
    decision = provision_part.decide(cluster(tmp_path), "ctl2", {"port": 8443})
    assert decision
    text = rendered_template("provision", "bedplate-provision.conf.j2", {"values": decision.parts["provision"]})
    assert "(orders/[0-9a-f]{32}/(claim|seed|report)|media/[0-9a-f]{32,64}\\.iso)" in text
    assert order_server._PATH.pattern == "/orders/([0-9a-f]{32})/(claim|seed|report)"
    assert order_server._FILE.pattern == r"/(?:images/[0-9a-f]{64}\.img\.zst|media/[0-9a-f]{32,64}\.iso)"


def test_the_installer_is_whole() -> None:
    found = provision_part.installer_files()
    names = {one["name"] for one in found["installer"]}
    assert {"finish.sh", "hooks/bedplate", "scripts/bedplate", "lib/main.sh"} <= names
    assert found["folders"] == ["hooks", "lib", "scripts"]


def test_images_are_built_before_those_that_need_their_kernel(tmp_path: Path) -> None:
    found = cluster(tmp_path)
    decision = image_part.decide(found, "ctl2", GIVEN)
    assert decision
    build, copy = decision.steps["images"]
    assert (build.module, copy.module) == ("bedplate.cluster.node_image", "bedplate.cluster.site_image")
    line = next(n for n, text in enumerate(Path(found.path).read_text().splitlines(), 1) if "1a" * 32 in text)
    assert (build.arguments["sha256"], build.arguments["stated_in"]) == (
        "1a" * 32,
        f"{found.path}:{line}: images.trixie.sha256",
    )
    assert copy.arguments["source"] == "/srv/n.img.zst"
    assert copy.arguments["boot"] == "/var/lib/bedplate/provision/images/trixie/boot"
    assert "mmdebstrap" in decision.parts["image"]["packages"]
    assert decision.expected["image"]["images"] == {"trixie": "1a" * 32, "noble": "2b" * 32}
    assert Recipe(**build.arguments["recipe"]).release == "trixie"


def test_an_image_of_a_recipe_alone_is_built_without_a_comparison(tmp_path: Path) -> None:
    more = {**GIVEN, "recipes": {**GIVEN["recipes"], "next": {}}}
    decision = image_part.decide(cluster(tmp_path), "ctl2", more)
    assert decision
    assert "sha256" not in decision.steps["images"][1].arguments


@pytest.mark.parametrize(
    ("other", "place"),
    [
        ({"recipes": {"a/b": {}}}, "image_recipes.a/b"),
        ({"recipes": {"trixie": []}}, "image_recipes.trixie"),
        ({"recipes": {"trixie": {"relase": "trixie"}}}, "image_recipes.trixie.relase"),
        ({"recipes": {"trixie": {"packages": "chrony"}}}, "image_recipes.trixie.packages"),
        ({"recipes": {"trixie": {"words": "a'b"}}}, "image_recipes.trixie.words"),
        ({"recipes": {"trixie": {"words": "$(x)"}}}, "image_recipes.trixie.words"),
        ({"recipes": {"trixie": {"spare_mib": True}}}, "image_recipes.trixie.spare_mib"),
        ({"boots": {"noble": "noble"}}, "image_boots.noble"),
        ({"boots": {"noble": "../x"}}, "image_boots.noble"),
        ({"boots": {}}, "image noble"),
        ({"key": "image.key"}, "image_key"),
    ],
)
def test_a_mistake_is_named_by_its_place(tmp_path: Path, other: dict[str, Any], place: str) -> None:
    with pytest.raises(ValueError, match="allowed: ") as raised:
        image_part.decide(cluster(tmp_path), "ctl2", {**GIVEN, **other})
    assert str(raised.value).startswith(f"{place}:")


def test_a_port_needs_the_next_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="provision_port: 65535"):
        provision_part.decide(cluster(tmp_path), "ctl2", {"port": 65535})


def test_variables_of_the_role_are_no_mistakes_of_the_playbook_and_others_are() -> None:
    given = {"provision_nodes": "a1", "provision_drop_ins": {}}
    assert provision_variables.mistakes(given) == []
    assert provision_variables.mistakes({**given, "provision_dropins": {}})


NETWORK = """\
networks:
  management: {cidr: 10.0.0.0/24, start: 10.0.0.11}
  bmc: {cidr: 10.1.0.0/24, start: 10.1.0.11}
  provision: {cidr: 10.2.0.0/24}
profiles:
  cpu: {sockets: 1, cores_per_socket: 2, memory_mib: 1024, bmc: {}, boot: {METHOD}}
provision: {host: ctl2, address: 10.2.0.5}
"""


@pytest.mark.parametrize(("method", "answers"), [("media", False), ("http", True), ("pxe", True)])
def test_machines_are_answered_where_a_profile_boots_from_the_network(
    tmp_path: Path, method: str, answers: bool
) -> None:
    path = tmp_path / "c.bedplate.yml"
    own = [line for line in TEXT.splitlines() if not line.startswith(("networks", "profiles"))]
    path.write_text("\n".join([*own, NETWORK.replace("METHOD", f"method: {method}")]))
    decision = provision_part.decide(load(str(path)), "ctl2", {"port": 8443})
    assert decision
    part = "network_boot" if answers else "network_boot_absent"
    assert [name for name in decision.parts if name.startswith("network_boot")] == [part]
    assert ("network_boot" in decision.expected) == answers
    if answers:
        lines = decision.parts[part]["configuration"].splitlines()
        assert {"listen-address=10.2.0.5", "dhcp-range=10.2.0.0,static,255.255.255.0,15m"} <= set(lines)
