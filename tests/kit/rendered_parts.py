"""Every part of every role, rendered for hosts of each kind of the cluster files of this tree, and of one with rare values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, Node, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.role_choices import role_choices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.decision import Decision
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.render import render_part
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.decisions import HostRequest, decide
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.role_mistakes import ROLES as NAMES
from ansible_collections.bedplate.cluster.plugins.plugin_utils.snapshots import snapshot_lock
from ansible_collections.bedplate.cluster.plugins.plugin_utils.snapshots.snapshot_lock import (
    ChosenSnapshot,
    SnapshotLock,
)

TOP = Path(__file__).parents[2]
CLUSTERS = sorted(
    path
    for folder in ("inventories", "molecule", "tests/roles", "tests/update")
    for path in (TOP / folder).rglob("*.bedplate.yml")
)
# Of the site's own; the largest has nothing that a smaller one has not.
_LEFT_OUT = ("site-10000", "site-1024")


def hosts(cluster: Cluster) -> Iterator[str]:
    """Yield a host of each kind: one of each profile, and all that are no nodes."""
    seen = set()
    for name, machine in cluster.machines.items():
        kind = machine.profile.name if isinstance(machine, Node) else name
        if kind not in seen:
            seen.add(kind)
            yield name


KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQENBF\n-----END PGP PUBLIC KEY BLOCK-----\n"
# What no cluster file of the tree has: IMEX, MIG, module options, routed rails, a proxy, a driver that runs in another version.
RARE = """\
plugin: bedplate.cluster.racks
site: s
cluster: c
networks:
  management: {cidr: 10.0.0.0/24, start: 10.0.0.11}
  rail: {cidr: 10.9.0.0/24, rails: 0, gateway: 10.9.0.1}
profiles:
  tray: {gpus: {model: gb200, count: 4}, sockets: 2, cores_per_socket: 72, memory_mib: 1024}
  b200:
    gpus: {model: b200, count: 8}
    sockets: 2
    cores_per_socket: 72
    memory_mib: 1024
    nics: [{name: mlx5_0, rail: 0, pci: "0000:3b:00.0"}]
  split:
    gpus: {model: h100, count: 2, detect: nvml, settings: {power_limit_watts: 600, ecc: true}, mig: "[{3g.40gb: 2}, {}]"}
    sockets: 1
    cores_per_socket: 2
    memory_mib: 1024
    boot: {method: pxe}
racks:
  r1: {nodes: "a[1-2]", profile: tray, nvlink_domain: 2}
  r2: {nodes: b1, profile: b200}
  r3: {nodes: c1, profile: split}
hosts: {ctl1: {address: 10.0.0.10}}
services: {controllers: [ctl1]}
partitions: {all: {nodes: all}}
package_access: {proxy: "http://p:1", no_proxy: [m], ca: ca.pem, logins: [{url: "http://p:1", user: u, password: p}]}
gpu_stack:
  os: ubuntu-24.04
  source: nvidia
  driver: "580"
  keys: {nvidia: nvidia.asc}
  module_options: {NVreg_RestrictProfilingToAdminUsers: "0"}
  gpudirect: [peermem, nvidia-fs, gdrcopy=2.5.1]
health: {gate: strict}
monitoring: {slurm: true, servers: ctl1}
provision: {host: ctl1}
images: {trixie: {os: debian-13, file: trixie.img.zst, sha256: SHA}}
""".replace("SHA", "ab" * 32).replace('"[{3g.40gb: 2}, {}]"', "[{3g.40gb: 2}, {}]")
FACTS = {
    "driver": {"version": "570.86.15", "flavour": "open", "libraries": [], "parameters": {}},
    "gpus": [{}],
    "nouveau": False,
    "running_kernel": "6.8.0",
    "secure_boot": "none",
}
# Slurm of every packaging that no cluster file of the tree has, and a release without sackd. Of other roles they have nothing new.
_SLURM = """\
plugin: bedplate.cluster.racks
site: s
cluster: c
networks: {management: {cidr: 10.0.0.0/24, start: 10.0.0.11}}
profiles: {cpu: {sockets: 1, cores_per_socket: 2, memory_mib: 1024}}
racks: {r1: {nodes: a1, profile: cpu}}
hosts: {ctl1: {address: 10.0.0.10}, login1: {address: 10.0.0.9}}
services: {controllers: [ctl1], database: [ctl1], login: [login1], rest: [ctl1]}
partitions: {all: {nodes: all}}
"""
SLURM = {
    "old": f'{_SLURM}slurm: {{version: "23.02"}}\nhealth: {{private_tmp: /var/lib/slurm-tmp}}\n',
    "schedmd-apt": f"{_SLURM}slurm: {{packages: schedmd, users: {{munge: {{uid: 64031}}}}}}\n",
    "schedmd-dnf": f"{_SLURM}slurm: {{packages: {{packaging: schedmd, manager: dnf}}}}\n",
    "openhpc": f'{_SLURM}slurm: {{version: "23.11", packages: openhpc, users: {{slurm: {{uid: 202}}}}}}\n',
    "no-sackd": f'{_SLURM}slurm: {{version: "22.05"}}\n',
}
# Machines with a promoted snapshot, by their system and what its repositories have; only node_os writes other files there.
SNAPSHOTS = {"debian-13": ", suites: trixie, components: main", "rocky-9": ""}
_SNAPSHOTS = """\
snapshots:
  url: http://m/snapshots
  key: nvidia.asc
  repositories: [{{system: {system}, kind: system, url: "http://o/x", key: /k.gpg{suites}}}]
"""
REPOSITORY = {"name": "slurm", "baseurl": "https://x/slurm", "gpgkey": "https://x/key"}
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
    "node_tuning": [{}, {"node_tuning_tuned": "hpc-compute", "node_tuning_irqs": "numa"}, {"node_tuning_tuned": "off"}],
    "opensm": [{}, {"opensm_options": {"sm_key": "0x1"}}],
    "image": [{"image_recipes": {"trixie": {"release": "trixie"}}}],
}


def deployed(
    role: str, cluster: Cluster, host: str, more: list[dict[str, Any]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the arguments of every part of a role on a host, with each of the role's variables and `more`."""
    for decision in _decisions(role, cluster, host, more, REPORTED):
        try:
            yield from ((part, render_part(role, part, values)) for part, values in decision.parts.items())
        except ValueError:
            continue  # a host of which another test says why it is refused
    if role == "slurm":
        yield from _of_a_turn(cluster, host, more)


def _of_a_turn(cluster: Cluster, host: str, more: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the part with which munge has two keys, and the one that removes it."""
    reported = {**REPORTED, "munge_pair": True, "left_out": True}
    for decision in _decisions("slurm", cluster, host, more, reported):
        if "munge_pair" in decision.parts:
            yield "munge_pair", render_part("slurm", "munge_pair", decision.parts["munge_pair"])
            yield "munge_pair_absent", dict(decision.steps["turned"][0].arguments)
            return


def _decisions(
    role: str, cluster: Cluster, host: str, more: list[dict[str, Any]], reported: dict[str, Any]
) -> Iterator[Decision]:
    """Yield the decision of a role for a host with each of the role's variables and `more`."""
    for variables in [*VARIABLES.get(role, [{}]), *more]:
        choices = role_choices(role, variables, lambda value: value)
        try:
            yield decide(role, HostRequest(cluster, host, choices, reported, (), "admin"))
        except ValueError:
            continue


def rendered(
    folder: Path, clusters: Iterable[Path] = CLUSTERS, packagings: bool = True
) -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Yield role, part, host and arguments of every part on every kind of host; `folder` is for the file with rare values.

    `packagings`: Slurm of every packaging, too.
    """
    for role, cluster, name, host, more in _all(folder, clusters, packagings):
        for part, arguments in deployed(role, cluster, host, more):
            yield role, part, f"{name}/{host}", arguments


def decided(folder: Path, clusters: Iterable[Path]) -> Iterator[tuple[str, str, Any, Any]]:
    """Yield role, part, values, and values before a task has read the node, as `rendered` yields arguments."""
    for role, cluster, _name, host, more in _all(folder, clusters):
        both = (_decisions(role, cluster, host, more, reported) for reported in (REPORTED, {}))
        for decision, before in zip(*both, strict=True):
            with suppress(ValueError):
                yield from ((role, part, values, before.parts[part]) for part, values in decision.parts.items())


def _all(
    folder: Path, clusters: Iterable[Path], packagings: bool = True
) -> Iterator[tuple[str, Cluster, str, str, list[dict[str, Any]]]]:
    """Yield every role for every kind of host, with further variables of the role."""
    (folder / "nvidia.asc").write_text(KEY)
    (folder / "ca.pem").write_text("-----BEGIN CERTIFICATE-----\n")
    (folder / "rare.bedplate.yml").write_text(RARE)
    doca = {"stack": "doca", "doca_url": "https://x/y", "doca_key": str(folder / "nvidia.asc"), "doca_version": "1-1"}
    backups: list[dict[str, Any]] = [{"recipient": str(folder / "nvidia.asc")}, {"enabled": False}]
    more: dict[str, list[dict[str, Any]]] = {
        "rdma": [{f"rdma_{name}": value for name, value in doca.items()}],
        "slurm": [{"slurm_backup": one} for one in backups],
    }
    files = [one for one in clusters if not any(name in str(one) for name in _LEFT_OUT)]
    for path in (*files, folder / "rare.bedplate.yml"):
        cluster = load(str(path))
        for host in hosts(cluster):
            for role in NAMES:
                yield role, cluster, path.name.partition(".")[0], host, more.get(role, [])
    for name, text in SLURM.items() if packagings else ():
        (folder / f"{name}.bedplate.yml").write_text(text)
        cluster = load(str(folder / f"{name}.bedplate.yml"))
        yield from (("slurm", cluster, name, host, [{"slurm_repository": REPOSITORY}]) for host in hosts(cluster))
    for system, suites in SNAPSHOTS.items():
        path = folder / f"snapshot-{system}.bedplate.yml"
        path.write_text(_SLURM + _SNAPSHOTS.format(system=system, suites=suites))
        chosen = ChosenSnapshot("2026-11-26", "0" * 64, {system: ("security", "system")})
        snapshot_lock.write(path, SnapshotLock(chosen))
        yield "node_os", load(str(path)), path.name.partition(".")[0], "a1", []
