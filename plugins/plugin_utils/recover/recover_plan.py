# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what a recovery does on each node: refuse the call, recover a node, or leave it because nothing is pending."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import RECOVER

from ..roll.roll_document import NOBODY
from . import key_verdict

BEGUN, PLAN = "__recover_begun", "__recover"
"""Variables of the playbook: what the run found in Slurm before its first change, and the plan."""
KEY, WRITTEN, STATE, WANTED, GUIDS = (
    "__recover_key",
    "__recover_written",
    "__recover_state",
    "__recover_wanted",
    "__recover_guids",
)
"""Results of calls for each node: its host key, what was written of it, how it differs, why it needs a reboot, its GUIDs."""
FAILURE = "__roll_failure"
"""Why a task failed on a node."""
_CONFIRM = "recover_host_key_confirm"
_ERROR = "error"

Raw = Callable[[str], Mapping[str, Any]]


@dataclass(frozen=True)
class Invocation:
    """Hold the command of the run: the words before the variables, and variables that are repeated."""

    words: Sequence[str]
    variables: Sequence[str] = ()

    def repeated(self, fingerprints: Mapping[str, str]) -> str:
        """Return the command with these fingerprints, node -> fingerprint."""
        if len(fingerprints) == 1:
            (text,) = (f"{_CONFIRM}={one}" for one in fingerprints.values())
        else:
            text = json.dumps({_CONFIRM: dict(fingerprints)})
        rest = [word for one in self.variables if not one.startswith(_CONFIRM) for word in ("-e", one)]
        return shlex.join([*self.words, *rest, "-e", text])


def refusals(
    hosts: Sequence[str], keys: Mapping[str, Mapping[str, Any]], slurm: Mapping[str, Any], command: Invocation
) -> list[str]:
    """Return why this call is refused, before its first change: jobs, nodes that Slurm lacks, and host keys; [] if it is not.

    `keys` is host -> verdict on its key, `slurm` the report of bedplate.cluster.slurm_node on the hosts.
    """
    found = []
    for host in hosts:
        one = slurm["nodes"].get(host, {})
        if jobs := one.get("jobs"):
            text = "job" if len(jobs) == 1 else "jobs"
            found.append(
                f"{host}: {text} {few(jobs)} on it: wait for the end, or drain it: playbooks/recover.yml ends no job"
            )
        if one.get("outcome") == "failed":
            found.append(f"{host}: {one.get('why')}: run playbooks/scheduler.yml first")
    unconfirmed = {}
    for host in hosts:
        verdict = keys.get(host, {"state": key_verdict.REFUSED, "why": "its host key was not compared"})
        if verdict["state"] != key_verdict.REFUSED:
            continue
        found.append(f"{host}: {verdict['why']}")
        found += [f"  offered now: {text}" for text in verdict.get("offered", ())]
        found += [f"  known_hosts: {text}" for text in verdict.get("recorded", ())]
        if verdict.get("unconfirmed"):
            unconfirmed[host] = str(verdict["offered"][0]).split()[-1]
    if unconfirmed:
        found += [
            "Read the fingerprints on the consoles: cat /etc/ssh/ssh_host_*_key.pub | ssh-keygen -lf -",
            "If they are the same, repeat the command with them:",
            f"  {command.repeated(unconfirmed)}",
            "Without a console, state where the keys are: recover_host_key_file or recover_host_key_ca",
        ]
    return found


def record_refusal(record: Mapping[str, Any], kind: str, is_gone: bool) -> str:
    """Return that another run works on the nodes, or ""; `record` is the result of bedplate.cluster.run_record, of a kind of run."""
    if not record.get("held") or is_gone:
        return ""
    what = "another recovery works" if kind == RECOVER else f"a {kind} works"
    remedy = f"; if its process has ended, -e recover_ended={record['run']}" if kind == RECOVER else ""
    return (
        f"{what} on the nodes: run {record['run']} of {record['holder']}, until {record['until']} at the latest. "
        f"Wait for it, or stop it and try again{remedy}"
    )


def owner(one: Mapping[str, Any], run: str) -> str:
    """Return who else has a node out of service and keeps it, as Slurm reports it, or "": Slurm itself, and this run, do not."""
    if one.get("by_slurm"):
        return ""
    if one.get("outcome") in ("drained", "draining"):
        is_own = (one.get("kind"), one.get("run")) == (RECOVER, run)
        return "" if is_own else f"the run {one.get('run')} of {one.get('kind')}.yml"
    return str(one.get("state", "")) if one.get("outcome") == "held" else ""


def document(hosts: Sequence[str], begun: Mapping[str, Any], raw: Raw, check: bool) -> dict[str, Any]:
    """Return the plan: `hosts` to recover, `kept` of them by others, `done` with nothing pending, `stopped` and `lost` ones and why.

    `begun` is the report on Slurm before the first change.
    """
    slurm, run = begun["slurm"], str(begun["run"])
    kept = {host: text for host in hosts if (text := owner(slurm.get(host, {}), run))}
    plan: dict[str, dict[str, str]] = {"done": {}, "stopped": {}, "lost": {}, "why": {}}
    for host in hosts:
        kind, text = _way(raw(host), slurm.get(host, {}), host in kept, check)
        plan[kind][host] = text
    going = list(plan.pop("why").items())
    return {
        **{key: begun[key] for key in ("run", "holder", "controller", "choices", "record_seconds")},
        **plan,
        "hosts": [host for host, _text in going] or list(NOBODY),
        "parts": dict(going),
        "kept": kept,
        "nodes": fold(hosts),
        "to_drain": fold(host for host, _text in going if host not in kept),
    }


def _way(variables: Mapping[str, Any], slurm: Mapping[str, Any], kept: bool, check: bool) -> tuple[str, str]:
    """Return `done`, `stopped`, `lost` or `why` (it is recovered), and the text."""
    is_new = variables.get(KEY, {}).get("state") == key_verdict.NEW
    key = "new host key" if is_new else ""
    if check and is_new:
        return "why", f"{key}; not compared, because known_hosts does not have it yet"
    if failure := variables.get(FAILURE):
        return "stopped", str(failure)
    results = [variables.get(name) for name in (STATE, WANTED, GUIDS)]
    if any(isinstance(one, Mapping) and one.get("unreachable") for one in results):
        return "lost", "no answer by SSH"
    state, wanted = results[:2]
    if not isinstance(state, Mapping) or "findings" not in state or not isinstance(wanted, Mapping):
        return "stopped", "not compared with the cluster file"
    errors = [one for one in state["findings"] if one.get("severity") == _ERROR]
    reboot = wanted.get("reasons") or {}
    is_in_service = slurm.get("outcome") == "resumed"
    if not errors and not reboot and (is_in_service or kept):
        return "done", key or "nothing to do"
    parts = [key, f"{len(errors)} difference{'s' * (len(errors) != 1)}" if errors else "", "reboot" if reboot else ""]
    return "why", ", ".join(filter(None, parts)) or "verified, to be resumed"


def preview(plan: Mapping[str, Any], raw: Raw) -> str:
    """Return the plan as text."""
    lines = []
    for host, why in plan["parts"].items():
        way = (
            "recover; it stays out of service, " + plan["kept"][host]
            if host in plan["kept"]
            else "drain, recover, resume"
        )
        lines.append(f"{host}: {why}: {way}")
        lines += [f"  {text}" for text in _differences(raw(host))]
    lines += [f"{host}: {done_text(plan, host)}" for host in plan["done"]]
    lines += [f"{host}: not recovered: {why}" for host, why in {**plan["stopped"], **plan["lost"]}.items()]
    return "\n".join(lines)


def done_text(plan: Mapping[str, Any], host: str) -> str:
    """Return the outcome of a node on which nothing was pending."""
    kept = plan["kept"].get(host)
    text = f"verified, and stays out of service: {kept}" if kept else "verified and in service"
    return f"{text}: {plan['done'][host]}"


def _differences(variables: Mapping[str, Any]) -> Iterable[str]:
    """Return what a node differs in, in few lines: the roles of the phases change it."""
    state = variables.get(STATE)
    findings = state.get("findings") or [] if isinstance(state, Mapping) else []
    places = [str(one.get("where")) for one in findings if one.get("severity") == _ERROR]
    if places:
        yield f"differs: {few(places, 6)}"
    wanted = variables.get(WANTED)
    reasons = wanted.get("reasons") or {} if isinstance(wanted, Mapping) else {}
    if reasons:
        yield f"reboot: {'; '.join(map(str, reasons.values()))}"
