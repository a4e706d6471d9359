# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what the provision host has: the values of roles/provision/parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.provision.certificates import LEFT, NAME, SERVER

from ..cluster import Cluster
from ..parts.decision import Decision, Step
from . import network_boot_part

DIRECTORY = "/var/lib/bedplate/provision"
"""Folder of the provision host, as provision.yml expects it."""
INSTALLER = "/usr/local/share/bedplate/installer"
"""Sources of the installer on the provision host."""
AUTHORITY = f"{DIRECTORY}/ca.pem"
_TLS = f"{DIRECTORY}/tls"
_PART, _BASE = "provision", "provision_base"
_SOURCES = Path(__file__).parents[2] / "module_utils/provision/installer"
_MOST_PORT = 65534


def decide(cluster: Cluster, host: str, choices: Mapping[str, Any]) -> Decision | None:
    """Return the decision for a host; None for a host other than that of the section `provision`.

    `choices` are the role's variables by what is behind `provision_`. ValueError: what of them cannot be.
    """
    stated = cluster.provision
    if stated is None or stated.host != host:
        return None
    if problems := list(mistakes(choices)):
        raise ValueError("\n".join(problems))
    port, pair = int(choices["port"]), f"{_TLS}/{SERVER}"
    served = f"{DIRECTORY}/served"
    settings = {"address": "127.0.0.1", "port": port + 1, "certificate": pair, "key": pair}
    values = {
        "settings": {**settings, "orders": f"{DIRECTORY}/orders", "served": served},
        "address": stated.address,
        "port": port,
        "order_port": port + 1,
        "pair": pair,
        "group": f"{DIRECTORY}/ffdhe2048.pem",
        "authority": AUTHORITY,
        "name": NAME,
        "served": served,
        **installer_files(),
    }
    certificate = {"folder": _TLS, "authority": AUTHORITY, "address": stated.address}
    step = Step("bedplate.cluster.provision_certificate", certificate, phases=["files", "services"])
    expected = {"address": stated.address, "port": port, "authority": AUTHORITY, "days": LEFT}
    network = network_boot_part.decide(cluster, DIRECTORY)
    parts = {_BASE: {}, _PART: values, **network.parts}
    return Decision(parts, {_PART: expected, **network.expected}, {"certificate": [step]})


def mistakes(choices: Mapping[str, Any]) -> Iterator[str]:
    """Yield the mistakes in the role's variables that its argument spec cannot name."""
    port = choices["port"]
    if not 1 <= int(port) <= _MOST_PORT:
        yield f"provision_port: {port}; allowed: a TCP port from 1 to {_MOST_PORT}, since the order server has the next one"


@cache
def installer_files() -> dict[str, Any]:
    """Return the installer's sources: `folders`, and `installer`, each file with name and text."""
    files = sorted(path for path in _SOURCES.rglob("*") if path.is_file())
    names = [str(path.relative_to(_SOURCES)) for path in files]
    rows = [{"name": name, "text": path.read_text(encoding="utf-8")} for name, path in zip(names, files, strict=True)]
    return {"folders": sorted({name.split("/")[0] for name in names if "/" in name}), "installer": rows}
