# SPDX-License-Identifier: GPL-3.0-or-later
"""Answer modules from recordings: everything on the control node is real, and no node is needed."""

from __future__ import annotations

DOCUMENTATION = r"""
name: recorded
short_description: Answer modules from recordings
description:
  - Each module gets a recorded result at once, chosen by its name, its arguments and the host. Every call is logged as a line of JSON.
  - Templates, conditions, includes, loops, filters and action plugins are Ansible's and the roles' own.
options:
  folder:
    description: The folder with answers.json, in which calls.jsonl is written.
    type: path
    required: true
    env:
      - name: BEDPLATE_RECORDING
  machine:
    description: The name of the host.
    type: str
    vars:
      - name: inventory_hostname
"""

import ast
import json
import re
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection import ConnectionBase

from tests.kit.recorded.recording import Recording

# The last lines of the program that Ansible sends: arguments of a call, one a line, each a Python literal.
_MODULE = re.compile(rb"^ansible_module=(.+),$", re.MULTILINE)
_PARAMS = re.compile(rb"^params=(.+),$", re.MULTILINE)
_LOCAL = ("localhost", "127.0.0.1")
_MADE = re.compile(r'echo (ansible-tmp-[\d.-]+)="')


class Connection(ConnectionBase):  # type: ignore[misc]
    """The connection."""

    transport = "recorded"
    has_pipelining = True
    always_pipeline_modules = True

    def _connect(self) -> Connection:
        self._connected = True
        return self

    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:
        """Answer a module, or a command of an action plugin, which is logged as the module `shell`."""
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        if in_data:
            return 0, json.dumps(self._module(in_data)).encode(), b""
        if made := _MADE.search(cmd):
            return 0, f"{made[1]}=/tmp/{made[1]}\n".encode(), b""
        if re.search(r"(rm -f -r|chmod u\+\S+|echo ~\S*) ", cmd):
            return 0, b"/root\n", b""
        command = cmd.removeprefix("/bin/sh -c '").removesuffix(" && sleep 0'")
        done = self._answer("shell", {"cmd": command}, check=False)
        return int(done.get("rc", 1)), str(done.get("stdout", "")).encode(), str(done.get("msg", "")).encode()

    def _module(self, program: bytes) -> dict[str, Any]:
        name, params = _MODULE.search(program), _PARAMS.findall(program)
        if not name or not params:
            raise AnsibleConnectionFailure("no module with arguments is in what Ansible sent; is this another release?")
        arguments = json.loads(ast.literal_eval(params[-1].decode()))["ANSIBLE_MODULE_ARGS"]
        return self._answer(ast.literal_eval(name[1].decode()), arguments, bool(arguments["_ansible_check_mode"]))

    def _answer(self, module: str, arguments: dict[str, Any], check: bool) -> dict[str, Any]:
        # A task that is delegated to the control node has the address of that, and the name of its own host.
        local = self._play_context.remote_addr in _LOCAL
        host = _LOCAL[0] if local else str(self.get_option("machine"))
        result = Recording(Path(self.get_option("folder"))).answer(host, module, arguments, check)
        if result.get("unreachable"):
            raise AnsibleConnectionFailure(str(result.get("msg", "recorded as unreachable")))
        return result

    def put_file(self, in_path: str, out_path: str) -> None:
        """Take a file; what is done with it is in the call that follows."""
        super().put_file(in_path, out_path)

    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Give no file."""
        raise AnsibleConnectionFailure(f"no file is recorded: {in_path}")

    def reset(self) -> None:
        """Forget nothing."""

    def close(self) -> None:
        """Close nothing."""
        self._connected = False
