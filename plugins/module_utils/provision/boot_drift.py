# SPDX-License-Identifier: GPL-3.0-or-later
"""Read who is answered on the provision network: verify's reader of machines that boot from the network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..common.finding import Finding
from ..common.remedies import run_role_again
from .network_boot import UNIT, running
from .orders import RELEASED


def findings(
    root: str, expected: Mapping[str, Any], daemons: Callable[[Path], list[int]] = running
) -> Iterator[Finding]:
    """Yield the findings: no daemon, or a machine that is answered although its order is not open.

    `expected`: `directory`, the folder of the provision host.
    """
    stated = Path(expected["directory"])
    folder, orders = Path(root, str(stated).lstrip("/")), Path(root, str(stated).lstrip("/")) / "orders/orders"
    if not daemons(stated / "network"):
        remedy = f"`systemctl status {UNIT}` has the reason; {run_role_again('provision')}"
        yield Finding("network-boot-daemon", UNIT, "running", "not running", remedy)
    hosts = folder / "network/hosts"
    for path in sorted(hosts.iterdir()) if hosts.is_dir() else ():
        if path.name.startswith("."):
            continue
        if not (orders / path.name / "order.json").exists() or (orders / path.name / RELEASED).exists():
            remedy = f"Remove {stated / 'network/hosts' / path.name}, then `systemctl reload {UNIT}`"
            yield Finding("network-boot-answer", path.name, "no answer without an open order", "answered", remedy)
