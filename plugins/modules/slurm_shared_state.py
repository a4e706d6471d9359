#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Prove that all controllers share StateSaveLocation."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_shared_state
short_description: Prove that all controllers share the directory of slurmctld's state
version_added: 0.1.0
description:
  - Three steps, each on all controllers before the next one, because a removed mark can be seen by no other controller.
  - Problems are findings and no failure, so that the findings of all controllers are reported at once.
options:
  step:
    description:
      - V(leave) checks O(path), its owner and that O(user) can write there, and leaves a mark. V(look) finds the O(marks) that are not to
        be seen here. V(remove) removes the mark of this controller.
    type: str
    choices: [leave, look, remove]
    required: true
  path: {description: StateSaveLocation., type: path, required: true}
  user: {description: SlurmUser., type: str, default: slurm}
  name: {description: Name of this controller., type: str, required: true}
  marks:
    description: Name of each controller that has left a mark to its RV(mark), for V(look). Without its own mark a controller finds nothing.
    type: dict
    default: {}
  directory: {description: Where slurm.conf is., type: path, default: /etc/slurm}
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode:
    support: partial
    description: Checks the directory only.
    details: Checks the directory, leaves no mark and looks for none. The owner is not checked before the user is there.
"""

EXAMPLES = r"""
- name: Leave a mark
  bedplate.cluster.slurm_shared_state: {step: leave, path: /srv/slurm/state, name: "{{ inventory_hostname }}"}
  register: slurm_mark

- name: See the marks of all controllers
  bedplate.cluster.slurm_shared_state:
    step: look
    path: /srv/slurm/state
    name: "{{ inventory_hostname }}"
    marks: {ctl1: "{{ hostvars['ctl1'].slurm_mark.mark }}", ctl2: "{{ hostvars['ctl2'].slurm_mark.mark }}"}
  register: slurm_seen
# => slurm_seen.findings[0].expected: the directory that ctl1 has under this name

- name: Remove the mark
  bedplate.cluster.slurm_shared_state: {step: remove, path: /srv/slurm/state, name: "{{ inventory_hostname }}"}
"""

RETURN = r"""
findings: {description: Problems on this controller., type: list, elements: dict, returned: always}
mark: {description: "The mark; empty if none was left.", type: str, returned: with V(leave)}
in_force:
  description: Whether this controller has a slurm.conf and O(path) holds the state of a slurmctld.
  type: bool
  returned: with V(leave)
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common import finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.as_user import uid_of
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm import shared_state


def _leave(path: Path, name: str, user: str, in_force: bool, check: bool) -> dict[str, object]:
    if check and uid_of(user) is None:
        return {"findings": [], "mark": "", "in_force": False}  # a package brings it
    mark, found = "", shared_state.check(path, user)
    if found is None and not check:
        mark, found = shared_state.leave_mark(path, name, user)
    held = in_force and found is None and shared_state.holds_state(path, user)
    return {"findings": finding.to_json([found] if found else []), "mark": mark, "in_force": held}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "step": {"type": "str", "required": True, "choices": ["leave", "look", "remove"]},
            "path": {"type": "path", "required": True},
            "user": {"type": "str", "default": "slurm"},
            "name": {"type": "str", "required": True},
            "marks": {"type": "dict", "default": {}},
            "directory": {"type": "path", "default": "/etc/slurm"},
        },
        supports_check_mode=True,
    )
    path, user, name, marks = Path(module.params["path"]), *(module.params[key] for key in ("user", "name", "marks"))
    if module.params["step"] == "leave":
        in_force = (Path(module.params["directory"]) / "slurm.conf").exists()
        module.exit_json(changed=False, **_leave(path, name, user, in_force, module.check_mode))
    if module.params["step"] == "look":
        missing = shared_state.unseen_machines(path, marks, user) if marks.get(name) else ()
        module.exit_json(changed=False, findings=finding.to_json(missing))
    if not module.check_mode:
        shared_state.remove(path, name, user)
    module.exit_json(changed=False, findings=[])


if __name__ == "__main__":
    main()
