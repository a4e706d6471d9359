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
  - >-
    Slurm lets a reservation with C(MAINT) take nodes out of other reservations. The module fails if another one has one of the nodes at
    that time, and removes the reservation that it has just made. Check mode cannot see this, since only Slurm knows the time of
    O(start).
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
  reserved: {description: Also take nodes that are in other reservations at that time., type: bool, default: false}
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
overlaps:
  description: Other reservations that have nodes of this one at its time, with these nodes as a hostlist. Slurm takes them out of these.
  type: dict
  returned: success
  sample: {course: gpu02}
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import HostlistError, expand, fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live import drain_reasons, slurm_commands
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes import reservation
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.node_states import SlurmSilentError


def overlaps(name: str, found: Mapping[str, reservation.Reservation]) -> dict[str, str]:
    """Return the other reservations that have nodes of this one at its time, with these nodes; {} if this one does not exist."""
    others = reservation.overlapping(found[name], found) if name in found else {}
    return {other: fold(nodes) for other, nodes in others.items()}


def refuse_overlap(name: str, found: Mapping[str, reservation.Reservation]) -> None:
    """Raise ReservationError if a reservation has nodes of others at its time."""
    if others := overlaps(name, found):
        listed = ", ".join(f"{other} ({nodes})" for other, nodes in others.items())
        raise reservation.ReservationError(
            f"reservation {name} from {found[name].start} to {found[name].end} UTC takes nodes out of other reservations: {listed}. "
            "Choose another start or other nodes, or set reserved: true"
        )


def make(name: str, params: Mapping[str, Any], slurm_conf: Path, change: Callable[[Sequence[str]], str]) -> None:
    """Make the reservation, and remove it again if it has nodes of others, or if that cannot be read.

    Raises ReservationError, SlurmSilentError or HostlistError.
    """
    # Slurm before 23.11 cannot read text after the last bracket.
    nodes = fold(expand(params["nodes"]), suffixes=False)
    reservation.create(name, nodes, params["start"], params["minutes"], change)
    if params["reserved"]:
        return
    try:
        refuse_overlap(name, reservation.read(slurm_conf))
    except (reservation.ReservationError, SlurmSilentError) as why:
        try:
            reservation.remove(name, change)
        except reservation.ReservationError as error:
            raise reservation.ReservationError(
                f"{why}. It was not removed: {error}. Remove it: scontrol delete ReservationName={name}"
            ) from error
        raise


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
            "reserved": {"type": "bool", "default": False},
            "directory": {"type": "path", "default": "/etc/slurm"},
        },
        required_if=[("state", "present", ["nodes", "start"])],
        supports_check_mode=True,
    )
    params, slurm_conf = module.params, Path(module.params["directory"]) / "slurm.conf"
    name = drain_reasons.reservation_name(params["kind"], params["run"])
    change = partial(slurm_commands.change, slurm_conf=slurm_conf)
    try:
        found = reservation.read(slurm_conf)
        changed = params["state"] is not None and (name not in found) == (params["state"] == "present")
        if params["state"] == "present" and not changed and not params["reserved"]:
            refuse_overlap(name, found)
        if changed and not module.check_mode:
            if params["state"] == "present":
                make(name, params, slurm_conf, change)
            else:
                reservation.remove(name, change)
            found = reservation.read(slurm_conf)
    except (SlurmSilentError, reservation.ReservationError, HostlistError) as error:
        module.fail_json(msg=str(error))
    own = found.get(name, reservation.Reservation(name))
    module.exit_json(
        changed=changed,
        name=name,
        exists=name in found,
        active=own.active,
        nodes=fold(own.nodes),
        start=own.start,
        end=own.end,
        overlaps=overlaps(name, found),
    )


if __name__ == "__main__":
    main()
