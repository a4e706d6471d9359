# SPDX-License-Identifier: GPL-3.0-or-later
"""Run ansible-playbook again and again from one process that has everything loaded: a fork for each run, a tenth of the time.

Reads a request a line from standard input, `{folder, cwd, environment, argv, actions, timeout}`, and writes an answer a line,
`{rc, seconds, cpu}`. What the run prints is in `output` in the folder, and the files of roles and playbooks that it opened are in `opened`.
It exits at the end of input.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

TIMED_OUT = 124


def _load() -> None:
    """Import what each run needs."""
    import ansible.cli.playbook
    import ansible.executor.playbook_executor
    from ansible.plugins import loader

    loader.init_plugin_loader()
    # Each run does it again.
    warnings.filterwarnings("ignore", "AnsibleCollectionFinder has already been configured")
    for plugins in (loader.filter_loader, loader.test_loader, loader.lookup_loader):
        list(plugins.all(class_only=True))
    for plugins, names in (
        (loader.strategy_loader, ("linear",)),
        (loader.callback_loader, ("default", "results")),
        (loader.connection_loader, ("recorded",)),
        (loader.shell_loader, ("sh",)),
        (loader.action_loader, ("assert", "command", "copy", "debug", "fail", "normal", "reboot", "set_fact")),
        (loader.action_loader, [f"bedplate.cluster.{path.stem}" for path in Path("plugins/action").glob("[!_]*.py")]),
        (loader.inventory_loader, ("bedplate.cluster.racks", "yaml")),
    ):
        for name in names:
            plugins.get(name, class_only=True)
    racks = importlib.import_module("ansible_collections.bedplate.cluster.plugins.inventory.racks")
    racks.PRELOAD.load()
    for path in Path("plugins/filter").glob("[!_]*.py"):
        importlib.import_module(f"ansible_collections.bedplate.cluster.plugins.filter.{path.stem}")
    importlib.import_module("tests.kit.recorded.recording")
    del ansible
    gc.collect()
    gc.freeze()


def _watch(folder: Path, root: str) -> None:
    """Note the files of roles and playbooks that are opened, in this process and in its forks."""
    places = (f"{root}/", f"{root}/collections/ansible_collections/bedplate/cluster/")
    kinds = ("roles/", "playbooks/")
    descriptor = os.open(folder / "opened", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    seen: set[str] = set()

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open":
            return
        path = os.fsdecode(arguments[0]) if isinstance(arguments[0], (str, bytes, os.PathLike)) else ""
        for place in places:
            inner = path.removeprefix(place)
            if inner != path and inner.startswith(kinds) and inner not in seen:
                seen.add(inner)
                os.write(descriptor, f"{inner}\n".encode())

    sys.addaudithook(note)


def _record_actions(folder: Path, names: list[str]) -> None:
    """Have action plugins answered that work on the control node alone, and would reach out from there."""
    from ansible.plugins.loader import action_loader

    from tests.kit.recorded.recording import Recording

    for name in names:

        def run(self: Any, tmp: object = None, task_vars: object = None, name: str = name) -> dict[str, Any]:
            return Recording(folder).answer("localhost", name, self._task.args, bool(self._task.check_mode))

        action_loader.get(f"bedplate.cluster.{name}", class_only=True).run = run


def _run(request: dict[str, Any], root: str) -> None:
    """Be ansible-playbook; this process ends with it."""
    code = 70
    try:
        folder = Path(request["folder"])
        os.setsid()
        output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        os.environ.update(request["environment"])
        os.environ["PWD"] = request["cwd"]
        os.chdir(request["cwd"])
        os.environ["BEDPLATE_RECORDING"] = str(folder)
        os.environ["BEDPLATE_RECORDING_PID"] = str(os.getpid())
        _watch(folder, root)
        _record_actions(folder, request["actions"])
        from ansible.cli.playbook import PlaybookCLI

        PlaybookCLI.cli_executor(["ansible-playbook", *request["argv"]])
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(pid: int, seconds: float) -> tuple[int, float]:
    """Return the exit status of a run and its CPU seconds; one that takes too long is killed."""

    def kill(*_: object) -> None:
        os.killpg(pid, signal.SIGKILL)

    signal.signal(signal.SIGALRM, kill)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    _, status, usage = os.wait4(pid, 0)
    signal.setitimer(signal.ITIMER_REAL, 0)
    code = TIMED_OUT if os.WIFSIGNALED(status) else os.waitstatus_to_exitcode(status)
    return code, usage.ru_utime + usage.ru_stime


def main() -> None:
    """Answer requests until there are no more."""
    root = str(Path.cwd())
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    _load()
    while line := sys.stdin.readline():
        request = json.loads(line)
        began = time.monotonic()
        pid = os.fork()
        if not pid:
            _run(request, root)
        code, cpu = _wait(pid, request["timeout"])
        took = {"seconds": round(time.monotonic() - began, 3), "cpu": round(cpu, 3)}
        answers.write(json.dumps({"rc": code, **took}) + "\n")


if __name__ == "__main__":
    main()
