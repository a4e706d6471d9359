# SPDX-License-Identifier: GPL-3.0-or-later
"""Commission many BMCs in threads, and write each proved fingerprint into the record of machines at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..bmc.bmc_targets import Target
from ..machines import record_changes
from ..machines.machine_record import RecordError
from ..machines.machine_values import BMC_FINGERPRINT
from ..machines.record_changes import FoundValue
from ..redfish.errors import OTHER, BmcError
from ..redfish.fan_out import Clients, for_each
from .commission_order import CommissionOrder, NodeJob, Record
from .node_run import commission
from .outcome import NodeResult
from .own_secrets import OwnSecrets

_SOURCE = "certificate of the CA"


def run(
    targets: Mapping[str, Target], secrets: OwnSecrets, order: CommissionOrder, record: Record
) -> dict[str, NodeResult]:
    """Return node -> result, in the order of the targets. A node's failure does not stop the others. SecretError: no secret can be read."""
    known, errors = secrets.read(targets)
    clients = Clients(read_only=order.check)
    jobs = {
        node: NodeJob(targets[node], order, secrets, one, clients, record, NodeResult(node))
        for node, one in known.items()
    }
    done = for_each(jobs, commission, at_once=order.reach.at_once, stop=clients.stop, interrupt=clients.interrupt)
    found = {node: NodeResult(node, error=error) for node, error in errors.items()}
    for node, outcome in done.items():
        found[node] = outcome.value or jobs[node].result
        found[node].error = found[node].error or outcome.error
    return {node: found[node] for node in targets}


def record_of(cluster_file: str | Path, names: Sequence[str], *, write: bool) -> Record:
    """Return the writer of fingerprints into the record beside a cluster file; `names` are its machines. With `write` false it predicts."""

    def record(node: str, before: str, fingerprint: str) -> None:
        value = FoundValue(node, BMC_FINGERPRINT, fingerprint, _SOURCE)
        try:
            # Compared first: a record that somebody changed during the run is left alone.
            (row,) = record_changes.update(cluster_file, names, [value], [node], write=False).comparison.rows
            if row.recorded not in (before, fingerprint):
                raise BmcError(OTHER, node, "the record of its certificate changed during this run", "Run again.")
            (row,) = record_changes.update(cluster_file, names, [value], [node], write=write).comparison.rows
        except RecordError as error:
            raise BmcError(OTHER, node, str(error).rstrip("."), "Correct the record, and run again.") from None
        except OSError as error:
            what = f"{error.filename}: {error.strerror}"
            raise BmcError(OTHER, node, what, "Let this user write the record, and run again.") from None
        if row.state == record_changes.TAKEN:
            what = f"the fingerprint of its certificate is on record for {row.owner}"
            raise BmcError(OTHER, node, what, "Correct the record.")

    return record
