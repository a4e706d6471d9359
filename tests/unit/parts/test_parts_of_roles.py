"""Every part of every role: what it may say, and that each file which bedplate puts on a node is found in roles/ by its name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot import bootloader
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, Node, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common import shipped
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.role_choices import role_choices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.part_files import ROLES, part_file, parts_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.placeholders import PLACEHOLDER
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.render import render_part
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.decisions import HostRequest, decide
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.role_mistakes import ROLES as NAMES

TOP = Path(__file__).parents[3]
PARTS = [(role, part) for role in NAMES for part in parts_of(role)]
CLUSTERS = sorted(
    path
    for folder in ("inventories", "molecule", "tests/roles", "tests/update")
    for path in (TOP / folder).rglob("*.bedplate.yml")
)
# Of the site's own; the largest has nothing that a smaller one has not.
_LEFT_OUT = ("site-10000", "site-1024")
# What modules write that take no entries of files.
BY_MODULES = (
    f"/{bootloader._DROP_IN}",
    "/etc/docker/daemon.json",
    "/etc/containerd/config.toml",
    "/etc/crio/crio.conf.d/60-bedplate-cdi.conf",
    "/etc/nvidia-container-runtime/config.toml",
    "/var/lib/bedplate/archives",
)
_STATEMENT = re.compile(r"\{%|\{#|\{\{")


def texts(value: Any) -> Iterator[str]:
    """Yield every text of a document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts(each)


@pytest.mark.parametrize(("role", "part"), PARTS)
def test_a_part_is_plain_data(role: str, part: str) -> None:
    document = part_file(role, part)
    odd = [text for text in texts(dict(document)) if _STATEMENT.search(PLACEHOLDER.sub("", text))]
    assert odd == []
    named = [text for text in texts(dict(document)) for _whole in [PLACEHOLDER.search(text)] if _whole]
    assert all("values." in text or "item" in text for text in named)


def test_every_role_has_parts_and_a_main_one() -> None:
    assert [role for role in NAMES if not parts_of(role)] == []
    assert {role for role, part in PARTS if part_file(role, part).get("site_files")} == set(NAMES)


@cache
def rows() -> list[tuple[str, re.Pattern[str]]]:
    """Return (literal part before the first placeholder, pattern of the path) of every file of every part."""
    found = []
    for role, part in PARTS:
        document = part_file(role, part)
        for entry in [*document.get("sources", []), *document.get("files", [])]:
            path = entry["path"]
            pattern = re.escape(PLACEHOLDER.sub("\0", path)).replace("\0", ".+")
            found.append((PLACEHOLDER.split(path)[0], re.compile(pattern)))
    return found


def programs() -> set[str]:
    """Return the files of programs that units name."""
    named = {
        unit["program"] for role, part in PARTS for unit in part_file(role, part).get("units", ()) if "program" in unit
    }
    return {entry["path"] for name in named for entry in shipped.entries(name)}


def hosts(cluster: Cluster) -> Iterator[str]:
    """Yield a host of each kind: one of each profile, and all that are no nodes."""
    seen = set()
    for name, machine in cluster.machines.items():
        kind = machine.profile.name if isinstance(machine, Node) else name
        if kind not in seen:
            seen.add(kind)
            yield name


KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQENBF\n-----END PGP PUBLIC KEY BLOCK-----\n"
# What no cluster file of the tree has: IMEX, MIG, module options, a proxy, a driver that runs in another version.
RARE = """\
plugin: bedplate.cluster.racks
site: s
cluster: c
networks: {management: {cidr: 10.0.0.0/24, start: 10.0.0.11}}
profiles:
  tray: {gpus: {model: gb200, count: 4}, sockets: 2, cores_per_socket: 72, memory_mib: 1024}
  b200: {gpus: {model: b200, count: 8}, sockets: 2, cores_per_socket: 72, memory_mib: 1024}
  split: {gpus: {model: h100, count: 2, detect: nvml, mig: "[{3g.40gb: 2}, {}]"}, sockets: 1, cores_per_socket: 2, memory_mib: 1024}
racks:
  r1: {nodes: "a[1-2]", profile: tray, nvlink_domain: 2}
  r2: {nodes: b1, profile: b200}
  r3: {nodes: c1, profile: split}
hosts: {ctl1: {address: 10.0.0.10}}
services: {controllers: [ctl1]}
partitions: {all: {nodes: all}}
package_access: {proxy: "http://p:1", ca: ca.pem, logins: [{url: "http://p:1", user: u, password: p}]}
gpu_stack:
  os: ubuntu-24.04
  source: nvidia
  driver: "580"
  keys: {nvidia: nvidia.asc}
  module_options: {NVreg_RestrictProfilingToAdminUsers: "0"}
""".replace('"[{3g.40gb: 2}, {}]"', "[{3g.40gb: 2}, {}]")
FACTS = {
    "driver": {"version": "570.86.15", "flavour": "open", "libraries": [], "parameters": {}},
    "gpus": [{}],
    "nouveau": False,
    "running_kernel": "6.8.0",
    "secure_boot": "none",
}
REPORTED = {"proved": "x", "steps": {"gpu_facts": {"gpu": FACTS}}}
VARIABLES: dict[str, list[dict[str, Any]]] = {
    "node_os": [{"node_os_time_servers": ["ntp"], "node_os_packages": ["vim"]}],
    "container_runtime": [
        {
            "container_runtime_engines": ["podman", "enroot"],
            "container_runtime_packages": {"enroot": ["enroot"]},
            "container_runtime_pyxis": {"source": "https://x/pyxis.tar.gz", "sha256": "0" * 64},
        }
    ],
    "slurm": [{}, {"slurm_compute_new_controllers": True}],
    "rdma": [{}, {"rdma_nccl": {"NCCL_DEBUG": "INFO"}}],
}


def deployed(role: str, cluster: Cluster, host: str) -> Iterator[dict[str, Any]]:
    """Yield the arguments of every part of a role on a host."""
    for variables in VARIABLES.get(role, [{}]):
        choices = role_choices(role, variables, lambda value: value)
        request = HostRequest(cluster, host, choices, REPORTED, (), "admin")
        try:
            decision = decide(role, request)
            yield from (render_part(role, part, values) for part, values in decision.parts.items())
        except ValueError:
            continue  # a host of which another test says why it is refused


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return every path of every part on every kind of host of every cluster file of this tree, and of the rare one."""
    folder = tmp_path_factory.mktemp("rare")
    (folder / "nvidia.asc").write_text(KEY)
    (folder / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    (folder / "rare.bedplate.yml").write_text(RARE)
    doca = {"stack": "doca", "doca_url": "https://x/y", "doca_key": str(folder / "nvidia.asc"), "doca_version": "1-1"}
    VARIABLES["rdma"].append({f"rdma_{name}": value for name, value in doca.items()})
    found = set()
    for path in (
        *(one for one in CLUSTERS if not any(name in str(one) for name in _LEFT_OUT)),
        folder / "rare.bedplate.yml",
    ):
        cluster = load(str(path))
        for host in hosts(cluster):
            for role in NAMES:
                for part in deployed(role, cluster, host):
                    found |= {entry["path"] for entry in [*part.get("sources", []), *part.get("files", [])]}
    return found


def test_each_file_on_a_node_is_found_in_roles(paths: set[str]) -> None:
    assert len(paths) > 100
    unfound = [path for path in paths - programs() if not any(pattern.fullmatch(path) for _literal, pattern in rows())]
    assert unfound == []
    assert [literal for literal, _pattern in rows() if len(literal) < len("/etc/x")] == []


def test_each_file_that_a_module_writes_is_named_in_a_part() -> None:
    text = "".join(path.read_text() for path in sorted(ROLES.glob("*/parts/*.yml")))
    assert [path for path in BY_MODULES if path not in text] == []


def test_each_row_of_a_part_is_on_some_node(paths: set[str]) -> None:
    unused = [pattern.pattern for _literal, pattern in rows() if not any(pattern.fullmatch(path) for path in paths)]
    assert unused == []
