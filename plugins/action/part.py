# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Deploy a part of a role as the role decides for the host; documented in plugins/modules/part.py."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common import predicted_changes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.rendering import Renderer
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.decision import Step
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.part_files import part_file
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles import phases
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.host_decision import HostDecision, RunHost

_DEPLOY = "bedplate.cluster.deploy"
# Of the result of a part: two parts of one task have each their own.
_LISTS = ("changed_files", "removed", "installed", "changes")
_OWN = ("name", "role", "before", "after", "reported")


class ActionModule(ActionBase):  # type: ignore[misc]
    """Decide, render, then run the steps before, the part, and the steps after."""

    _VALID_ARGS = frozenset((*_OWN, "only", "touched", "unchanged", "take_back", "keep_below", "prune", "repositories"))
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task on one host."""
        super().run(tmp, task_vars)
        self._task_vars = task_vars or {}
        decided = self._decided()
        self._role = decided.role
        self._phases = phases.chosen_phases(
            decided.role, self._task_vars.get("ansible_run_tags") or (), self._task.tags or ()
        )
        if decided.decision.refusal:
            raise AnsibleActionFail(decided.decision.refusal)
        return self._in_order([*self._steps(decided, "before"), *self._parts(decided), *self._steps(decided, "after")])

    def _decided(self) -> HostDecision:
        role = self._task.args.get("role") or (
            self._task._role.get_name(include_role_fqcn=False) if self._task._role else ""
        )
        host = RunHost(
            variables=self._task_vars,
            template=self._templar.template,
            render=Renderer(self._task, self._templar, self._loader, self._task_vars).site_template,
            login_user=str(self._play_context.remote_user or ""),
            check=self._task.check_mode,
        )
        try:
            return host.decision(role, self._task.args.get("reported"))
        except (KeyError, ValueError) as error:
            raise AnsibleActionFail(f"role {role}: {error.args[0] if error.args else error}") from None

    def _parts(self, decided: HostDecision) -> Iterable[tuple[str, Step]]:
        """Yield the parts of this host that the task names."""
        more = {key: value for key, value in self._task.args.items() if key not in _OWN}
        names = self._task.args.get("name") or []
        for name in [names] if isinstance(names, str) else names:
            arguments = decided.arguments(name)
            if arguments is None:
                continue
            undivided = bool(part_file(decided.role, name).get("undivided"))
            if (chosen := phases.narrowed({**arguments, **more}, undivided, self._phases)) is not None:
                yield name, Step(_DEPLOY, chosen)

    def _steps(self, decided: HostDecision, when: str) -> Iterable[tuple[str, Step]]:
        """Yield the steps of this host that the task names, in the order of the task."""
        for name in self._task.args.get(when) or ():
            for step in decided.decision.steps.get(name, ()):
                if phases.runs_step(step, self._phases):
                    yield name, step

    def _in_order(self, work: Iterable[tuple[str, Step]]) -> dict[str, Any]:
        """Run all, up to the first that fails, and return one result."""
        done: list[tuple[str, Step, dict[str, Any]]] = []
        for name, step in work:
            changed = [path for _name, _step, one in done for path in one.get("changed_files") or ()]
            if step.after_change and step.after_change not in changed:
                continue
            found = self._run_step(step, changed)
            done.append((name, step, found))
            if found.get("failed") or found.get("unreachable"):
                break
        return _joined(done)

    def _run_step(self, step: Step, changed: Sequence[str]) -> dict[str, Any]:
        """Run a step: its action plugin where it has one, else the module. A part also restarts units after `changed` files."""
        if step.module != _DEPLOY and not self._shared_loader_obj.action_loader.has_plugin(step.module):
            found: dict[str, Any] = self._execute_module(
                module_name=step.module, module_args=dict(step.arguments), task_vars=self._task_vars
            )
            return found
        task = self._task.copy()
        task.args = dict(step.arguments)
        host = str(self._task_vars["inventory_hostname"])
        predicts = task.check_mode and step.module == _DEPLOY
        if predicts:
            task.args["predicted"] = predicted_changes.predicted(host, self._role)
        if step.module == _DEPLOY and changed and step.arguments.get("state") != "absent":
            task.args["touched"] = [*task.args.get("touched", []), *changed]
        task.diff = task.diff and not step.hide_diff
        action = self._shared_loader_obj.action_loader.get(
            step.module,
            task=task,
            connection=self._connection,
            play_context=self._play_context,
            loader=self._loader,
            templar=self._templar,
            shared_loader_obj=self._shared_loader_obj,
        )
        result: dict[str, Any] = action.run(task_vars=self._task_vars)
        if predicts:
            predicted_changes.add(host, self._role, result)
        waiting = list(phases.waiting_units(step.arguments, result.get("changed_files") or ()))
        if waiting and "only" not in self._task.args:
            text = f"{', '.join(waiting)}: files changed, and this run has no tag of services. The next run with services restarts it."
            result["warnings"] = [*result.get("warnings", []), text]
        return result


def _joined(done: Sequence[tuple[str, Step, Mapping[str, Any]]]) -> dict[str, Any]:
    """Return one result: of the failed step, else of the parts; `steps` has all others by name."""
    results = [one for _name, _step, one in done]
    parts = [one for _name, step, one in done if step.module == _DEPLOY]
    failed = results[-1:] if results and (results[-1].get("failed") or results[-1].get("unreachable")) else []
    result: dict[str, Any] = {}
    for one in failed or parts or [{}]:
        result = {**result, **one, **{key: [*result.get(key, []), *one.get(key, [])] for key in _LISTS if key in one}}
    result["changed"] = any(one.get("changed") for one in results)
    for key in ("diff", "warnings", "deprecations"):
        if listed := [each for one in results for each in _listed(one.get(key))]:
            result[key] = listed
    if steps := {name: one for name, step, one in done if step.module != _DEPLOY}:
        result["steps"] = steps
    return result


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value] if value else []
