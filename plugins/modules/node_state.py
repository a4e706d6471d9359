#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compare everything that bedplate manages on a machine with what is expected there."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_state
short_description: Compare a machine with the cluster file, in one call
version_added: 0.1.0
description:
  - Reads back all that the roles of this collection manage on a machine and compares it with the cluster file and the roles' variables.
    The expected state is made on the control node, for all roles at once; the machine is read once.
  - Every difference is a finding, with what overrides bedplate's own setting where that is known. A part that cannot be read is a finding
    of kind V(unread); the other parts are still compared.
  - On a controller of Slurm it reads Slurm's state, too; on a subnet manager OpenSM's.
  - Changes nothing, except with O(record_release).
options:
  roles:
    description: The roles to compare. Without it all that the cluster file gives to the machine.
    type: list
    elements: str
    choices: [node_os, node_tuning, rdma, gpu_driver, cuda, dcgm, container_runtime, slurm, opensm, node_health, health_control, provision,
      image]
  parts:
    description:
      - What to compare instead, part to what is expected of it. For tasks that have made that already.
      - Parts are listed in plugins/module_utils/verify/readers.py.
    type: dict
  fail:
    description: Whether a finding that is an error fails the task. V(false) where M(bedplate.cluster.verify_report) collects findings.
    type: bool
    default: true
  record_release:
    description:
      - Record this release of bedplate in C(/var/lib/bedplate/files.json) of the machine, as C(site.yml) does at its end.
        docs/update.md says what the record is for.
      - Nothing is recorded in a run with C(--tags), C(--skip-tags) or C(--start-at-task).
    type: bool
    default: false
  sysroot:
    description: The root of the machine's file system.
    type: path
    default: /
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: "Differences are warnings there, since nothing was applied. Nothing is recorded."}
"""

EXAMPLES = r"""
- name: Compare the driver with the cluster file
  bedplate.cluster.node_state:
    roles: [gpu_driver]
# => fails: package libcuda1: expected 580.126.09-1, found 570.124.06-1; run playbooks/gpu.yml again

- name: Compare everything, and leave the verdict to the last task of the play
  bedplate.cluster.node_state:
    fail: false
  register: node_state
  ignore_unreachable: true
"""

RETURN = r"""
msg: {description: "The findings, a line each.", type: str, returned: always}
findings:
  description: The differences.
  type: list
  elements: dict
  returned: always
  contains:
    kind: {description: "A short name of its class, such as C(sysctl) or C(unread).", type: str, sample: sysctl}
    where: {description: What differs., type: str, sample: sysctl vm.swappiness}
    expected: {description: Value by the cluster file and the roles' variables; may be empty., type: str, sample: '10'}
    found: {description: What the machine has., type: str, sample: '60'}
    overridden_by: {description: 'The file, drop-in or program that wins.', type: str, sample: '/etc/sysctl.d/99-site.conf:3'}
    remedy: {description: What to do., type: str}
    severity: {description: 'V(error), V(warning) or V(notice).', type: str, sample: error}
    machine: {description: 'The machine; empty here, except for findings about Slurm as a whole.', type: str}
    reboot: {description: Whether the remedy needs a reboot., type: bool}
    ports:
      description: The planned ports of a fabric in question, each a switch or an HCA and the number of its port; empty here.
      type: list
      elements: list
release:
  description: The release of bedplate on record before this task; empty where bedplate has written nothing.
  type: str
  returned: always
  sample: 0.1.0
compared: {description: The parts that were compared., type: list, elements: str, returned: always}
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common import finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.release import RELEASE
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import (
    STATE_DIRECTORY,
    NodeFilesError,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.release_record import (
    record_release,
    recorded_release,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.verify.readers import read, waiting_reboots

ROLES = [
    "node_os",
    "node_tuning",
    "rdma",
    "gpu_driver",
    "cuda",
    "dcgm",
    "container_runtime",
    "slurm",
    "opensm",
    "node_health",
    "health_control",
    "provision",
    "image",
]


def main() -> None:
    """Run the module. The action plugin of the same name judges the findings."""
    module = AnsibleModule(
        argument_spec={
            # The action plugin makes `parts` of `roles`, and judges the findings.
            "parts": {"type": "dict"},
            "roles": {"type": "list", "elements": "str", "choices": ROLES},
            "fail": {"type": "bool", "default": True},
            "record_release": {"type": "bool", "default": False},
            "sysroot": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
        no_log=True,  # the expectations of a machine are large, and of no use in its log
    )
    parts: dict[str, Any] = module.params["parts"] or {}
    root = module.params["sysroot"]
    rows = finding.to_json([*read(parts, root), *waiting_reboots(root)])
    directory = Path(module.params["sysroot"]) / STATE_DIRECTORY.lstrip("/")
    release = recorded_release(directory)
    changed = module.params["record_release"] and release not in ("", RELEASE)
    if changed and not module.check_mode:
        try:
            record_release(directory, RELEASE)
        except NodeFilesError as error:
            # The comparison was made, and is worth more than this line of it.
            remedy, changed = "run playbooks/site.yml again then", False
            rows += finding.to_json([Finding("release", "release of bedplate on record", RELEASE, str(error), remedy)])
    module.exit_json(changed=changed, findings=rows, compared=list(parts), release=release, invocation={})


if __name__ == "__main__":
    main()
