#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Prove the files of a fabric on a simulated one."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_simulation
short_description: Prove the files of a fabric on a simulated one
version_added: 0.1.0
description:
  - Makes the fabric of a plan with ibsim, lets real OpenSM route it with the files it is to have, and compares what it does with the
    plan. That is SUBNET UP, no error in the log, the routing engine asked for in effect, every HCA reached, every link used evenly,
    no credit loop, and P_Keys and virtual lanes read back.
  - With O(slurm), a real slurmctld is asked about Slurm's topology, too.
  - Every finding names its cause. Without findings the files are proved.
  - Everything runs in scratch directories, which are gone afterwards. Changes nothing, and needs no root.
  - Needs C(opensm), C(ibsim-utils), C(infiniband-diags), C(ibutils), and for O(slurm) C(slurmctld) and C(slurm-client).
options:
  plan:
    description: The plan, as P(bedplate.cluster.fabric_proofs#filter) returns it.
    type: dict
    required: true
  planes:
    description: The planes to simulate, with the files of each.
    type: list
    elements: dict
    default: []
    suboptions:
      plane: {description: Name of the plane., type: str, default: ""}
      files: {description: "OpenSM's files, name to text. Without them those that the plan makes.", type: dict}
  slurm:
    description: Slurm's topology, as P(bedplate.cluster.fabric_proofs#filter) returns it.
    type: dict
    suboptions:
      topology: {description: Text of topology.conf., type: str, required: true}
      shown: {description: What C(scontrol show topology) is to say., type: dict, required: true}
      options: {description: Options of slurm.conf that go with it., type: dict, default: {}}
      blocks:
        description: Blocks of NVLink domains beside the tree; a slurmctld that knows none, before 24.05, is not asked.
        type: dict
        suboptions:
          topology: {description: Text of topology.conf., type: str, required: true}
          shown: {description: Nodes of each block., type: dict, required: true}
          options: {description: Options of slurm.conf that go with it., type: dict, default: {}}
  timeout:
    description: How long each tool may take, in seconds. 8,192 HCAs take OpenSM about 20.
    type: int
    default: 300
author: The bedplate authors
attributes:
  check_mode: {support: full, description: It simulates in check mode as well since it changes nothing.}
seealso:
  - module: bedplate.cluster.slurm_config_test
"""

EXAMPLES = r"""
- name: Prove the plan before a cable is laid
  bedplate.cluster.fabric_simulation:
    plan: "{{ fabric_proofs.plan }}"
    planes: "{{ fabric_proofs.planes }}"
    slurm: "{{ fabric_proofs.slurm }}"
  vars:
    fabric_proofs: "{{ bedplate_cluster_file | bedplate.cluster.fabric_proofs }}"
# => msg: proved: ftree routes 256 HCAs over 12 switches, busiest link 1.00 times the mean; slurmctld takes the topology
# With one spine less in root_guid.conf it fails, and each finding has its cause:
# => cause: root_guid.conf: 1 of 4 switches of the top tier are not in it: rack net, spine04; no way goes through them [P7]
"""

RETURN = r"""
msg: {description: The outcome in a line or all findings., type: str, returned: always}
findings:
  description: What is not as planned, with the fields that RV(bedplate.cluster.node_state#module:findings) has.
  type: list
  elements: dict
  returned: always
  sample: [{kind: engine, severity: error, where: plane rail0, expected: the routing engine ftree, found: minhop, remedy: "cause: ..."}]
planes:
  description: What OpenSM made of each plane.
  type: list
  elements: dict
  returned: always
  sample: [{plane: rail0, engine: ftree, hcas: 32, switches: 6, imbalance: 1.0, unreachable: 0, idle: 0}]
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding, to_json
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.findings import counted
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.plan_data import from_data
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.proof import Proof, prove
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.slurm_proof import prove_blocks, prove_topology


def facts(plane: str, proof: Proof) -> dict[str, Any]:
    """Return what OpenSM made of a plane."""
    found: dict[str, Any] = {"plane": plane, "engine": proof.engine}
    if metrics := proof.metrics:
        found |= {"hcas": metrics.hcas, "switches": metrics.switches, "imbalance": round(metrics.imbalance, 3)}
        found |= {"unreachable": metrics.unreachable, "idle": len(metrics.idle)}
    return found


def main() -> None:
    """Run the module."""
    suboptions = {"plane": {"type": "str", "default": ""}, "files": {"type": "dict"}}
    of_slurm: dict[str, Any] = {
        "topology": {"type": "str", "required": True},
        "shown": {"type": "dict", "required": True},
        "options": {"type": "dict", "default": {}},
    }
    of_slurm["blocks"] = {"type": "dict", "options": dict(of_slurm)}
    module = AnsibleModule(
        argument_spec={
            "plan": {"type": "dict", "required": True},
            "planes": {"type": "list", "elements": "dict", "default": [], "options": suboptions},
            "slurm": {"type": "dict", "options": of_slurm},
            "timeout": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    given = module.params
    try:
        plan = from_data(given["plan"])
    except ValueError as error:
        module.fail_json(msg=f"plan: {error}", findings=[], planes=[])
    findings: list[Finding] = []
    made, said = [], []
    for one in given["planes"]:
        proof = prove(plan, one["plane"], one["files"], seconds=given["timeout"])
        findings += [finding for finding in proof.findings if finding not in findings]
        made.append(facts(one["plane"], proof))
        said.append(f"{one['plane']}: {proof.summary}" if one["plane"] else proof.summary)
    if slurm := given["slurm"]:
        findings += prove_topology(slurm["topology"], slurm["shown"], slurm["options"], given["timeout"])
        said.append("slurmctld takes the topology")
        if blocks := slurm["blocks"]:
            wrong, word = prove_blocks(blocks["topology"], blocks["shown"], blocks["options"], given["timeout"])
            findings += wrong
            said += [word] if word else []
    result = {"changed": False, "findings": to_json(findings), "planes": made}
    if findings:
        module.fail_json(msg="\n".join([f"{counted(len(findings), 'finding')}:", *map(str, findings)]), **result)
    module.exit_json(msg="; ".join(said) or "nothing was to be simulated", **result)


if __name__ == "__main__":
    main()
