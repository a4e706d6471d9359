# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the seed of a machine: the files that make one image this machine, as a tar that the installer reads without trust in names.

Members: `manifest`, then `0`, `1`, ... in its order. A line of the manifest is `MODE SHA256 PATH`, with MODE of four octal digits and an
absolute PATH; its last line is `end N`. Folders that a path needs are in the image, or are made with mode 0755.
"""

from __future__ import annotations

import hashlib
import io
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass

_PATH = re.compile(r"/[A-Za-z0-9._@+-]+(?:/[A-Za-z0-9._@+-]+)*")
_MOST = 64


@dataclass(frozen=True)
class SeedFile:
    """A file of a seed: its bytes, and its mode as a number. Its owner is root."""

    data: bytes
    mode: int = 0o644


def pack(files: Mapping[str, SeedFile]) -> bytes:
    """Return the tar of a seed. `files` is an absolute path -> file. Raises ValueError for a path or mode that is not allowed."""
    if not 0 < len(files) <= _MOST:
        raise ValueError(f"a seed of {len(files)} files. Allowed: 1 to {_MOST}")
    lines: list[str] = []
    for path, one in sorted(files.items()):
        if not _PATH.fullmatch(path) or {"..", "."} & set(path.split("/")):
            raise ValueError(f"{path!r}: not an absolute path of plain characters")
        if not 0 <= one.mode <= 0o777:
            raise ValueError(f"{path}: mode {one.mode:o}. Allowed: 0000 to 0777")
        lines.append(f"{one.mode:04o} {hashlib.sha256(one.data).hexdigest()} {path}")
    manifest = "\n".join([*lines, f"end {len(lines)}", ""]).encode()
    members = {"manifest": manifest, **{str(number): files[path].data for number, path in enumerate(sorted(files))}}
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o600
            archive.addfile(member, io.BytesIO(data))
    return target.getvalue()


def machine_files(
    name: str, hosts: str, mac: str, address: str, gateway: str, keys: str, host_key: tuple[str, str] | None
) -> dict[str, SeedFile]:
    """Return the files of each machine: name, hosts, network by MAC, keys of root, and the SSH host key if it is known already.

    `address` is in CIDR notation, `gateway` an address or `none`, `keys` the text of authorized_keys, `host_key` the private and the
    public text.
    """
    route = "" if gateway == "none" else f"Gateway={gateway}\n"
    network = (
        f"[Match]\nMACAddress={mac}\n\n[Network]\nAddress={address}\n{route}LinkLocalAddressing=no\nIPv6AcceptRA=no\n"
    )
    files = {
        "/etc/hostname": SeedFile(f"{name}\n".encode()),
        "/etc/hosts": SeedFile(hosts.encode()),
        "/etc/systemd/network/10-bedplate.network": SeedFile(network.encode()),
        "/root/.ssh/authorized_keys": SeedFile(keys.encode(), 0o600),
    }
    if host_key:
        private, public = host_key
        files["/etc/ssh/ssh_host_ed25519_key"] = SeedFile(private.encode(), 0o600)
        files["/etc/ssh/ssh_host_ed25519_key.pub"] = SeedFile(public.encode())
    return files
