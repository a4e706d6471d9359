#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Module slurm_config_test."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_config_test
author: The bedplate authors (!UNKNOWN)
version_added: 0.1.0
short_description: Start the real slurmctld on a configuration, to see whether it accepts it
description:
  - Starts the installed slurmctld on a candidate configuration, in a scratch directory and a separate network namespace, waits
    until it runs or refuses, reads the configuration back from it, and stops it. The running slurmctld is not affected.
  - For that, slurm.conf is rewritten. Left out are the host's own settings, authentication, what needs slurmdbd
    (accounting, TRES, multifactor priority, preemption by QOS, the QOS and accounts of partitions), and programs that
    slurmctld would run. They are not tested.
  - Nodes without a numeric address, and all nodes if no network namespace can be made, get the address 127.0.0.1.
  - slurmctld takes C(Gres) that no node can honour. The module refuses those itself; a C(Gres) name that is missing in
    C(GresTypes), an invalid count, and a gres.conf with fewer devices than slurm.conf needs.
  - Errors with which slurmctld runs all the same are warnings, unless O(strict=true).
options:
  files:
    description:
      - File name to content, slurm.conf and what slurmctld reads beside it (cgroup.conf, gres.conf, topology.conf...).
      - slurmdbd.conf is refused. slurmctld does not read it and it holds a password.
    type: dict
    required: true
  deadline:
    description: Seconds after which slurmctld counts as not able to start.
    type: int
    default: 60
  slurmctld:
    description: Path of slurmctld. Found by itself where it is left out.
    type: path
  strict:
    description: Whether an error with which slurmctld runs all the same is a failure.
    type: bool
    default: false
attributes:
  check_mode:
    support: full
    description: It tests in check mode as well, since it changes nothing.
  diff_mode:
    support: none
    description: There is nothing to show.
"""

EXAMPLES = r"""
- name: Prove the new configuration before it replaces the old one
  bedplate.cluster.slurm_config_test:
    files:
      slurm.conf: "{{ lookup('ansible.builtin.template', 'slurm.conf.j2') }}"
      cgroup.conf: "{{ lookup('ansible.builtin.template', 'cgroup.conf.j2') }}"
      topology.conf: "{{ lookup('ansible.builtin.template', 'topology.conf.j2') }}"
  register: candidate
# => candidate.message: "slurmctld 24.11.5 accepts it: 4 nodes, 1 partitions"
# A partition with a node that does not exist ends the play:
# => "slurmctld 24.11.5 refuses it: _find_node_record: lookup failure for node \"n7\"; Invalid node names in ..."
"""

RETURN = r"""
tested:
  description: Whether there was a slurmctld to test with.
  type: bool
  returned: always
accepted:
  description: Whether slurmctld runs with the configuration.
  type: bool
  returned: always
message:
  description: The outcome in a line.
  type: str
  returned: always
  sample: "slurmctld 24.11.5 accepts it: 4 nodes, 1 partitions"
version:
  description: Version of slurmctld.
  type: str
  returned: when tested
fatal:
  description: Why it was refused.
  type: list
  elements: str
  returned: when tested
errors:
  description: Other errors that the candidate caused.
  type: list
  elements: str
  returned: when tested
topology:
  description: Lines of C(scontrol show topology).
  type: list
  elements: str
  returned: when tested
nodes:
  description: How many nodes slurmctld knows.
  type: int
  returned: when tested
partitions:
  description: How many partitions slurmctld knows.
  type: int
  returned: when tested
isolated:
  description: Whether it ran in a separate network namespace. If not, it ran on a free port of the loopback interface.
  type: bool
  returned: when tested
"""

from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.config_trial import Result, run


def facts(result: Result) -> dict[str, Any]:
    """Return the result of the module."""
    shown = {"tested": result.tested, "accepted": result.accepted, "message": result.message}
    if result.tested:
        for name in ("version", "fatal", "errors", "topology", "nodes", "partitions", "isolated"):
            shown[name] = getattr(result, name)
    return shown


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "dict", "required": True},
            "deadline": {"type": "int", "default": 60},
            "slurmctld": {"type": "path"},
            "strict": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
        no_log=True,  # keeps a configuration of megabytes out of the journal; it does not censor the result
    )
    result = run(
        {name: str(content) for name, content in module.params["files"].items()},
        slurmctld=module.params["slurmctld"],
        deadline=module.params["deadline"],
    )
    shown = facts(result)
    if result.tested and (not result.accepted or (module.params["strict"] and result.errors)):
        module.fail_json(msg="; ".join([result.message, *(result.errors if result.accepted else [])]), **shown)
    for error in result.errors:
        module.warn(f"slurmctld: {error}")
    module.exit_json(changed=False, **shown)


if __name__ == "__main__":
    main()
