# SPDX-License-Identifier: GPL-3.0-or-later
"""The guest as a node of a cluster file: the role on it, and what its kernel says without the role."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import digest
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common import shipped
from lab.guest.machine import Guest, environment
from lab.paths import ROOT
from lab.scenario_run import recap
from tests.kit.decided import decided

HERE = Path(__file__).parent / "node_tuning"
NODE = "node1"
BOOT_FILES = "/boot/grub/grub.cfg /etc/default/grub /etc/default/grub.d/zz-bedplate.cfg"
_LIBRARY = "/root/library"
_TIMEOUT = 600


class Run:
    """How a playbook ended: its exit status, its output, and the last line of its node."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code = done.returncode
        self.text = done.stdout + done.stderr
        self.counts = recap(done.stdout).get(NODE, {}) if "PLAY RECAP" in done.stdout else {}

    @property
    def told(self) -> str:
        """Return all of it, for the message of an assertion."""
        return f"exit status {self.code}, {self.counts}\n{self.text}"


class TunedNode:
    """A guest, the cluster file that it is a node of, and the variables of the role."""

    def __init__(self, guest: Guest, folder: Path, variables: dict[str, Any]) -> None:
        self.guest, self.folder, self.variables = guest, folder, variables
        self.text = (HERE / "guest.bedplate.yml").read_text()

    @property
    def cluster_file(self) -> Path:
        path = self.folder / "guest.bedplate.yml"
        path.write_text(self.text)
        return path

    def want(self, old: str, new: str) -> None:
        """Change the cluster file."""
        assert self.text.count(old) == 1, old
        self.text = self.text.replace(old, new)

    def play(self, name: str, *arguments: str) -> Run:
        """Run a playbook of this folder, or bedplate's own `reboot`, on the node, with root's login."""
        playbook = ROOT / "playbooks" / "reboot.yml" if name == "reboot" else HERE / f"{name}.yml"
        command = ["ansible-playbook", f"--inventory={self.cluster_file}", "--user=root", *arguments]
        command += [f"--extra-vars={json.dumps(self.variables)}", str(playbook)]
        env = {**environment(self.guest), "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
        done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
        return Run(done)

    def deployed(self) -> dict[str, Any]:
        """Return what the role brings."""
        own = {name.removeprefix("node_tuning_"): value for name, value in self.variables.items()}
        return decided("node_tuning", self.cluster_file, NODE, **own)

    def expected(self) -> dict[str, Any]:
        """Return what the role's verify compares with: its own part, and those of files and units."""
        told = self.deployed()
        of_file = {"state": "file", "mode": "0644", "manifest": "node_tuning", "role": "node_tuning"}
        files = [
            {"path": one["path"], "sha256": digest(one["content"].encode()), **of_file}
            for one in told["files"]
            if "content" in one
        ]
        return {"expected": told["expected"], "files": {"files": files}, "units": {"units": told["units"]}}

    def boot_files(self) -> str:
        """Return digests of what GRUB boots with."""
        return self.guest.ssh(f"sha256sum {BOOT_FILES}; ls /etc/default/grub.d").stdout

    def pages(self) -> dict[int, int]:
        """Return how many huge pages of 2 MiB each NUMA node has."""
        path = "/sys/devices/system/node/node{}/hugepages/hugepages-2048kB/nr_hugepages"
        return {number: int(self.guest.read(path.format(number))) for number in (0, 1)}

    def memory(self) -> dict[int, int]:
        """Return the MiB of each NUMA node."""
        path = "/sys/devices/system/node/node{}/meminfo"
        text = {number: self.guest.read(path.format(number)) for number in (0, 1)}
        return {number: int(lines.split("MemTotal:")[1].split()[0]) // 1024 for number, lines in text.items()}

    def iommu(self) -> set[str]:
        """Return what the IOMMU does with the groups of devices that there are."""
        return set(self.guest.run("cat /sys/kernel/iommu_groups/*/type").split())

    def mutations(self, rows: list[dict[str, str]]) -> dict[str, Any]:
        """Change settings by hand, one after the other; return what the role's own comparison says of each, and after all were put back.

        Each row has `do` and `undo`, for a shell. All of it is one process on the guest, with the code that verify runs.
        """
        parts = ("tuning.tuning_drift", "drift.written_files", "drift.running_units")
        files = {
            path.replace(shipped.library(part), _LIBRARY): text for part in parts for path, text in shipped.files(part)
        }
        script = (Path(__file__).parent / "mutate.py").read_text()
        self.guest.run("python3 -c 'import json, pathlib, sys\n"
                       "for path, text in json.load(sys.stdin).items():\n"
                       "    path = pathlib.Path(path); path.parent.mkdir(parents=True, exist_ok=True); path.write_text(text)'",
                       stdin=json.dumps({**files, f"{_LIBRARY}/mutate.py": script}))  # fmt: skip
        told = json.dumps({**self.expected(), "rows": rows})
        output = self.guest.run(f"PYTHONPATH={_LIBRARY} python3 {_LIBRARY}/mutate.py", stdin=told, timeout=3 * _TIMEOUT)
        found: dict[str, Any] = json.loads(output)
        return found
