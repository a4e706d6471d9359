#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Documentation of the action plugin of this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: part
short_description: Deploy a part of a role, as the role decides for the host
version_added: 0.2.0
description:
  - A part is a data file in C(parts/) of a role; it names packages, files and units. This action decides in Python, from the cluster
    file and the variables of the role, which values the part has on the host, renders its templates, and deploys it with
    P(bedplate.cluster.deploy#module).
  - A host that must not have the part is left alone; if the role has a part C(<name>_absent), that part is deployed instead.
  - Steps are modules that the role decides to run on the host, with their arguments, in the same task. A host that does not need a step
    does not run it. The first step or part that fails ends the task.
  - Without O(name) and steps, the variables of the role are checked and nothing is deployed.
options:
  name:
    description: The part, or a list of parts, which are deployed one after the other.
    type: raw
  role:
    description: The role; by default that of the task.
    type: str
  before:
    description: Steps that run before the parts.
    type: list
    elements: str
  after:
    description: Steps that run after the parts.
    type: list
    elements: str
  reported:
    description: The result of an earlier task of the role, on which the decision depends.
    type: dict
  only:
    description: As O(bedplate.cluster.deploy#module:only), in place of what the tags of the run choose.
    type: list
    elements: str
    choices: [packages, files, services]
extends_documentation_fragment: [bedplate.cluster.deployment.part]
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: The deployment and the steps predict what they would change.}
  diff_mode: {support: full, description: The deployment and the steps show what they change.}
"""

EXAMPLES = r"""
# In a role of this collection:
- name: Tune the kernel and hardware
  bedplate.cluster.part:
    before: [huge_pages]
    name: node_tuning
    after: [kernel_cmdline]

- name: Deploy a part of a role in a playbook of a site
  bedplate.cluster.part:
    role: rdma
    name: rdma
"""

RETURN = r"""
steps:
  description: The results of the steps that ran, by name. All else is as P(bedplate.cluster.deploy#module) returns it.
  type: dict
  returned: when a step ran
"""
