#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Discover a fabric, or read what was discovered."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_facts
short_description: Discover a fabric, or read what was discovered
version_added: 0.1.0
description:
  - Runs C(ibnetdiscover) on the host, once for each plane, or C(lldpctl), or reads what they printed before. Returns the texts, with
    how much is in each. P(bedplate.cluster.fabric_comparison#filter) compares them with the plan.
  - Planes that no cable joins are separate subnets; each needs an adapter of the host in it. Without O(ports), C(ibnetdiscover)
    takes the first active port.
  - What C(ibnetdiscover) complains of is kept with the text, since nodes that did not answer look like cables that are missing.
  - C(ibnetdiscover) needs root. Changes nothing.
options:
  ports:
    description: The ports from which to discover, one for each plane.
    type: list
    elements: dict
    default: [{}]
    suboptions:
      plane: {description: Name of the plane., type: str, default: ""}
      ca: {description: "The adapter, such as V(mlx5_0).", type: str}
      port: {description: Its port., type: int}
  lldp:
    description: Read the host's neighbours from C(lldpctl), for RoCE, and run no C(ibnetdiscover).
    type: bool
    default: false
  tables:
    description: Run C(dump_fts) as well, once for each plane, which prints the forwarding tables of all switches.
    type: bool
    default: false
  name:
    description: The host's name in the plan, by default its own without the domain. Neighbours of LLDP are reported under it.
    type: str
  path:
    description:
      - Files to read in place of running commands. Each holds what C(ibnetdiscover) printed, in any of its forms, or what
        C(lldpctl -f json) did. JSON may also be an object, box to answer.
      - A file with one answer of C(lldpctl) is named after its box.
    type: list
    elements: path
  normalised:
    description: Return RV(discoveries[].nodes), too.
    type: bool
    default: false
  timeout:
    description: How long a command may take, in seconds.
    type: int
    default: 300
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It only reads.}
"""

EXAMPLES = r"""
- name: Discover both planes of a rail-only fabric
  bedplate.cluster.fabric_facts:
    ports: [{plane: rail0, ca: mlx5_0}, {plane: rail1, ca: mlx5_1}]
  register: fabric_found
# => fabric_found.msg: rail0: 6 switches, 32 HCAs, 64 cables; rail1: 6 switches, 32 HCAs, 64 cables

- name: Read what was saved
  bedplate.cluster.fabric_facts:
    path: [/tmp/monday.txt]
  register: fabric_found
  delegate_to: localhost
"""

RETURN = r"""
msg: {description: How much was found where., type: str, returned: success}
discoveries:
  description: What each tool printed.
  type: list
  elements: dict
  returned: success
  contains:
    name: {description: "The plane, the file without its suffix, or the box.", type: str, sample: rail0}
    kind: {description: "V(infiniband), V(lldp) or V(tables).", type: str, sample: infiniband}
    text: {description: What was printed., type: str, sample: "vendid=0x2c9..."}
    counts:
      description: How many C(switches), C(hcas), C(cables), C(unread) lines, and C(troubles) of the command.
      type: dict
      sample: {switches: 6, hcas: 32, cables: 64, unread: 0, troubles: 0}
    nodes:
      description: What C(ibnetdiscover) reported, in the order of GUIDs and without LIDs. With O(normalised) only.
      type: list
      elements: dict
      sample: [{guid: 0002c90300a10001, kind: switch, description: leaf1, ports: 64, cables: []}]
"""

import socket
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import counts, normalised
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import (
    INFINIBAND,
    TABLES,
    SavedError,
    ToolOutput,
)

_PACKAGES = {"ibnetdiscover": "infiniband-diags", "dump_fts": "infiniband-diags", "lldpctl": "lldpd"}


class FabricReader:
    """Run discovery tools or read files, and collect their outputs and all mistakes."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.wrong: list[str] = []

    def run(self, name: str, *argv: str) -> list[ToolOutput]:
        """Return what a command says, its complaints at the end."""
        tool = self.module.get_bin_path(argv[0])
        if not tool:
            package = _PACKAGES[argv[0]]
            self.module.fail_json(msg=f"{argv[0]} is not installed on this host: install the package {package}")
        seconds = self.module.params["timeout"]
        outcome = command.run([tool, *argv[1:]], seconds)
        partial = argv[0] == "ibnetdiscover" and outcome.code is not None and outcome.stdout.strip()
        if outcome.code != 0 and not partial:
            self.wrong.append(f"{' '.join(argv)}: {outcome.error_line}")
            return []
        tail = (
            "\n".join(line for line in outcome.stderr.split("\n") if line.strip()) if argv[0] == "ibnetdiscover" else ""
        )
        return [ToolOutput(name, f"{outcome.stdout.rstrip()}\n{tail}\n" if tail else outcome.stdout)]

    def live(self) -> list[ToolOutput]:
        """Run the tools of this host."""
        if self.module.params["lldp"]:
            name = self.module.params["name"] or socket.gethostname().split(".")[0]
            return self.run(name, "lldpctl", "-f", "json")
        found = []
        for one in self.module.params["ports"]:
            more = [
                *(["-C", one["ca"]] if one.get("ca") else []),
                *(["-P", str(one["port"])] if one.get("port") else []),
            ]
            found += self.run(one.get("plane") or "", "ibnetdiscover", *more)
            if self.module.params["tables"]:
                found += self.run(one.get("plane") or "", "dump_fts", "-n", *more)
        return found

    def saved(self) -> list[ToolOutput]:
        """Read files."""
        found = []
        for path in map(Path, self.module.params["path"]):
            try:
                found.append(ToolOutput(path.name.rpartition(".")[0] or path.name, path.read_text(errors="replace")))
            except OSError as error:
                self.wrong.append(f"{path}: cannot be read: {error.strerror}")
        return found

    def described(self, output: ToolOutput) -> dict[str, Any]:
        """Return a text with its content; a text without use is reported."""
        result: dict[str, Any] = {"name": output.name, "kind": output.kind, "text": output.text}
        try:
            if output.kind == INFINIBAND:
                found = output.discovery()
                result["counts"] = counts(found)
                if self.module.params["normalised"]:
                    result["nodes"] = normalised(found)
            elif output.kind == TABLES:
                result["counts"] = {"tables": output.text.count("Unicast lids ")}
            else:
                result["counts"] = {"boxes": len(output.answers())}
        except SavedError as error:
            self.wrong.append(str(error))
        return result


def main() -> None:
    """Run the module."""
    port = {"plane": {"type": "str", "default": ""}, "ca": {"type": "str"}, "port": {"type": "int"}}
    module = AnsibleModule(
        argument_spec={
            "ports": {"type": "list", "elements": "dict", "options": port, "default": [{}]},
            "lldp": {"type": "bool", "default": False},
            "tables": {"type": "bool", "default": False},
            "name": {"type": "str"},
            "path": {"type": "list", "elements": "path"},
            "normalised": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    reader = FabricReader(module)
    outputs = reader.live() if module.params["path"] is None else reader.saved()
    found = [reader.described(one) for one in outputs]
    if reader.wrong or not found:
        module.fail_json(msg="\n".join(reader.wrong) or "path is empty; allowed: files to read", discoveries=[])
    words = [
        f"{one['name'] or 'the fabric'}: "
        + ", ".join(f"{count} {what.replace('hcas', 'HCAs')}" for what, count in one["counts"].items() if count)
        for one in found
    ]
    module.exit_json(changed=False, msg="; ".join(words), discoveries=found)


if __name__ == "__main__":
    main()
