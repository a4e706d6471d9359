# SPDX-License-Identifier: GPL-3.0-or-later
"""A site with simulated BMCs and a CA of its own, and runs of the commissioning over it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_targets import Reach, targets_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.commission import bmc_authority, commission_run
from ansible_collections.bedplate.cluster.plugins.plugin_utils.commission.commission_order import CommissionOrder
from ansible_collections.bedplate.cluster.plugins.plugin_utils.commission.outcome import NodeResult
from ansible_collections.bedplate.cluster.plugins.plugin_utils.commission.own_secrets import OwnSecrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import ClusterSecrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.given_secrets import GivenSecrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines import machine_record
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Limits
from tests.kit.bmc.simulation import Simulation
from tests.unit.bmc.site import Site

QUICK = Limits(
    connect_s=5,
    answer_s=5,
    attempts=3,
    first_delay_s=0.02,
    longest_delay_s=0.1,
    patience_s=5,
    poll_s=0.02,
    settle_s=0.2,
    power_s=2,
    task_s=5,
)
NTP = ("10.0.0.1", "ntp2.example.com")


class CommissionedSite(Site):
    """A site whose machines are on record. `ca_file` is the site's CA, which no BMC has a certificate of yet."""

    def __init__(self, folder: Path, simulation: Simulation, nodes: tuple[str, ...], **spec: Any) -> None:
        super().__init__(folder, simulation, nodes, **spec)
        self.ca_file, self.ca_key = folder / "bmc-ca.pem", folder / "bmc-ca.key"
        self.ca_key.write_bytes(bmc_authority.new_key())
        self.ca_key.chmod(0o400)
        self.ca_file.write_bytes(bmc_authority.new_certificate(self.ca_key.read_bytes(), "test CA", "test"))
        self.record()

    def run(self, *, check: bool = False, ca: bool = True, signs: bool = True, **order: Any) -> dict[str, NodeResult]:
        """Commission all nodes, with NTP; `ca`: the site has a CA; `signs`: its key is there."""
        cluster = load(str(self.cluster_file))
        targets = targets_of(cluster, machine_record.read(cluster.path, list(cluster.machines)), self.names)
        reach = Reach(self.port, str(self.ca_file) if ca else "", limits=QUICK)
        signs = signs and ca
        authority = bmc_authority.read(self.ca_file.read_bytes(), self.ca_key.read_bytes()) if signs else None
        ordered = CommissionOrder(reach, authority=authority, may_sign=signs, check=check, **{"ntp": NTP, **order})
        given = GivenSecrets({}, lambda value: value, lambda path: b"")
        secrets = OwnSecrets(ClusterSecrets(given, lambda: self.secrets))
        record = commission_run.record_of(cluster.path, list(cluster.machines), write=not check)
        return commission_run.run(targets, secrets, ordered, record)

    def run_one(self, **order: Any) -> NodeResult:
        """Commission the only node."""
        (found,) = self.run(**order).values()
        return found

    def saved(self, node: str = "gpu01") -> tuple[str, str]:
        """Return name and password of the saved account of a node."""
        user, _, password = (self.secrets / f"bmc/{node}").read_text().partition(":")
        return user, password

    def files(self) -> list[str]:
        """Return the names of the files about BMCs in the secrets directory."""
        return sorted(path.name for path in (self.secrets / "bmc").glob("*") if not path.name.endswith(".known"))

    def accounts(self, node: str = "gpu01") -> dict[str, dict[str, Any]]:
        """Return the accounts of a BMC, with their passwords."""
        found: dict[str, dict[str, Any]] = self.bmcs[node].state()["accounts"]
        return found


Made = Callable[..., CommissionedSite]


def steps(result: NodeResult) -> dict[str, str]:
    """Return step -> state."""
    return {one.name: one.state for one in result.steps}


def errors(result: NodeResult) -> list[str]:
    """Return the errors of a result as texts."""
    found = [one.error for one in result.steps if one.error] + ([result.error] if result.error else [])
    return [str(one) for one in dict.fromkeys(found)]
