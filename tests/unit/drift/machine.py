"""A machine as a tree, on which bedplate wrote files, with programs that answer as the tree says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import (
    ManagedPath,
    digest,
    load,
    save,
)

STATE = "var/lib/bedplate"
# What systemd says of a unit that is as it is to be.
UP = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "UnitFileState": "enabled",
    "Result": "success",
}


class Machine:
    """The tree, the record of what bedplate wrote, and the answers of programs by their name."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.root = Root(str(top))
        self.units: dict[str, dict[str, str]] = {}
        self.answers: dict[str, Callable[[list[str]], str]] = {"systemctl": self._systemctl}
        uid, gid = top.stat().st_uid, top.stat().st_gid
        self.put("etc/passwd", f"root:x:{uid}:0::/root:/bin/sh\nmunge:x:{uid + 7}:{gid + 7}::/:/bin/false\n")
        self.put("etc/group", f"root:x:{gid}:\nmunge:x:{gid + 7}:\n")

    def put(self, path: str, text: str) -> Path:
        """Write a file as somebody else does."""
        file = self.top / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def write(self, path: str, text: str, manifest: str = "demo", **more: Any) -> dict[str, Any]:
        """Write a file as bedplate does, and return what a role would expect there."""
        file = self.put(path, text)
        mode = more.get("mode", "0644")
        file.chmod(int(mode, 8))
        record = ManagedPath(
            "file", [manifest], made=True, mode=mode, sha256=digest(text.encode()), owner="root", group="root"
        )
        self.record(path, record)
        row = {"path": path, "state": "file", "owner": "", "group": "", "mode": mode, "target": "", "role": "demo"}
        return {**row, "manifest": manifest, "sha256": digest(text.encode()), **more}

    def record(self, path: str, record: ManagedPath) -> None:
        """Put a path on record."""
        save(self.top / STATE, {**load(self.top / STATE), path: record})

    def run(self, command: Sequence[str]) -> Outcome:
        """Run a program of the machine."""
        if command[0] not in self.answers:
            return Outcome(127, "", f"{command[0]}: No such file or directory")
        return Outcome(0, self.answers[command[0]](list(command[1:])), "")

    def _systemctl(self, words: list[str]) -> str:
        names = words[words.index("--") + 1 :]
        keys = next(word for word in words if word.startswith("--property=")).partition("=")[2].split(",")
        blocks = [{"Id": name, **UP, **self.units.get(name, {})} for name in names]
        return "\n".join("".join(f"{key}={one[key]}\n" for key in keys if key in one) for one in blocks)


def summary(findings: Any) -> list[tuple[str, str, str]]:
    """Return kind, place and who overrides, of findings."""
    return [(one.kind, one.where, one.overridden_by) for one in findings]


def expecting(**parts: Any) -> Mapping[str, Any]:
    """Return an expectation as plain data."""
    return parts
