# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the outcome of each node of a roll: what finished, by the variables of the play, compared with what Slurm reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import HEALTH, ROLL

from . import roll_batches
from .pending_parts import needs
from .roll_document import NOBODY

PLAN, STEP, FAILURE = "__roll", "__roll_step", "__roll_failure"
"""Variables of the playbook: the plan, how far a node came (`changed`, `verified`), and why a task failed on it."""
RENEWED, DRAINED, REBOOTED, RESUMED = "__roll_renewed", "__roll_drained", "__roll_rebooted", "__roll_resumed"
OWN = "__roll_own"
"""Results of calls on the controller."""
WANTED, DIRECT, AFTER = "__roll_wanted", "__roll_direct", "__roll_after"
"""Results of calls on the node: why it needs a reboot, the reboot by SSH, why it still needs one."""
DONE, WAITING, LEFT, FAILED, UNREACHABLE = OUTCOMES = ("done", "waiting", "left", "failed", "unreachable")
"""`waiting`: for jobs, or for a later batch. `left`: others have it. `failed` and `unreachable`: it stays drained."""

Raw = Callable[[str], Mapping[str, Any]]
Nodes = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class NodeOutcome:
    """The outcome of a node, why, the jobs that it waits for, and what was pending; `hours` out of service so far."""

    outcome: str
    why: str = ""
    jobs: tuple[str, ...] = ()
    parts: str = ""
    drained: bool = False
    hours: float = 0.0

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


def stopped(plan: Mapping[str, Any], raw: Raw, now: float, nodes: Nodes | None = None) -> str:
    """Return why no further batch begins, or "". `now` is in seconds since 1970, `nodes` what Slurm reports of each node now.

    Reasons are a controller that did not answer, a canary that failed, more failed nodes than the plan allows, and the end of its time. A
    resumed node that health takes out of service has failed, too.
    """
    hosts = _hosts(plan)
    for host in hosts:
        if lost := lost_in(raw(host)):
            return lost
    failed = _failed(plan, raw, nodes)
    if found := [host for host in failed if host in plan["canaries"]]:
        return f"canary {few(found)} failed"
    if found := [host for host in plan["canaries"] if _is_taken(raw(host), host) or _is_late(raw(host), host)]:
        return f"canary {few(found)} is not free, so nothing is proved"
    if len(failed) > plan["failures"]:
        return f"{len(failed)} nodes failed, of at most {plan['failures']} (roll_failures): {few(failed)}"
    if now >= plan["until"]:
        return "its time is over (roll_deadline)"
    return next((why for host in hosts if (why := _halted(raw(host)))), "")


def sick(plan: Mapping[str, Any], raw: Raw, nodes: Nodes | None = None) -> dict[str, str]:
    """Return the nodes that this run resumed and that health took out of service afterwards, each with the text of its reason.

    The drain of each later batch has reported them; `nodes` is what Slurm reports of each node now.
    """
    found: dict[str, str] = {}
    hosts = _hosts(plan)
    for host in hosts:
        drained = raw(host).get(DRAINED)
        found.update((drained.get("sick") or {}) if isinstance(drained, Mapping) else {})
    for host, one in (nodes or {}).items():
        if one.get("kind") == HEALTH:
            found[host] = str(one.get("text") or one.get("state"))
    return {host: found[host] for host in hosts if host in found and _is_back(raw(host), host)}


def watched(plan: Mapping[str, Any], raw: Raw) -> list[dict[str, Any]]:
    """Return how many of the resumed nodes health may have out of service when the next batch begins, for bedplate.cluster.slurm_node."""
    known = sick(plan, raw)
    back = [host for host in _hosts(plan) if host not in known and _is_back(raw(host), host)]
    most = max(0, plan["failures"] - len(_failed(plan, raw, None)))
    groups = [("canaries", [host for host in back if host in plan["canaries"]], 0), ("resumed nodes", back, most)]
    return [{"where": where, "nodes": fold(names), "most": most} for where, names, most in groups if names]


def seconds_to_settle(plan: Mapping[str, Any], batch: Iterable[str]) -> int:
    """Return for how many seconds a batch waits until health has judged the canaries: 0 unless it follows a batch of canaries."""
    hosts, canaries = _hosts(plan), set(plan["canaries"])
    first = min((hosts.index(host) for host in batch), default=0)
    return int(plan["settle"]) if first and hosts[first - 1] in canaries and hosts[first] not in canaries else 0


def _hosts(plan: Mapping[str, Any]) -> list[str]:
    return [host for host in plan.get("hosts", ()) if host not in NOBODY]


def _failed(plan: Mapping[str, Any], raw: Raw, nodes: Nodes | None) -> list[str]:
    """Return the nodes that failed, last the nodes whose changes needed no drain: they were changed first."""
    out = sick(plan, raw, nodes)
    opened = [host for host in plan.get("open", ()) if host not in NOBODY and FAILURE in raw(host)]
    return [*(host for host in _hosts(plan) if host in out or _has_failed(raw(host), host)), *opened]


def _has_failed(variables: Mapping[str, Any], host: str) -> bool:
    """Return whether a node of an earlier batch could not be drained, or was drained and is not back in service."""
    if FAILURE in variables:
        return True
    if _is_taken(variables, host):
        return False
    drained = _outcome_in(variables.get(DRAINED), host)
    return drained == "failed" or (drained == "drained" and not _halted(variables) and not _is_back(variables, host))


def _is_back(variables: Mapping[str, Any], host: str) -> bool:
    """Return whether this run has resumed the node."""
    return _outcome_in(variables.get(RESUMED), host) == "resumed"


def _is_late(variables: Mapping[str, Any], host: str) -> bool:
    """Return whether the batch of the node began without it: jobs held it, or a limit did."""
    return _outcome_in(variables.get(DRAINED), host) in ("draining", "limited") and not _halted(variables)


def _halted(variables: Mapping[str, Any]) -> str:
    """Return why the batch of the node did not begin after its drain, or ""."""
    drained = variables.get(DRAINED)
    return str(drained.get("halted") or "") if isinstance(drained, Mapping) else ""


def _is_taken(variables: Mapping[str, Any], host: str) -> bool:
    """Return whether a person drained or resumed the node while the roll worked on it."""
    held = "held" in (_outcome_in(variables.get(name), host) for name in (DRAINED, REBOOTED, RESUMED))
    return held or is_gone(variables, host)


def is_gone(variables: Mapping[str, Any], host: str) -> bool:
    """Return whether a drained node was not the run's own any more before its GPU software was changed."""
    now, before = (node_in(variables.get(name), host) for name in (OWN, DRAINED))
    return bool(now) and (now.get("outcome"), now.get("run")) != ("drained", before.get("run"))


def late(raw: Raw, plan: Mapping[str, Any]) -> list[str]:
    """Return the nodes whose batch has ended without them: jobs held them, or a limit did."""
    return [host for host in _hosts(plan) if _is_late(raw(host), host)]


def to_reboot(raw: Raw, batch: Iterable[str]) -> list[str]:
    """Return the nodes of a batch that are changed and need a reboot. A node that did not report is not rebooted."""
    return [host for host in batch if raw(host).get(STEP) == "changed" and (raw(host).get(WANTED) or {}).get("reasons")]


def goes_on(raw: Raw, host: str, after: str) -> bool:
    """Return whether a node continues after a step. Without a result it does not.

    `drained`: it has no jobs, and its batch may begin. `own`: it is still drained by the run. `applied`: it answered each task of a role.
    `changed`: it needed no reboot, or is back from it. `silent`: Slurm could not reboot it because its slurmd does not answer, and nothing
    runs on it.
    """
    variables = raw(host)
    if after == "drained":
        return _outcome_in(variables.get(DRAINED), host) == "drained" and not _halted(variables)
    if after == "own":
        return bool(node_in(variables.get(OWN), host)) and not is_gone(variables, host)
    if after == "applied":
        return not is_lost(variables)
    if variables.get(STEP) != "changed":
        return False
    wants = bool(to_reboot(raw, [host]))
    outcome = _outcome_in(variables.get(REBOOTED), host)
    if after == "silent":
        return wants and outcome == "silent" and variables[WANTED].get("in_use") == []
    direct = variables.get(DIRECT)
    return not wants or outcome == "rebooted" or (isinstance(direct, Mapping) and direct.get("rebooted") is True)


def node_in(result: object, host: str) -> Mapping[str, Any]:
    """Return what a call on the controller reports of a node, {} without a result."""
    nodes = result.get("nodes") if isinstance(result, Mapping) else None
    found: Mapping[str, Any] = (nodes or {}).get(host, {})
    return found


def _outcome_in(result: object, host: str) -> str:
    return str(node_in(result, host).get("outcome", ""))


def verified(raw: Raw, batch: Iterable[str]) -> list[str]:
    """Return the nodes of a batch that are verified."""
    return [host for host in batch if raw(host).get(STEP) == "verified"]


def outcomes(plan: Mapping[str, Any], raw: Raw, slurm: Mapping[str, Any], stop: str = "") -> dict[str, NodeOutcome]:
    """Return the outcome of each node with pending work; `slurm` is the report of bedplate.cluster.slurm_node on them now."""
    found: dict[str, NodeOutcome] = {}
    out = sick(plan, raw, slurm["nodes"])
    for host in [*plan.get("hosts", ()), *plan.get("open", ()), *plan.get("left", ()), *plan.get("problems", ())]:
        if host not in NOBODY:
            now = slurm["nodes"].get(host, {})
            one = _of_node(host, plan, raw(host), now, stop)
            if one.outcome == DONE and host in out:
                one = replace(one, outcome=FAILED, why=f"resumed, and out of service for health: {out[host]}")
            found[host] = replace(one, hours=_hours(raw(host), host, now, str(slurm.get("now", ""))))
    return found


def not_compared(plan: Mapping[str, Any]) -> dict[str, NodeOutcome]:
    """Return the outcome of each node that was not compared: what it needs is in no plan."""
    return {
        host: NodeOutcome(UNREACHABLE if "no answer" in why else FAILED, why)
        for host, why in plan.get("problems", {}).items()
    }


def _of_node(
    host: str, plan: Mapping[str, Any], variables: Mapping[str, Any], now: Mapping[str, Any], stop: str
) -> NodeOutcome:
    parts = str(plan.get("parts", {}).get(host, ""))
    is_own = (now.get("kind"), now.get("run")) == (ROLL, plan.get("run"))
    jobs = tuple(map(str, now.get("jobs") or ()))

    def outcome(what: str, why: object = "") -> NodeOutcome:
        return NodeOutcome(what, str(why), jobs if what == WAITING else (), parts, is_own)

    def taken(why: object) -> NodeOutcome:
        return outcome(LEFT if now.get("outcome") == "held" else WAITING, why)

    if host in plan.get("problems", {}):
        return replace(not_compared(plan)[host], parts=parts, drained=is_own)
    if host in plan.get("left", {}):
        return outcome(WAITING if not _is_out(plan, host) else LEFT, plan["left"][host])
    if failure := variables.get(FAILURE):
        return outcome(UNREACHABLE, "no answer by SSH") if is_lost(variables) else outcome(FAILED, failure)
    if host in plan.get("open", ()):
        return outcome(DONE) if variables.get(STEP) == "verified" else outcome(FAILED, "not finished")
    lost = lost_in(variables)
    drained = ((variables.get(DRAINED) or {}).get("nodes") or {}).get(host)
    if drained is None:
        return (
            outcome(FAILED, lost)
            if lost
            else outcome(WAITING, f"the roll stopped: {stop}" if stop else "for a later batch")
        )
    if (halted := _halted(variables)) and drained.get("outcome") in ("drained", "draining", "limited"):
        return outcome(WAITING, f"the roll stopped: {stop or halted}")
    if drained.get("outcome") in ("draining", "limited"):
        return outcome(WAITING, drained.get("why", ""))
    if drained.get("outcome") != "drained":
        return outcome(LEFT if drained.get("outcome") == "held" else FAILED, drained.get("why", ""))
    if is_gone(variables, host):
        return taken("resumed, or taken over, by others while it was changed")
    rebooted = ((variables.get(REBOOTED) or {}).get("nodes") or {}).get(host, {})
    if variables.get(STEP) == "changed" and (why := lost or rebooted.get("why")):
        if rebooted.get("outcome") == "held" and not is_own:
            return taken(why)
        users = (variables.get(WANTED) or {}).get("in_use") if rebooted.get("outcome") == "silent" else None
        return outcome(FAILED, "; ".join([why, *(users or ())]))
    if variables.get(STEP) != "verified":
        if silent := _lost_call(variables.get(OWN)):
            return outcome(FAILED, silent)
        return outcome(UNREACHABLE, "did not answer, or the run ended, before it was verified")
    resumed = ((variables.get(RESUMED) or {}).get("nodes") or {}).get(host, {})
    if resumed.get("outcome") == "held" and not is_own:
        return taken(resumed.get("why"))
    if is_own or resumed.get("outcome") != "resumed":
        return outcome(FAILED, f"verified, and not in service: {resumed.get('why') or lost or now.get('state', '')}")
    return outcome(DONE)


def lost_in(variables: Mapping[str, Any]) -> str:
    """Return which call on the controller was lost, and why, or ""."""
    calls = (variables.get(name) for name in (RENEWED, DRAINED, OWN, REBOOTED, RESUMED))
    return next((why for one in calls if (why := _lost_call(one))), "")


def _lost_call(result: object) -> str:
    """Return why a call on the controller failed, or ""."""
    if not isinstance(result, Mapping) or not (result.get("failed") or result.get("unreachable")):
        return ""
    return f"the controller: {result.get('msg') or 'no answer'}"


def _hours(variables: Mapping[str, Any], host: str, now: Mapping[str, Any], time: str) -> float:
    """Return the hours that a node was or is out of service by this run: until it was resumed, or until now."""
    # Slurm sets the time of a reason anew when it reboots the node.
    start = node_in(variables.get(DRAINED), host).get("since")
    resumed = variables.get(RESUMED)
    back = ((resumed.get("nodes") or {}).get(host) or {}) if isinstance(resumed, Mapping) else {}
    if back.get("outcome") == "resumed" and isinstance(resumed, Mapping):
        return _between(_first(start, back.get("since")), str(resumed.get("now", "")))
    return _between(_first(start, now.get("since")), time) if now.get("since") else 0.0


def _first(*times: object) -> str:
    """Return the earliest of times as text, leaving out absent ones."""
    return min(map(str, filter(None, times)), default="")


def _between(start: str, end: str) -> float:
    try:
        seconds = (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
    except ValueError:
        return 0.0
    return round(max(0.0, seconds) / 3600, 3)


def is_lost(variables: Mapping[str, Any]) -> bool:
    """Return whether the node did not answer a task of the batch."""
    names = [WANTED, DIRECT, AFTER, *(name for need in needs().values() for name in need.registered)]
    return any(isinstance(variables.get(name), Mapping) and variables[name].get("unreachable") for name in names)


def _is_out(plan: Mapping[str, Any], host: str) -> bool:
    return str(plan["left"][host]).startswith((roll_batches.OUT, roll_batches.RESERVED))
