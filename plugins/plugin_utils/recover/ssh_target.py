# SPDX-License-Identifier: GPL-3.0-or-later
"""Find how Ansible's SSH reaches a machine, which keys the machine offers, and whether ssh accepts it with given keys alone."""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome, run

from .host_keys import HostKey, scanned

Run = Callable[[list[str], float], Outcome]
_PORT = 22
_SECONDS = 10
_DEADLINE = 45.0
_TYPES = "ed25519,ecdsa,rsa"
# The first value of an option counts for ssh, so these are before Ansible's own.
_APART = ("ControlMaster=no", "ControlPath=none", "BatchMode=yes", "UpdateHostKeys=no", "VerifyHostKeyDNS=no")
_REFUSED = re.compile(r"Permission denied|Too many authentication failures")
_NO_FILE = ("none", "/dev/null")


class SshError(ValueError):
    """ssh cannot be started, or its configuration for a host cannot be read."""


@dataclass(frozen=True)
class SshTarget:
    """A machine as Ansible's SSH reaches it.

    `argv` is the command without the host, `name` the name under which ssh looks its key up, `user_files` the known_hosts files of the
    user, the first of them the one that ssh writes; `hashes` whether ssh writes hashed names there. `proxied`: through another machine.
    `alias`: its HostKeyAlias.
    """

    argv: tuple[str, ...]
    host: str
    name: str
    address: str
    port: int
    user_files: tuple[Path, ...]
    global_files: tuple[Path, ...] = ()
    hashes: bool = False
    proxied: bool = False
    alias: str = ""

    def aliases(self, *others: str) -> tuple[str, ...]:
        """Return further names of the machine in known_hosts files: its address and `others`, each with the port.

        Behind a forwarded port or a HostKeyAlias the address alone is that of another machine.
        """
        if self.alias:
            return ()
        names = (self.host, self.address, *others)
        found = [name.lower() if self.port == _PORT else f"[{name.lower()}]:{self.port}" for name in names]
        return tuple(one for one in dict.fromkeys(found) if one != self.name)


def command_of(option: Callable[[str], Any]) -> list[str]:
    """Return the ssh command of Ansible's connection plugin, without the host; `option` returns an option of the plugin."""
    argv = [str(option("ssh_executable") or "ssh")]
    for name in ("ssh_args", "ssh_common_args", "ssh_extra_args"):
        argv += shlex.split(str(option(name) or ""))
    if port := option("port"):
        argv += ["-o", f"Port={port}"]
    if key := option("private_key_file"):
        argv += ["-o", f'IdentityFile="{Path(str(key)).expanduser()}"']
    if user := option("remote_user"):
        argv += ["-o", f'User="{user}"']
    return argv


def target(argv: list[str], host: str, start: Run = run) -> SshTarget:
    """Return how this command reaches a host, as `ssh -G` reports it. Raises SshError."""
    outcome = start([*argv, "-G", host], _DEADLINE)
    if outcome.code != 0:
        raise SshError(f"`{shlex.join([*argv, '-G', host])}`: {outcome.error_line}")
    pairs = dict(line.split(" ", 1) for line in outcome.stdout.splitlines() if " " in line)
    address, port = pairs.get("hostname", host), int(pairs.get("port", _PORT))
    alias = pairs.get("hostkeyalias", "")
    name = alias or (address.lower() if port == _PORT else f"[{address.lower()}]:{port}")
    return SshTarget(
        argv=tuple(argv),
        host=host,
        name=name,
        address=address,
        port=port,
        user_files=_paths(pairs.get("userknownhostsfile", "")),
        global_files=_paths(pairs.get("globalknownhostsfile", "")),
        alias=alias,
        hashes=pairs.get("hashknownhosts") == "yes",
        proxied=any(pairs.get(one, "none") != "none" for one in ("proxyjump", "proxycommand")),
    )


def offered(one: SshTarget, start: Run = run) -> tuple[list[HostKey], str]:
    """Return the keys that the machine offers now, without a login, and why it offers none, or ""."""
    if not one.proxied:
        command = ["ssh-keyscan", "-T", str(_SECONDS), "-p", str(one.port), "-t", _TYPES, one.address]
        outcome = start(command, _DEADLINE)
        found = scanned(outcome.stdout)
        return found, "" if found else _why(outcome) or f"no SSH daemon answers on {one.address} port {one.port}"
    # ssh-keyscan reaches only what this machine reaches itself.
    with _known_hosts("") as path:
        options = _options(
            path, "StrictHostKeyChecking=accept-new", "HashKnownHosts=no", "PreferredAuthentications=none"
        )
        outcome = start([one.argv[0], *options, *one.argv[1:], one.host, "true"], _DEADLINE)
        found = scanned(path.read_text(encoding="utf-8", errors="replace"))
    return found, "" if found else _why(outcome)


def refusal(one: SshTarget, lines: list[str], start: Run = run) -> str:
    """Return why ssh refuses the machine with only these lines as its known_hosts file and strict checks, "" if it accepts the key.

    A machine that offers the key and refuses the user is accepted: the key is proved before the user.
    """
    with _known_hosts("".join(f"{line}\n" for line in lines)) as path:
        options = _options(path, "StrictHostKeyChecking=yes")
        outcome = start([one.argv[0], *options, *one.argv[1:], one.host, "true"], _DEADLINE)
    if outcome.code is not None and outcome.code not in (127, 255):
        return ""
    if outcome.code == 255 and not one.proxied and _REFUSED.search(outcome.stderr):
        return ""
    return _why(outcome) or "no answer"


def _options(known_hosts: Path, *more: str) -> list[str]:
    chosen = (*more, *_APART, f'UserKnownHostsFile="{known_hosts}"', "GlobalKnownHostsFile=/dev/null")
    return [word for option in (*chosen, f"ConnectTimeout={_SECONDS}") for word in ("-o", option)]


def _paths(value: str) -> tuple[Path, ...]:
    """Return the files of an option; ssh has filled in its tokens."""
    return tuple(Path(word).expanduser() for word in value.split() if word not in _NO_FILE)


@contextmanager
def _known_hosts(text: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bedplate-keys-") as folder:
        path = Path(folder) / "known_hosts"
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8", errors="surrogateescape")
        yield path


def _why(outcome: Outcome) -> str:
    """Return the last line that says why, without comments of ssh-keyscan."""
    lines = [
        line.strip()
        for line in outcome.stderr.splitlines()
        if line.strip() and not line.startswith(("#", "@", "Warning: Permanently"))
    ]
    if outcome.code is None:
        return "no answer in time"
    return lines[-1][:200] if lines else ""
