#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compare what Slurm reports with what was planned."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_state
short_description: Compare what Slurm reports with the cluster file
version_added: 0.1.0
description:
  - Asks slurmctld for its nodes, partitions and topology, and compares them with the plan. Fails with a table of differences.
  - Nodes need a moment to register, so it asks again until everything agrees or O(timeout) seconds have passed.
  - Changes nothing. In check mode on a host without Slurm nothing can be asked, which the result says.
options:
  expected:
    description: The plan, as the filter P(bedplate.cluster.slurm_expected#filter) returns it.
    type: dict
    required: true
  timeout:
    description: How long nodes may take to register, in seconds.
    type: int
    default: 60
author: The bedplate authors
attributes:
  check_mode: {support: full, description: Differences are warnings there, since nothing was applied.}
"""

EXAMPLES = r"""
- name: Compare what Slurm reports with the cluster file
  bedplate.cluster.slurm_state:
    expected: "{{ bedplate_cluster_file | bedplate.cluster.slurm_expected }}"
# => msg: Slurm 24.11.5 agrees with the cluster file: 4 nodes, 2 partitions, 3 switches
# => or fails: node gpu03: wanted able to run jobs, found down* (Not responding); `journalctl -u slurmd` on gpu03; ...
"""

RETURN = r"""
asked: {description: Whether Slurm could be asked., type: bool, returned: always}
findings: {description: "The differences: where, wanted, found, fix.", type: list, elements: dict, returned: always}
"""

import time
from dataclasses import asdict

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.state import (
    Finding,
    compare_maps,
    compare_nodes,
    parse_nodes,
    parse_partitions,
    parse_topology,
    table,
)


class Asker:
    """Runs Slurm's commands, each with a deadline."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module

    def ask(self, *command: str) -> str:
        """Return the output; a command that fails raises OSError with its message."""
        rc, out, err = self.module.run_command(["timeout", "30", *command])
        if rc != 0:
            raise OSError(f"{' '.join(command)}: {(err or out).strip() or f'rc {rc}'}")
        return str(out)


def find(asker: Asker, expected: dict[str, object]) -> list[Finding]:
    """Return all differences, as Slurm is now."""
    nodes = parse_nodes(asker.ask("sinfo", "--noheader", "--all", "--Node", "--format=%N|%G|%c|%m|%t|%E"))
    partitions = asker.ask("scontrol", "--all", "--oneliner", "show", "partition")
    hidden = [line.split()[0].split("=")[1] for line in partitions.splitlines() if "Hidden=YES" in line]
    findings = compare_nodes(expected["nodes"], nodes)  # type: ignore[arg-type]
    findings += compare_maps("partition", expected["partitions"], parse_partitions(partitions), hidden)  # type: ignore[arg-type]
    if expected["topology"]:
        topology = parse_topology(asker.ask("scontrol", "show", "topology"))
        findings += compare_maps("switch", expected["topology"], topology)  # type: ignore[arg-type]
    return findings


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"expected": {"type": "dict", "required": True}, "timeout": {"type": "int", "default": 60}},
        supports_check_mode=True,
    )
    expected = module.params["expected"]
    if module.check_mode and not module.get_bin_path("scontrol"):
        module.exit_json(changed=False, asked=False, findings=[], msg="not asked: Slurm is not installed yet")
    asker = Asker(module)
    deadline = time.monotonic() + (0 if module.check_mode else module.params["timeout"])
    while True:
        try:
            findings = find(asker, expected)
            version = asker.ask("scontrol", "--version").split()[-1]
            if not version.startswith(expected["version"]):
                fix = "set slurm.version in the cluster file, or install the planned packages"
                findings.append(Finding("Slurm", expected["version"], version, fix))
        except OSError as error:
            findings = [Finding("slurmctld", "an answer", str(error), "`journalctl -u slurmctld` on the controllers")]
        if not findings or time.monotonic() >= deadline:
            break
        time.sleep(1)
    if findings and module.check_mode:
        # Nothing was applied, so what the run would mend is no failure yet.
        text = f"Slurm differs from the cluster file before this run:\n{table(findings)}"
        module.warn(text)
        module.exit_json(changed=False, asked=True, findings=[asdict(one) for one in findings], msg=text)
    if findings:
        module.fail_json(
            msg=f"Slurm differs from the cluster file in {len(findings)} places:\n{table(findings)}",
            asked=True,
            findings=[asdict(one) for one in findings],
        )
    count = f"{len(expected['partitions'])} partitions, {len(expected['topology'])} switches"
    module.exit_json(
        changed=False,
        asked=True,
        findings=[],
        msg=f"Slurm {version} agrees with the cluster file: {expected['node_count']} nodes, {count}",
    )


if __name__ == "__main__":
    main()
