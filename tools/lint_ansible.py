# SPDX-License-Identifier: GPL-3.0-or-later
"""ansible-lint over the repository, with the syntax of all playbooks checked by one process.

ansible-lint starts `ansible-playbook --syntax-check` for each playbook, for each role and for each imported playbook: two hundred starts of
Python, which load Ansible, the collection and mostly the same roles again. They were five sixths of the cost of the whole lint. Here one
process reads all playbooks and every file of tasks of every role, and ansible-lint does the rest.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml
from ansible_compat.runtime import Runtime
from ansiblelint.__main__ import main as ansible_lint
from ansiblelint.runner import Runner

ROOT = Path(__file__).resolve().parents[1]
_MARKS = {"hosts", "ansible.builtin.import_playbook"}


def playbooks(root: Path = ROOT) -> list[Path]:
    """Return the playbooks under playbooks/ and molecule/: lists with a play or an imported playbook."""
    found = sorted(path for folder in ("playbooks", "molecule") for path in (root / folder).rglob("*.yml"))
    return [path.relative_to(root) for path in found if _is_playbook(path)]


def _is_playbook(path: Path) -> bool:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    return isinstance(content, list) and any(isinstance(entry, dict) and _MARKS & entry.keys() for entry in content)


def play_of_all_tasks(root: Path = ROOT) -> str:
    """Return a playbook that imports each file of tasks of each role."""
    files = sorted((root / "roles").glob("*/tasks/*.yml"))
    imports = [
        {"ansible.builtin.import_role": {"name": f"bedplate.cluster.{file.parts[-3]}", "tasks_from": file.name}}
        for file in files
    ]
    return yaml.safe_dump([{"hosts": "localhost", "tasks": imports}])


def syntax_errors(root: Path = ROOT) -> str:
    """Return what `ansible-playbook --syntax-check` says against the playbooks and the roles; empty if all is well."""
    with tempfile.NamedTemporaryFile("w", suffix=".yml", encoding="utf-8") as all_tasks:
        all_tasks.write(play_of_all_tasks(root))
        all_tasks.flush()
        command = ["ansible-playbook", "--syntax-check", *map(str, playbooks(root)), all_tasks.name]
        environment = os.environ | {"ANSIBLE_CONFIG": str(root / "ansible.cfg")}
        checked = subprocess.run(command, cwd=root, env=environment, check=False, capture_output=True, text=True)
    return (checked.stderr or checked.stdout or f"exit code {checked.returncode}") if checked.returncode else ""


def main() -> int:
    """Check the syntax of all playbooks and roles, then run ansible-lint; return 1 or ansible-lint's exit code."""
    if errors := syntax_errors():
        print(errors, file=sys.stderr)
        return 1
    # Should a release of ansible-lint name them otherwise, it checks the syntax itself again, and only time is lost.
    Runner._get_ansible_syntax_check_matches = lambda *_args, **_keywords: []  # type: ignore[method-assign]
    Runtime.has_playbook = lambda *_args, **_keywords: True  # type: ignore[method-assign]
    return ansible_lint(["ansible-lint", "--strict"])


if __name__ == "__main__":
    sys.exit(main())
