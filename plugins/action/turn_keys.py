# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Decide each step of a turn of Slurm's keys, and record it; documented in plugins/modules/turn_keys.py."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ansible.errors import AnsibleActionFail

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.key_files import fingerprint
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import secrets_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll import controller_call
from ansible_collections.bedplate.cluster.plugins.plugin_utils.turn_keys import (
    turn_plan,
    turn_proof,
    turn_variables,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.turn_keys.turn_record import (
    FINISHED,
    FINISHING,
    RETURNING,
    STAGING,
    SWITCHING,
    TurnFile,
    TurnRecord,
    TurnRecordError,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.turn_keys.turn_variables import KEYS
from ansible_collections.bedplate.cluster.plugins.plugin_utils.turn_keys.turned_secrets import NEXT, OLD, TurnedSecrets

# Nodes ping slurmctld, or are pinged, every SlurmdTimeout/3.
_PATIENCE = 150.0
_NOTHING = "Nothing was changed"
_BOTH_WORK = "No old key was replaced, and both keys work"


class ActionModule(controller_call.ControllerAction):
    """Read what machines have, decide the next step, and write the record and the secrets on the control node."""

    _VALID_ARGS = frozenset(("step",))
    _requires_connection = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run a step once for all machines of the play."""
        super().run(tmp, task_vars)
        self._task_vars = task_vars or {}
        self._raw = self._task_vars["hostvars"].raw_get
        self._groups: Mapping[str, list[str]] = self._task_vars["groups"]
        steps: dict[str, Callable[[], dict[str, Any]]] = {
            "plan": self._plan,
            "switch": self._switch,
            "window": self._window,
            "finish": self._finish,
            "close": self._close,
        }
        try:
            own = secrets_of(self._task_vars, self._templar, self._loader)
            self._secrets, self._file = TurnedSecrets(own), TurnFile(own.store.directory)
            return steps[str(self._task.args["step"])]()
        except KeyError as error:
            raise AnsibleActionFail(f"turn_keys: step {error}; allowed: {', '.join(steps)}") from None
        except (SecretError, TurnRecordError) as error:
            raise AnsibleActionFail(str(error)) from None

    def _plan(self) -> dict[str, Any]:
        """Decide whether a turn begins, continues or is given up, and name every machine that it would miss."""
        chosen = self._choices()
        record = self._file.read()
        is_new = record is None or not record.is_open
        if record is None or not record.is_open:
            if chosen.back or not chosen.keys:
                return self._nothing("nothing to do: no turn is under way. Request one with -e turn_keys=munge_key")
            for name in chosen.keys:
                self._secrets.require(name)
            record = TurnRecord(secrets.token_hex(4), chosen.keys)
        else:
            record = turn_plan.continued(record, chosen)
        states = self._states(record, is_new)
        so_far = _NOTHING if is_new or record.stage == STAGING else "No key was changed by this run"
        without, nodes = self._accepted(record, chosen, states, so_far)
        return self._begin(replace(record, without=without), states, nodes, is_new)

    def _accepted(
        self,
        record: TurnRecord,
        chosen: turn_variables.TurnChoices,
        states: Mapping[str, turn_plan.KeyState],
        so_far: str,
    ) -> tuple[dict[str, str], dict[str, Mapping[str, Any]]]:
        """Return the machines that the turn leaves out, with the reason, and what Slurm reports of all nodes.

        Fails with the names of all others that are not reached.
        """
        missed = {name: why for state in states.values() for name, why in state.missed.items()}
        accepted = list(dict.fromkeys([*chosen.without, *record.without]))
        found = turn_plan.refusals(missed, accepted, self._groups, self._machines(record), so_far)
        nodes = self._nodes()
        if not found:
            found = turn_plan.still_in_use({name: one for name, one in nodes.items() if name in missed})
        if found:
            raise AnsibleActionFail("\n".join(found))
        return {name: missed[name] for name in accepted if name in missed}, nodes

    def _begin(
        self,
        record: TurnRecord,
        states: Mapping[str, turn_plan.KeyState],
        nodes: Mapping[str, Mapping[str, Any]],
        is_new: bool,
    ) -> dict[str, Any]:
        """Write the record, make the new secrets, and return the plan."""
        lines = [f"turn {record.turn}: {'begins' if is_new else f'continues at {record.stage}'}"]
        lines += [
            f"{name}: {len(state.having(turn_plan.OLD))} machines have the old key, {len(state.having(turn_plan.NEW))} the new key"
            for name, state in states.items()
        ]
        lines += [f"{name} is left out: {why}" for name, why in record.without.items()]
        if "jwt_key" in record.keys and record.stage != RETURNING:
            lines.append("Every token of `scontrol token` ends with the old JWT key. Slurm keeps no list of tokens")
        if self._task.check_mode:
            return self._nothing("\n".join(lines))
        if is_new:
            for name in record.keys:
                # Of a turn whose last step was killed. A key that was given up is never used again.
                self._secrets.forget(name, OLD)
                self._secrets.forget(name, NEXT)
        self._file.write(record)
        self._display.display("\n".join(lines))
        goes_on = record.stage != RETURNING
        is_over = bool(record.since) and record.since + self._choices().window <= time.time()
        return {
            "changed": is_new,
            "stage": record.stage,
            "turn": record.turn,
            "keys": list(record.keys),
            "staged": {name: fingerprint(self._secrets.new(name), record.turn) for name in record.keys},
            "encodes": "new" if goes_on else "old",
            "all": {name: turn_plan.members(KEYS[name], self._groups) for name in record.keys} if goes_on else {},
            **turn_plan.lists_of(record, states, is_over),
            "nodes": nodes,
            "msg": "\n".join(lines),
        }

    def _switch(self) -> dict[str, Any]:
        """Require that every machine has the new key and reads credentials of both, and record that machines may use the new one."""
        plan, record = self._planned()
        lines = [
            line
            for name, machines in plan["copy"].items()
            for line in turn_proof.unstaged(self._raw, machines, KEYS[name], self._secrets.new(name))
        ]
        lines += self._unproved(plan["pair"].get(turn_plan.MUNGE, ()), "staged")
        if lines:
            remedy = "No machine changed the key with which it makes credentials. Repair these machines, and run again: the run continues"
            raise AnsibleActionFail("\n".join([*lines, remedy]))
        if record.stage == STAGING:
            self._file.write(record.at(SWITCHING))
        return {"changed": record.stage == STAGING}

    def _window(self) -> dict[str, Any]:
        """Require that all machines use the key of this stage, and wait until credentials of the other key have expired."""
        plan, record = self._planned()
        machines = plan["encode"].get(turn_plan.MUNGE, ())
        if lines := self._unproved(machines, "switched"):
            remedy = "Both keys work. Repair these machines, and run again: the run continues"
            raise AnsibleActionFail("\n".join([*lines, remedy]))
        changed = [name for name in machines if (self._raw(name).get("__turn_encodes") or {}).get("changed")]
        if changed or not record.since:
            record = replace(record, since=time.time())
            self._file.write(record)
        # A clock that was set back must not prolong it without end.
        window = self._choices().window
        left = min(record.since + window - time.time(), window)
        if left > 0:
            self._display.display(
                f"turn {record.turn}: all machines make credentials with the {plan['encodes']} key. Waiting {left:.0f} s until credentials "
                "of the other key have expired"
            )
            time.sleep(left)
        return {"changed": bool(changed), "waited": max(0.0, round(left, 1))}

    def _finish(self) -> dict[str, Any]:
        """Name every machine that does not answer now; else make the new secrets the cluster's. From here on the turn only goes forward."""
        plan, record = self._planned()
        states = self._states(record, is_new=False)
        so_far = _BOTH_WORK if record.stage == SWITCHING else "The new key replaces the old one already"
        without, _nodes = self._accepted(record, self._choices(), states, so_far)
        back = [
            machine
            for name, state in states.items()
            for machine in state.having(turn_plan.OLD)
            if machine not in plan["copy"].get(name, ())
        ]
        if back:
            raise AnsibleActionFail(
                f"{fold(back)}: answers again since this run began. {so_far}. Run again: it takes part then"
            )
        self._file.write(replace(record, stage=FINISHING, without=without))
        promoted = [name for name in record.keys if self._secrets.promote(name)]
        return {"changed": bool(promoted) or record.stage != FINISHING}

    def _close(self) -> dict[str, Any]:
        """Require the new key on all machines, and that they decode each other's credentials; then end the turn."""
        plan, record = self._planned()
        if record.stage == RETURNING:
            return self._returned(record)
        states = self._states(record, is_new=False)
        late: dict[str, list[str]] = {}
        left_out = set(record.without)
        for name, machines in plan["prove"].items():
            for machine in machines:
                why = states[name].missed.get(machine, "")
                if machine not in left_out and (why or states[name].machines.get(machine) != turn_plan.NEW):
                    late.setdefault(f"{name}: {why or 'still the old key'}", []).append(machine)
        lines = [f"{fold(names)}: {why}" for why, names in late.items()]
        lines += self._unproved(
            [name for name in plan["prove"].get(turn_plan.MUNGE, ()) if name not in left_out], "finished"
        )
        if lines:
            remedy = "Read `journalctl -u munge` there, and run playbooks/turn_keys.yml again: the run continues"
            raise AnsibleActionFail("\n".join([*lines, remedy]))
        self._wait_for_nodes({name: one for name, one in plan["nodes"].items() if name not in left_out})
        self._file.write(record.at(FINISHED))
        for name in record.keys:
            self._secrets.forget(name, OLD)
        lines = [f"turn {record.turn} of {', '.join(record.keys)}: finished"]
        if record.without:
            lines.append(
                f"{fold(record.without)}: old key. The next run of playbooks/scheduler.yml there, or of roll.yml, installs the new one"
            )
        lines += [
            f"bedplate_secrets.{name}: put the value of {name}{NEXT} there before the next run of another playbook"
            for name in record.keys
            if self._secrets.is_given(name)
        ]
        self._display.display("\n".join(lines))
        return {"changed": True, "msg": "\n".join(lines)}

    def _returned(self, record: TurnRecord) -> dict[str, Any]:
        """End a turn that was given up: no machine uses the new key any more."""
        self._file.write(record.at(FINISHED))
        for name in record.keys:
            self._secrets.forget(name, NEXT)
        text = f"turn {record.turn}: given up. All machines have the old key"
        self._display.display(text)
        return {"changed": True, "msg": text}

    def _wait_for_nodes(self, before: Mapping[str, Mapping[str, Any]]) -> None:
        deadline = time.monotonic() + _PATIENCE
        while silent := turn_plan.unanswered(before, self._nodes()):
            if time.monotonic() > deadline:
                raise AnsibleActionFail(
                    f"{fold(silent)}: answered slurmctld before the turn, and not {_PATIENCE:.0f} s after it. Look at munge.service "
                    "and slurmd.service there, and run playbooks/turn_keys.yml again"
                )
            time.sleep(3)

    def _nothing(self, text: str) -> dict[str, Any]:
        self._display.display(text)
        return {"changed": False, "stage": FINISHED, "msg": text}

    def _unproved(self, machines: Any, when: str) -> list[str]:
        controller = self._groups["slurm_controllers"][0]
        return turn_proof.unproved(self._raw, machines, controller, f"__turn_proof_{when}", f"__turn_collected_{when}")

    def _machines(self, record: TurnRecord) -> list[str]:
        return [name for key in record.keys for name in turn_plan.members(KEYS[key], self._groups)]

    def _states(self, record: TurnRecord, is_new: bool) -> dict[str, turn_plan.KeyState]:
        found = {}
        for name in record.keys:
            machines = turn_plan.members(KEYS[name], self._groups)
            # A new turn has no new secret yet, except one that the site gives.
            new = None if is_new and not self._secrets.is_given(name) else self._secrets.new(name)
            old = self._secrets.present(name) if is_new else self._secrets.old(name)
            found[name] = turn_plan.state_of(KEYS[name], machines, self._raw, old, new)
        return found

    def _nodes(self) -> dict[str, Mapping[str, Any]]:
        """Return what slurm_node reports of all nodes."""
        names = list(self._groups.get("compute_nodes", ()))
        if not names:
            return {}
        found = self._module("slurm_node", nodes=fold(names))
        if controller_call.is_lost(found):
            raise AnsibleActionFail(f"Slurm does not answer: {found.get('msg', '')}")
        return dict(found["nodes"])

    def _planned(self) -> tuple[Mapping[str, Any], TurnRecord]:
        plan = turn_plan.plan_of(self._raw, self._task_vars["ansible_play_hosts_all"])
        record = self._file.read()
        if not plan or record is None:
            raise AnsibleActionFail("this run has no plan of a turn. Run playbooks/turn_keys.yml as a whole")
        # A run waits for minutes in the window. If another one has ended the turn meanwhile, its next secret would be a new one that no
        # machine has.
        is_given_up = record.stage == RETURNING
        if record.turn != plan["turn"] or not record.is_open or is_given_up != (plan["stage"] == RETURNING):
            raise AnsibleActionFail(
                f"turn {plan['turn']}: another run of playbooks/turn_keys.yml has changed the turn meanwhile ({self._file.path}: turn "
                f"{record.turn}, {record.stage}). This run ends here and has changed no key since. Wait until the other one has ended, and "
                "run playbooks/turn_keys.yml again: it says whether anything is left to do"
            )
        return plan, record

    def _choices(self) -> turn_variables.TurnChoices:
        named = {name: self._task_vars[name] for name in turn_variables.VARIABLES if name in self._task_vars}
        try:
            return turn_variables.choices({name: self._templar.template(value) for name, value in named.items()})
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from None
