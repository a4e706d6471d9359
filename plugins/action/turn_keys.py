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
from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.key_files import fingerprint
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import secrets_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll import controller_call
from ansible_collections.bedplate.cluster.plugins.plugin_utils.turn_keys import turn_plan, turn_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.turn_keys.turn_record import (
    FINISHED,
    SWITCHING,
    TurnFile,
    TurnRecord,
    TurnRecordError,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.turn_keys.turn_variables import KEYS
from ansible_collections.bedplate.cluster.plugins.plugin_utils.turn_keys.turned_secrets import NEXT, OLD, TurnedSecrets

# Seconds until the pause, and for each machine: a node that learns of it too late stops after the controllers, and what it sends between is
# refused after the switch. slurmstepd does not repeat the end of a step.
_LEAD, _LEAD_EACH = 30.0, 0.25
# Seconds for which controllers still answer what nodes have sent before their pause.
_LATER = 2.0
# Nodes ping slurmctld, or are pinged, every SlurmdTimeout/3.
_PATIENCE = 150.0


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
            "promote": self._promote,
            "finish": self._finish,
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
        if record is None or not record.is_open:
            if chosen.back or not chosen.keys:
                return self._nothing("nothing to do: no turn is under way. Request one with -e turn_keys=munge_key")
            for name in chosen.keys:
                self._secrets.require(name)
            record = TurnRecord(secrets.token_hex(4), chosen.keys)
            is_new = True
        else:
            is_new = False
            if chosen.keys and chosen.keys != record.keys:
                raise AnsibleActionFail(
                    f"turn {record.turn} of {', '.join(record.keys)} is under way. Finish it first: run playbooks/turn_keys.yml without "
                    f"turn_keys; or, while no machine has the new key, give it up: -e turn_keys={turn_variables.BACK}"
                )
        states = self._states(record, is_new)
        if chosen.back:
            return self._back(record, states)
        missed = {name: why for state in states.values() for name, why in state.missed.items()}
        machines = [name for key in record.keys for name in turn_plan.members(KEYS[key], self._groups)]
        accepted = list(dict.fromkeys([*chosen.without, *record.without]))
        found = turn_plan.refusals(missed, accepted, self._groups, machines)
        nodes = self._nodes()
        if not found:
            out = {name: one for name, one in nodes.items() if name in missed}
            found = turn_plan.still_in_use(out)
        if found:
            raise AnsibleActionFail("\n".join(found))
        without = {name: missed[name] for name in accepted if name in missed}
        return self._begin(replace(record, without=without), states, nodes, is_new)

    def _begin(
        self,
        record: TurnRecord,
        states: Mapping[str, turn_plan.KeyState],
        nodes: Mapping[str, Mapping[str, Any]],
        is_new: bool,
    ) -> dict[str, Any]:
        """Write the record, make the new secrets, and return the plan."""
        switch = {name: state.having(turn_plan.OLD) for name, state in states.items()}
        prove = {name: [*switch[name], *state.having(turn_plan.NEW)] for name, state in states.items()}
        lines = [f"turn {record.turn}: {'begins' if is_new else f'continues at {record.stage}'}"]
        lines += [
            f"{name}: {len(switch[name])} machines change, {len(state.having(turn_plan.NEW))} have the new key"
            for name, state in states.items()
        ]
        lines += [f"{name} keeps the old key: {why}" for name, why in record.without.items()]
        if "jwt_key" in record.keys:
            lines.append("Every token of `scontrol token` ends with the old JWT key. Slurm keeps no list of tokens")
        if self._task.check_mode:
            return self._nothing("\n".join(lines))
        if is_new:
            for name in record.keys:
                # Of a turn that ended in between.
                self._secrets.forget(name, OLD)
        self._file.write(record)
        self._display.display("\n".join(lines))
        return {
            "changed": is_new,
            "stage": record.stage,
            "turn": record.turn,
            "keys": list(record.keys),
            "staged": {name: fingerprint(self._secrets.new(name), record.turn) for name in record.keys},
            "switch": switch,
            "prove": prove,
            "clean": prove,
            "nodes": nodes,
            "pause": self._choices().pause,
            "msg": "\n".join(lines),
        }

    def _switch(self) -> dict[str, Any]:
        """Require the new key beside the old one on every machine, record that machines may have the new one, and return the time."""
        plan, record = self._planned()
        lines = []
        for name, machines in plan["switch"].items():
            alike: dict[str, list[str]] = {}
            for machine in machines:
                read = self._raw(machine).get(KEYS[name].register)
                if why := self._unstaged(name, read):
                    alike.setdefault(why, []).append(machine)
            lines += [f"{fold(found)}: {name}: {why}" for why, found in alike.items()]
        if lines:
            remedy = "No key was replaced. Repair these machines, and run again: the run continues"
            raise AnsibleActionFail("\n".join([*lines, remedy]))
        self._file.write(record.at(SWITCHING))
        lead = _LEAD + _LEAD_EACH * max(map(len, plan["switch"].values()), default=0)
        pause_at = time.time() + lead
        times = {"pause_at": pause_at, "controllers_at": pause_at + _LATER, "switch_at": pause_at + plan["pause"]}
        return {"changed": True, **times}

    def _unstaged(self, name: str, read: object) -> str:
        if not isinstance(read, Mapping) or read.get("unreachable"):
            return "no answer by SSH"
        if "staged" not in read:
            return str(read.get("msg") or "the new key was not staged")
        # A machine may have switched since the plan: a run that was killed leaves processes that wait for their time.
        is_there = fingerprint(self._secrets.new(name), str(read["salt"])) in (read["staged"], read["present"])
        return "" if is_there else "the new key is not staged"

    def _promote(self) -> dict[str, Any]:
        """Require the new key on all machines of the plan, make it the cluster's, and require that nodes answer slurmctld."""
        plan, record = self._planned()
        states = self._states(record, is_new=False)
        late: dict[str, list[str]] = {}
        for name, machines in plan["prove"].items():
            for machine in machines:
                why = states[name].missed.get(machine, "")
                if why or states[name].machines[machine] != turn_plan.NEW:
                    late.setdefault(f"{name}: {why or 'still the old key'}", []).append(machine)
        # The other machines have the new key by now, so the cluster has it, too.
        changed = [name for name in record.keys if states[name].having(turn_plan.NEW) and self._secrets.promote(name)]
        if late:
            lines = [f"{fold(names)}: {why}" for why, names in late.items()]
            remedy = "Slurm does not reach these machines. Run playbooks/turn_keys.yml again now: it switches them"
            raise AnsibleActionFail("\n".join([*lines, f"{remedy}, before SlurmdTimeout ends their jobs"]))
        deadline = time.monotonic() + _PATIENCE
        while silent := turn_plan.unanswered(plan["nodes"], self._nodes()):
            if time.monotonic() > deadline:
                raise AnsibleActionFail(
                    f"{fold(silent)}: answered slurmctld before the switch, and not {_PATIENCE:.0f} s after it. Look at munge.service "
                    "and slurmd.service there, and run playbooks/turn_keys.yml again"
                )
            time.sleep(3)
        return {"changed": bool(changed), "msg": "all machines have the new keys, and all nodes answer"}

    def _finish(self) -> dict[str, Any]:
        """Require that machines decode each other's credentials, close the record and remove the old secrets."""
        plan, record = self._planned()
        if not record.is_open:
            return {"changed": False, "msg": "the turn was given up"}
        if lines := self._unproved(plan):
            raise AnsibleActionFail("\n".join([*lines, "Look at munge.service there, and run again"]))
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
        return {"changed": record.is_open, "msg": "\n".join(lines)}

    def _unproved(self, plan: Mapping[str, Any]) -> list[str]:
        """Return the machines whose credentials the controller does not decode, or which do not decode its own."""
        machines = plan["prove"].get("munge_key", ())
        lines = []
        controller = self._groups["slurm_controllers"][0]
        of_controller = self._raw(controller).get("__turn_collected")
        if machines and (not isinstance(of_controller, Mapping) or "refused" not in of_controller):
            lines.append(f"{controller}: no result of the comparison of munge credentials")
            return lines
        for machine in machines:
            proof = self._raw(machine).get("__turn_proof")
            if not isinstance(proof, Mapping) or "refused" not in proof:
                lines.append(f"{machine}: no munge credential")
            elif proof["refused"]:
                lines.append(f"{machine}: cannot decode the credential of {controller}")
            elif machine in (of_controller or {})["refused"]:
                lines.append(f"{controller}: cannot decode the credential of {machine}")
        return lines

    def _back(self, record: TurnRecord, states: Mapping[str, turn_plan.KeyState]) -> dict[str, Any]:
        """Give up a turn whose new key no machine has yet."""
        if has := [name for state in states.values() for name in state.having(turn_plan.NEW)]:
            raise AnsibleActionFail(
                f"{few(has)}: has the new key already. Finish the turn: run playbooks/turn_keys.yml without turn_keys"
            )
        if self._task.check_mode:
            return self._nothing(f"turn {record.turn}: would be given up")
        self._file.write(replace(record, stage=FINISHED, without={}))
        for name in record.keys:
            self._secrets.forget(name, NEXT)
        text = f"turn {record.turn}: given up. No machine has the new key"
        self._display.display(text)
        everywhere = {name: list(state.machines) for name, state in states.items()}
        return {**self._nothing(text), "changed": True, "clean": everywhere}

    def _nothing(self, text: str) -> dict[str, Any]:
        if not self._task.check_mode or text:
            self._display.display(text)
        return {"changed": False, "stage": FINISHED, "switch": {}, "prove": {}, "msg": text}

    def _states(self, record: TurnRecord, is_new: bool) -> dict[str, turn_plan.KeyState]:
        found = {}
        for name in record.keys:
            machines = turn_plan.members(KEYS[name], self._groups)
            # A new turn has no new secret yet, except one that the site gives.
            new = None if is_new and not self._secrets.is_given(name) else self._secrets.new(name)
            found[name] = turn_plan.state_of(KEYS[name], machines, self._raw, self._secrets.old(name), new, time.time())
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
        return plan, record

    def _choices(self) -> turn_variables.TurnChoices:
        named = {name: self._task_vars[name] for name in turn_variables.VARIABLES if name in self._task_vars}
        try:
            return turn_variables.choices({name: self._templar.template(value) for name, value in named.items()})
        except ValueError as error:
            raise AnsibleActionFail(str(error)) from None
