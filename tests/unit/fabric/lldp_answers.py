"""What lldpctl says on each box of a small fabric."""

from __future__ import annotations

from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan, by_switch
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.templates import (
    FabricShape,
    WiredHost,
    WiredNic,
    leaf_spine,
)

Answers = dict[str, dict[str, Any]]


def fabric() -> Plan:
    hosts = [WiredHost(f"gpu{n}", [WiredNic("ens1f0np0"), WiredNic("ens2f0np0")], f"a{n // 2}") for n in range(4)]
    return leaf_spine(
        hosts, FabricShape(technology="roce", ports=16, spines=["sp1", "sp2"], uplinks=4, spine_rack="s0")
    )


def neighbour(interface: str, name: str, port: str) -> dict[str, Any]:
    """Return what `lldpctl -f json` (1.0.16) says of one neighbour."""
    return {
        interface: {
            "via": "LLDP",
            "rid": "1",
            "age": "0 day, 00:12:31",
            "chassis": {
                name: {
                    "id": {"type": "mac", "value": "9c:05:91:00:ab:01"},
                    "descr": "a switch",
                    "mgmt-ip": "10.0.0.1",
                    "capability": [{"type": "Bridge", "enabled": True}],
                }
            },
            "port": {"id": {"type": "ifname", "value": port}, "descr": port, "ttl": "120"},
        }
    }


def told_by(interface: str, name: str, port: dict[str, Any], system: str = "") -> dict[str, Any]:
    """Return a neighbour with its whole `port`, as lldpctl has it, and the system's description."""
    found = neighbour(interface, name, "")
    found[interface]["port"] = {"ttl": "120", **port}
    if system:
        found[interface]["chassis"][name]["descr"] = system
    return found


def port_of(plan: Plan, end: tuple[str, int]) -> tuple[str, str]:
    name, port = end
    return (name, f"swp{port}") if name in plan.switches else (plan.hcas[name].host, plan.hcas[name].device)


def answers(plan: Plan, *asked: str) -> Answers:
    """Return what each box says if the fabric is as planned."""
    found: Answers = {}
    for name, ports in by_switch(plan.links).items():
        for port, far in ports.items():
            box, interface = port_of(plan, (name, port))
            if box in asked or not asked:
                told = found.setdefault(box, {"lldp": {"interface": []}})
                told["lldp"]["interface"].append(neighbour(interface, *port_of(plan, far)))
    return found
