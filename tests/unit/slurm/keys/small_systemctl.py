#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""A `systemctl` for a machine of real_munge.py: it starts and stops what unit files in /etc/systemd/system and drop-ins name.

It knows what the units of a turn use: types forking and notify, RuntimeDirectory, ExecStopPost, Environment, and restarts that keep the
runtime directory. It has no supervisor: a daemon that ends stays down.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

UNITS, STATE = Path("/etc/systemd/system"), Path("/run/units")
MUNGE = "munge.service"
# As Debian's, in a folder of the test.
BUILT_IN = {MUNGE: {"Type": ["forking"], "ExecStart": ["/usr/sbin/munged $OPTIONS"], "RuntimeDirectory": ["munge"]}}
OPTIONS = "--force --pid-file=/run/munge/munged.pid --log-file=/run/munged.log --seed-file=/run/munged.seed"
PID_FILES = {MUNGE: "/run/munge/munged.pid"}


def conf(name: str) -> dict[str, list[str]] | None:
    """Return the settings of a unit and of its drop-ins; None for a unit that does not exist."""
    found = {key: list(value) for key, value in BUILT_IN.get(name, {}).items()}
    paths = [UNITS / name, *sorted((UNITS / f"{name}.d").glob("*.conf"))]
    if not found and not paths[0].exists():
        return None
    for path in paths:
        text = path.read_text().replace("\\\n", " ") if path.exists() else ""
        for line in text.splitlines():
            key, equals, value = line.partition("=")
            if equals and not line.startswith("#"):
                # An empty value removes what was set before.
                found[key] = [*found.get(key, []), value] if value else []
    return found


def one(settings: dict[str, list[str]], key: str, default: str = "") -> str:
    """Return the last value of a setting."""
    return (settings.get(key) or [default])[-1]


def words(line: str) -> list[str]:
    """Return the words of a command."""
    return shlex.split(line.replace("$OPTIONS", OPTIONS))


def environment(settings: dict[str, list[str]]) -> dict[str, str]:
    """Return the environment of a unit."""
    pairs = (pair.partition("=") for line in settings.get("Environment", ()) for pair in shlex.split(line))
    return {"PATH": os.environ.get("PATH", ""), **{name: value for name, _equals, value in pairs}}


def pid(name: str) -> int:
    """Return the main process of a unit that runs, else 0."""
    try:
        found = int((STATE / f"{name}.pid").read_text())
        state = Path(f"/proc/{found}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, ValueError):
        return 0
    return 0 if state == "Z" else found


def start(name: str) -> None:
    """Start a unit, unless it runs."""
    settings = conf(name)
    if settings is None:
        sys.exit(f"Unit {name} not found.")
    if pid(name):
        return
    for folder in settings.get("RuntimeDirectory", ()):
        Path("/run", folder).mkdir(exist_ok=True)
    argv, own = words(one(settings, "ExecStart")), environment(settings)
    log = (STATE / f"{name}.log").open("a")
    if one(settings, "Type") == "forking":
        done = subprocess.run(argv, env=own, check=False, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            sys.exit(f"Job for {name} failed: {(STATE / f'{name}.log').read_text()}")
        main = int(Path(one(settings, "PIDFile", PID_FILES.get(name, ""))).read_text())
    else:
        main = start_notify(argv, own, log)
    (STATE / f"{name}.pid").write_text(str(main))
    (STATE / f"{name}.started").write_text(str(int(time.monotonic() * 1e6)))


def start_notify(argv: list[str], own: dict[str, str], log: object) -> int:
    """Start a daemon that reports when it is ready; return its process."""
    path = STATE / "notify"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(path))
        notify.settimeout(20)
        process = subprocess.Popen(
            argv,
            env={**own, "NOTIFY_SOCKET": str(path)},
            stdout=log,  # type: ignore[call-overload]
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert notify.recv(100) == b"READY=1"
    return process.pid


def stop(name: str, restarts: bool = False) -> None:
    """Stop a unit, and wait for it."""
    settings = conf(name) or {}
    if main := pid(name):
        os.kill(main, signal.SIGTERM)
        end = time.monotonic() + 15
        while pid(name) and time.monotonic() < end:
            time.sleep(0.005)
        if pid(name):
            os.kill(main, signal.SIGKILL)
    for line in settings.get("ExecStopPost", ()):
        subprocess.run(words(line), env=environment(settings), check=False)
    if not (restarts and one(settings, "RuntimeDirectoryPreserve") == "restart"):
        for folder in settings.get("RuntimeDirectory", ()):
            shutil.rmtree(f"/run/{folder}", ignore_errors=True)
    (STATE / f"{name}.pid").unlink(missing_ok=True)


def show(names: list[str]) -> str:
    """Return the properties of units as `systemctl show` prints them."""
    blocks = []
    for name in names:
        runs, exists = bool(pid(name)), conf(name) is not None
        started = (STATE / f"{name}.started").read_text() if runs else "0"
        block = {
            "Id": name,
            "LoadState": "loaded" if exists else "not-found",
            "ActiveState": "active" if runs else "inactive",
            "SubState": "running" if runs else "dead",
            "UnitFileState": "enabled" if (STATE / f"{name}.enabled").exists() or name == MUNGE else "disabled",
            "Type": one(conf(name) or {}, "Type"),
            "InvocationID": started,
            "ActiveEnterTimestampMonotonic": started,
        }
        blocks.append("\n".join(f"{key}={value}" for key, value in block.items()))
    return "\n\n".join(blocks)


def main(arguments: list[str]) -> None:
    """Do what systemctl does."""
    STATE.mkdir(exist_ok=True)
    verb, *names = [word for word in arguments if not word.startswith("-")]
    if verb == "show":
        print(show(names))
    for name in names:
        if verb in ("stop", "restart"):
            stop(name, restarts=verb == "restart")
        if verb in ("start", "restart"):
            start(name)
        if verb == "enable":
            (STATE / f"{name}.enabled").touch()
        if verb == "disable":
            (STATE / f"{name}.enabled").unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1:])
