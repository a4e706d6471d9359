#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Read the GUIDs of the InfiniBand adapters of a machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: hca_facts
short_description: Read the GUIDs of the InfiniBand adapters of a machine
version_added: 0.2.0
description:
  - Reads names, PCI addresses and GUIDs of InfiniBand adapters from sysfs. Starts no program and changes nothing.
  - Without a driver for its adapters a machine has no adapter.
options:
  sysroot:
    description: Where the root of the machine is.
    type: path
    default: /
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It only reads.}
"""

EXAMPLES = r"""
- name: Read the GUIDs
  bedplate.cluster.hca_facts:
  register: found
# => found.hcas: [{name: mlx5_0, pci: "0000:3b:00.0", node: 0002c90300000200, port: 0002c90300000201}]
"""

RETURN = r"""
hcas:
  description: The adapters by name.
  type: list
  elements: dict
  returned: success
  contains:
    name: {description: Its name., type: str, sample: mlx5_0}
    pci: {description: "Its PCI address, or empty.", type: str, sample: "0000:3b:00.0"}
    node: {description: Its GUID in 16 hexadecimal digits., type: str, sample: 0002c90300000200}
    port: {description: "The GUID of its first port, or empty.", type: str, sample: 0002c90300000201}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma.hca_guids import read_guids


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"sysroot": {"type": "path", "default": "/"}}, supports_check_mode=True)
    found = read_guids(Root(module.params["sysroot"]))
    module.exit_json(changed=False, hcas=[one.facts() for one in found])


if __name__ == "__main__":
    main()
