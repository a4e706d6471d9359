#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Read the state of the subnet managers of a host and its planes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: opensm_facts
short_description: Read the state of the subnet managers of a host and its planes
version_added: 0.1.0
description:
  - Reads the units of OpenSM from systemd, the ports of this host from C(ibstat), the subnet managers of each plane from C(sminfo) and
    C(saquery), the P_Keys of ports from C(smpquery), and from OpenSM's log its routing engine and its errors, and its state if
    OpenSM itself does not report it.
  - Each subnet manager is queried directly, because the master reads the states of the others in its sweeps only.
  - Judges nothing, and fails for nothing that it finds, but with O(settled). P(bedplate.cluster.opensm_verdict#filter) compares it with
    the plan.
  - Changes nothing. Needs root and the package infiniband-diags.
options:
  planes:
    description: Units and ports to read, as P(bedplate.cluster.opensm_facts_request#filter) returns them.
    type: list
    elements: dict
    required: true
    suboptions:
      plane: {description: Name of the plane., type: str, required: true}
      guid: {description: GUID of the port that OpenSM uses., type: str, required: true}
      unit: {description: Its unit., type: str, required: true}
      log: {description: Its log., type: str, required: true}
      expected: {description: The expected state., type: str, choices: [master, standby], required: true}
      ports: {description: GUIDs of the ports whose P_Keys are read., type: list, elements: str, default: []}
  wait:
    description:
      - For how long to look again until each subnet manager of this host has the expected state, or is master or standby at all with
        O(settled), in seconds. A standby takes over some five seconds after the master has stopped.
    type: int
    default: 0
  settled:
    description: Look only for whether each subnet manager of this host is master or standby, and fail where one is not in time.
    type: bool
    default: false
  errors_minutes:
    description: Errors in the log that are older do not count.
    type: int
    default: 60
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: "It changes nothing, and does the same in check mode."}
seealso:
  - plugin: bedplate.cluster.opensm_verdict
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Read the subnet managers
  bedplate.cluster.opensm_facts:
    planes: "{{ bedplate_cluster_file | bedplate.cluster.opensm_facts_request(inventory_hostname) }}"
  register: facts
# => facts.planes[0].managers: [{guid: 021a63afd8682301, lid: 1, priority: 15, state: master}, ...]
"""

RETURN = r"""
settled: {description: Whether each subnet manager of this host is master or standby., type: bool, returned: always}
planes:
  description: Facts of each plane.
  type: list
  elements: dict
  returned: always
  contains:
    plane: {description: Its name., type: str, sample: ""}
    unit: {description: State of the unit in systemd., type: str, sample: active}
    port: {description: "Adapter and port of the GUID; empty if the host lacks it.", type: list, sample: [mlx5_0, "1"]}
    ports: {description: GUIDs of all ports of the host., type: list, sample: ["021a63afd8682301"]}
    managers: {description: All subnet managers of the plane., type: list, sample: [{guid: 021a63afd8682301, state: master}]}
    log: {description: "Facts of the log: state, engine, up, partitions, errors, last.", type: dict, sample: {engine: ftree}}
    pkeys: {description: Port GUID to the P_Keys it holds., type: dict, sample: {021a63afd8682301: [65535]}}
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric import sm_log, sm_tools

# Seconds that each question has, and bytes of a log that are looked at together.
_DEADLINE = 20
_BLOCK = 1 << 16
_SETTLED = (sm_log.MASTER, sm_log.STANDBY)


class ManagerReader:
    """Read the state of this host."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.within = timedelta(minutes=module.params["errors_minutes"])

    def run(self, *argv: str) -> str:
        """Return what a tool prints; "" when it fails."""
        outcome = command.run(argv, _DEADLINE)
        return outcome.stdout if outcome.code == 0 else ""

    def unit(self, name: str) -> str:
        """Return the state of a unit in systemd."""
        said = self.run("systemctl", "show", "--property=LoadState,ActiveState,SubState", name)
        found = dict(line.split("=", 1) for line in said.splitlines() if "=" in line)
        if found.get("LoadState") in (None, "not-found"):
            return ""
        active = found.get("ActiveState", "")
        return active if active in ("active", "inactive", "failed") else f"{active} ({found.get('SubState')})"

    def log(self, path: str) -> sm_log.LogSummary:
        """Return the facts of a log; the older log is read as well if this one does not reach back to the start."""
        now, before = Path(path), Path(f"{path}.1")
        if any(sm_log.STARTED in block for block in _blocks(now)):
            return sm_log.scan(_blocks(now), datetime.now(), self.within)
        return sm_log.scan(chain(_blocks(before), _blocks(now)), datetime.now(), self.within)

    def state(self, plane: Mapping[str, Any], log: sm_log.LogSummary | None = None) -> str:
        """Return the state of this host's SM of a plane; "" if it does not run, or if neither it nor its log reports one."""
        if self.unit(plane["unit"]) != "active":
            return ""
        # A log that was rotated twice does not hold it any more; the SM itself knows.
        return sm_tools.own_state(self.run, plane["guid"]).upper() or (log or self.log(plane["log"])).state

    def led(self, plane: Mapping[str, Any]) -> bool:
        """Return whether the port sees a master; after a handover it still names the old one until the new one has swept."""
        at = sm_tools.local_ports(self.run("ibstat")).get(plane["guid"])
        seen = sm_tools.sminfo(self.run("sminfo", "-C", at[0], "-P", at[1])) if at else None
        return at is None or (seen is not None and seen.state.upper() == sm_log.MASTER)

    def unsettled(self, plane: Mapping[str, Any], seconds: int) -> str:
        """Return the message about an SM that is neither master nor standby after so long; "" if it is."""
        state, unit = self.state(plane), self.unit(plane["unit"])
        if state in _SETTLED:
            return ""
        name = f"plane {plane['plane']}" if plane["plane"] else "the fabric"
        said = self.log(plane["log"])
        return (
            f"{name}: {plane['unit']} is {unit or 'missing'}, and its subnet manager on port 0x{plane['guid']} is "
            f"{state.lower() or 'silent'} after {seconds} s, neither master nor standby. "
            f"{plane['log']} says: {said.last or 'no error'}. Is the port cabled and up (`ibstat`)? "
            f"`journalctl -u {plane['unit']}` shows why it does not start. Then run playbooks/interconnect.yml again; "
            "hosts later in this run are unchanged"
        )

    def facts(self, plane: Mapping[str, Any], local: Mapping[str, tuple[str, str]]) -> dict[str, Any]:
        """Return all facts of a plane."""
        port = local.get(plane["guid"], ())
        managers = sm_tools.managers(self.run, port) if port else []
        log = self.log(plane["log"])
        return {
            "plane": plane["plane"],
            "unit": self.unit(plane["unit"]),
            "port": list(port),
            "ports": list(local),
            "managers": [asdict(one) for one in managers],
            "log": {**asdict(log), "state": self.state(plane, log)},
            "pkeys": sm_tools.pkeys(self.run, port, plane["ports"]) if port and managers else {},
        }


def _blocks(path: Path) -> Iterator[bytes]:
    """Yield a log, however long it is, some lines at a time; nothing when there is no log."""
    try:
        with path.open("rb") as stream:
            while lines := stream.readlines(_BLOCK):
                yield b"".join(lines)
    except OSError:
        return


def wait(reader: ManagerReader, planes: list[dict[str, Any]], seconds: int, settled: bool) -> bool:
    """Look until each SM has its state, at most so long; return whether each is master or standby."""
    deadline = time.monotonic() + seconds
    while True:
        states = [reader.state(plane) for plane in planes]
        wanted = [plane["expected"].upper() for plane in planes]
        is_settled = all(state in _SETTLED for state in states)
        done = is_settled if settled else states == wanted and all(map(reader.led, planes))
        if done or time.monotonic() >= deadline:
            return is_settled
        time.sleep(0.5)


def main() -> None:
    """Run the module."""
    suboptions = {
        "plane": {"type": "str", "required": True},
        "guid": {"type": "str", "required": True},
        "unit": {"type": "str", "required": True},
        "log": {"type": "str", "required": True},
        "expected": {"type": "str", "choices": ["master", "standby"], "required": True},
        "ports": {"type": "list", "elements": "str", "default": []},
    }
    module = AnsibleModule(
        argument_spec={
            "planes": {"type": "list", "elements": "dict", "required": True, "options": suboptions},
            "wait": {"type": "int", "default": 0},
            "settled": {"type": "bool", "default": False},
            "errors_minutes": {"type": "int", "default": 60},
        },
        supports_check_mode=True,
    )
    reader = ManagerReader(module)
    planes = module.params["planes"]
    settled = wait(reader, planes, 0 if module.check_mode else module.params["wait"], module.params["settled"])
    if module.params["settled"]:
        if not settled and not module.check_mode:
            texts = [reader.unsettled(plane, module.params["wait"]) for plane in planes]
            module.fail_json(msg="\n".join(text for text in texts if text), settled=False, planes=[])
        module.exit_json(changed=False, settled=settled, planes=[])
    if missing := [tool for tool in ("ibstat", "sminfo", "saquery", "smpquery") if not module.get_bin_path(tool)]:
        if not module.check_mode:
            module.fail_json(
                msg=f"{', '.join(missing)} not installed on this host: run playbooks/interconnect.yml first"
            )
        module.exit_json(
            changed=False, settled=False, planes=[], msg="not compared: infiniband-diags is not installed yet"
        )
    local = sm_tools.local_ports(reader.run("ibstat"))
    module.exit_json(changed=False, settled=settled, planes=[reader.facts(plane, local) for plane in planes])


if __name__ == "__main__":
    main()
