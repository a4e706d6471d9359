#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Read every setting of a node's kernel, hardware and RDMA back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_settings
short_description: Read every setting of a node's kernel, hardware and RDMA back
version_added: 0.1.0
description:
  - Compares what the roles P(bedplate.cluster.node_tuning#role) or P(bedplate.cluster.rdma#role) manage with what is wanted, and fails
    with a line for each difference.
  - Of node_tuning these are huge pages of each NUMA node, the command line of the running kernel, isolated CPUs, the IOMMU, sysctl
    settings, files of the kernel, limits, modules, PCI Express, interrupts and the NUMA map. Other files of the node that set the same
    sysctl keys to something else are differences too, with file and line.
  - Of rdma these are packages, kernel modules, names of RDMA devices, addresses and MTU of the rails, lossless priorities, RDMA-CM's ToS,
    the notifications of DCQCN and what NCCL reads.
  - What the next boot will bring is compared, too, so that a file, a unit or an entry of the boot loader that was taken away is seen
    before that.
  - Changes nothing. RDMA-CM shows its ToS in a directory that has to be made for that; it is taken away again.
options:
  role:
    description: Whose settings.
    type: str
    required: true
    choices: [node_tuning, rdma]
  expected:
    description: >-
      What is to be, as C(expected) of what P(bedplate.cluster.node_tuning#filter) or P(bedplate.cluster.rdma#filter) returns.
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
  bedplate.cluster.node_settings:
    role: node_tuning
    expected: "{{ __node_tuning_wanted['expected'] }}"
# => fails: huge pages of 2M on NUMA node 1: expected 8, found 3; systemctl restart bedplate-tuning; where that does not get them, ...
# =>        sysctl vm.swappiness: expected 10, found 60, overridden by /etc/sysctl.d/99-site.conf:3; take it out there, or ...
"""

RETURN = r"""
msg: {description: "That all is as wanted, or the differences, a line each.", type: str, returned: always}
findings:
  description: The differences, with all fields of a finding.
  type: list
  elements: dict
  returned: always
  contains:
    kind: {description: A stable short name of what kind of difference it is., type: str}
    where: {description: What it is about., type: str}
    expected: {description: What the cluster file and the role's variables want., type: str}
    found: {description: What the node has., type: str}
    overridden_by: {description: 'The file and line, the drop-in or the program that wins; empty where there is none.', type: str}
    remedy: {description: What to do., type: str}
    reboot: {description: Whether that takes a reboot., type: bool}
problems: {description: What could not be read., type: list, elements: str, returned: always}
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import failed, table, to_json
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.reading import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.rdma import state as of_rdma
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning import state as of_tuning

_DRIFT = {"node_tuning": of_tuning.drift, "rdma": of_rdma.drift}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str", "required": True, "choices": list(_DRIFT)},
            "expected": {"type": "dict", "required": True},
            "sysroot": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    role, root = module.params["role"], Root(module.params["sysroot"])
    rows = list(_DRIFT[role](root, module.params["expected"]))
    result: dict[str, Any] = {
        "msg": table(rows) or f"{role}: all settings as wanted",
        "findings": to_json(rows),
        "problems": root.problems,
    }
    if failed(rows) and not module.check_mode:
        module.fail_json(**result)
    if rows:
        module.warn(result["msg"])
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
