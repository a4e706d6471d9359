# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine at one moment: the starts of its services, the digests of its files, and what bedplate has on record there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.kit.workload import Shell

LIBRARY = "/usr/local/lib/bedplate"
_SHOW = "systemctl show '*.service' --property=Id,InvocationID,NRestarts,ActiveState,FragmentPath,DropInPaths"
_DIGESTS = "find /etc /usr/local /usr/sbin /usr/lib/systemd/system -xdev -type f -print0 | xargs -0 sha256sum"
# Sessions of the test itself, and what timers start.
_NOT_SERVICES = ("user@", "user-runtime-dir@", "systemd-tmpfiles-clean.", "apt-daily", "dpkg-db-backup.", "logrotate.")


@dataclass(frozen=True)
class Service:
    """A service that runs: what changes with each of its starts, and the files that systemd reads for it."""

    starts: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class MachineSnapshot:
    """Services by name, path -> digest, bedplate's record of its files."""

    services: Mapping[str, Service]
    digests: Mapping[str, str]
    record: Mapping[str, Any]

    @property
    def manifests(self) -> set[str]:
        """Return the manifests that have files here."""
        return {name for entry in self.record["files"].values() for name in entry["manifests"]}

    def changed_files(self, before: MachineSnapshot) -> set[str]:
        """Return the files whose content is another one than before, those that came and went included."""
        return {path for path in {*before.digests, *self.digests} if before.digests.get(path) != self.digests.get(path)}

    def restarted(self, before: MachineSnapshot) -> dict[str, Service]:
        """Return the services that ran before and were started again, or run no more."""
        return {
            name: service
            for name, service in before.services.items()
            if name not in self.services or self.services[name].starts != service.starts
        }


def machine_snapshot(shell: Shell, machine: str) -> MachineSnapshot:
    """Read a machine."""

    def read(command: str) -> str:
        done = shell(machine, command)
        assert done.returncode == 0, f"{machine}: {command}: {done.stderr}"
        return done.stdout

    rows = (line.split("  ", 1) for line in read(_DIGESTS).splitlines())
    return MachineSnapshot(
        services=_services(read(_SHOW)),
        digests={path: digest for digest, path in rows},
        record=json.loads(read("cat /var/lib/bedplate/files.json")),
    )


def _services(text: str) -> dict[str, Service]:
    found = {}
    for block in text.split("\n\n"):
        row = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if row.get("ActiveState") == "active" and not row["Id"].startswith(_NOT_SERVICES):
            files = (row["FragmentPath"], *row["DropInPaths"].split())
            found[row["Id"]] = Service(f"{row['InvocationID']} {row['NRestarts']}", files)
    return found
