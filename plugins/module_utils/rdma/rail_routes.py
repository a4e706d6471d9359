# SPDX-License-Identifier: GPL-3.0-or-later
"""Route what a rail sends through the rail's own gateway: a route table for each rail, and a rule that selects it by the source address.

The main table has one route to a destination, so all rails would use one NIC. RDMA looks a route up by the source address of its GID, and
so does every socket that is bound to a rail. Rules and routes have bedplate's protocol number: nothing else is removed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network

from ..common.command import Runner
from ..common.finding import Finding
from .rdma_devices import NicSettings

PROTOCOL = "142"
"""Number of bedplate among the protocols of routes (rtnetlink(7)): no routing daemon of /etc/iproute2/rt_protos has it."""
_RESTART = "systemctl restart bedplate-rdma; who changed it?"


class RouteError(Exception):
    """Rules or routes that cannot be read, with the reason."""


@dataclass(frozen=True, order=True)
class Route:
    """A route of a rail's table; without a gateway the destination is on the link."""

    table: int
    destination: str
    gateway: str
    interface: str
    source: str

    def arguments(self) -> list[str]:
        """Return the arguments of `ip route`."""
        hop = ["via", self.gateway] if self.gateway else []
        scope = [] if self.gateway else ["scope", "link"]
        own = ["src", self.source, "table", str(self.table), "proto", PROTOCOL]
        return [self.destination, *hop, "dev", self.interface, *scope, *own]

    def __str__(self) -> str:
        """Return the way to the destination."""
        return f"{f'via {self.gateway} ' if self.gateway else ''}dev {self.interface}"


@dataclass(frozen=True, order=True)
class Rule:
    """A rule: packets from this address use this table; its priority is the table's number."""

    table: int
    source: str

    def arguments(self) -> list[str]:
        """Return the arguments of `ip rule`."""
        number = str(self.table)
        return ["from", self.source, "table", number, "priority", number, "protocol", PROTOCOL]


def rule_of(nic: NicSettings) -> Rule:
    """Return the rule of a routed rail."""
    return Rule(nic.table, nic.address.partition("/")[0])


def routes_of(nic: NicSettings, interface: str) -> list[Route]:
    """Return the routes of a rail: its own network on the link, the others through the gateway."""
    own = IPv4Interface(nic.address)
    link = Route(nic.table, str(own.network), "", interface, str(own.ip))
    return [link, *(Route(nic.table, one, nic.gateway, interface, str(own.ip)) for one in nic.routes)]


def read_rules(run: Runner) -> list[Rule]:
    """Return bedplate's rules in the kernel. Raises RouteError."""
    return [
        Rule(int(row["priority"]), str(row.get("src")))
        for row in _read(run, ["ip", "-N", "-j", "rule", "show"])
        if row.get("protocol") == PROTOCOL and row.get("table") == str(row.get("priority"))
    ]


def read_routes(run: Runner) -> list[Route]:
    """Return bedplate's routes in the kernel. Raises RouteError."""
    found = []
    for row in _read(run, ["ip", "-N", "-j", "route", "show", "table", "all", "proto", PROTOCOL]):
        hop, interface, source = (str(row.get(key, "")) for key in ("gateway", "dev", "prefsrc"))
        if str(row.get("table", "")).isdecimal():
            found.append(Route(int(row["table"]), _whole(str(row.get("dst"))), hop, interface, source))
    return found


def _whole(destination: str) -> str:
    """Return a destination with the length of its network, which `ip` leaves out for one address and for all."""
    if destination == "default":
        return "0.0.0.0/0"
    return destination if "/" in destination else f"{destination}/32"


def _read(run: Runner, command: Sequence[str]) -> list[dict[str, str]]:
    outcome = run(command)
    try:
        if outcome.code != 0:
            raise ValueError
        return [one for one in json.loads(outcome.stdout or "[]") if one]
    except ValueError:
        raise RouteError(f"{' '.join(command)}: {outcome.error_line}") from None


def configure(rails: Mapping[NicSettings, str], run: Runner) -> Iterator[str]:
    """Set rules and routes of the routed rails, remove bedplate's others, and yield the failures.

    `rails`: NIC -> its interface; "" for a missing device, whose rule stays for its return.
    """
    routed = {nic: interface for nic, interface in rails.items() if nic.table}
    try:
        rules, routes = read_rules(run), read_routes(run)
    except RouteError as error:
        if routed:
            yield str(error)
        return
    desired = [route for nic, interface in routed.items() if interface for route in routes_of(nic, interface)]
    own = [rule_of(nic) for nic in routed]
    commands = [["ip", "rule", "del", *rule.arguments()] for rule in rules if rule not in own]
    places = {(route.table, route.destination) for route in desired}
    # `replace` changes a route with the same destination; a deleted one would stop what runs.
    commands += [
        ["ip", "route", "del", route.destination, "table", str(route.table), "proto", PROTOCOL]
        for route in routes
        if (route.table, route.destination) not in places
    ]
    commands += [["ip", "route", "replace", *route.arguments()] for route in desired if route not in routes]
    # Rules last: a rule in front of an empty table would change nothing, but one in front of half a table would.
    commands += [["ip", "rule", "add", *rule.arguments()] for rule in own if rule not in rules]
    for command in commands:
        outcome = run(command)
        if outcome.code != 0:
            yield f"{' '.join(command)}: {outcome.error_line}"


def drift(rails: Mapping[NicSettings, str], run: Runner) -> Iterator[Finding]:
    """Compare rules and routes of the routed rails, and the way that the kernel chooses for a packet of each."""
    routed = {nic: interface for nic, interface in rails.items() if nic.table and interface}
    try:
        rules, routes = read_rules(run), read_routes(run)
    except RouteError as error:
        if routed:
            yield Finding("route", "routes of the rails", "readable", str(error), "ip rule; ip route show table all")
        return
    for nic, interface in routed.items():
        who = f"{nic.name} ({interface})"
        there = [rule for rule in rules if rule.table == nic.table]
        if there != [rule_of(nic)]:
            shown = ", ".join(f"from {rule.source}" for rule in there) or "none"
            yield Finding("rule", f"rule of table {nic.table} of {who}", f"from {rule_of(nic).source}", shown, _RESTART)
        missing = False
        for route in routes_of(nic, interface):
            if route not in routes:
                missing = True
                same = [one for one in routes if (one.table, one.destination) == (route.table, route.destination)]
                where = f"route to {route.destination} in table {nic.table} of {who}"
                yield Finding("route", where, str(route), ", ".join(map(str, same)) or "none", _RESTART)
        if there == [rule_of(nic)] and not missing:
            yield from _way(nic, interface, who, run)
    tables = {nic.table for nic in rails if nic.table}
    for rule in rules:
        if rule.table not in tables:
            yield Finding("rule", f"rule of table {rule.table}", "none", f"from {rule.source}", _RESTART)


def _way(nic: NicSettings, interface: str, who: str, run: Runner) -> Iterator[Finding]:
    """Compare the kernel's choice for one destination behind the gateway: a rule of another owner may be consulted first."""
    if not nic.routes:
        return
    network = IPv4Network(nic.routes[0])
    # A route to one address has no second one.
    target = str(network.network_address + (network.num_addresses > 1))
    source = rule_of(nic).source
    try:
        row = next(iter(_read(run, ["ip", "-N", "-j", "route", "get", target, "from", source])), {})
    except RouteError as error:
        row = {"dev": str(error)}
    found = Route(nic.table, nic.routes[0], str(row.get("gateway", "")), str(row.get("dev", "")), source)
    expected = Route(nic.table, nic.routes[0], nic.gateway, interface, source)
    if found != expected:
        fix = "`ip rule` lists the rules in their order; remove the foreign rule before bedplate's"
        yield Finding("route-used", f"way from {source} to {target} of {who}", str(expected), str(found), fix)
