# SPDX-License-Identifier: GPL-3.0-or-later
"""A stage: a process with ansible-core loaded that runs playbooks of one source tree on recordings."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.kit.recorded import recording

_TIMEOUT = 300  # seconds for one run of ansible-playbook, on a machine that has much else to do
_HERE = "tests/kit/recorded"


@dataclass(frozen=True)
class Run:
    """How one run ended: what the nodes were asked, what each task said, and which files were read."""

    rc: int
    seconds: float
    cpu: float
    output: str
    calls: list[dict[str, Any]] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    opened: frozenset[str] = frozenset()


class Stage:
    """Runs playbooks of a source tree; a context manager."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._home = Path(tempfile.mkdtemp(prefix="bedplate-stage-"))
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process and remove everything it wrote."""
        if self._process:
            assert self._process.stdin
            self._process.stdin.close()
            self._process.wait(timeout=_TIMEOUT)
        shutil.rmtree(self._home, ignore_errors=True)

    def run(
        self,
        folder: Path,
        arguments: Sequence[str],
        answers: Sequence[Mapping[str, Any]],
        actions: Sequence[str] = (),
        *,
        wanted: Sequence[object] | None = None,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Run:
        """Run ansible-playbook with a folder of recorded answers; `actions` are action plugins that are answered, too.

        It runs in `cwd`, else in the folder, with the variables `environment` beside the process's own. With `wanted` the first call that
        is not as wanted ends it, see recording.py.
        """
        (folder / recording.ANSWERS).write_text(json.dumps(answers))
        if wanted is not None:
            (folder / recording.WANTED).write_text(json.dumps(wanted))
        request = {"folder": str(folder), "argv": list(arguments), "actions": list(actions), "timeout": _TIMEOUT}
        request |= {"cwd": str(cwd or folder), "environment": dict(environment or {})}
        process = self._started()
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps(request) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"the stage ended with {process.wait()}: {(self._home / 'errors').read_text()[-2000:]}")
        opened = (folder / "opened").read_text().split() if (folder / "opened").exists() else []
        return Run(
            **json.loads(line),
            output=(folder / "output").read_text(errors="replace"),
            calls=recording.calls(folder / recording.CALLS),
            results=recording.calls(folder / "results.jsonl"),
            opened=frozenset(opened),
        )

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None:
            environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
            environment |= {
                "ANSIBLE_CONFIG": str(self.root / "ansible.cfg"),
                "ANSIBLE_HOME": str(self._home / "home"),
                "ANSIBLE_LOCAL_TEMP": str(self._home / "tmp"),
                "ANSIBLE_CONNECTION_PLUGINS": str(self.root / _HERE / "connection"),
                "ANSIBLE_CALLBACK_PLUGINS": str(self.root / _HERE / "callback"),
                "ANSIBLE_CALLBACKS_ENABLED": "results",
                # One host after the other, so that the log has one order.
                "ANSIBLE_FORKS": "1",
                "ANSIBLE_NOCOLOR": "true",
                "ANSIBLE_MODULE_COMPRESSION": "ZIP_STORED",
                "ANSIBLE_INTERPRETER_PYTHON": sys.executable,
                "PYTHONPATH": os.pathsep.join(filter(None, (str(self.root), os.environ.get("PYTHONPATH")))),
                "LC_ALL": "C.UTF-8",
            }
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.kit.recorded.zygote"],
                cwd=self.root,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=(self._home / "errors").open("w"),
                text=True,
            )
        return self._process
