#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Put a Slurm controller in charge."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_takeover
short_description: Put a Slurm controller in charge
version_added: 0.2.0
description:
  - Runs on the controller that takes the control. Jobs continue to run.
  - The primary's slurmctld is started, which takes the control back from a standby. A standby takes it by C(scontrol takeover), which
    ends the primary's slurmctld. The standby's slurmctld is started first if it does not run.
  - Waits until the controller answers, is in charge and writes the heartbeat. If that does not happen in time, the task fails with what
    C(scontrol ping) reports.
  - With the primary, waits until the standby that was in charge answers again. If it does not, that is a warning.
  - Refuses, before any change, if another controller does not answer here and writes its heartbeat into C(StateSaveLocation). It is in
    charge and cut off, and two controllers would write one state.
  - Refuses, too, if the heartbeat cannot be read here. The storage that controllers share is not mounted then, and slurmctld would start
    without jobs.
options:
  name: {description: "This controller, as slurm.conf names it.", type: str, required: true}
  deadline:
    description: Seconds until the controller must be in charge. V(0) is C(SlurmctldTimeout) and 90 seconds.
    type: int
    default: 0
  user: {description: SlurmUser., type: str, default: slurm}
  directory: {description: Where slurm.conf is., type: path, default: /etc/slurm}
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It predicts the commands.}
"""

EXAMPLES = r"""
- name: Hand the control back to the primary
  bedplate.cluster.slurm_takeover: {name: ctl1}
# => actions: ["systemctl start slurmctld.service"], before: ctl2, acting: ctl1
"""

RETURN = r"""
actions: {description: "Commands that were run, or in check mode would be.", type: list, elements: str, returned: success}
acting: {description: "The controller in charge now, empty without one.", type: str, returned: success, sample: ctl1}
before: {description: "The controller in charge before, empty if none was.", type: str, returned: success, sample: ctl2}
up: {description: "Controllers whose slurmctld answers.", type: list, elements: str, returned: success, sample: [ctl1, ctl2]}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.acting import Controllers
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.takeover import Takeover, TakeoverError

_MARGIN = 90  # seconds


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "deadline": {"type": "int", "default": 0},
            "user": {"type": "str", "default": "slurm"},
            "directory": {"type": "path", "default": "/etc/slurm"},
        },
        supports_check_mode=True,
    )
    slurm_conf, name = Path(module.params["directory"]) / "slurm.conf", module.params["name"]
    if not slurm_conf.exists():
        module.fail_json(msg=f"{name}: {slurm_conf} does not exist. Run playbooks/scheduler.yml first.")
    controllers = Controllers(slurm_conf, module.params["user"])
    try:
        deadline = module.params["deadline"] or controllers.timeout + _MARGIN
        takeover = Takeover(name, controllers, deadline, module.check_mode)
        before, after = takeover.take()
    except (TakeoverError, OSError) as error:
        module.fail_json(msg=str(error))
    facts = after.facts()
    if takeover.lost_standby:
        module.warn(f"{takeover.lost_standby} does not answer as a standby: see `journalctl -u slurmctld` there")
    module.exit_json(
        changed=bool(takeover.actions),
        actions=takeover.actions,
        before=before.acting,
        acting=facts["acting"],
        up=facts["up"],
    )


if __name__ == "__main__":
    main()
