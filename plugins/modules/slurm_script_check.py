#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check that the scripts which Slurm's options name can be run on this machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_script_check
short_description: Check that the scripts which Slurm's options name can be run on this machine
version_added: 0.1.0
description:
  - A script must be a regular file that is executable, with a first line that Linux can run and an interpreter that is installed. The user
    that Slurm runs it as must be able to reach it. Each that is not is a finding.
  - Findings do not fail the task, since a node that lacks a script must stop the controllers, which read the findings of all machines.
  - Changes nothing, and runs in check mode.
options:
  scripts:
    description: The scripts, each with C(option), C(path), C(glob) and more, as P(bedplate.cluster.slurm_script_paths#filter) returns them.
    type: list
    elements: dict
    required: true
  options:
    description: Options of the slurm.conf of this machine to return as RV(in_force).
    type: list
    elements: str
    default: []
  directory:
    description: Where slurm.conf is, and scripts with a relative name.
    type: path
    default: /etc/slurm
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It only reads.}
"""

EXAMPLES = r"""
- name: Check the scripts of a node
  bedplate.cluster.slurm_script_check:
    scripts:
      - {option: Prolog, path: /opt/site/prolog, glob: true}
  register: slurm_script_check
# => slurm_script_check.findings[0].found: no such file or directory
"""

RETURN = r"""
findings: {description: The scripts that cannot be run., type: list, elements: dict, returned: always}
in_force: {description: "The values of O(options) in slurm.conf, as far as it sets them.", type: dict, returned: always}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common import finding
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.conf_reader import read
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.script_check import findings_of, in_force


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "scripts": {"type": "list", "elements": "dict", "required": True},
            "options": {"type": "list", "elements": "str", "default": []},
            "directory": {"type": "path", "default": "/etc/slurm"},
        },
        supports_check_mode=True,
    )
    directory = Path(module.params["directory"])
    found = findings_of(module.params["scripts"], directory)
    options = module.params["options"]
    result = {
        "findings": finding.to_json(found),
        "in_force": in_force(read(directory / "slurm.conf"), options) if options else {},
    }
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
