#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stop if the NVSwitches of a machine belong to another platform than the cluster file's."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_platform
short_description: Stop if the NVSwitches of a machine belong to another platform than the cluster file's
version_added: 0.2.0
description:
  - A fabric manager never starts without NVSwitches, and CUDA never starts with NVSwitches and no fabric manager. PCIe cards and GPUs
    of an HGX board have the same names, so the number of GPUs in a cluster file can name the wrong platform.
  - Fails if GPUs are on the PCI bus and the NVSwitches beside them belong to another platform, before any software is installed. Fewer
    switches than a board has are a finding of M(bedplate.cluster.node_state), and no reason to stop.
  - Compares nothing on a machine without GPUs on the PCI bus.
options:
  platform:
    description: The platform of the cluster file.
    type: str
    choices: [hgx, pcie]
    required: true
  count:
    description: Number of NVSwitches of the platform's boards.
    type: int
    required: true
  device:
    description: PCI device id of these NVSwitches, such as C(0x22a3). Absent or empty for not known.
    type: str
    default: ''
  known:
    description: PCI device ids of all NVSwitches.
    type: list
    elements: str
    required: true
  sysroot:
    description: Root directory of the machine.
    type: path
    default: /
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It reads in check mode as well since it changes nothing.}
"""

EXAMPLES = r"""
- name: Refuse PCIe cards that the cluster file takes for an HGX board
  bedplate.cluster.gpu_platform: {platform: hgx, count: 4, device: "0x22a3", known: ["0x1af1", "0x22a3"]}
# => or fails: platform: expected hgx, with 4 NVSwitches, found no NVSwitch on the PCI bus; if the GPUs are PCIe or NVL cards, ...
"""

RETURN = r"""
gpus: {description: Number of GPUs on the PCI bus., type: int, returned: success, sample: 8}
nvswitches: {description: Number of NVSwitches on the PCI bus., type: int, returned: success, sample: 4}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.devices.gpu_devices import read_devices
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.nvswitches import PLATFORM, findings


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "platform": {"type": "str", "choices": ["hgx", "pcie"], "required": True},
            "count": {"type": "int", "required": True},
            "device": {"type": "str", "default": ""},
            "known": {"type": "list", "elements": "str", "required": True},
            "sysroot": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    gpus, switches = read_devices(Root(module.params["sysroot"]))
    for finding in findings(module.params, gpus, switches):
        if finding.kind == PLATFORM:
            module.fail_json(msg=f"{finding}. Nothing was changed on this machine")
    module.exit_json(changed=False, gpus=len(gpus), nvswitches=len(switches))


if __name__ == "__main__":
    main()
