# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the width and speed of each link: of its row in the list of cables, else of its NIC, else of its switches, else of the fabric."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ...cluster import Cluster, Fabric, HostNic, Nic
from ...cluster.schema.fields import Path
from ...cluster.schema.late_mistakes import MistakeCollector
from ..core.fabric_model import INFINIBAND, Link, Plan
from ..core.link_rates import SPEEDS, TRADE_NAMES, USUAL_WIDTH, Rate, total_gbits

_SWITCHES = ("fabric", "switches")


@dataclass(frozen=True)
class _NicRate:
    """A stated rate of the links of a NIC; "" is not stated. `keys` lead to the NIC, `name` is how findings name it."""

    speed: str
    width: str
    written: str
    keys: Path
    name: str


def plan_rates(plan: Plan, cluster: Cluster, fabric: Fabric, wrong: MistakeCollector) -> None:
    """Set the rates of links that differ from the plan's. The rates of a list's rows are in its links already."""
    _RatePlanner(plan, cluster, fabric, wrong).go()


class _RatePlanner:
    def __init__(self, plan: Plan, cluster: Cluster, fabric: Fabric, wrong: MistakeCollector) -> None:
        self.plan, self.fabric, self.wrong = plan, fabric, wrong
        self.switches = {one.name: one.speed for one in fabric.switches if one.speed}
        self.nics = self._stated_nics(cluster)
        # NIC -> its faster speed than that of some leaf, with these leaves.
        self.too_fast: dict[_NicRate, list[str]] = {}

    def go(self) -> None:
        plan = self.plan
        if self.switches or self.nics or any(link.speed or link.width for link in plan.links):
            plan.links = [self._rated(link) for link in plan.links]
        for nic, leaves in self.too_fast.items():
            self._too_fast(nic, list(dict.fromkeys(leaves)))

    def _stated_nics(self, cluster: Cluster) -> dict[tuple[str, str], _NicRate]:
        """Return host and device -> what is stated; mistakes are noted once for each NIC of the file."""
        found: dict[tuple[str, str], _NicRate] = {}
        profiles = {
            profile.name: dict(self._of_nics(cluster, ("profiles", profile.name), profile.nics))
            for profile in cluster.profiles.values()
        }
        if any(profiles.values()):
            for node in cluster.nodes:
                found |= {(node.name, device): rate for device, rate in profiles[node.profile.name].items()}
        for host in cluster.hosts.values():
            found |= {
                (host.name, device): rate for device, rate in self._of_nics(cluster, ("hosts", host.name), host.nics)
            }
        return found

    def _of_nics(
        self, cluster: Cluster, owner: tuple[str, str], nics: Sequence[Nic | HostNic]
    ) -> Iterator[tuple[str, _NicRate]]:
        """Yield device and rate of the NICs that state one."""
        for number, nic in enumerate(nics):
            if not nic.speed and not nic.width:
                continue
            keys = cluster.nic_path(owner, number)
            width, speed = TRADE_NAMES.get(nic.speed, (nic.width, nic.speed))
            if nic.width and width != nic.width:
                text = f"{nic.speed} is {width} {speed}, and not {nic.width}. Remove `width`, or write speed: {speed}."
                self.wrong.add((*keys, "width"), text)
            name = f"{'.'.join(map(str, owner))}.nics ({nic.name})"
            yield nic.name, _NicRate(speed, width, nic.speed, keys, name)

    def _rated(self, link: Link) -> Link:
        """Return a link with its rate, and the place that states it; without them if it has the plan's."""
        rate, stated = self._of_switches(link)
        if hca := self.plan.hcas.get(link.a):
            nic = self.nics.get((hca.host, hca.device))
            if nic:
                # A list of cables is of a fabric with leaves of several speeds, which it may not state.
                known = not self.plan.listed or link.b in self.switches
                if nic.speed and known and self._is_faster((nic.width or USUAL_WIDTH, nic.speed), rate):
                    self.too_fast.setdefault(nic, []).append(link.b)
                rate, stated = (nic.width or USUAL_WIDTH, nic.speed or rate[1]), nic.name
        if link.speed or link.width:
            rate, stated = (link.width or USUAL_WIDTH, link.speed or rate[1]), self.fabric.cables or ""
        if rate == (self.plan.width, self.plan.speed):
            return replace(link, width="", speed="") if link.speed or link.width else link
        return replace(link, width=rate[0], speed=rate[1], rate_from=stated)

    def _of_switches(self, link: Link) -> tuple[Rate, str]:
        """Return the lower rate of a link's switches."""
        speeds = [self.switches.get(end, self.plan.speed) for end in (link.a, link.b) if end in self.plan.switches]
        lowest = min(speeds, key=SPEEDS.__getitem__, default=self.plan.speed)
        return (self.plan.width, lowest), "" if lowest == self.plan.speed else ".".join(_SWITCHES)

    def _is_faster(self, nic: Rate, leaf: Rate) -> bool:
        """Return whether a NIC is faster than its leaf: in a lane on InfiniBand, in all on Ethernet, whose lanes differ."""
        if self.plan.technology == INFINIBAND:
            return SPEEDS[nic[1]] > SPEEDS[leaf[1]]
        return total_gbits(nic) > total_gbits(leaf)

    def _too_fast(self, nic: _NicRate, leaves: list[str]) -> None:
        leaf, others = leaves[0], f", as {len(leaves) - 1} more of its leaves" if len(leaves) > 1 else ""
        speed, key = self.switches.get(leaf, self.plan.speed), "switches" if leaf in self.switches else "speed"
        text = f"{nic.written} is faster than its leaf {leaf}, which has {speed} (fabric.{key}){others}."
        remedy = f"Allowed: {speed} and slower. A faster leaf has its speed in fabric.switches."
        self.wrong.add((*nic.keys, "speed"), f"{text} {remedy}")
