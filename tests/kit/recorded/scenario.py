# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenarios: a playbook or a role on recorded nodes, and what it must ask of them.

`tests/roles/<subject>.yml` has the scenarios of a role or of playbooks by name; docs/testing.md documents the keys.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import expand
from tests.kit.recorded import computed
from tests.kit.recorded.recording import short, unlike
from tests.kit.recorded.stage import Run, Stage

FOLDER = "tests/roles"
_FAILED, _UNREACHABLE = 2, 4  # exit status of ansible-playbook


@dataclass(frozen=True, eq=False)
class Scenario:
    """One scenario."""

    subject: str
    name: str
    cluster: str = "gpu"
    playbook: str = ""  # of playbooks/, without .yml; else a role
    role: str = ""
    entry: str = "main"
    hosts: str = "all"
    play: Mapping[str, Any] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    check: bool = False
    vars: Mapping[str, Any] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    actions: list[str] = field(default_factory=list)
    answers: list[Any] = field(default_factory=list)
    calls: list[Any] = field(default_factory=list)
    failed: Mapping[str, str] = field(default_factory=dict)
    unreachable: list[str] = field(default_factory=list)
    says: list[str] = field(default_factory=list)
    ran: Mapping[str, list[str]] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    changed: list[str] | None = None
    tasks: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.subject}: {self.name}"


def scenarios(root: Path) -> list[Scenario]:
    """Return all scenarios of a source tree."""
    found = []
    for path in sorted((root / FOLDER).glob("*.yml")):
        if path.stem == "answers":
            continue
        document = yaml.safe_load(path.read_text())
        common = {key: value for key, value in document.items() if key not in ("scenarios", "shared")}
        for name, own in document["scenarios"].items():
            given = {**common, **own}
            unknown = set(given) - {one.name for one in fields(Scenario)}
            if unknown:
                raise ValueError(f"{path}: {name}: unknown keys {', '.join(sorted(unknown))}")
            found.append(Scenario(subject=path.stem, name=name, **given))
    return found


def play(stage: Stage, scenario: Scenario, *, to_its_end: bool = True) -> Run:
    """Run a scenario, to its end or up to the first call that is not as wanted."""
    folder = Path(tempfile.mkdtemp(prefix="bedplate-run-"))
    try:
        arguments = _prepare(stage.root, folder, scenario)
        wanted = None if to_its_end else _wanted(scenario)
        return stage.run(folder, arguments, _answers(stage.root, scenario), scenario.actions, wanted=wanted)
    finally:
        shutil.rmtree(folder)


def _prepare(root: Path, folder: Path, scenario: Scenario) -> list[str]:
    """Write inventory and playbook, and return the arguments of ansible-playbook."""
    inventory = folder / "inventory"
    shutil.copytree(root / FOLDER / "clusters" / scenario.cluster, inventory)
    for name, text in scenario.files.items():
        (inventory / name).parent.mkdir(parents=True, exist_ok=True)
        (inventory / name).write_text(text)
    variables = {
        "ansible_connection": "recorded",
        "ansible_user": "root",
        "bedplate_secrets_dir": str(folder / "secrets"),
        # No repository is within reach: without a lock, the versions are those of the table.
        "gpu_resolve": "off",
        **scenario.vars,
    }
    (folder / "variables.json").write_text(json.dumps(variables))
    if scenario.playbook:
        # In its place in the collection its roles are found, and its imports.
        playbook = root / "playbooks" / f"{scenario.playbook}.yml"
    else:
        playbook = folder / "play.json"
        task = {
            "name": "Run the role",
            "ansible.builtin.include_role": {
                "name": f"bedplate.cluster.{scenario.role or scenario.subject}",
                "tasks_from": scenario.entry,
                "rolespec_validate": False,
            },
        }
        playbook.write_text(
            json.dumps([{"hosts": scenario.hosts, "gather_facts": False, "tasks": [task], **scenario.play}])
        )
    checking = ["--check", "--diff"] if scenario.check else []
    return ["-i", str(inventory), str(playbook), "-e", "@variables.json", *checking, *scenario.arguments]


@cache
def _named(root: Path) -> Mapping[str, list[Any]]:
    named: Mapping[str, list[Any]] = yaml.safe_load((root / FOLDER / "answers.yml").read_text())
    return named


def _answers(root: Path, scenario: Scenario) -> list[Mapping[str, Any]]:
    """Return the answers, where a name stands for those of answers.yml."""
    found: list[Mapping[str, Any]] = []
    for entry in scenario.answers:
        if isinstance(entry, str):
            found += _named(root)[entry]
        elif "computed" in entry:
            found += computed.ANSWERS[entry["computed"]](root / FOLDER / "clusters" / scenario.cluster)
        else:
            found.append(entry)
    return found


def judge(scenario: Scenario, run: Run) -> list[str]:
    """Return what is not as the scenario says; the first line is the earliest."""
    return [
        *_calls(scenario, run),
        *_ends(scenario, run),
        *(
            f"nothing says {text!r}"
            for text in scenario.says
            if not any(re.search(text, one["msg"]) for one in run.results)
        ),
        *_order(scenario, run),
        *_ran(scenario, run),
    ]


def _calls(scenario: Scenario, run: Run) -> Iterator[str]:
    wanted = _wanted(scenario)
    for number, call in enumerate(run.calls):
        found = list(unlike(wanted, number, call))
        yield from found
        if found and number < len(wanted) and wanted[number][0] != f"{call['host']} {call['module']}":
            made = [f"{one['host']} {one['module']}" for one in run.calls]
            yield f"all calls: {', '.join(made)}"
            return
    for name, *_ in wanted[len(run.calls) :]:
        yield f"missing call: {name}"


def _wanted(scenario: Scenario) -> list[tuple[str, dict[str, Any], bool]]:
    """Return each wanted call as `host module`, its arguments, and whether it is in check mode."""
    return [
        (name, {key: one for key, one in arguments.items() if key != "_check"}, arguments.get("_check", scenario.check))
        for name, arguments in _listed(scenario.calls)
    ]


def _listed(calls: list[Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Return each call with its arguments; one of several hosts is one for each of them, and a list is the calls in it."""
    for entry in calls:
        if isinstance(entry, list):
            yield from _listed(entry)
            continue
        name, arguments = (entry, {}) if isinstance(entry, str) else next(iter(entry.items()))
        hosts, module = name.rsplit(" ", 1)
        for host in expand(hosts):
            yield f"{host} {module}", arguments or {}


def _ends(scenario: Scenario, run: Run) -> Iterator[str]:
    failed: dict[str, str] = {}
    for one in run.results:
        if one["status"] == "failed":
            failed.setdefault(one["host"], one["msg"])
    unreachable = sorted({one["host"] for one in run.results if one["status"] == "unreachable"})
    for host in sorted({*failed, *scenario.failed}):
        if host not in scenario.failed:
            yield f"{host} failed: {failed[host]}"
        elif host not in failed:
            yield f"{host} did not fail, wanted {scenario.failed[host]!r}"
        elif not re.search(scenario.failed[host], failed[host]):
            yield f"{host} failed with {failed[host]!r}, wanted {scenario.failed[host]!r}"
    if unreachable != sorted(scenario.unreachable):
        yield f"unreachable: {unreachable}, wanted {scenario.unreachable}"
    ignored = re.search(r"ignored=[1-9]", run.output)
    wanted = _UNREACHABLE if scenario.unreachable and not ignored else _FAILED if scenario.failed else 0
    # Where a host failed and another was not reached, it is the one that ended the run.
    if run.rc != wanted and not (scenario.failed and scenario.unreachable and run.rc == _FAILED):
        yield f"exit status {run.rc}, wanted {wanted}: {run.output[-1500:]}"


def _order(scenario: Scenario, run: Run) -> Iterator[str]:
    """Return the first of the actions that did not run after those before it."""
    made = [f"{one['host']} {short(one['action'])}" for one in run.results if one["status"] != "skipped"]
    rest = iter(made)
    for wanted in scenario.order:
        if wanted not in rest:
            yield f"{wanted} is not in its place, wanted {', '.join(scenario.order)}: {', '.join(made)}"
            return


def _ran(scenario: Scenario, run: Run) -> Iterator[str]:
    for action, hosts in scenario.ran.items():
        found = [one["host"] for one in run.results if short(one["action"]) == action and one["status"] != "skipped"]
        if found != hosts:
            yield f"{action} ran on {found}, wanted {hosts}"
    # A task that is skipped costs as much as one that runs, so what a converged node costs is a number.
    forks = [
        one["host"] for one in run.results if short(one["action"]) not in ("meta", "include_role", "include_tasks")
    ]
    for host, count in scenario.tasks.items():
        if forks.count(host) != count:
            yield f"{forks.count(host)} tasks on {host}, wanted {count}"
    if scenario.changed is not None:
        changed = sorted({one["host"] for one in run.results if one["changed"]})
        if changed != sorted(scenario.changed):
            yield f"changed: {changed}, wanted {scenario.changed}"
