#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Find the Slurm controller that is in charge."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_acting
short_description: Find the Slurm controller that is in charge
version_added: 0.2.0
description:
  - Reads C(scontrol ping), one query, and the heartbeat file in C(StateSaveLocation). C(scontrol ping) alone does not show which
    controller is in charge, since a standby answers it, too.
  - While a standby is about to take the control, the module waits for it, for C(SlurmctldTimeout) and 30 seconds at most.
  - If the pings do not show a controller in charge, the heartbeat file is watched for up to 35 seconds. So a controller that is in charge
    and cannot be reached from here is found, too.
  - A host without slurm.conf or Slurm's commands sees no controller.
  - Changes nothing.
options:
  user: {description: SlurmUser., type: str, default: slurm}
  directory: {description: Where slurm.conf is., type: path, default: /etc/slurm}
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It only reads.}
"""

EXAMPLES = r"""
- name: Find the controller in charge
  bedplate.cluster.slurm_acting:
  register: slurm_seen
# => slurm_seen.acting: ctl2
"""

RETURN = r"""
acting: {description: "The controller in charge as this host sees it, empty without one.", type: str, returned: success, sample: ctl2}
controllers: {description: "The controllers of slurm.conf, the primary first.", type: list, elements: str, returned: success}
up: {description: "Controllers whose slurmctld answers this host. A standby answers, too.", type: list, elements: str, returned: success}
writer: {description: "The controller that has written the heartbeat file last, empty if it cannot be read.", type: str, returned: success}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.acting import Controllers


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "user": {"type": "str", "default": "slurm"},
            "directory": {"type": "path", "default": "/etc/slurm"},
        },
        supports_check_mode=True,
    )
    controllers = Controllers(Path(module.params["directory"]) / "slurm.conf", module.params["user"])
    try:
        view = controllers.settled()
    except OSError as error:
        module.fail_json(msg=f"slurm.conf cannot be read: {error}")
    module.exit_json(changed=False, **view.facts())


if __name__ == "__main__":
    main()
