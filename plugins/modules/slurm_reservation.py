#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Make and remove the maintenance reservation of a run."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_reservation
short_description: Make and remove the maintenance reservation of a run
version_added: 0.2.0
description:
  - Keeps the reservation C(bedplate_<kind>_<run>) with the flags C(MAINT) and C(IGNORE_JOBS). Until it begins, Slurm starts only jobs on
    its nodes whose time limits end before it. A job that runs into it continues.
  - A reservation that exists is left as it is. Runs on a controller, as root or C(SlurmUser).
options:
  kind: {description: What the run does., type: str, default: roll}
  run: {description: The name of the run., type: str, required: true}
  state:
    description: V(present) makes it, V(absent) removes it. Left out, the module only reports.
    type: str
    choices: [present, absent]
  nodes: {description: "The nodes, as a Slurm hostlist. Needed with O(state=present).", type: str}
  start: {description: "When it begins, as Slurm writes times. Needed with O(state=present).", type: str}
  minutes: {description: How long it lasts., type: int, default: 240}
  directory: {description: Where slurm.conf is., type: path, default: /etc/slurm}
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It reports and predicts.}
"""

EXAMPLES = r"""
- name: Reserve two nodes for Friday night
  bedplate.cluster.slurm_reservation:
    {run: 3f2a9c1b, state: present, nodes: "gpu[01-02]", start: "2026-11-27T22:00:00", minutes: 240}
"""

RETURN = r"""
name: {description: The name of the reservation., type: str, returned: success, sample: bedplate_roll_3f2a9c1b}
exists: {description: Whether it exists., type: bool, returned: success}
active: {description: Whether it has begun., type: bool, returned: success}
nodes: {description: "Its nodes, as a hostlist.", type: str, returned: success, sample: "gpu[01-02]"}
start: {description: "When it begins, in UTC.", type: str, returned: success, sample: "2026-11-27T22:00:00"}
end: {description: "When it ends, in UTC.", type: str, returned: success, sample: "2026-11-28T02:00:00"}
"""

from functools import partial
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live import slurm_commands
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes import reservation
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.node_states import SlurmSilentError


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "kind": {"type": "str", "default": "roll"},
            "run": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"]},
            "nodes": {"type": "str"},
            "start": {"type": "str"},
            "minutes": {"type": "int", "default": 240},
            "directory": {"type": "path", "default": "/etc/slurm"},
        },
        required_if=[("state", "present", ["nodes", "start"])],
        supports_check_mode=True,
    )
    params, slurm_conf = module.params, Path(module.params["directory"]) / "slurm.conf"
    name = reservation.name_of(params["kind"], params["run"])
    change = partial(slurm_commands.change, slurm_conf=slurm_conf)
    try:
        found = reservation.read(name, slurm_conf)
        changed = params["state"] is not None and (found is None) == (params["state"] == "present")
        if changed and not module.check_mode:
            if params["state"] == "present":
                reservation.create(name, params["nodes"], params["start"], params["minutes"], change)
            else:
                reservation.remove(name, change)
            found = reservation.read(name, slurm_conf)
    except (SlurmSilentError, reservation.ReservationError) as error:
        module.fail_json(msg=str(error))
    own = found or reservation.Reservation(name)
    module.exit_json(
        changed=changed,
        name=name,
        exists=found is not None,
        active=own.active,
        nodes=fold(own.nodes),
        start=own.start,
        end=own.end,
    )


if __name__ == "__main__":
    main()
