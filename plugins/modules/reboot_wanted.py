#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Report whether a machine needs a reboot, why, and what speaks against it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: reboot_wanted
short_description: Report whether a machine needs a reboot, why, and what speaks against it
version_added: 0.1.0
description:
  - Roles that need a reboot leave a note in C(/run/bedplate/reboot-wanted), one file each, in memory, so that a reboot removes it.
  - A machine that accepts or runs jobs must not be rebooted here, even if allowed. A running slurmd may get a job at any moment; a
    container, and a process with an open GPU, count as jobs. The driver's own daemons do not.
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
- name: Report whether a reboot is needed
  bedplate.cluster.reboot_wanted:
  register: reboot
# => reboot.reasons: {gpu_driver: "driver 580.65.06 is installed and not loaded"}, reboot.in_use: ["slurmd runs and may get a job"]
"""

RETURN = r"""
reasons: {description: "Reasons, by the role that needs it. Empty: no reboot is needed.", type: dict, returned: always}
in_use: {description: What speaks against it now., type: list, elements: str, returned: always}
roles:
  description: Roles that have written files here, without Slurm's. After a reboot all of them must be as the cluster file has them.
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
