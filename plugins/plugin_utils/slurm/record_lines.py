# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's node, node set, partition, GPU and topology lines, from the cluster file alone.

Nothing here looks at a live node: a node that is down, or left out by `--limit`, keeps its line.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import groupby

from ansible_collections.bedplate.cluster.plugins.module_utils.common import cpulists
from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import expand, fold, natural_key

from ..cluster import Cluster, Node, Partition, Profile, mig_split
from .gres_cores import widen
from .tables.conf_text import line_of, merge
from .tables.options import release


def reads_suffixes(cluster: Cluster) -> bool:
    """Return whether this Slurm reads text after the last bracket of a hostlist, as in n[0-1]-ib0."""
    return release(cluster.slurm.version) >= "23.11"


def folded(cluster: Cluster, names: Iterable[str]) -> str:
    """Return the names as a hostlist that this Slurm reads."""
    return fold(names, suffixes=reads_suffixes(cluster))


def _address_range(addresses: list[str]) -> str:
    """Fold addresses of one /24, in order, as Slurm pairs them with the names: 10.0.0.[11-12]."""
    if len(addresses) == 1:
        return addresses[0]
    prefix = addresses[0].rpartition(".")[0]
    return f"{prefix}.[{addresses[0].rpartition('.')[2]}-{addresses[-1].rpartition('.')[2]}]"


def _runs(nodes: Iterable[Node]) -> Iterator[list[Node]]:
    """Yield runs of nodes that one NodeName line can hold: alike, and with consecutive addresses in one /24."""
    run: list[Node] = []
    for node in nodes:
        if run and not (_alike(run[-1], node) and _next_address(run[-1].address, node.address)):
            yield run
            run = []
        run.append(node)
    if run:
        yield run


def _alike(one: Node, other: Node) -> bool:
    return (
        one.profile is other.profile
        and one.rack is other.rack
        and one.state == other.state
        and one.reason == other.reason
        and one.name.rstrip("0123456789") == other.name.rstrip("0123456789")
        # A hostlist is in natural order, and Slurm pairs its names with the addresses one by one.
        and natural_key(one.name) < natural_key(other.name)
    )


def _next_address(one: str, other: str) -> bool:
    prefix, _unused, last = one.rpartition(".")
    other_prefix, _unused, other_last = other.rpartition(".")
    return prefix == other_prefix and int(other_last) == int(last) + 1


def real_memory(profile: Profile) -> int:
    """Return the MiB that jobs may have: what the profile states, less huge pages and the reserve."""
    return profile.memory_mib - profile.hugepages_mib - profile.reserved_memory_mib


def system_cpus(profile: Profile) -> list[int]:
    """Return the CPUs that jobs do not get, as Slurm counts them for CPUSpecList: core by core, the threads of one together."""
    threads = profile.threads_per_core
    return [core * threads + thread for core in profile.kept_cores for thread in range(threads)]


def gres_of(profile: Profile) -> str | None:
    """Return the Gres value of a node line, such as `gpu:h100:8`, or `gpu:h100:6,gpu:1g.10gb:14` with MIG."""
    if profile.gpus is None:
        return None
    return ",".join(f"gpu:{kind}:{count}" for kind, count in mig_split.devices(profile.gpus).items())


def features_of(node: Node) -> list[str]:
    """Return the features for users' --constraint: profile, GPU model, rack, then the profile's own."""
    model = [node.profile.gpus.model] if node.profile.gpus else []
    return list(dict.fromkeys([node.profile.name, *model, f"rack_{node.rack.name}", *node.profile.features]))


def node_lines(cluster: Cluster, kept: Container[str] = ()) -> list[str]:
    """Return the NodeName lines, in file order, without the nodes that keep their own lines."""
    return [
        line_of(_node_pairs(cluster, run)) for run in _runs(node for node in cluster.nodes if node.name not in kept)
    ]


def _node_pairs(cluster: Cluster, run: list[Node]) -> dict[str, object]:
    node, profile = run[0], run[0].profile
    pairs: dict[str, object] = {
        "NodeName": folded(cluster, (member.name for member in run)),
        "NodeAddr": _address_range([member.address for member in run]),
        "Sockets": profile.sockets,
        "CoresPerSocket": profile.cores_per_socket,
        "ThreadsPerCore": profile.threads_per_core,
        "RealMemory": real_memory(profile),
    }
    if kept := system_cpus(profile):
        pairs["CPUSpecList"] = cpulists.fold(kept)
    if gres := gres_of(profile):
        pairs["Gres"] = gres
    pairs["Feature"] = features_of(node)
    pairs["State"] = node.state.upper() if node.state else "UNKNOWN"
    if node.reason:
        pairs["Reason"] = node.reason
    return pairs


def gres_lines(cluster: Cluster, kept: Container[str] = ()) -> list[str]:
    """Return gres.conf: a line per run of GPUs that share cores, or AutoDetect if the profile has it.

    Nodes in `kept` have lines of their own and are left out.
    Cores are those of the profile, or the whole sockets that they are in where the release refuses a part of one.
    """
    lines = []
    for profile in cluster.profiles.values():
        nodes = [node.name for node in cluster.nodes if node.profile is profile and node.name not in kept]
        if profile.gpus and nodes:
            lines += _gres_of_profile(cluster, folded(cluster, nodes), profile)
    return lines


def _gres_of_profile(cluster: Cluster, names: str, profile: Profile) -> list[str]:
    gpus = profile.gpus
    if gpus is None:
        raise AssertionError("the profile has GPUs")
    if gpus.detect != "explicit":
        # Slurm finds files and cores by itself; what the node line says is still what must be there.
        return [line_of({"NodeName": names, "AutoDetect": gpus.detect})]
    lines = []
    shape = (profile.sockets, profile.cores_per_socket, cluster.slurm.version)
    near = [widen(cores, *shape) for cores in gpus.cores]
    for cores, members in groupby(zip(near, gpus.devices, strict=True), key=lambda pair: pair[0]):
        devices = folded(cluster, (device for _unused, device in members))
        pairs = {"NodeName": names, "Name": "gpu", "Type": gpus.model, "File": devices}
        lines.append(line_of({**pairs, "Cores": cores} if cores else pairs))
    return lines


def nodeset_lines(cluster: Cluster) -> list[str]:
    """Return a NodeSet per feature that a partition selects by."""
    names = dict.fromkeys(name for partition in cluster.partitions.values() for name in _nodesets(cluster, partition))
    return [line_of({"NodeSet": name, "Feature": name}) for name in names]


def _nodesets(cluster: Cluster, partition: Partition) -> list[str]:
    """Return the features for a partition's selectors; a selector that is a hostlist lacks one."""
    found: list[str] = []
    for selector in partition.selectors:
        kind, colon, name = selector.partition(":")
        if selector == "all":
            found += dict.fromkeys(node.profile.name for node in cluster.nodes)
        elif kind == "rack":
            found += [f"rack_{rack}" for rack in expand(name)]
        elif colon:
            found.append(name)
    return found


def _partition_value(cluster: Cluster, partition: Partition) -> str:
    hostlists = [selector for selector in partition.selectors if selector != "all" and ":" not in selector]
    if not reads_suffixes(cluster):
        hostlists = [folded(cluster, expand(hostlist)) for hostlist in hostlists]
    return ",".join([*dict.fromkeys(_nodesets(cluster, partition)), *hostlists])


def partition_lines(cluster: Cluster, topologies: Mapping[str, str] | None = None) -> list[str]:
    """Return the PartitionName lines, in file order; `topologies` has the name of a partition's topology where Slurm has several."""
    lines = []
    for partition in cluster.partitions.values():
        pairs: dict[str, object] = {
            "PartitionName": partition.name,
            "Nodes": _partition_value(cluster, partition),
            "Default": partition.default,
            "MaxTime": partition.max_time or "UNLIMITED",
        }
        if topology := (topologies or {}).get(partition.name):
            pairs["Topology"] = topology
        lines.append(line_of(merge(pairs, partition.options)))
    return lines


def expected_nodes(cluster: Cluster, kept: Iterable[Mapping[str, object]] = ()) -> list[dict[str, object]]:
    """Return groups of like nodes as Slurm should report them; `kept` are groups of nodes with other hardware in force."""
    by_name = {name: group for group in kept for name in expand(str(group["nodes"]))}
    groups: dict[tuple[str, str, int | None], list[Node]] = {}
    for node in cluster.nodes:
        of_kept = by_name.get(node.name)
        key = (node.profile.name, node.state or "", None if of_kept is None else id(of_kept))
        groups.setdefault(key, []).append(node)
    return [
        _expected_group(nodes, state, by_name.get(nodes[0].name)) for (_profile, state, _kept), nodes in groups.items()
    ]


def _expected_group(nodes: list[Node], state: str, kept: Mapping[str, object] | None) -> dict[str, object]:
    profile = nodes[0].profile
    wanted = {"gres": gres_of(profile) or "", "cpus": profile.cpus, "memory": real_memory(profile)}
    hardware = wanted if kept is None else {key: kept[key] for key in wanted}
    return {"names": fold(node.name for node in nodes), **hardware, "state": state}


def expected_partitions(cluster: Cluster) -> dict[str, str]:
    """Return partition -> folded nodes, as Slurm should report them."""
    return {name: fold(partition.nodes) for name, partition in cluster.partitions.items()}
