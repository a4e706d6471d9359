#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_simulation
short_description: Prove the files of a fabric on a simulated one
version_added: 0.1.0
description:
  - Builds the planned fabric of a cluster file with ibsim, routes it with real OpenSM and the planned files, and compares the
    result with the plan. That is SUBNET UP, no error in the log, the requested routing engine in effect, every HCA reached, every link
    used evenly, no credit loop, and P_Keys and virtual lanes read back.
  - A real slurmctld reads Slurm's topology, too.
  - A finding names what in the plan explains it, if anything does. Without findings the files are proved.
  - It runs on the control node, in scratch directories that are removed afterwards. Changes nothing, and needs no root.
  - Needs C(opensm), C(ibsim-utils), C(infiniband-diags), C(ibutils), and for the topology C(slurmctld) and C(slurm-client).
options:
  cluster_file:
    description: Path of the cluster file.
    type: path
    required: true
  fabric:
    description: The fabric, by default the first; of files with O(recorded=true) all with subnet managers.
    type: str
  opensm:
    description:
      - Prove the masters' files as the role P(bedplate.cluster.opensm#role) deploys them with these variables. GUIDs must be on record,
        and Slurm's topology is not compared, unless O(recorded=false).
      - Keys among the options, such as C(sm_key), are left out.
    type: dict
    suboptions:
      routing_engines: {description: Engines tried in turn; by the shape of the fabric when empty., type: list, elements: str}
      no_fallback: {description: Route nothing where the engines refuse the fabric., type: bool}
      options: {description: "Further options of opensm.conf, name to value.", type: dict}
  recorded:
    description:
      - Whether the fabric must have its GUIDs on record. If not, missing ones are made, as for a fabric that does not exist yet, and
        Slurm's topology is proved as well.
    type: bool
    default: true
  slurm_version:
    description: Slurm's release that the topology is for, by default the cluster file's.
    type: str
  timeout:
    description: How long each tool may take, in seconds. By default 300, and one more for every four HCAs. 8,192 HCAs take OpenSM about 20.
    type: int
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It simulates in check mode as well since it changes nothing.}
seealso:
  - module: bedplate.cluster.slurm_config_test
"""

EXAMPLES = r"""
- name: Prove the plan before a cable is laid
  bedplate.cluster.fabric_simulation:
    cluster_file: "{{ bedplate_cluster_file }}"
# => msg: proved: ftree routes 256 HCAs over 12 switches, busiest link 1.00 times the mean; slurmctld takes the topology
# With two uplinks of four HCAs it fails, and names the leaf:
# => cause: rack r0, leaf01: 4 HCAs share 2 uplinks, and the plan allows 1 to one
"""

RETURN = r"""
msg: {description: The outcome in a line or all findings., type: str, returned: always}
findings:
  description: Differences from the plan, with the fields that RV(bedplate.cluster.node_state#module:findings) has.
  type: list
  elements: dict
  returned: always
  sample: [{kind: engine, severity: error, where: plane rail0, expected: the routing engine ftree, found: minhop, remedy: "cause: ..."}]
proved:
  description: RV(planes) as the JSON text that C(playbooks/fabric_check.yml) writes for C(playbooks/fabric_routes.yml).
  type: str
  returned: when there are no findings
planes:
  description: OpenSM's result for each plane.
  type: list
  elements: dict
  returned: always
  sample:
    - {plane: rail0, engine: ftree, hcas: 32, switches: 6, imbalance: 1.0, unreachable: 0, idle: 0, busiest: 30, least: 30}
  contains:
    cables: {description: Digest of the plane's planned cables; a proof is compared with no other ones., type: str, returned: always}
    busiest: {description: Flows on the busiest link when every HCA sends to every other., type: int, returned: when OpenSM has routed}
    least: {description: Flows on the busiest link that no routes can go below., type: int, returned: when OpenSM has routed}
    trials:
      description: Other engines on the same plan, the best first; C(obstacle) is why one cannot be used.
      type: list
      elements: dict
      returned: when the routes might not be the best
      sample: [{engine: updn, options: {scatter_ports: "1"}, busiest: 176, imbalance: 1.63, obstacle: ""}]
"""
