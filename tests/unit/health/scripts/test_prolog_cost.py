# SPDX-License-Identifier: GPL-3.0-or-later
"""The prolog's cost: three files read, no process started, and the CPU time of 400 at once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.unit.health.scripts.script_node import BOOT, UPTIME, ScriptNode, shells

NAME = "bedplate-prolog.sh"
VERDICTS = {
    "ok": f"1 ok {BOOT} {UPTIME} 180 -\n",
    "sick": f"1 fail {BOOT} {UPTIME} 180 cannot-run gpu-lost@0000:3b:00.0 {'x' * 380}\n",
    "stale": f"1 fail {BOOT} 1 180 cannot-run gpu-lost\n",
    "malformed": "*\n",
}
AT_ONCE = 400
# Seconds of CPU of one prolog on a node's sh; and of one on any shell, as a multiple of that shell with an empty script.
DASH_SECONDS = 0.003
_TRACED = "trace=execve,clone,clone3,fork,vfork,open,openat,openat2"


@pytest.fixture
def node(tmp_path: Path) -> ScriptNode:
    return ScriptNode(tmp_path)


@pytest.mark.tools
@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("shell", shells())
def test_it_reads_three_files_and_starts_no_process(node, shell, verdict):
    node.verdict(VERDICTS[verdict])
    script = node.script(NAME)
    trace = node.folder / "trace"
    argv = ["strace", "-f", "-o", str(trace), "-e", _TRACED, node.sh(shell), str(script)]
    done = subprocess.run(argv, capture_output=True, text=True, env={}, check=False)
    assert done.returncode == int(verdict == "sick"), done.stderr
    lines = trace.read_text().splitlines()
    calls = [
        line.split(maxsplit=1)[1] for line in lines if not line.endswith(("exited with 0 +++", "exited with 1 +++"))
    ]
    # The shell itself; strace's own child has no line before it.
    assert [call for call in calls if re.match("execve|clone|v?fork", call)][1:] == []
    (start,) = [number for number, call in enumerate(calls) if f'"{script}"' in call and call.startswith("open")]
    opened = [call for call in calls[start + 1 :] if call.startswith("open")]
    read = [re.search(r'"(.*?)"', call)[1] for call in opened if "O_RDONLY" in call]
    files = [
        f"{node.health}/verdict",
        f"{node.folder}/proc/sys/kernel/random/boot_id",
        f"{node.folder}/proc/uptime",
    ]
    assert read == (files[:1] if verdict == "malformed" else files)
    written = {re.search(r'"(.*?)"', call)[1] for call in opened if "O_RDONLY" not in call}
    assert written == ({f"{node.health}/passed", "/dev/null"} if verdict in ("stale", "malformed") else set())


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("shell", shells())
def test_no_program_of_the_path_runs(node, shell, verdict):
    node.verdict(VERDICTS[verdict])
    folders = [Path(folder) for folder in os.environ["PATH"].split(":")]
    names = {path.name for folder in folders if folder.is_dir() for path in folder.iterdir()}
    for name in names - {"sh", shell}:
        (node.stubs / name).symlink_to(node.stubs / "ran")
    node.stub("ran", f"exec {shutil.which('touch')} {node.folder}/ran")
    done = node.run(node.script(NAME), shell, PATH=str(node.stubs))
    assert done.returncode == int(verdict == "sick")
    assert not (node.folder / "ran.log").exists()


def cpu_seconds(shell: str, script: Path) -> float:
    """Return the mean CPU time of scripts that are all started before the first is waited for."""
    with Path(os.devnull).open("r+b") as null:
        actions = [(os.POSIX_SPAWN_DUP2, null.fileno(), number) for number in range(3)]
        pids = [os.posix_spawn(shell, [shell, str(script)], {}, file_actions=actions) for _ in range(AT_ONCE)]
        ends = [os.wait4(pid, 0) for pid in pids]
    assert {os.waitstatus_to_exitcode(status) for _pid, status, _usage in ends} == {0}
    return sum(usage.ru_utime + usage.ru_stime for _pid, _status, usage in ends) / AT_ONCE


@pytest.mark.parametrize("shell", shells())
def test_400_at_once_cost_little_more_than_an_empty_script(node, shell):
    node.verdict(VERDICTS["ok"])
    empty = node.folder / "empty"
    empty.write_text("exit 0\n")
    script = node.script(NAME)
    # The first round fills the caches. A machine that is busy makes each process more expensive, the empty one as well.
    sh = node.sh(shell)
    cpu_seconds(sh, empty)
    rounds = [(cpu_seconds(sh, script), cpu_seconds(sh, empty)) for _ in range(3)]
    own, base = min(rounds)
    print(f"{shell}: {own * 1000:.2f} ms of CPU for a prolog, {base * 1000:.2f} ms for an empty script")
    assert own <= (DASH_SECONDS if shell == "dash" else 4 * DASH_SECONDS) or own <= 3 * base
