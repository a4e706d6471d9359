#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Read the hardware of a machine, as a profile of the cluster file describes it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_report
short_description: Read the hardware of a machine, as a profile of the cluster file describes it
version_added: 0.2.0
description:
  - Reads sockets, cores, threads, NUMA nodes, memory, GPUs and NICs from sysfs and /proc.
  - Installs, writes and starts nothing, and sets no variables. Files of a driver are read by C(cat) with a time limit, because a driver may
    hang.
options:
  sysroot:
    description: Root directory of the machine.
    type: path
    default: /
  timeout:
    description: Seconds that the driver may take for its files. At least 1.
    type: int
    default: 30
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It only reads.}
"""

EXAMPLES = r"""
- name: Read the hardware
  bedplate.cluster.node_report:
  register: node
# => node.hardware.shape: {sockets: 2, cores_per_socket: 56, threads_per_core: 2, numa: [{cores: 0-55, gpus: 0-3}, ...]}
"""

RETURN = r"""
hardware:
  description: The hardware. Unknown values are null.
  type: dict
  returned: always
  contains:
    shape: {description: 'C(sockets), C(cores_per_socket), C(threads_per_core) and C(numa) as keys of a profile.', type: dict}
    memory_mib: {description: Memory in MiB., type: int, sample: 2063690}
    gpus: {description: 'The GPUs by PCI address, each with ids, name, minor number and NUMA node.', type: list, elements: dict}
    nics:
      description: The NICs by PCI address, each with ids, name, devices, link, NUMA node and nearest GPUs.
      type: list
      elements: dict
    container: {description: Whether the machine is a container and so shows its host., type: bool}
    problems: {description: 'What could not be read, and why.', type: list, elements: str}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.report.hardware import read_hardware


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "sysroot": {"type": "path", "default": "/"},
            "timeout": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    seconds = max(module.params["timeout"], 1)
    module.exit_json(changed=False, hardware=read_hardware(module.params["sysroot"], seconds))


if __name__ == "__main__":
    main()
