#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Set all systemd units of a role to the desired state in one call."""

from __future__ import annotations

DOCUMENTATION = r"""
module: units
short_description: Set all systemd units of a role to the desired state in one call
version_added: 0.1.0
description:
  - Reads the state of all units at once, and makes one call for each kind of change. If no unit changes it only
    reads.
  - Reloads systemd's configuration when a drop-in changed, or when systemd says that files changed.
  - A unit that is not up some time after it was started, or whose condition does not hold, is an error that shows its
    status and the end of its journal.
  - A missing unit is an error if the task enables or starts it, and in check mode a predicted change. If the task
    stops, disables or unmasks it, it is as desired.
options:
  units:
    description: The units.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Full name, with the type, as V(munge.service).
        type: str
        required: true
      enabled:
        description:
          - Whether the unit starts at boot. A unit whose file is static, indirect, generated or an alias counts as enabled,
            since it has no link to enable; C(notes) has a line for it.
        type: bool
      state:
        description:
          - V(restarted) restarts or starts, every time; meant for handlers. V(reloaded) reloads, or starts a stopped unit.
          - A unit that does its work and ends (C(Type=oneshot) without C(RemainAfterExit)) is not running afterwards, so V(started)
            runs it every time.
        type: str
        choices: [started, stopped, restarted, reloaded]
      masked:
        description: Whether the unit is masked. A unit that does not exist can be masked too.
        type: bool
      drop_ins:
        description:
          - All drop-ins of bedplate for this unit, by file name. Files it once wrote and that are no longer
            named are removed; an empty mapping removes all. Left out, they are left alone.
          - A drop-in that is written, changed or removed restarts a running unit whose O(units[].state) is V(started).
        type: dict
      condition:
        description: V(allowed) lets a unit stay down whose own condition (as C(ConditionPathExists)) does not hold.
        type: str
        choices: [required, allowed]
        default: required
      restart_after:
        description:
          - Files of this unit, such as its program, its options and its keys. If one changed after the unit was started, by any program
            and in any run, the unit is restarted. Unlike a handler, that cannot be lost when a run is interrupted.
          - With O(units[].state=started) alone. A path that does not exist is passed over.
        type: list
        elements: str
      state_where:
        description:
          - C(path) of a file and its C(content), without the space around it. If the file has another content, or is missing, the unit
            keeps its state, running or not, and O(units[].state) is ignored. So a unit that needs a kernel module of one version runs if it
            is loaded.
        type: dict
      reload_after:
        description:
          - Files that the unit, and what depends on it, can read again while it runs. Unless it is on record that they were read as they
            are, O(units[].reload_command) is run, after a start as well. Until it succeeds, every run calls it.
        type: list
        elements: str
      reload_command:
        description: The command that has the unit read O(units[].reload_after) again, as a list of words.
        type: list
        elements: str
      proof:
        description:
          - A command, as a list of words, that succeeds when the unit does its work. It is run after a start, restart or reload, for up to
            30 seconds until it succeeds.
        type: list
        elements: str
  touched:
    description:
      - Files that this run changes, as RV(bedplate.cluster.files#module:changed_files) has them. Only check mode needs them, to
        predict what O(units[].restart_after) will do.
    type: list
    elements: str
    default: []
  settle:
    description: Seconds after which a unit that was started or restarted is looked at once more. Spent only then.
    type: float
    default: 1.0
  timeout:
    description: Seconds to wait for one call of systemctl. Some daemons take long to start, and systemctl waits for them.
    type: int
    default: 120
extends_documentation_fragment: [bedplate.cluster.deployment]
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode:
    support: full
    description: Missing units are predicted as changes, since a run installs them before this task.
  diff_mode: {support: full, description: The state of the units.}
"""

EXAMPLES = r"""
- name: Enable and start the daemons of a compute node
  bedplate.cluster.units:
    units:
      - {name: munge.service, enabled: true, state: started}
      - name: slurmd.service
        enabled: true
        state: started
        drop_ins:
          bedplate.conf: |
            [Service]
            LimitMEMLOCK=infinity
# => changes: ["munge.service: enabled, started", "slurmd.service: drop-ins changed, enabled, started", "systemd: configuration reloaded"]
#    actions: ["daemon-reload", "enable munge.service slurmd.service", "start munge.service slurmd.service"]

- name: Restart slurmd
  bedplate.cluster.units:
    units: [{name: slurmd.service, state: restarted}]
# => changes: ["slurmd.service: restarted"], actions: ["restart slurmd.service"]
"""

RETURN = r"""
changes: {description: 'What was done to each unit, or in check mode will be.', type: list, elements: str, returned: success}
actions: {description: "Calls of systemctl, one a line.", type: list, elements: str, returned: success}
changed_files: {description: Drop-ins that were written., type: list, elements: str, returned: success}
removed: {description: Drop-ins that were removed., type: list, elements: str, returned: success}
notes: {description: 'What needed nothing, and why; what check mode could not see yet.', type: list, elements: str, returned: success}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import (
    STATE_DIRECTORY,
    NodeFilesError,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.systemd import Systemd, UnitsError
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.unit_plan import read_units


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "units": {"type": "list", "elements": "dict", "required": True},
            "touched": {"type": "list", "elements": "str", "default": []},
            "settle": {"type": "float", "default": 1.0},
            "timeout": {"type": "int", "default": 120},
            "state_directory": {"type": "path", "default": STATE_DIRECTORY},
        },
        supports_check_mode=True,
    )
    units, mistakes = read_units(module.params["units"])
    if mistakes:
        module.fail_json(
            msg="wrong arguments of bedplate.cluster.units:\n" + "\n".join(f"- {text}" for text in mistakes)
        )
    systemd = Systemd(
        module.check_mode,
        module._diff,
        module.params["settle"],
        float(module.params["timeout"]),
        touched=module.params["touched"],
    )
    try:
        result = systemd.apply(units, Path(module.params["state_directory"]))
    except (NodeFilesError, UnitsError) as error:
        module.fail_json(msg=str(error))
    for text in result.pop("problems"):
        module.warn(text)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
