#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module slurm_node_hardware."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_node_hardware
short_description: Compare a node's hardware with what its lines in slurm.conf will say
version_added: 0.1.0
description:
  - Looks whether the device files of the node's lines in gres.conf are character devices, counts the GPUs that the NVIDIA driver has
    where slurmd finds them by itself, and compares sockets, cores, threads and memory with C(slurmd -C).
  - Checks whether the node's slurmd uses other controllers than the desired ones, or controllers that have lost StateSaveLocation,
    and whether it has jobs, which the desired ones would end.
  - More hardware than the node's lines promise is not a difference, as for Slurm. MIG instances are not counted.
  - Changes nothing.
options:
  profile:
    description: The profile of the node in the cluster file.
    type: str
    required: true
  cluster_file:
    description: The path of the cluster file, for messages.
    type: str
    required: true
  devices:
    description: Device files of the node's GPUs.
    type: list
    elements: path
    default: []
  gpus:
    description: How many GPUs the driver must have. 0 is not compared.
    type: int
    default: 0
  sockets:
    description: Sockets. 0 is not compared, and neither are cores, threads and memory then.
    type: int
    default: 0
  cores_per_socket:
    description: Cores of a socket.
    type: int
    default: 0
  threads_per_core:
    description: Threads of a core.
    type: int
    default: 0
  memory:
    description: Memory that jobs may have, in MiB.
    type: int
    default: 0
  conf_servers:
    description: The desired controllers as C(address:port). Empty is not compared.
    type: list
    elements: str
    default: []
  first_start:
    description: Whether the desired controllers have no jobs in StateSaveLocation, so that they would end all jobs of the node.
    type: bool
    default: false
  fail:
    description: Whether a difference is a failure, as on a node that Slurm does not have yet. In check mode it is a warning.
    type: bool
    default: false
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It only reads.}
"""

EXAMPLES = r"""
- name: Count what the node has
  bedplate.cluster.slurm_node_hardware:
    profile: h100
    cluster_file: site.bedplate.yml
    devices: [/dev/nvidia0, /dev/nvidia1]
  register: hardware
# => hardware.counted: true
# => hardware.findings: []
"""

RETURN = r"""
counted: {description: Whether everything could be read., type: bool, returned: always}
others:
  description: What the controllers that the node has now would lose, in the form of RV(findings).
  type: list
  elements: dict
  returned: always
silent:
  description: Whether no controller of the node answers, so that the jobs of other nodes are unknown.
  type: bool
  returned: always
findings:
  description: What the node lacks; the fields are the same for every finding of bedplate.
  type: list
  elements: dict
  returned: always
  sample: [{kind: node-hardware, where: "site.bedplate.yml: profiles.h100.gpus.devices", found: "/dev/nvidia1 missing"}]
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import find, run
from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding, to_json
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.jobs.replaced_controllers import (
    Served,
    jobs_of_others,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.node_hardware import (
    Promise,
    UnknownError,
    by_node,
    missing_devices,
    parse_slurmd,
    smaller,
)


def count(promise: Promise, new: bool) -> list[Finding]:
    """Return what this node lacks; raise UnknownError if a value cannot be read."""
    findings = missing_devices(promise)
    if not promise.sockets:
        return findings
    slurmd = find("slurmd")
    if slurmd is None:
        if new:
            return findings  # slurmd is installed later in the run
        raise UnknownError("slurmd is not installed")
    outcome = run([slurmd, "-C"], timeout=60)
    pairs = parse_slurmd(outcome.stdout)
    if not pairs:
        raise UnknownError(f"`slurmd -C` says: {outcome.text or 'nothing'}")
    return findings + smaller(promise, pairs)


def main() -> None:
    """Run the module."""
    numbers: dict[str, Any] = {
        name: {"type": "int", "default": 0}
        for name in ("gpus", "sockets", "cores_per_socket", "threads_per_core", "memory")
    }
    module = AnsibleModule(
        argument_spec={
            "profile": {"type": "str", "required": True},
            "cluster_file": {"type": "str", "required": True},
            "devices": {"type": "list", "elements": "path", "default": []},
            "conf_servers": {"type": "list", "elements": "str", "default": []},
            "first_start": {"type": "bool", "default": False},
            "fail": {"type": "bool", "default": False},
            **numbers,
        },
        supports_check_mode=True,
    )
    fail, servers, first = (module.params.pop(name) for name in ("fail", "conf_servers", "first_start"))
    where = f"{module.params['cluster_file']}: services.controllers"
    served = Served()
    if servers:
        served = jobs_of_others(servers, where, lambda argv: run(argv, timeout=60), new=fail, first_start=first)
    jobs = {"others": to_json(served.others), "silent": served.silent}
    try:
        findings = count(Promise(**module.params), fail)
    except UnknownError as error:
        module.warn(f"the hardware of this node cannot be counted: {error}")
        module.exit_json(changed=False, counted=False, findings=[], **jobs)
    result = {"counted": True, "findings": to_json(findings), **jobs}
    # What the other controllers would lose ends the whole run, and a node that fails here would not say so.
    if findings and fail and not served.others:
        text = "this node has less than its lines in slurm.conf will say:\n" + by_node(findings)
        if not module.check_mode:
            module.fail_json(msg=text, **result)
        module.warn(text)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
