#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Read every setting of the role node_tuning back from a node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_tuning_state
short_description: Read every setting of the role node_tuning back from a node
version_added: 0.1.0
description:
  - Compares huge pages of each NUMA node, the command line of the running kernel, isolated CPUs, the IOMMU, sysctl settings, files of
    the kernel, limits, modules, PCI Express, interrupts and the NUMA map with what is wanted, and fails with a line for each difference.
  - Other files of the node that set the same sysctl keys to something else are differences too, with file and line.
  - Changes nothing.
options:
  expected:
    description: What is to be, as C(expected) of what P(bedplate.cluster.node_tuning#filter) returns.
    type: dict
    required: true
  sysroot:
    description: Where the root of the machine is.
    type: path
    default: /
author: The bedplate authors
attributes:
  check_mode: {support: full, description: "Differences are warnings there, since nothing was applied."}
"""

EXAMPLES = r"""
- name: Compare the node with the cluster file
  bedplate.cluster.node_tuning_state:
    expected: "{{ __node_tuning_wanted['expected'] }}"
# => fails: huge pages of 2M on NUMA node 1: wanted 8, found 3; systemctl restart bedplate-tuning; where that does not get them, ...
# =>        sysctl vm.swappiness, also set in /etc/sysctl.d/99-site.conf:3: wanted 10, found 60; take it out there, or ...
"""

RETURN = r"""
msg: {description: "That all is as wanted, or the differences, a line each.", type: str, returned: always}
drift:
  description: The differences.
  type: list
  elements: dict
  returned: always
  contains:
    setting: {description: What it is about., type: str}
    wanted: {description: What the cluster file and the role's variables want., type: str}
    found: {description: What the node has., type: str}
    fix: {description: What to do., type: str}
    reboot: {description: Whether that takes a reboot., type: bool}
problems: {description: What could not be read., type: list, elements: str, returned: always}
"""

from dataclasses import asdict
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.reading import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.state import drift


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "expected": {"type": "dict", "required": True},
            "sysroot": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    root = Root(module.params["sysroot"])
    rows = list(drift(root, module.params["expected"]))
    lines = [f"{row.setting}: wanted {row.wanted}, found {row.found}; {row.fix}" for row in rows]
    result: dict[str, Any] = {
        "msg": "\n".join(lines) or "node_tuning: all settings as wanted",
        "drift": [asdict(row) for row in rows],
        "problems": root.problems,
    }
    if rows and not module.check_mode:
        module.fail_json(**result)
    if rows:
        module.warn(result["msg"])
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
