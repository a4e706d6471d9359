# SPDX-License-Identifier: GPL-3.0-or-later
"""From checked data to objects, and every check that needs more than one key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.hostlist import HostlistError, expand
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.options import Problem, UnknownVersionError, check

from .addresses import Book, networks_of
from .fields import Mistakes, Path, near, walk
from .model import Cluster, Fabric, Host, Node, Partition, Profile, Rack, Services, Slurm
from .profiles import profiles_of
from .schema import CLUSTER_FILE

RESERVED_GROUPS = {
    "all", "bedplate", "compute_nodes", "gpu_nodes", "slurm_controllers", "slurm_database", "slurm_login", "slurm_rest",
    "subnet_managers", "ungrouped",
}  # fmt: skip


def hostlist(text: Any, path: Path, mistakes: Mistakes) -> list[str]:
    """Expand a hostlist; a mistake in it is noted and gives no names."""
    if not isinstance(text, str):
        return []
    try:
        return expand(text)
    except HostlistError as error:
        mistakes.add(path, str(error))
        return []


def build(path: str, data: dict[str, Any], mistakes: Mistakes) -> Cluster:
    """Return the cluster; whatever is wrong is in `mistakes`."""
    networks = networks_of(data["networks"] or {}, mistakes)
    profiles = profiles_of(data["profiles"] or {}, data["fabric"], mistakes)
    book = Book(networks, mistakes)
    hosts = _hosts(data["hosts"] or {}, book)
    racks, nodes = _Racks(data["racks"] or {}, profiles, book, mistakes).build(set(hosts))
    _rack_names(hosts, racks, mistakes)
    services = _services(data["services"] or {}, hosts, {node.name for node in nodes}, mistakes)
    partitions = _partitions(data["partitions"] or {}, racks, profiles, nodes, mistakes)
    slurm = _slurm(
        data["slurm"] or walk({}, CLUSTER_FILE.fields["slurm"], (), mistakes), data["partitions"] or {}, mistakes
    )
    _group_names(racks, profiles, partitions, mistakes)
    return Cluster(
        path=path,
        site=data["site"],
        name=data["cluster"],
        domain=data["domain"],
        networks=networks,
        profiles=profiles,
        racks=racks,
        nodes=nodes,
        hosts=hosts,
        services=services,
        partitions=partitions,
        slurm=slurm,
        fabric=_fabric(data["fabric"]),
        constructed={key: data[key] for key in ("groups", "keyed_groups", "compose", "strict") if data[key]},
    )


def _hosts(data: dict[str, Any], book: Book) -> dict[str, Host]:
    hosts = {}
    for name, host in data.items():
        path = ("hosts", name)
        address = book.given("management", host["address"], name, (*path, "address"))
        bmc = book.given("bmc", host["bmc_address"], name, (*path, "bmc_address"))
        hosts[name] = Host(name, address or "", bmc, host["rack"])
    return hosts


class _Racks:
    """Walks the racks in file order and hands out names and addresses."""

    def __init__(self, data: dict[str, Any], profiles: dict[str, Profile], book: Book, mistakes: Mistakes) -> None:
        self.data, self.profiles, self.book, self.mistakes = data, profiles, book, mistakes
        self.racks: dict[str, Rack] = {}
        self.nodes: list[Node] = []
        self.owner: dict[str, str] = {}

    def build(self, taken: set[str]) -> tuple[dict[str, Rack], list[Node]]:
        """Return racks by name and all nodes; `taken` names are hosts already."""
        self.owner = dict.fromkeys(taken, "hosts")
        # Addresses that are stated win over counted ones, so they are known first.
        for key, rack in self.data.items():
            for name, exception in (rack["exceptions"] or {}).items():
                path = ("racks", key, "exceptions", name)
                self.book.given("management", exception["address"], name, (*path, "address"))
                self.book.given("bmc", exception["bmc_address"], name, (*path, "bmc_address"))
        for key, rack in self.data.items():
            self._rack(key, rack)
        return self.racks, self.nodes

    def _rack(self, key: str, data: dict[str, Any]) -> None:
        path: Path = ("racks", key)
        names = hostlist(key, path, self.mistakes)
        racks = [Rack(name, data["row"], data["column"], data["leaf"] or f"leaf-{name}") for name in names]
        for rack in racks:
            if rack.name in self.racks:
                self.mistakes.add(path, f"rack {rack.name} is described twice.")
            self.racks[rack.name] = rack
        if racks:
            self._nodes_of(path, data, racks)

    def _nodes_of(self, path: Path, data: dict[str, Any], racks: list[Rack]) -> None:
        exceptions = dict(data["exceptions"] or {})
        stated = data["address"]
        for number, entry in enumerate(data["nodes"] or []):
            entry_path: Path = (*path, "nodes", number)
            names = hostlist(entry["names"], (*entry_path, "names"), self.mistakes) if entry else []
            if len(names) % len(racks):
                self.mistakes.add(entry_path, f"{len(names)} nodes cannot be split evenly over {len(racks)} racks.")
                continue
            profile = self._profile(entry["profile"] or data["profile"], entry_path)
            addresses = self.book.run(names, exceptions, entry["address"] or stated, entry_path)
            stated = None
            per_rack = len(names) // len(racks)
            for index, name in enumerate(names):
                self._own(name, entry_path)
                exception = exceptions.pop(name, None)
                rack = racks[index // per_rack]
                self._node(name, rack, profile, addresses[index], exception, path)
        for name in exceptions:
            known = [node.name for node in self.nodes if node.rack in racks]
            self.mistakes.add((*path, "exceptions", name), f"{name!r} is no node of this rack.{near(name, known)}")

    def _node(
        self, name: str, rack: Rack, profile: Profile | None, addresses: tuple[str, str | None],
        exception: dict[str, Any] | None, path: Path,
    ) -> None:  # fmt: skip
        state = reason = None
        if exception:
            where = (*path, "exceptions", name)
            state, reason = exception["state"], exception["reason"]
            if exception["profile"]:
                profile = self._profile(exception["profile"], (*where, "profile"))
            if state and not reason:
                self.mistakes.add(where, "a state needs a 'reason': it is what operators see in sinfo.")
        if profile:
            self.nodes.append(Node(name, rack, profile, *addresses, state, reason))

    def _own(self, name: str, path: Path) -> None:
        if name in self.owner:
            self.mistakes.add(path, f"{name} is described twice: here and in {self.owner[name]}.")
        self.owner[name] = ".".join(map(str, path[:2]))

    def _profile(self, name: str | None, path: Path) -> Profile | None:
        if name is None:
            self.mistakes.add(path, "has no 'profile', and its rack has none either.")
        elif name not in self.profiles:
            known = list(self.profiles)
            self.mistakes.add(path, f"there is no profile {name!r}.{near(name, known)} There are: {', '.join(known)}.")
        return self.profiles.get(name or "")


def _rack_names(hosts: dict[str, Host], racks: dict[str, Rack], mistakes: Mistakes) -> None:
    for host in hosts.values():
        # A host may stand in a rack without nodes, so any name will do; a near miss is a slip.
        if host.rack and host.rack not in racks and (hint := near(host.rack, list(racks))):
            mistakes.add(("hosts", host.name, "rack"), f"there is no rack {host.rack!r}.{hint}")


def _services(data: dict[str, Any], hosts: dict[str, Host], nodes: set[str], mistakes: Mistakes) -> Services:
    found: dict[str, tuple[str, ...]] = {}
    for service in ("controllers", "database", "login", "rest", "subnet_managers"):
        names: list[str] = []
        for number, text in enumerate(data.get(service) or ()):
            path = ("services", service, number)
            for name in hostlist(text, path, mistakes):
                if name not in hosts and name not in nodes:
                    hint = near(name, [*hosts, *nodes][:2000])
                    mistakes.add(path, f"there is no host {name!r}.{hint} Describe it under 'hosts'.")
                names.append(name)
        found[service] = tuple(names)
    if not found["controllers"]:
        mistakes.add(("services",), "'controllers' names no host: Slurm needs one.")
    if len(found["database"]) > 1:
        mistakes.add(("services", "database"), f"{len(found['database'])} hosts; there is one database.")
    return Services(**found)


def _partitions(
    data: dict[str, Any], racks: dict[str, Rack], profiles: dict[str, Profile], nodes: list[Node], mistakes: Mistakes
) -> dict[str, Partition]:
    partitions = {}
    for name, partition in data.items():
        path: Path = ("partitions", name)
        selectors = tuple(item for item in partition["nodes"] or () if isinstance(item, str))
        members: dict[str, None] = {}
        for number, selector in enumerate(selectors):
            members.update(
                dict.fromkeys(_selected(selector, (*path, "nodes", number), racks, profiles, nodes, mistakes))
            )
        partitions[name] = Partition(
            name, selectors, tuple(members), partition["default"], partition["max_time"], partition["options"]
        )
    defaults = [name for name, partition in partitions.items() if partition.default]
    for name in defaults[1:]:
        mistakes.add(("partitions", name, "default"), f"{defaults[0]} is the default partition already.")
    return partitions


def _selected(
    selector: str,
    path: Path,
    racks: dict[str, Rack],
    profiles: dict[str, Profile],
    nodes: list[Node],
    mistakes: Mistakes,
) -> Iterable[str]:
    if selector == "all":
        return (node.name for node in nodes)
    kind, colon, text = selector.partition(":")
    if not colon:
        return _known(hostlist(selector, path, mistakes), {node.name for node in nodes}, "node", path, mistakes)
    if kind == "rack":
        wanted = _known(hostlist(text, path, mistakes), set(racks), "rack", path, mistakes)
        return [node.name for node in nodes if node.rack.name in wanted]
    if kind == "profile":
        wanted = _known([text], set(profiles), "profile", path, mistakes)
        chosen = [node.name for node in nodes if node.profile.name in wanted]
    elif kind == "model":
        models = {profile.gpus.model for profile in profiles.values() if profile.gpus}
        wanted = _known([text], models, "model", path, mistakes)
        chosen = [node.name for node in nodes if node.profile.gpus and node.profile.gpus.model in wanted]
    else:
        mistakes.add(path, f"{kind!r} is no selector. Allowed: all, a hostlist, rack:NAME, profile:NAME, model:NAME.")
        return []
    if wanted and not chosen:
        mistakes.add(path, f"{selector!r} names nothing: no node is of that {kind}.")
    return chosen


def _known(names: list[str], known: set[str], kind: str, path: Path, mistakes: Mistakes) -> list[str]:
    for name in names:
        if name not in known:
            mistakes.add(path, f"there is no {kind} {name!r}.{near(name, sorted(known)[:2000])}")
    return [name for name in names if name in known]


def _slurm(data: dict[str, Any], partitions: dict[str, Any], mistakes: Mistakes) -> Slurm:
    version = data["version"] or "24.11"
    for path, problem in _option_problems(version, data, partitions):
        mistakes.add((*path, problem.key), problem.message)
    accounts = {name: account for name, account in data["accounts"].items() if account}
    return Slurm(version, data["options"], data["cgroup"], data["slurmdbd"], data["qos"], accounts)


def _option_problems(version: str, data: dict[str, Any], partitions: dict[str, Any]) -> Iterator[tuple[Path, Problem]]:
    places: list[tuple[Path, str, dict[str, Any]]] = [
        (("slurm", "options"), "slurm", data["options"]),
        (("slurm", "cgroup"), "cgroup", data["cgroup"]),
        (("slurm", "slurmdbd"), "slurmdbd", data["slurmdbd"]),
        *((("partitions", name, "options"), "partition", part["options"]) for name, part in partitions.items()),
    ]
    for path, kind, options in places:
        given = {key: value for key, value in (options or {}).items() if value is not None}
        try:
            yield from ((path, problem) for problem in check(version, kind, given))
        except UnknownVersionError as error:
            yield ("slurm",), Problem("version", str(error))
            return


def _group_names(
    racks: dict[str, Rack], profiles: dict[str, Profile], partitions: dict[str, Partition], mistakes: Mistakes
) -> None:
    seen: dict[str, Path] = {}
    names = [(f"rack_{name}", ("racks", name)) for name in racks]
    names += [(f"partition_{name}", ("partitions", name)) for name in partitions]
    for group, path in names:
        group = group.replace("-", "_").lower()
        if group in seen:
            mistakes.add(path, f"makes the group {group}, as {'.'.join(map(str, seen[group]))} does.")
        seen[group] = path
    for name, profile in profiles.items():
        features = {name, profile.gpus.model} if profile.gpus else {name}
        for clash in features & {f"rack_{rack}" for rack in racks}:
            mistakes.add(("profiles", name), f"{clash!r} is also the feature of a rack.")


def _fabric(data: dict[str, Any] | None) -> Fabric | None:
    if data is None:
        return None
    return Fabric(tuple(data["spines"]), data["top"], data["rails"])
