# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the rate of each correct cable with its planned one. A lower rate of nearly all links of a sort is one finding."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import ERROR, WARNING, Finding

from ..core.fabric_model import Link, Plan
from ..core.link_rates import Rate, common_lower_rate, is_slower, is_unreadable, rate_of, shown_rate
from ..core.places import End, counted, place
from ..core.unnamed_nodes import guid_in_name


def rate_findings(plan: Plan, seen: Mapping[End, Rate], right: Sequence[Link]) -> tuple[set[Link], list[Finding]]:
    """Return the links whose cables may have a fault, and all findings. `seen` has the rates of ports that differ from the plan's."""
    unread: list[tuple[Link, Rate]] = []
    # Place that states a planned rate, and the rate -> all links, and those that run below it.
    planned: dict[tuple[str, Rate], list[Link]] = {}
    slow: dict[Link, Rate] = {}
    for link in right if seen else ():
        wanted = rate_of(plan, link)
        planned.setdefault((link.rate_from, wanted), []).append(link)
        rates = [seen.get(end, wanted) for end in link.ends]
        if rates == [wanted, wanted]:
            continue
        if below := [rate for rate in rates if is_slower(rate, wanted)]:
            slow[link] = next((rate for rate in below if is_slower(rate, below[0])), below[0])
        elif odd := [rate for rate in rates if is_unreadable(rate)]:
            unread.append((link, odd[0]))
    faulty: set[Link] = set()
    found: list[Finding] = []
    for (stated, wanted), links in planned.items() if slow else ():
        work = _PlannedRate(plan, stated, wanted, {link: slow[link] for link in links if link in slow})
        found += work.findings(links)
        faulty.update(work.slow)
    return faulty, [*found, *_unread(plan, unread)]


class _PlannedRate:
    """The links with one planned rate that one place states, "" for fabric.speed; findings take links out of `slow`."""

    def __init__(self, plan: Plan, stated: str, wanted: Rate, slow: dict[Link, Rate]) -> None:
        self.plan, self.stated, self.wanted, self.slow = plan, stated, wanted, slow

    def findings(self, links: Sequence[Link]) -> Iterator[Finding]:
        """Yield a rate of nearly all links, then a rate of nearly all links of a NIC, then each other slow link."""
        of = f" of {self.stated}" if self.stated else ""
        remedy = (
            f"check {self.stated or 'fabric.speed'}, and the speed set on the switches. The cables are not the cause"
        )
        yield from self._common(links, f"links{of}", remedy)
        for device, mine in self._by_device(links).items() if not self.stated else ():
            key = f"of {device} in `nics`" if device else "in their rows of the list of cables"
            remedy = f"if these cards are older, or have splitter cables, state `speed` {key}"
            remedy += "; else check the speed set on the switches. The cables are not the cause"
            yield from self._common(mine, f"links of {device or 'cards without a name'}", remedy)
        for link, rate in self.slow.items():
            low, high = link.ends
            text = f"{''.join(rate)} on the cable to {place(low, self.plan)}"
            remedy = "reseat the cable at both ends, then replace it"
            if self.stated:
                remedy += f"; the planned rate is stated in {self.stated}"
            yield self._slow(place(high, self.plan), rate, text, remedy, link.ends)

    def _common(self, links: Sequence[Link], what: str, remedy: str) -> Iterator[Finding]:
        """Yield one finding for a lower rate of nearly all links; their cables have no fault."""
        usual = common_lower_rate((self.slow[link] for link in links if link in self.slow), len(links))
        if usual:
            alike = [link for link in links if self.slow.get(link) == usual]
            which = f"all {len(links)}" if len(alike) == len(links) else f"{len(alike)} of {len(links)}"
            yield self._slow(self.plan.name, usual, f"{''.join(usual)} on {which} {what}", remedy)
            for link in alike:
                del self.slow[link]

    def _by_device(self, links: Iterable[Link]) -> dict[str, list[Link]]:
        """Return the links of hosts by the name of their device, "" for cards without a name, for devices with a slow link."""
        devices = {name: "" if guid_in_name(name) else hca.device for name, hca in self.plan.hcas.items()}
        slow = {devices[link.a] for link in self.slow if link.a in devices}
        found: dict[str, list[Link]] = {device: [] for device in sorted(slow)}
        for link in links if slow else ():
            if (device := devices.get(link.a)) in found:
                found[device].append(link)
        return found

    def _slow(self, where: str, seen: Rate, found: str, remedy: str, ports: tuple[End, ...] = ()) -> Finding:
        return Finding("slow", where, shown_rate(self.wanted, seen), found, remedy, ERROR, ports=ports)


def _unread(plan: Plan, unread: Sequence[tuple[Link, Rate]]) -> Iterator[Finding]:
    """Yield how many cables have an unreadable rate, so that a missing finding is not taken as a proof."""
    if unread:
        link, rate = unread[0]
        where, planned = place(link.ends[1], plan), "".join(rate_of(plan, link))
        text = f"the rate of {counted(len(unread), 'cable')} could not be read, such as {''.join(rate)} at {where}"
        remedy = f"planned is {planned}: discover with newer tools (rdma-core), or query the switches"
        yield Finding("unread", plan.name, "", text, remedy, WARNING)
