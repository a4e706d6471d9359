#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Give back the nodes and partitions that slurm_in_use has kept free of new jobs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_fence
short_description: Give back nodes and partitions that were kept free of new jobs during a change
version_added: 0.1.0
description:
  - Resumes the nodes that M(bedplate.cluster.slurm_in_use) has drained, and opens the partitions that it has closed.
  - A node with another reason than bedplate's own stays as it is, since a person has drained it meanwhile.
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
author: The bedplate authors
attributes:
  check_mode: {support: full, description: It predicts what it would give back.}
"""

EXAMPLES = r"""
- name: Give back what was kept free of jobs
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

from ansible_collections.bedplate.cluster.plugins.module_utils.hostlist import expand
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.asking import ask, environment
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.fence import lift_commands

# slurmctld may be in the middle of a restart.
_PATIENCE = 30


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "str", "required": True},
            "partitions": {"type": "list", "elements": "str", "default": []},
            "directory": {"type": "path", "default": "/etc/slurm"},
        },
        supports_check_mode=True,
    )
    slurm_conf, nodes = Path(module.params["directory"]) / "slurm.conf", module.params["nodes"]
    deadline = time.monotonic() + _PATIENCE
    live = ask(module.run_command, slurm_conf)
    while live is None:
        if time.monotonic() < deadline:
            time.sleep(1)
            live = ask(module.run_command, slurm_conf)
            continue
        module.fail_json(
            msg=f"slurmctld does not answer, so nodes {nodes or 'none'} stay drained with the reason `bedplate:edit:`. Start slurmctld "
            "and run playbooks/scheduler.yml again: it gives them back.",
            commands=[],
        )
    commands = lift_commands(live, set(expand(nodes)) if nodes else set(), module.params["partitions"])
    for command in [] if module.check_mode else commands:
        rc, out, err = module.run_command(["timeout", "30", *command], environ_update=environment(slurm_conf))
        if rc != 0:
            module.fail_json(msg=f"`{' '.join(command)}`: {(err or out).strip()}", commands=[])
    module.exit_json(changed=bool(commands), commands=[" ".join(command) for command in commands])


if __name__ == "__main__":
    main()
