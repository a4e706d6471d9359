#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Ask a running Slurm which leaving nodes and partitions still have jobs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_in_use
short_description: Find what must stay in slurm.conf because jobs still use it
version_added: 0.1.0
description:
  - Compares the nodes and partitions of the slurm.conf in force with the wanted ones. For those that leave, asks Slurm for
    their jobs, and returns the lines that keep these jobs alive until they end.
  - Changes nothing, and runs in check mode.
  - A host without slurm.conf has nothing to keep. When something leaves and slurmctld does not answer, the module fails
    unless O(unasked) is true, since nobody knows what would be killed.
options:
  nodes:
    description: The wanted nodes, as a Slurm hostlist.
    type: str
    required: true
  partitions:
    description: The names of the wanted partitions.
    type: list
    elements: str
    required: true
  unasked:
    description: Go on when slurmctld does not answer. Jobs on leaving nodes and in leaving partitions are lost.
    type: bool
    default: false
  directory:
    description: Where slurm.conf and gres.conf are.
    type: path
    default: /etc/slurm
author: The bedplate authors
attributes:
  check_mode: {support: full, description: It only reads.}
"""

EXAMPLES = r"""
- name: Ask which leaving nodes and partitions still have jobs
  bedplate.cluster.slurm_in_use:
    nodes: gpu[01-04]
    partitions: [gpu]
  register: slurm_in_use
# => slurm_in_use.partitions: {"debug": ["17"]}
# => slurm_in_use.slurm: ["PartitionName=debug Nodes=gpu[01-02] Default=NO State=DRAIN Hidden=YES"]
"""

RETURN = r"""
slurm: {description: Lines to add to slurm.conf., type: list, elements: str, returned: always}
gres: {description: Lines to add to gres.conf., type: list, elements: str, returned: always}
nodes: {description: Leaving nodes that are kept, with the ids of their jobs., type: dict, returned: always}
partitions: {description: Leaving partitions that are kept, with the ids of their jobs., type: dict, returned: always}
"""

from dataclasses import asdict
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.hostlist import expand, fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.retain import (
    Retained,
    leaving,
    pairs_of,
    parse_jobs,
    retain,
)


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _ask(module: AnsibleModule, *command: str) -> str | None:
    rc, out, _err = module.run_command(["timeout", "30", *command])
    return out if rc == 0 else None


def _members(module: AnsibleModule, partitions: list[str]) -> dict[str, list[str]]:
    members = {}
    for name in partitions:
        pairs = pairs_of(_ask(module, "scontrol", "--oneliner", "show", "partition", name) or "")
        nodes = pairs.get("Nodes", "(null)")
        members[name] = [] if nodes == "(null)" else expand(nodes)
    return members


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "nodes": {"type": "str", "required": True},
            "partitions": {"type": "list", "elements": "str", "required": True},
            "unasked": {"type": "bool", "default": False},
            "directory": {"type": "path", "default": "/etc/slurm"},
        },
        supports_check_mode=True,
    )
    directory = Path(module.params["directory"])
    slurm_conf = _read(directory / "slurm.conf")
    wanted = expand(module.params["nodes"]) if module.params["nodes"] else []
    gone_nodes, gone_partitions = leaving(slurm_conf, wanted, module.params["partitions"])
    if not gone_nodes and not gone_partitions:
        module.exit_json(changed=False, **asdict(Retained()))
    jobs = _ask(module, "squeue", "--noheader", "--all", "--format=%i|%P|%N")
    if jobs is None and not module.params["unasked"]:
        module.fail_json(
            msg=f"slurmctld does not answer, so nobody knows which jobs would be lost: nodes {fold(gone_nodes) or 'none'} and "
            f"partitions {', '.join(gone_partitions) or 'none'} leave the cluster file. Start slurmctld "
            "(`systemctl status slurmctld`, `journalctl -u slurmctld`) and run again; or, if no job matters, "
            "run with -e '{\"slurm_controller_remove_unasked\": true}'."
        )
    kept = retain(
        slurm_conf,
        _read(directory / "gres.conf"),
        gone_nodes,
        gone_partitions,
        parse_jobs(jobs or ""),
        _members(module, gone_partitions),
    )
    for kind, things in (("node", kept.nodes), ("partition", kept.partitions)):
        for name, users in things.items():
            module.warn(
                f"{kind} {name} has left the cluster file but stays until its jobs end: {', '.join(users)}. Run again then."
            )
    module.exit_json(changed=False, **asdict(kept))


if __name__ == "__main__":
    main()
