"""A copy of the collection in which modules are stand-ins: they log what they were asked and answer as a test says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
_ACTION = """
import json
from pathlib import Path
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

BASE = Path({base!r})

class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        # Not the action of the task: that is bedplate.cluster.part, where a part has steps.
        host, name = task_vars["inventory_hostname"], {name!r}
        log = BASE / f"{{host}}.{{name}}.log"
        before = len(log.read_text().splitlines()) if log.exists() else 0
        for path in (log, BASE / "all.log"):
            with path.open("a") as stream:
                stream.write(json.dumps([host, name, self._task.args]) + "\\n")
        answers = json.loads((BASE / "answers.json").read_text()).get(host, {{}}).get(name) or [{{}}]
        answer = answers[min(before, len(answers) - 1)]
        if answer.get("unreachable"):
            raise AnsibleConnectionFailure("no route to host")
        return {{"changed": False, **answer}}
"""
Answers = dict[str, dict[str, list[dict[str, Any]]]]


def cluster_file(profiles: Mapping[str, Mapping[str, Any]], nodes: Mapping[str, str]) -> str:
    """Return a cluster file with small nodes, one controller and one partition; `nodes` is profile -> nodes, each in a rack of its own."""
    small = {"sockets": 1, "cores_per_socket": 2, "memory_mib": 4096}
    data = {
        "plugin": "bedplate.cluster.racks",
        "site": "s",
        "cluster": "c",
        "networks": {"management": {"cidr": "10.0.0.0/24"}},
        "profiles": {name: {**small, **more} for name, more in profiles.items()},
        "racks": {
            f"r{number}": {"nodes": names, "profile": name} for number, (name, names) in enumerate(nodes.items(), 1)
        },
        "hosts": {"ctl1": {"address": "10.0.0.200"}},
        "services": {"controllers": ["ctl1"]},
        "partitions": {"all": {"nodes": "all"}},
    }
    return yaml.safe_dump(data, sort_keys=False)


class StandIns:
    """The copy, and runs of ansible-playbook with it. No module of it touches a machine."""

    def __init__(self, base: Path, modules: Iterable[str], cluster: str) -> None:
        self.base = base
        self.answers: Answers = {}
        """Host -> module -> its answers, call by call; the last one is repeated. A call without an answer is ok."""
        self.variables: dict[str, Any] = {}
        self.top = base / "collections/ansible_collections/bedplate/cluster"
        (self.top / "plugins/action").mkdir(parents=True)
        (self.top / "roles").mkdir()
        for name in ("galaxy.yml", "meta"):
            (self.top / name).symlink_to(ROOT / name)
        for name in ("filter", "inventory", "module_utils", "plugin_utils", "lookup"):
            (self.top / "plugins" / name).symlink_to(ROOT / "plugins" / name)
        for name in modules:
            (self.top / f"plugins/action/{name}.py").write_text(_ACTION.format(base=str(base), name=name))
        (self.top / "plugins/action/part.py").symlink_to(ROOT / "plugins/action/part.py")
        (base / "c.bedplate.yml").write_text(cluster)

    def role(self, name: str) -> None:
        """Take a role as it is."""
        (self.top / "roles" / name).symlink_to(ROOT / "roles" / name)

    def run(self, playbook: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a playbook; all answers begin anew."""
        for log in self.base.glob("*.log"):
            log.unlink()
        (self.base / "answers.json").write_text(json.dumps(self.answers))
        own = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        paths = {"ANSIBLE_COLLECTIONS_PATH": str(self.base / "collections"), "ANSIBLE_HOME": str(self.base / "home")}
        extra = {**self.variables, "ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        return subprocess.run(
            [program, "-i", "c.bedplate.yml", "-e", json.dumps(extra), str(playbook), *arguments],
            cwd=self.base, env={**own, **paths, "ANSIBLE_NOCOLOR": "1", "LC_ALL": "C.UTF-8"},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def calls(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Return host, module and arguments of each call, in their order."""
        log = self.base / "all.log"
        return [tuple(json.loads(line)) for line in log.read_text().splitlines()] if log.exists() else []

    def hosts(self, module: str) -> list[str]:
        """Return the hosts on which a module was called, in their order."""
        return [host for host, name, _arguments in self.calls() if name == module]
