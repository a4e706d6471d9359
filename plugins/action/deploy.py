# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring packages, files and units of a part of a role to a machine: see `ansible-doc bedplate.cluster.deploy`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean

from ansible_collections.bedplate.cluster.plugins.action.files import ActionModule as Files
from ansible_collections.bedplate.cluster.plugins.module_utils.node_units import read_units
from ansible_collections.bedplate.cluster.plugins.plugin_utils.file_entries import mistakes

_WAIT = 300  # seconds for another apt to end
_LISTS_AGE = 86400  # seconds after which apt's lists are read again
_LISTS = ("repositories", "packages", "files", "units")


class ActionModule(Files):
    """Let apt install what is missing, then bring files and units with one module."""

    _VALID_ARGS = frozenset(("manifest", "start_installed", "state_directory", *_LISTS))
    _module = "bedplate.cluster.deploy"

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task on one host."""
        super(Files, self).run(tmp, task_vars)
        self._task_vars = task_vars or {}
        wanted = {key: self._task.args.get(key) or [] for key in _LISTS}
        listed = [str(name) for name in self._task.notify or []]
        self._refuse("wrong arguments", _mistakes(self._task.args, wanted, listed))
        told = self._told(wanted["files"], self._task_vars)
        told["units"] = wanted["units"]
        self._steps: list[dict[str, Any]] = []
        result = self._deploy(told, wanted["repositories"], wanted["packages"])
        self._narrow(result, listed)
        return result

    def _deploy(self, told: dict[str, Any], repositories: list[Any], packages: list[str]) -> dict[str, Any]:
        news = False
        if repositories:
            news = self._add(repositories)
            if self._steps[-1].get("failed"):
                return self._result([])
        self._do(self._module, told, packages=packages)
        lacking = self._steps[-1].pop("missing", [])
        if not lacking:
            return self._result([])
        # In check mode a repository that is not there yet offers nothing, so apt could tell nothing of its packages.
        if not (news and self._task.check_mode):
            self._install(packages, news)
            if self._steps[-1].get("failed"):
                return self._result(lacking)
        self._do(self._module, told)
        result = self._result(lacking)
        if news and self._task.check_mode:
            result["changed"] = True
        return result

    def _add(self, repositories: list[Any]) -> bool:
        """Add the repositories, and return whether there is a new one."""
        self._do("ansible.builtin.apt", _apt(["python3-debian"], _LISTS_AGE))
        reader = self._steps[-1]
        if reader.get("failed"):
            return False
        if self._task.check_mode and reader.get("changed"):
            return True  # without what reads them none can be compared
        news = False
        for repository in repositories:
            self._do("ansible.builtin.deb822_repository", dict(repository))
            if self._steps[-1].get("failed"):
                return False
            news |= bool(self._steps[-1].get("changed"))
        return news

    def _install(self, packages: list[str], news: bool) -> None:
        arguments = _apt(packages, 0 if news else _LISTS_AGE)
        if not boolean(self._task.args.get("start_installed", True)):
            arguments["policy_rc_d"] = 101
        self._do("ansible.builtin.apt", arguments)

    def _do(self, module: str, arguments: dict[str, Any], **more: Any) -> None:
        # Not a copy of the arguments alone: their type keeps the payload out of Ansible's debug output.
        told = type(arguments)({**arguments, **more})
        self._steps.append(self._execute_module(module_name=module, module_args=told, task_vars=self._task_vars))

    def _result(self, installed: list[str]) -> dict[str, Any]:
        """Return one result of all steps: that of the last one, with what the others changed."""
        result = self._steps[-1]
        result["changed"] = any(step.get("changed") for step in self._steps)
        diffs = [diff for step in self._steps for diff in _listed(step.get("diff"))]
        if diffs:
            result["diff"] = diffs
        result["installed"] = installed
        return result


def _apt(packages: list[str], age: int) -> dict[str, Any]:
    return {
        "name": packages,
        "install_recommends": False,
        "cache_valid_time": age,
        "update_cache": not age,
        "lock_timeout": _WAIT,
    }


def _listed(diff: Any) -> list[Any]:
    return list(diff) if isinstance(diff, list) else [diff] if diff else []


def _mistakes(arguments: Mapping[str, Any], wanted: Mapping[str, Any], listed: Sequence[str]) -> list[str]:
    """Return everything that is wrong with the arguments of a task."""
    manifest = arguments.get("manifest")
    found = mistakes(manifest, wanted["files"], listed) if manifest is not None or wanted["files"] else []
    for key, kind in (("repositories", Mapping), ("packages", str), ("units", Mapping)):
        if isinstance(wanted[key], (str, Mapping)) or not isinstance(wanted[key], Sequence):
            found.append(f"{key}: {wanted[key]!r}; allowed: a list")
            continue
        odd = [entry for entry in wanted[key] if not isinstance(entry, kind) or not entry]
        found += [f"{key}: {entry!r}; allowed: {'text' if kind is str else 'a mapping'}" for entry in odd]
        if key == "units" and not odd:
            found += read_units(wanted[key])[1]
    try:
        boolean(arguments.get("start_installed", True))
    except TypeError:
        found.append(f"start_installed: {arguments['start_installed']!r}; allowed: true, false")
    return found
