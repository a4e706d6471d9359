#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Tell whether a machine is to be rebooted, why, and what speaks against it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: reboot_wanted
short_description: Tell whether a machine is to be rebooted, why, and what speaks against it
version_added: 0.1.0
description:
  - Roles that need a reboot leave a note in C(/run/bedplate/reboot-wanted), one file each, which lies in memory and so is gone after it.
  - A machine that takes or runs jobs is not to be rebooted here, whoever allows it. A slurmd that runs may get a job at any moment; a
    container, and a process that has a GPU open, are jobs of somebody. The driver's own daemons are not.
  - Changes nothing.
options:
  notes:
    description: Where the notes are.
    type: path
    default: /run/bedplate/reboot-wanted
  state_directory:
    description: Where the list of files that bedplate wrote is.
    type: path
    default: /var/lib/bedplate
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It only reads.}
"""

EXAMPLES = r"""
- name: Ask whether a reboot is wanted
  bedplate.cluster.reboot_wanted:
  register: asked
# => asked.reasons: {gpu_driver: "driver 580.65.06 is installed and not loaded"}, asked.in_use: ["slurmd runs and may get a job"]
"""

RETURN = r"""
reasons: {description: "Why, by who wants it. Empty: no reboot is wanted.", type: dict, returned: always}
in_use: {description: What speaks against it now., type: list, elements: str, returned: always}
roles:
  description: Roles that have written files here, without Slurm's. After a reboot all of them have to be as the cluster file has it.
  type: list
  elements: str
  returned: always
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import (
    STATE_DIRECTORY,
    NodeFilesError,
    owners,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.reboot_notes import in_use, reasons

ROLES = ("node_os", "node_tuning", "rdma", "gpu_driver", "cuda", "dcgm", "container_runtime")


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "notes": {"type": "path", "default": "/run/bedplate/reboot-wanted"},
            "state_directory": {"type": "path", "default": STATE_DIRECTORY},
        },
        supports_check_mode=True,
    )
    try:
        written = owners(Path(module.params["state_directory"]))
    except NodeFilesError as error:
        module.fail_json(msg="\n".join(error.problems))
    roles = [role for role in ROLES if role in written]
    module.exit_json(changed=False, reasons=reasons(Path(module.params["notes"])), in_use=in_use(), roles=roles)


if __name__ == "__main__":
    main()
