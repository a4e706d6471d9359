# SPDX-License-Identifier: GPL-3.0-or-later
"""Result of commissioning one BMC: its steps in their order, each with what was found and what was reached."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..redfish.errors import BmcError

ACCOUNT, FACTORY, NTP, IPMI, CERTIFICATE, RECORD = "account", "factory", "ntp", "ipmi", "certificate", "record"
SAME, CHANGED, PREDICTED, FAILED, UNKNOWN = "same", "changed", "predicted", "failed", "unknown"


@dataclass(frozen=True)
class Step:
    """One step. `before` was found, `after` was reached, or in check mode would be. `unknown`: nothing can prove it, as `after` says."""

    name: str
    state: str
    before: str = ""
    after: str = ""
    error: BmcError | None = None


@dataclass
class NodeResult:
    """Steps of one BMC. `error`: why the steps after the last one were not begun."""

    node: str
    steps: list[Step] = field(default_factory=list)
    error: BmcError | None = None

    def add(self, name: str, state: str, before: str = "", after: str = "", error: BmcError | None = None) -> None:
        """Add a step."""
        self.steps.append(Step(name, state, before, after, error))

    @property
    def is_changed(self) -> bool:
        """Return whether a step changed the BMC or the record, or in check mode would."""
        return any(one.state in (CHANGED, PREDICTED) for one in self.steps)

    @property
    def has_failed(self) -> bool:
        """Return whether a step failed, or was not begun."""
        return self.error is not None or any(one.state == FAILED for one in self.steps)

    @property
    def state(self) -> str:
        """Return `commissioned`, the steps that failed, or `not reached`."""
        failed = [one.name for one in self.steps if one.state == FAILED]
        return f"failed: {', '.join(failed)}" if failed else "not reached" if self.error else "commissioned"
