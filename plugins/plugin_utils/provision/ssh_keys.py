# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the SSH host key of a machine, put it into the known_hosts file of Ansible's SSH, and prove that the machine has it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from ...module_utils.common.command import run
from ..recover import known_hosts_files, ssh_target
from ..recover.host_keys import HostKeyError, Replacement, public_key
from ..recover.ssh_target import SshError, SshTarget

_SECONDS = 60.0


class Ssh(Protocol):
    """SSH of the control node to nodes."""

    def remember(self, node: str, key: str) -> None:
        """Make a public key the only known key of a node. Raises HostKeyError, SshError."""

    def refusal(self, node: str, key: str) -> str:
        """Return why a node does not answer with this public key, "" if it does. Raises HostKeyError, SshError."""


class AnsibleSsh:
    """SSH as Ansible uses it for each node; `option_of` returns the options of a node's connection."""

    def __init__(self, option_of: Callable[[str], Callable[[str], object]], address_of: Callable[[str], str]) -> None:
        """Take the options of connections, and the addresses by which nodes are reached."""
        self._option_of, self._address_of = option_of, address_of

    def remember(self, node: str, key: str) -> None:
        """Make a public key the only known key of a node."""
        machine = self._target(node)
        new = Replacement(machine.name, machine.aliases(node), (public_key(key),), hashes=machine.hashes)
        known_hosts_files.write(machine.user_files, new)

    def refusal(self, node: str, key: str) -> str:
        """Return why a node does not answer with this public key, "" if it does."""
        machine = self._target(node)
        return ssh_target.refusal(machine, [f"{machine.name} {public_key(key).text}"])

    def _target(self, node: str) -> SshTarget:
        option = self._option_of(node)
        return ssh_target.target(ssh_target.command_of(option), str(option("host") or self._address_of(node)))


def make_host_key(node: str) -> tuple[str, str]:
    """Return the private and the public text of a new key; neither stays on the disk. Raises HostKeyError."""
    with tempfile.TemporaryDirectory(prefix="bedplate-host-key-") as folder:
        path = Path(folder) / "key"
        done = run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", node, "-f", str(path)], _SECONDS)
        if done.code != 0:
            raise HostKeyError(f"ssh-keygen failed: {done.error_line}. Install openssh-client on the control node")
        return path.read_text(), path.with_suffix(".pub").read_text()


ERRORS = (HostKeyError, SshError)
