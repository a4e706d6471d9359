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
  - V(plan) names every machine that the turn would miss, and fails before anything changes. V(switch) fails unless every machine has
    the new key staged. V(promote) makes the new secret the cluster's. V(finish) fails unless machines decode each other's credentials.
options:
  step:
    description: The step.
    type: str
    choices: [plan, switch, promote, finish]
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
stage: {description: "How far the turn is: V(staging), V(switching) or V(finished).", type: str, returned: with V(plan)}
turn: {description: The name of the turn., type: str, returned: "with V(plan), if there is a turn"}
keys: {description: The secrets that are turned., type: list, elements: str, returned: "with V(plan), if there is a turn"}
staged: {description: "Fingerprint of each new key, with RV(turn) as salt.", type: dict, returned: "with V(plan), if there is a turn"}
switch: {description: "Secret to machines that have the old key.", type: dict, returned: with V(plan)}
prove: {description: "Secret to machines that must have the new key in the end.", type: dict, returned: with V(plan)}
pause_at: {description: "When munged stops, in seconds since 1970.", type: float, returned: with V(switch)}
switch_at: {description: "When the keys are replaced, in seconds since 1970.", type: float, returned: with V(switch)}
"""
