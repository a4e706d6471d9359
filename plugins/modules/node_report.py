#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Read the hardware of a machine, and what bedplate's readers find on it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_report
short_description: Read the hardware of a machine, and what bedplate's readers find on it
version_added: 0.2.0
description:
  - Reads sockets, cores, threads, NUMA nodes, memory, GPUs and NICs from sysfs and /proc.
  - Installs, writes and starts nothing, and sets no variables. Files of a driver are read by C(cat) with a time limit, because a driver may
    hang.
  - With O(software) it also runs C(dkms status), queries the package manager, and runs C(nvidia-smi) where a driver is loaded and all its
    device files are present, because C(nvidia-smi) makes missing ones. Each command has a time limit and is left behind when it hangs.
  - The result of O(software) has names, addresses and serial numbers of the machine. M(bedplate.cluster.pilot_report) writes it without
    them. Set C(no_log) for the task.
options:
  software:
    description: Whether to read drivers, packages, package sources and boot loader as well.
    type: bool
    default: false
  packages:
    description: Names and patterns of packages for O(software). By default the names in bedplate's table of GPU software.
    type: list
    elements: str
  topology:
    description: The hardware that the machine's profile describes, for O(software). By default from the cluster file or the inventory.
    type: dict
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
software:
  description: What the readers find, the raw texts that they read, what they could not read, and the names that a report must not have.
  type: dict
  returned: with O(software)
differences: {description: How the machine differs from O(topology)., type: list, elements: dict, returned: with O(software)}
expected: {description: 'The profile of the machine and its GPU software, empty without one.', type: dict, returned: with O(software)}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import to_json
from ansible_collections.bedplate.cluster.plugins.module_utils.report.hardware import read_hardware
from ansible_collections.bedplate.cluster.plugins.module_utils.report.software import SoftwareReader
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci.machine_topology import read_machine
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.pci.numa_map import compare, plan_from


def main() -> None:
    """Run the module. The action plugin of the same name fills in packages and topology."""
    module = AnsibleModule(
        argument_spec={
            "software": {"type": "bool", "default": False},
            "packages": {"type": "list", "elements": "str"},
            "topology": {"type": "dict"},
            "sysroot": {"type": "path", "default": "/"},
            "timeout": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    root, seconds = module.params["sysroot"], max(module.params["timeout"], 1)
    machine = read_machine(root)
    result: dict[str, Any] = {"hardware": read_hardware(root, seconds, machine)}
    if module.params["software"]:
        result["software"] = SoftwareReader(root, module.params["packages"] or [], seconds).read()
        topology = module.params["topology"]
        result["differences"] = to_json(compare(plan_from(topology), machine)) if topology else []
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
