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
  - Run it twice on all controllers. Without O(marks) it leaves a mark in O(path) as O(user) and returns it; with the O(marks) of all
    controllers it fails where one of them is not seen, and removes its own.
  - Fails where O(path) is missing or is not owned by O(user).
options:
  path: {description: StateSaveLocation., type: path, required: true}
  user: {description: SlurmUser., type: str, default: slurm}
  name: {description: Name of this controller., type: str, required: true}
  marks: {description: Name of each controller to the RV(mark) of its first call., type: dict}
author: The bedplate authors
attributes:
  check_mode: {support: full, description: Leaves no mark and looks for none.}
"""

EXAMPLES = r"""
- name: Leave a mark
  bedplate.cluster.slurm_shared_state: {path: /srv/slurm/state, name: "{{ inventory_hostname }}"}
  register: slurm_mark

- name: See the marks of all controllers
  bedplate.cluster.slurm_shared_state:
    path: /srv/slurm/state
    name: "{{ inventory_hostname }}"
    marks: {ctl1: "{{ hostvars['ctl1'].slurm_mark.mark }}", ctl2: "{{ hostvars['ctl2'].slurm_mark.mark }}"}
# => fails: /srv/slurm/state on ctl2 is not what ctl1 has under this name: ...
"""

RETURN = r"""
mark: {description: What this controller has written., type: str, returned: without O(marks)}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm import shared_state


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "user": {"type": "str", "default": "slurm"},
            "name": {"type": "str", "required": True},
            "marks": {"type": "dict"},
        },
        supports_check_mode=True,
    )
    path, user, name, marks = (module.params[key] for key in ("path", "user", "name", "marks"))
    if module.check_mode:
        module.exit_json(changed=False, mark="")
    try:
        if marks is None:
            module.exit_json(changed=False, mark=shared_state.leave(Path(path), name, user))
        missing = list(shared_state.unseen(Path(path), marks))
        shared_state.remove(Path(path), name, user)
    except shared_state.SharedStateError as error:
        module.fail_json(msg=str(error))
        raise
    if missing:
        module.fail_json(
            msg=f"{path} (StateSaveLocation) on {name} is not the directory that {', '.join(missing)} has under this name. All controllers "
            "need the same storage: with one of their own a standby would start without any job. Nothing was written."
        )
    module.exit_json(changed=False)


if __name__ == "__main__":
    main()
