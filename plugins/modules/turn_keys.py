#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: turn_keys
short_description: Decide each step of a turn of Slurm's keys, and record it on the control node
version_added: 0.2.0
description:
  - >-
    For playbooks/turn_keys.yml. Compares what M(bedplate.cluster.slurm_key) read on each machine with the secrets of the cluster, makes the
    new secrets, and keeps C(turn_keys.json) in the secrets directory, by which a later call continues.
  - >-
    V(plan) names every machine that the turn would miss, and fails before anything changes. V(switch) fails unless every machine has the
    new key and decodes credentials of both. V(window) fails unless every machine makes credentials with the new key, and waits until
    credentials of the old one have expired. V(finish) names again who is not reached, then makes the new secret the cluster's. V(close)
    fails unless machines decode each other's credentials.
options:
  step:
    description: The step.
    type: str
    choices: [plan, switch, window, finish, close]
    required: true
author: The bedplate authors (!UNKNOWN)
attributes:
  action: {support: full, description: It runs on the control node and calls modules on the controller.}
  check_mode: {support: full, description: It prints what would change.}
"""

EXAMPLES = r"""
- name: Plan the turn
  bedplate.cluster.turn_keys: {step: plan}
  delegate_to: "{{ groups.slurm_controllers[0] }}"
  run_once: true
  register: __turn
"""

RETURN = r"""
stage:
  description: "How far the turn is: V(staging), V(switching), V(finishing), V(returning) or V(finished)."
  type: str
  returned: with V(plan)
turn: {description: The name of the turn., type: str, returned: "with V(plan), if there is a turn"}
keys: {description: The secrets that are turned., type: list, elements: str, returned: "with V(plan), if there is a turn"}
staged: {description: "Fingerprint of each new key, with RV(turn) as salt.", type: dict, returned: "with V(plan), if there is a turn"}
encodes: {description: "Which key makes credentials: V(new), or V(old) where a turn is given up.", type: str, returned: "as RV(turn)"}
copy: {description: "Secret to machines that have the old key.", type: dict, returned: as RV(turn)}
pair: {description: "Secret to machines that get both keys.", type: dict, returned: as RV(turn)}
encode: {description: "Secret to machines that change the key that makes credentials.", type: dict, returned: as RV(turn)}
prove: {description: "Secret to machines that must have the new key in the end.", type: dict, returned: as RV(turn)}
clean: {description: "Secret to machines on which the turn ends.", type: dict, returned: as RV(turn)}
waited: {description: For how many seconds the step waited., type: float, returned: with V(window)}
"""
