#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Refuse rails whose interface another program configures."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rail_owners
short_description: Refuse rails whose interface another program configures
version_added: 0.2.0
description:
  - Fails if a file of netplan, NetworkManager, systemd-networkd or ifupdown names the interface of a NIC to which bedplate gives an
    address, or its MAC address, or if the interface has the address of C(management). All of them are reported at once, with file and
    line.
  - A pattern for several interfaces is allowed, and so is a profile that does not start by itself (C(autoconnect=false), C(ONBOOT=no)).
  - Changes nothing.
options:
  nics:
    description: The NICs, as role rdma writes them to C(/etc/bedplate/rdma.json).
    type: list
    elements: dict
    required: true
  management:
    description: The address of the machine in C(management).
    type: str
    required: true
  machine:
    description: The name of the machine, for the findings.
    type: str
    default: ''
  sysroot:
    description: Where the root of the machine is.
    type: path
    default: /
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It only reads.}
"""

EXAMPLES = r"""
- name: Refuse rails with another owner
  bedplate.cluster.rail_owners:
    nics: [{name: mlx5_0, pci: "0000:3b:00.0", address: 10.40.1.1/22}]
    management: 10.20.1.1
# => fails: gpu001: interface ens1np0 of mlx5_0: expected configured by bedplate-rdma alone, found configured by netplan, too,
# =>        overridden by /etc/netplan/50-cloud-init.yaml:7; remove the interface there, or ...
"""

RETURN = r"""
findings: {description: "Other owners, with all fields of a finding.", type: list, elements: dict, returned: always}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import run_quick
from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import table, to_json
from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma import rail_owners, rdma_devices


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "nics": {"type": "list", "elements": "dict", "required": True},
            "management": {"type": "str", "required": True},
            "machine": {"type": "str", "default": ""},
            "sysroot": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    root = Root(module.params["sysroot"])
    nics = rdma_devices.nics_from(module.params["nics"])
    found = rail_owners.refusals(root, rdma_devices.read_devices(root), nics, module.params["management"], run_quick)
    findings = [one.on(module.params["machine"]) for one in found]
    result = {"changed": False, "findings": to_json(findings)}
    if findings:
        module.fail_json(msg=f"{table(findings)}\nNo file was changed.", **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
