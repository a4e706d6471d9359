#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Resume the nodes and reopen the partitions that slurm_in_use has kept free of new jobs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_fence
short_description: Resume nodes and reopen partitions that were kept free of new jobs during a change
version_added: 0.1.0
description:
  - Resumes the nodes that M(bedplate.cluster.slurm_in_use) has drained, and opens the partitions that it has closed.
  - A node with another reason than bedplate's own stays as it is, since a person has drained it meanwhile.
  - A partition that slurm.conf closes, or that a person has opened or given another state, stays as it is.
options:
  nodes:
    description: The nodes, as a Slurm hostlist.
    type: str
    required: true
  partitions:
    description: The partitions.
    type: list
    elements: str
    default: []
  directory:
    description: Where slurm.conf is.
    type: path
    default: /etc/slurm
  state_directory:
    description: Where bedplate keeps the record of the partitions that it has closed, C(slurm_fence.json).
    type: path
    default: /var/lib/bedplate
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It predicts the nodes and partitions.}
"""

EXAMPLES = r"""
- name: Resume nodes and reopen partitions
  bedplate.cluster.slurm_fence:
    nodes: gpu[01-02]
    partitions: [debug]
"""

RETURN = r"""
commands: {description: The commands that were run., type: list, elements: str, returned: always}
"""

import time
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import expand
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.conf_reader import Conf, read
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs.fence import (
    Closed,
    Fence,
    lift,
    lift_commands,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.slurm_commands import query
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.slurmctld_report import Live

# slurmctld may be in the middle of a restart.
_PATIENCE = 30


def planned(live: Live, conf: Conf, fence: Fence) -> list[str]:
    """Return the commands that give nodes and partitions back."""
    return [" ".join(command) for command in lift_commands(live, conf, fence)]


def give_back(module: AnsibleModule, live: Live, conf: Conf, fence: Fence, closed: Closed) -> list[str]:
    """Resume nodes and reopen partitions; return the failures. OSError: the record of partitions is damaged."""
    if module.check_mode:
        return []
    return lift(Path(module.params["directory"]) / "slurm.conf", live, conf, fence, closed)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "str", "required": True},
            "partitions": {"type": "list", "elements": "str", "default": []},
            "directory": {"type": "path", "default": "/etc/slurm"},
            "state_directory": {"type": "path", "default": "/var/lib/bedplate"},
        },
        supports_check_mode=True,
    )
    slurm_conf, nodes = Path(module.params["directory"]) / "slurm.conf", module.params["nodes"]
    fence = Fence(expand(nodes) if nodes else [], module.params["partitions"])
    deadline = time.monotonic() + _PATIENCE
    live = query(slurm_conf)
    while live is None:
        if time.monotonic() < deadline:
            time.sleep(1)
            live = query(slurm_conf)
            continue
        module.fail_json(
            msg=f"slurmctld does not answer. Nodes {nodes or 'none'} stay drained with the reason `bedplate:edit:`, and partitions "
            f"{', '.join(fence.partitions) or 'none'} stay closed. Start slurmctld. A run of playbooks/scheduler.yml more than "
            "ten minutes from now resumes and reopens them.",
            commands=[],
        )
    closed = Closed(Path(module.params["state_directory"]))
    commands: list[str] = []
    while True:
        try:
            conf = read(slurm_conf)
            commands += [one for one in planned(live, conf, fence) if one not in commands]
            failed = give_back(module, live, conf, fence, closed)
        except OSError as error:
            module.fail_json(msg=str(error), commands=commands)
        # slurmctld refuses a node that has not registered since it read its files, and may forget the reason of one.
        if not failed or time.monotonic() >= deadline:
            break
        time.sleep(1)
        live = query(slurm_conf) or live
    if failed:
        remedy = "When the nodes answer, resume them, or run playbooks/scheduler.yml again after ten minutes."
        module.fail_json(msg="\n".join([*failed, f"What the run has changed stays. {remedy}"]), commands=commands)
    module.exit_json(changed=bool(commands), commands=commands)


if __name__ == "__main__":
    main()
