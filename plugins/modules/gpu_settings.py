#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Apply missing settings to unused GPUs, and report settings that wait for a job."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_settings
short_description: Apply missing settings to unused GPUs, and report settings that wait for a job
version_added: 0.2.0
description:
  - C(bedplate-gpu-settings.service) sets power limit, clocks, ECC and compute mode when it starts, and leaves a GPU in use as it is. This
    module compares the GPUs with the settings later, and restarts the unit if an unused GPU lacks one. So settings that waited
    for a job are applied by the first run after it, and so are settings that were changed by hand.
  - A GPU in use is never changed. A setting that waits for a job or a reboot is a warning and no change.
  - Removes the note C(/run/bedplate/reboot-wanted/gpu_settings) if nothing waits any more, as when the settings have left the cluster
    file.
  - Compares nothing if another driver is loaded, or none. A GPU that C(nvidia-smi) cannot read is a warning; M(bedplate.cluster.node_state)
    reports it as an error.
options:
  settings:
    description: Keys and values of C(gpus.settings) of the profile. Without a key, only the note is removed.
    type: dict
    default: {}
  driver:
    description: The version of the driver of the cluster file.
    type: str
    required: true
  machine:
    description: The name of the machine, for the warnings.
    type: str
    default: ''
  sysroot:
    description: Root directory of the machine.
    type: path
    default: /
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: Reads the GPUs and predicts the changes; the unit is not restarted.}
"""

EXAMPLES = r"""
- name: Apply settings that waited for a job
  bedplate.cluster.gpu_settings:
    settings: {power_limit_watts: 600}
    driver: 580.65.06
    machine: "{{ inventory_hostname }}"
# => changes: ["GPU 0000:1b:00.0: --power-limit=600"], waiting: ["GPU 0000:5e:00.0 must get ..., and is in use: python (4321)"]
"""

RETURN = r"""
changes: {description: "What was set, or in check mode will be; one line for each GPU.", type: list, elements: str, returned: success}
waiting: {description: What waits for the users of a GPU or for a reboot., type: list, elements: str, returned: success}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.devices.gpu_users import GpuUsers
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu_settings import missing_settings
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu_settings.smi_settings import run_nvidia_smi
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import STATE_DIRECTORY
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.systemd import Systemd, UnitsError
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.unit_plan import Unit

_WAITING = "settings of GPUs wait; run playbooks/gpu.yml again when the GPUs are unused, and reboot for ECC"
UNIT = "bedplate-gpu-settings.service"
# nvidia-smi takes seconds per GPU and call: as long as the unit itself may take.
_SECONDS = 900.0


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "settings": {"type": "dict", "default": {}},
            "driver": {"type": "str", "required": True},
            "machine": {"type": "str", "default": ""},
            "sysroot": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    params, root = module.params, Path(module.params["sysroot"])
    is_loaded = Root(params["sysroot"]).text("sys/module/nvidia/version", needed=False) == params["driver"]
    # Without its driver nothing is compared, so nothing shows that a note is stale.
    if params["settings"] and not is_loaded:
        module.exit_json(changed=False, changes=[], waiting=[])
    try:
        done = missing_settings.apply(
            params["settings"], run_nvidia_smi, GpuUsers(root), _restart, check=module.check_mode
        )
    except UnitsError as error:
        module.fail_json(msg=str(error))
    place = f"{params['machine']}: " if params["machine"] else ""
    for title, lines in (
        (_WAITING, done.waiting),
        ("settings of GPUs were not compared", done.problems),
    ):
        if lines:
            module.warn("\n".join([f"{place}{title}:", *lines]))
    module.exit_json(changed=bool(done.changes), changes=done.changes, waiting=done.waiting)


def _restart() -> None:
    Systemd(check=False, diff=False, timeout=_SECONDS).apply([Unit(UNIT, state="restarted")], Path(STATE_DIRECTORY))


if __name__ == "__main__":
    main()
