# SPDX-License-Identifier: GPL-3.0-or-later
"""What became of each node of a roll: what finished, by the variables of the play, compared with what Slurm reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import ROLL

from .pending_parts import needs
from .roll_document import NOBODY

PLAN, STEP, FAILURE = "__roll", "__roll_step", "__roll_failure"
"""Variables of the playbook: the plan, how far a node came (`changed`, `verified`), and why a task failed on it."""
DRAINED, REBOOTED, RESUMED, WANTED, AFTER = (
    "__roll_drained",
    "__roll_rebooted",
    "__roll_resumed",
    "__roll_wanted",
    "__roll_after",
)
DONE, WAITING, LEFT, FAILED, UNREACHABLE = OUTCOMES = ("done", "waiting", "left", "failed", "unreachable")
"""`waiting`: for jobs, or for a later batch. `left`: somebody else has it. `failed` and `unreachable`: it stays drained."""

Raw = Callable[[str], Mapping[str, Any]]


@dataclass(frozen=True)
class NodeOutcome:
    """The outcome of a node, why, the jobs that it waits for, and what was pending."""

    outcome: str
    why: str = ""
    jobs: tuple[str, ...] = ()
    parts: str = ""
    drained: bool = False

    def facts(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {**asdict(self), "jobs": list(self.jobs)}


def plan_of(raw: Raw, hosts: Iterable[str]) -> Mapping[str, Any]:
    """Return the plan of this run, {} without one."""
    for host in hosts:
        found = raw(host).get(PLAN)
        if isinstance(found, Mapping) and "hosts" in found and not found.get("failed"):
            return found
    return {}


def failures(raw: Raw, hosts: Iterable[str]) -> list[str]:
    """Return the nodes that have failed so far."""
    return [host for host in hosts if host not in NOBODY and raw(host).get(FAILURE)]


def to_reboot(raw: Raw, batch: Iterable[str]) -> list[str]:
    """Return the nodes of a batch that are changed and want a reboot. A node that did not say is not rebooted."""
    return [host for host in batch if raw(host).get(STEP) == "changed" and (raw(host).get(WANTED) or {}).get("reasons")]


def goes_on(raw: Raw, host: str, after: str) -> bool:
    """Return whether a node goes on after a step: `drained` for one without jobs, `changed` for one that is back if it had to be rebooted.

    A result that is missing says nothing, so the node does not go on.
    """
    variables = raw(host)
    if after == "drained":
        return _outcome_in(variables.get(DRAINED), host) == "drained"
    if variables.get(STEP) != "changed":
        return False
    return not to_reboot(raw, [host]) or _outcome_in(variables.get(REBOOTED), host) == "rebooted"


def _outcome_in(result: object, host: str) -> str:
    nodes = result.get("nodes") if isinstance(result, Mapping) else None
    return str((nodes or {}).get(host, {}).get("outcome", ""))


def verified(raw: Raw, batch: Iterable[str]) -> list[str]:
    """Return the nodes of a batch that are verified."""
    return [host for host in batch if raw(host).get(STEP) == "verified"]


def outcomes(plan: Mapping[str, Any], raw: Raw, slurm: Mapping[str, Mapping[str, Any]]) -> dict[str, NodeOutcome]:
    """Return the outcome of each node with something pending; `slurm` is node -> its result of bedplate.cluster.slurm_node now."""
    found: dict[str, NodeOutcome] = {}
    for host in [*plan.get("hosts", ()), *plan.get("open", ()), *plan.get("left", ()), *plan.get("problems", ())]:
        if host not in NOBODY:
            found[host] = _of_node(host, plan, raw(host), slurm.get(host, {}))
    return found


def _of_node(host: str, plan: Mapping[str, Any], variables: Mapping[str, Any], now: Mapping[str, Any]) -> NodeOutcome:
    parts = str(plan.get("parts", {}).get(host, ""))
    is_own = (now.get("kind"), now.get("run")) == (ROLL, plan.get("run"))
    jobs = tuple(map(str, now.get("jobs") or ()))

    def outcome(what: str, why: object = "") -> NodeOutcome:
        return NodeOutcome(what, str(why), jobs if what == WAITING else (), parts, is_own)

    if host in plan.get("problems", {}):
        why = plan["problems"][host]
        return outcome(UNREACHABLE if "no answer" in why else FAILED, why)
    if host in plan.get("left", {}):
        return outcome(WAITING if not _is_out(plan, host) else LEFT, plan["left"][host])
    if failure := variables.get(FAILURE):
        return outcome(UNREACHABLE, "no answer by SSH") if _is_lost(variables) else outcome(FAILED, failure)
    if host in plan.get("open", ()):
        return outcome(DONE) if variables.get(STEP) == "verified" else outcome(FAILED, "not finished")
    lost = next((one for name in (DRAINED, REBOOTED, RESUMED) if (one := _lost_call(variables.get(name)))), "")
    drained = ((variables.get(DRAINED) or {}).get("nodes") or {}).get(host)
    if drained is None:
        return outcome(FAILED, lost) if lost else outcome(WAITING, "for a later batch")
    if drained.get("outcome") == "draining":
        return outcome(WAITING, drained.get("why", ""))
    if drained.get("outcome") != "drained":
        return outcome(LEFT if drained.get("outcome") == "held" else FAILED, drained.get("why", ""))
    rebooted = ((variables.get(REBOOTED) or {}).get("nodes") or {}).get(host, {})
    if variables.get(STEP) == "changed" and (why := lost or rebooted.get("why")):
        return outcome(FAILED, why)
    if variables.get(STEP) != "verified":
        return outcome(UNREACHABLE, "did not answer, or the run ended, before it was verified")
    resumed = ((variables.get(RESUMED) or {}).get("nodes") or {}).get(host, {})
    if is_own or resumed.get("outcome") != "resumed":
        return outcome(FAILED, f"verified, and not in service: {resumed.get('why') or lost or now.get('state', '')}")
    return outcome(DONE)


def _lost_call(result: object) -> str:
    """Return why a call on the controller failed, or ""."""
    if not isinstance(result, Mapping) or not (result.get("failed") or result.get("unreachable")):
        return ""
    return f"the controller: {result.get('msg') or 'no answer'}"


def _is_lost(variables: Mapping[str, Any]) -> bool:
    """Return whether the node did not answer a task of the batch."""
    names = [WANTED, AFTER, *(name for need in needs().values() for name in need.registered)]
    return any(isinstance(variables.get(name), Mapping) and variables[name].get("unreachable") for name in names)


def _is_out(plan: Mapping[str, Any], host: str) -> bool:
    return str(plan["left"][host]).startswith("out of service")
