#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Read every setting of the role rdma back from a node."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma_state
short_description: Read every setting of the role rdma back from a node
version_added: 0.1.0
description:
  - Compares packages, kernel modules, names of RDMA devices, addresses and MTU of the rails, lossless priorities, RDMA-CM's ToS, the
    notifications of DCQCN and what NCCL reads with what is wanted, and fails with a line for each difference.
  - Changes nothing. RDMA-CM shows its ToS in a directory that has to be made for that; it is taken away again.
options:
  expected:
    description: What is to be, as C(expected) of what P(bedplate.cluster.rdma#filter) returns.
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
  bedplate.cluster.rdma_state:
    expected: "{{ __rdma_wanted['expected'] }}"
# => fails: PFC of priorities 0 to 7 of mlx5_0 (ens1np0): wanted 0 0 0 1 0 0 0 0, found 0 0 0 0 0 0 0 0; systemctl restart ...
# =>        name of the RDMA device at 0000:3b:00.0: wanted mlx5_0, found ibp59s0; systemctl restart bedplate-rdma
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
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma.state import drift


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
        "msg": "\n".join(lines) or "rdma: all settings as wanted",
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
