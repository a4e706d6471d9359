# SPDX-License-Identifier: GPL-3.0-or-later
"""List the declared BMCs of a cluster with the recorded values of their machines, and the nodes that a person has named."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from ...module_utils.common.hostlist import HostlistError, expand, fold
from ...module_utils.common.text import did_you_mean
from ..cluster import Cluster
from ..cluster.model import Node, Profile
from ..machines.machine_record import NOTHING, Machine
from ..redfish.ipmi import IpmiBmc
from ..redfish.transport import Account, Bmc, Limits, Trust

REDFISH, IPMI = "redfish", "ipmi"
_LIMITS = Limits()


@dataclass(frozen=True)
class Target:
    """A declared BMC: the machine, its address, and its recorded values. `rack` is "", `profile` None for a host outside the racks."""

    node: str
    address: str
    protocol: str = REDFISH
    recorded: Machine = NOTHING
    rack: str = ""
    profile: Profile | None = None


@dataclass(frozen=True)
class Reach:
    """Hold the way to BMCs: TCP port, file of the CA ("": none), BMCs at once, seconds of a request."""

    port: int = 443
    ca_file: str = ""
    at_once: int = 256
    limits: Limits = _LIMITS

    def at_most(self, number: int) -> Reach:
        """Return the same way to at most so many BMCs at once."""
        return replace(self, at_once=min(self.at_once, number))

    @property
    def ca_trust(self) -> Trust:
        """Return the trust in the CA. Raises ValueError without a CA."""
        return Trust(ca_file=self.ca_file)

    def bmc(self, target: Target, account: Account, fingerprint: str = "") -> Bmc:
        """Return a BMC that is trusted by a fingerprint; without one, by the CA. Raises ValueError without both."""
        trust = Trust(fingerprint) if fingerprint else self.ca_trust
        return Bmc(target.node, target.address, trust, account, self.port, limits=self.limits)

    def ipmi(self, target: Target, account: Account) -> IpmiBmc:
        """Return a BMC that is commanded by IPMI."""
        return IpmiBmc(target.node, target.address, account)


def targets_of(
    cluster: Cluster, record: Mapping[str, Machine], only: Collection[str] | None = None
) -> dict[str, Target]:
    """Return machine -> its declared BMC, in the order of the cluster file. `only` narrows them to these machines."""
    found = {}
    for name, machine in cluster.machines.items():
        if not machine.bmc_address or (only is not None and name not in only):
            continue
        recorded = record.get(name, NOTHING)
        if isinstance(machine, Node):
            protocol, profile = machine.profile.metal.protocol, machine.profile
            found[name] = Target(name, machine.bmc_address, protocol, recorded, machine.rack.name, profile)
        else:
            found[name] = Target(name, machine.bmc_address, REDFISH, recorded, machine.rack or "")
    return found


class NameMistakesError(ValueError):
    """Nodes that a person has named and that cannot be commanded, a sentence each."""


def named_nodes(text: str, cluster: Cluster, variable: str, limit: Collection[str] | None = None) -> list[str]:
    """Return the nodes of a hostlist, in the order of the cluster file; `limit` narrows them.

    NameMistakesError: the list is empty or not a hostlist, or a name is not a node with a BMC. There is no word for all nodes.
    """
    example = f"Set it with -e {variable}=gpu[01-04]"
    try:
        names = list(dict.fromkeys(expand(text)))
    except HostlistError as error:
        raise NameMistakesError(f"{variable}: {error}") from None
    if not names:
        raise NameMistakesError(f"{variable}: no name; allowed: names of nodes. There is no default. {example}")
    nodes = {node.name: node for node in cluster.nodes}
    mistakes = []
    for name in names:
        if name in nodes:
            if not nodes[name].bmc_address:
                mistakes.append(f"{variable}: {name}: has no BMC address. Add the network `bmc` to the cluster file.")
        elif name == "all" or name in ("*", "compute_nodes"):
            mistakes.append(f"{variable}: {name!r} is not allowed; allowed: names of nodes. {example}")
        elif name in cluster.hosts:
            mistakes.append(f"{variable}: {name} is a host outside the racks; allowed: nodes. Use its own BMC.")
        else:
            hint = did_you_mean(
                name, list(nodes), otherwise=f" Allowed: names of nodes, no patterns or groups. {example}."
            )
            mistakes.append(f"{variable}: {name}: not a node of the cluster file.{hint}")
    if mistakes:
        raise NameMistakesError("\n".join(mistakes))
    found = [name for name in nodes if name in names and (limit is None or name in limit)]
    if not found:
        raise NameMistakesError(f"{variable}: --limit excludes every named node. Run without --limit.")
    return found


def repeated_mistakes(text: str, variable: str, nodes: str, of: str) -> list[str]:
    """Return mistakes in a hostlist that repeats some of the named nodes; `nodes` is the hostlist of the variable `of`."""
    try:
        names = list(dict.fromkeys(expand(text))) if text else []
    except HostlistError as error:
        return [f"{variable}: {error}"]
    try:
        named = set(expand(nodes))
    except HostlistError:
        return []
    others = [name for name in names if name not in named]
    remedy = f"allowed: nodes of {of}. Name them in both."
    return [f"{variable}: {fold(others)} not in {of}; {remedy}"] if others else []
