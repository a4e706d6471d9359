# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the outcome of each node of a recovery: what finished, by the variables of the play, compared with what Slurm reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import RECOVER

from ..roll import roll_outcome
from ..roll.roll_outcome import (
    DONE,
    DRAINED,
    FAILED,
    FAILURE,
    LEFT,
    OWN,
    REBOOTED,
    RESUMED,
    STEP,
    UNREACHABLE,
    WANTED,
    NodeOutcome,
)
from .guid_changes import FOLLOW
from .recover_plan import GUIDS, KEY, PLAN, Raw, done_text

GUIDS_AFTER = "__recover_guids_after"
"""Result of the comparison of GUIDs after the drivers are installed."""


def plan_of(raw: Raw, hosts: Iterable[str]) -> Mapping[str, Any]:
    """Return the plan of this run, {} without one."""
    for host in hosts:
        found = raw(host).get(PLAN)
        if isinstance(found, Mapping) and "to_drain" in found and not found.get("failed"):
            return found
    return {}


def goes_on(raw: Raw, host: str, after: str, plan: Mapping[str, Any]) -> bool:
    """Return whether a node continues after a step, as in a roll; a node that others keep out of service is not drained by this run."""
    if host in plan.get("kept", {}):
        if after == "drained":
            return True
        if after == "own":
            return _is_kept(raw(host), host)
    return roll_outcome.goes_on(raw, host, after)


def to_reboot(raw: Raw, hosts: Iterable[str], plan: Mapping[str, Any]) -> str:
    """Return the nodes to reboot as a hostlist; a node that others keep out of service is theirs."""
    return fold(name for name in roll_outcome.to_reboot(raw, hosts) if name not in plan.get("kept", {}))


def to_resume(raw: Raw, hosts: Iterable[str], plan: Mapping[str, Any]) -> str:
    """Return the verified nodes that this run has drained, as a hostlist."""
    return fold(name for name in roll_outcome.verified(raw, hosts) if name not in plan.get("kept", {}))


def busy(plan: Mapping[str, Any], raw: Raw) -> list[str]:
    """Return the nodes that got a job right before they were drained; they are resumed, and nothing of them was changed."""
    hosts = [host for host in plan["hosts"] if host in plan["parts"]]
    return [host for host in hosts if roll_outcome.node_in(raw(host).get(DRAINED), host).get("outcome") == "draining"]


def outcomes(plan: Mapping[str, Any], raw: Raw, slurm: Mapping[str, Any]) -> dict[str, NodeOutcome]:
    """Return the outcome of each node; `slurm` is the report of bedplate.cluster.slurm_node on them now."""
    found = {host: NodeOutcome(LEFT if host in plan["kept"] else DONE, done_text(plan, host)) for host in plan["done"]}
    for host, why in plan["stopped"].items():
        found[host] = NodeOutcome(FAILED, why)
    for host, why in plan["lost"].items():
        found[host] = NodeOutcome(UNREACHABLE, why)
    for host in plan["parts"]:
        now = slurm["nodes"].get(host, {})
        what, why = _of_node(host, plan, raw(host), now)
        is_own = (now.get("kind"), now.get("run")) == (RECOVER, plan["run"])
        found[host] = NodeOutcome(what, why, parts=plan["parts"][host], drained=is_own)
    return {host: found[host] for host in sorted(found, key=list(found).index)}


def _of_node(
    host: str, plan: Mapping[str, Any], variables: Mapping[str, Any], now: Mapping[str, Any]
) -> tuple[str, str]:
    kept = plan["kept"].get(host)
    if failure := variables.get(FAILURE):
        silent = roll_outcome.is_lost(variables) or _unreachable(variables.get(GUIDS_AFTER))
        return (UNREACHABLE, "no answer by SSH") if silent else (FAILED, str(failure))
    lost = roll_outcome.lost_in(variables)
    drained = roll_outcome.node_in(variables.get(DRAINED), host)
    if not kept and drained.get("outcome") != "drained":
        if drained.get("outcome") == "draining":
            return (
                FAILED,
                f"got {_jobs(drained)} right before it was drained; it is resumed, and nothing was changed on it",
            )
        return FAILED, f"not drained: {drained.get('why') or lost or 'the run ended'}"
    read_again = bool(roll_outcome.node_in(variables.get(OWN), host))
    if read_again and (not _is_kept(variables, host) if kept else roll_outcome.is_gone(variables, host)):
        return FAILED, f"resumed, or taken over, by others while it was set up: {now.get('state', '')}. Run again"
    needs = "; ".join(map(str, ((variables.get(WANTED) or {}).get("reasons") or {}).values()))
    if variables.get(STEP) == "changed":
        if kept and needs:
            return FAILED, f"needs a reboot ({needs}), and is not this run's: {kept}. Reboot it, and run again"
        rebooted = roll_outcome.node_in(variables.get(REBOOTED), host)
        users = (variables.get(WANTED) or {}).get("in_use") if rebooted.get("outcome") == "silent" else None
        if why := lost or rebooted.get("why"):
            return FAILED, "; ".join([str(why), *(users or ())])
    if variables.get(STEP) != "verified":
        return UNREACHABLE, lost or "did not answer, or the run ended, before it was verified"
    if kept:
        return LEFT, f"recovered and verified; not resumed, because others have it out of service: {kept}"
    resumed = roll_outcome.node_in(variables.get(RESUMED), host)
    if resumed.get("outcome") == "resumed" and now.get("outcome") == "resumed":
        return DONE, "recovered, verified and in service"
    if resumed.get("outcome") == "resumed":
        return FAILED, f"recovered, verified and resumed, and out of service again: {now.get('state', '')}"
    if resumed.get("outcome") == "held" and now.get("outcome") == "held" and not now.get("by_slurm"):
        return LEFT, f"recovered and verified; not resumed: {resumed.get('why')}"
    return FAILED, f"verified, and not in service: {resumed.get('why') or lost or now.get('state', '')}"


def _is_kept(variables: Mapping[str, Any], host: str) -> bool:
    """Return whether others still have a node out of service, without a job."""
    now = roll_outcome.node_in(variables.get(OWN), host)
    return now.get("outcome") in ("held", "drained") and not now.get("jobs")


def judged(plan: Mapping[str, Any], found: Mapping[str, NodeOutcome], raw: Raw) -> dict[str, Any]:
    """Return the result of the closing task: it fails if a node was not recovered."""
    lines = [f"{host}: {_shown(one.outcome)}{one.why}" for host, one in found.items()]
    lines += [f"{host}: host key: {text}" for host in found if (text := _key(raw(host)))]
    if accepted := [host for host in found if _accepted(raw(host))]:
        lines.append(f"{fold(accepted)}: {FOLLOW}")
    by_outcome: dict[str, list[str]] = {}
    for host, one in found.items():
        by_outcome.setdefault(one.outcome, []).append(host)
    return {
        "failed": bool({FAILED, UNREACHABLE} & set(by_outcome)),
        "run": plan["run"],
        "nodes": {host: one.facts() for host, one in found.items() if one.outcome != DONE},
        "outcomes": {what: fold(hosts) for what, hosts in by_outcome.items()},
        "msg": "\n".join(lines),
    }


def _shown(outcome: str) -> str:
    return f"not recovered: {outcome}: " if outcome in (FAILED, UNREACHABLE) else ""


def _key(variables: Mapping[str, Any]) -> str:
    """Return which key was written, for people."""
    key = variables.get(KEY)
    is_new = isinstance(key, Mapping) and key.get("state") == "new"
    return f"{', '.join(key['offered'])} (before: {', '.join(key['recorded']) or 'unknown'})" if is_new and key else ""


def _accepted(variables: Mapping[str, Any]) -> bool:
    results = (variables.get(name) for name in (GUIDS, GUIDS_AFTER))
    return any(isinstance(one, Mapping) and one.get("accepted") for one in results)


def _unreachable(result: object) -> bool:
    return isinstance(result, Mapping) and bool(result.get("unreachable"))


def _jobs(one: Mapping[str, Any]) -> str:
    jobs = list(map(str, one.get("jobs") or ()))
    return f"job{'s' * (len(jobs) > 1)} {', '.join(jobs)}" if jobs else "a job"
