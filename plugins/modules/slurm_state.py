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
  - Asks slurmctld for its release, configuration, nodes, partitions and topology, and compares them with the plan. Fails with a
    table of differences.
  - Nodes need a moment to register, so it asks again until everything agrees or O(timeout) seconds have passed.
  - A node that an operator has drained or set down is a notice, no failure; who did so is known by who set the reason. A reason of
    Slurm itself, such as C(Low RealMemory) or C(Not responding), is a difference, and so is one that C(SlurmUser) has set, since
    nobody can tell an operator who works as that user from Slurm. So is a reason that nobody is known to have set.
  - When a drained node is switched off, Slurm 23.02 and newer put C(Not responding) behind the operator's reason and become the ones
    who set it. Such a node is a notice still, by C(unknown).
  - A node that the cluster file plans as drain or down may be so, switched on or off; one it plans as future may be unknown to Slurm.
    One planned as drain or down that takes jobs is a notice.
  - C(HASH_VAL) tells whether slurm.conf on this host is what slurmctld runs. Other hosts are not looked at.
  - Changes nothing. In check mode on a host without Slurm nothing can be asked, which the result says.
options:
  expected:
    description: The plan, as the filter P(bedplate.cluster.slurm_expected#filter) returns it.
    type: dict
    required: true
  timeout:
    description: How long nodes may take to register, in seconds. In check mode Slurm is asked once.
    type: int
    default: 60
author: The bedplate authors
attributes:
  check_mode: {support: full, description: "Differences are warnings there, since nothing was applied."}
"""

EXAMPLES = r"""
- name: Compare what Slurm reports with the cluster file
  bedplate.cluster.slurm_state:
    expected: "{{ bedplate_cluster_file | bedplate.cluster.slurm_expected }}"
  register: slurm_state
# => slurm_state.msg: Slurm 24.11.5 agrees with the cluster file: 4 nodes, 2 partitions, 3 switches
# => slurm_state.notices: [{node: gpu02, state: drain, reason: fan, who: root(0), since: 2026-11-21T09:00:00}]
# => or fails: node gpu03: wanted able to run jobs, found down* (Not responding; set by slurm(64030)); `journalctl -u slurmd` on ...
"""

RETURN = r"""
asked: {description: Whether Slurm could be asked., type: bool, returned: always}
msg: {description: "That Slurm agrees, or the differences, a line each.", type: str, returned: always}
findings:
  description: The differences. Nodes that differ in the same way are one.
  type: list
  elements: dict
  returned: always
  contains:
    where: {description: What differs., type: str, sample: "nodes gpu[03-04]"}
    wanted: {description: What the cluster file says., type: str, sample: able to run jobs}
    found: {description: What Slurm says., type: str, sample: down* (Not responding; set by slurm(64030))}
    fix: {description: What to do about it., type: str, sample: run playbooks/scheduler.yml}
notices:
  description: Nodes in a state that an operator chose. Each is also told in a warning.
  type: list
  elements: dict
  returned: always
  contains:
    node: {description: The node., type: str, sample: gpu02}
    state: {description: Its state as sinfo abbreviates it., type: str, sample: drain}
    reason: {description: "The reason given, or how the state differs from the planned one.", type: str, sample: fan}
    who:
      description: >-
        Who set the reason, as name(uid); V(unknown) where Slurm has added to it since; empty for a planned node that takes jobs.
      type: str
      sample: root(0)
    since: {description: Since when; empty where nobody knows., type: str, sample: "2026-11-21T09:00:00"}
"""

import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.retain import pairs_of
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.state import (
    NODE_FORMAT,
    Finding,
    Notice,
    compare_config,
    compare_maps,
    compare_nodes,
    notice_table,
    parse_config,
    parse_nodes,
    parse_partitions,
    parse_topology,
    table,
    unread_findings,
)

_DEADLINE = 30
_KEYS = ("version", "node_count", "nodes", "partitions", "topology")


@dataclass
class Answer:
    """What one round of questions has found."""

    asked: bool = True
    config: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def text(self) -> str:
        """Return the findings as a table, with what operators must know of them."""
        user = self.config.get("SlurmUser", "")
        hint = (
            f"\nA reason set by {user} counts as Slurm's own, also where an operator works as that user: drain nodes as root or as "
            "yourself, and it is a notice."
        )
        return table(self.findings) + (hint if any(f"set by {user})" in one.found for one in self.findings) else "")


class Asker:
    """Runs Slurm's commands, each with a deadline."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        for name in [name for name in os.environ if name.startswith(("SINFO_", "SLURM_")) and name != "SLURM_CONF"]:
            del os.environ[name]  # a login's habits, such as SLURM_CLUSTERS, would give another answer

    def ask(self, *command: str) -> str:
        """Return the output; a command that fails raises OSError with its message."""
        line = ["timeout", str(_DEADLINE), *command]
        rc, out, err = self.module.run_command(line, environ_update={"LC_ALL": "C"})
        if rc != 0:
            silence = f"no answer in {_DEADLINE} s" if rc == 124 else f"rc {rc}"
            raise OSError(f"{' '.join(command)}: {(err or out).strip() or silence}")
        return str(out)


def find(asker: Asker, expected: Mapping[str, Any]) -> Answer:
    """Return all differences, as Slurm is now."""
    answer = Answer(config=parse_config(asker.ask("scontrol", "show", "config")))
    answer.findings = compare_config(expected["version"], answer.config)
    nodes, unread = parse_nodes(asker.ask("sinfo", "--noheader", "--all", "--Node", f"--format={NODE_FORMAT}"))
    of_nodes, answer.notices = compare_nodes(expected["nodes"], nodes, answer.config)
    answer.findings += [*unread_findings(unread), *of_nodes]
    partitions = asker.ask("scontrol", "--all", "--oneliner", "show", "partition")
    hidden = [
        pairs["PartitionName"] for pairs in map(pairs_of, partitions.splitlines()) if pairs.get("Hidden") == "YES"
    ]
    answer.findings += compare_maps("partition", expected["partitions"], parse_partitions(partitions), hidden)
    if expected["topology"]:
        topology = parse_topology(asker.ask("scontrol", "show", "topology"))
        answer.findings += compare_maps("switch", expected["topology"], topology)
    return answer


def poll(asker: Asker, expected: Mapping[str, Any], seconds: int) -> Answer:
    """Ask until nothing differs, at most `seconds` long; return the last answer."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            answer = find(asker, expected)
        except OSError as error:
            finding = Finding("slurmctld", "an answer", str(error), "`journalctl -u slurmctld` on the controllers")
            answer = Answer(asked=False, findings=[finding])
        if not answer.findings or time.monotonic() >= deadline:
            return answer
        time.sleep(1)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"expected": {"type": "dict", "required": True}, "timeout": {"type": "int", "default": 60}},
        supports_check_mode=True,
    )
    expected = module.params["expected"]
    nothing: dict[str, Any] = {"changed": False, "asked": False, "findings": [], "notices": []}
    if lacking := [key for key in _KEYS if key not in expected]:
        text = f"expected lacks {', '.join(lacking)}: pass what the filter bedplate.cluster.slurm_expected returns"
        module.fail_json(msg=text, **nothing)
    if not module.get_bin_path("scontrol"):
        if module.check_mode:
            module.exit_json(msg="not asked: Slurm is not installed yet", **nothing)
        module.fail_json(msg="scontrol is not installed on this host: run playbooks/scheduler.yml first", **nothing)
    answer = poll(Asker(module), expected, 0 if module.check_mode else module.params["timeout"])
    if answer.notices:
        module.warn(f"nodes in a state that an operator chose:\n{notice_table(answer.notices)}")
    lists = {name: [asdict(one) for one in getattr(answer, name)] for name in ("findings", "notices")}
    result = {**nothing, **lists, "asked": answer.asked}
    if not answer.findings:
        parts = f"{len(expected['partitions'])} partitions, {len(expected['topology'])} switches"
        version = answer.config.get("SLURM_VERSION")
        text = f"Slurm {version} agrees with the cluster file: {expected['node_count']} nodes, {parts}"
        module.exit_json(msg=text, **result)
    if module.check_mode:
        # Nothing was applied, so what the run would mend is no failure yet.
        text = f"Slurm differs from the cluster file before this run:\n{answer.text()}"
        module.warn(text)
        module.exit_json(msg=text, **result)
    count = len(answer.findings)
    places = "place" if count == 1 else "places"
    module.fail_json(msg=f"Slurm differs from the cluster file in {count} {places}:\n{answer.text()}", **result)


if __name__ == "__main__":
    main()
