#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Allocate the huge pages of each NUMA node, or refuse them before any other change."""

from __future__ import annotations

DOCUMENTATION = r"""
module: huge_pages
short_description: Allocate the huge pages of each NUMA node, or refuse them before any other change
version_added: 0.1.0
description:
  - Fails, and changes nothing, if pages would leave a NUMA node less memory than its floor, if the machine lacks the NUMA node or
    page size, or if the kernel allocates fewer than requested on a machine without jobs. Pages allocated by then are freed.
  - Takes pages only while no step of a Slurm job, no container and no process with a GPU open runs. Until then the growth waits, which
    is a warning and no change. A slurmd without jobs does not hold it up.
  - Frees only pages that no process uses.
  - Does nothing in a container, whose kernel is another machine's.
  - The floor of a NUMA node is the largest of its share of O(reserve_mib), 5 % of its memory, and 2 GiB. On a NUMA node of less than
    8 GiB, 25 % of it and at least 512 MiB replace the 2 GiB.
options:
  pages:
    description: The pages, each with C(node), a NUMA node, C(size), V(2M) or V(1G), and C(count).
    type: list
    elements: dict
    required: true
  reserve_mib:
    description: Memory of the whole machine in MiB that is kept from jobs, beside huge pages.
    type: int
    default: 0
  pages_at:
    description: V(now) takes pages at once, V(boot) leaves that to the next boot, until the running kernel has the tokens of O(pending).
    type: str
    choices: [now, boot]
    default: now
  pending:
    description: The tokens of the kernel command line that say the pages.
    type: list
    elements: str
    default: []
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
  check_mode:
    support: full
    description: >-
      Refuses, waits and predicts changes as a run does. Only a run can show whether the kernel has the free memory.
  diff_mode: {support: full, description: The pages of each NUMA node and size before and after.}
"""

EXAMPLES = r"""
- name: Take huge pages
  bedplate.cluster.huge_pages:
    pages: [{node: 0, size: 2M, count: 460}]
    machine: "{{ inventory_hostname }}"
# => fails: node1: huge pages of 2M on NUMA node 0: expected at most 247, for the NUMA node has 1006 MiB and must keep 512 MiB,
# =>        found 460 requested (920 MiB in huge pages of all sizes); lower `hugepages` or ...
"""

RETURN = r"""
findings:
  description: What waits, with all fields of a finding; when the module fails, why it does.
  type: list
  elements: dict
  returned: always
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import table, to_json
from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.reboot_notes import jobs
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.memory import huge_page_pool


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "pages": {"type": "list", "elements": "dict", "required": True},
            "reserve_mib": {"type": "int", "default": 0},
            "pages_at": {"type": "str", "choices": ["now", "boot"], "default": "now"},
            "pending": {"type": "list", "elements": "str", "default": []},
            "machine": {"type": "str", "default": ""},
            "sysroot": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    root, machine = Root(module.params["sysroot"]), module.params["machine"]
    outcome = huge_page_pool.apply_settings(root, module.params, lambda: jobs(root.find("proc")), module.check_mode)
    findings = [one.on(machine) for one in outcome.refused or outcome.waiting]
    result: dict[str, Any] = {"changed": bool(outcome.changed), "findings": to_json(findings)}
    if outcome.refused:
        module.fail_json(msg=f"{table(findings)}\nNo huge page and no file was changed.", **result)
    if findings:
        module.warn(table(findings))
    if module._diff:
        result["diff"] = [
            {"before_header": one.name, "after_header": one.name, "before": f"{before}\n", "after": f"{after}\n"}
            for one, before, after in outcome.changed
        ]
    module.exit_json(**result)


if __name__ == "__main__":
    main()
