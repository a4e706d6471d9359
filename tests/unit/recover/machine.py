# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine with host keys of ssh-keygen, and an ssh that accepts it as the real one does: by its known_hosts file alone."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover import host_keys
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover.host_keys import AUTHORITY, HostKey, public_key
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover.ssh_target import SshTarget


def made(folder: Path, name: str, kind: str = "ed25519") -> HostKey:
    """Make a key with ssh-keygen, and return its public half."""
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-C", name, "-f", str(path)], check=True)
    return public_key(path.with_suffix(".pub").read_text())


@dataclass
class Machine:
    """A machine: the keys that it offers, the CA that signed its certificate, and how a login ends."""

    keys: list[HostKey]
    authority: HostKey | None = None
    login: tuple[int, str] = (0, "")
    commands: list[list[str]] = field(default_factory=list)

    def start(self, argv: list[str], _seconds: float = 0) -> Outcome:
        """Run ssh-keyscan or ssh."""
        self.commands.append(argv)
        if argv[0] == "ssh-keyscan":
            lines = [f"{argv[-1]} {key.text}" for key in self.keys]
            return Outcome(0, "".join(f"{line}\n" for line in lines), "# n2:22 SSH-2.0-OpenSSH_10.0\n")
        path = Path(re.sub(r'.*="?|"', "", next(word for word in argv if word.startswith("UserKnownHostsFile="))))
        known = host_keys.lines_of(path.read_text())
        if "StrictHostKeyChecking=accept-new" in argv:
            path.write_text("".join(f"n2 {key.text}\n" for key in self.keys[:1]))
            return Outcome(255, "", "root@n2: Permission denied (publickey).\n")
        revoked = host_keys.keys_for(known, "n2", host_keys.REVOKED)
        plain = set(host_keys.keys_for(known, "n2")) & set(self.keys)
        signed = self.authority is not None and self.authority in host_keys.keys_for(known, "n2", AUTHORITY)
        if set(revoked) & set(self.keys) or not (plain or signed):
            return Outcome(255, "", "Host key verification failed.\r\n")
        return Outcome(self.login[0], "", self.login[1])

    def target(self, *files: Path, proxied: bool = False, hashes: bool = False) -> SshTarget:
        """Return how ssh reaches it."""
        return SshTarget(("ssh",), "n2", "n2", "10.0.0.2", 22, files, (), hashes, proxied)
