"""Commands of a machine: how they end, what they see, and that one that hangs holds nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command
from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import (
    NOT_STARTED,
    Daemon,
    Outcome,
    run,
    run_quick,
    run_together,
)

COLLECTIONS = Path(__file__).parents[3] / "collections"


def shell(text: str, seconds: float = 20.0) -> Outcome:
    return run(["sh", "-c", text], seconds)


def ends(process: str) -> bool:
    """Wait 10 s at most, and return whether a process that was killed has ended; who inherited it may not have collected it yet."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            if Path(f"/proc/{process.strip()}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.02)
    return False


def test_both_outputs_and_the_exit_status_are_there() -> None:
    found = shell("echo out; echo err >&2; exit 3")
    assert (found.code, found.stdout, found.stderr) == (3, "out\n", "err\n")
    assert (found.text, found.error_line) == ("out\nerr", "err")


def test_an_error_line_says_how_a_silent_command_ended() -> None:
    assert [Outcome(4, "", "").error_line, Outcome(1, "a\n b\n", "").error_line] == ["ended with 4", "a b"]
    assert [Outcome(None, "", "").error_line, shell("echo x; sleep 60", 0.2).error_line] == [
        "no answer",
        "no answer, stopped after 0.2 s",
    ]


def test_of_much_output_the_text_is_the_end() -> None:
    assert Outcome(0, "x" * 4000 + "y", "").text == "x" * 3999 + "y"


def test_bytes_that_are_no_text_are_shown() -> None:
    assert shell(r"printf 'a\377b'").stdout == "a\ufffdb"


def test_a_command_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert run_quick(["/nowhere/x"]) == Outcome(NOT_STARTED, "", "/nowhere/x: No such file or directory")
    assert run([str(tmp_path / "file")]).stderr == f"{tmp_path / 'file'}: Permission denied"

    def refuses() -> None:
        raise OSError("no namespace")

    assert run(["true"], enter=refuses).code == NOT_STARTED


def test_it_is_in_english_and_has_nothing_to_read_and_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert shell("echo $LC_ALL; cat; (: </dev/tty) 2>&1 | grep -c tty").stdout == "C.UTF-8\n1\n"


@pytest.mark.parametrize(
    ("expression", "printed"), [("run(['cat']).stdout", "''"), ("run(['chroot', '--version']).code", "0")]
)
def test_a_module_with_an_input_and_without_sbin_hands_on_neither(expression: str, printed: str) -> None:
    script = f"from {command.__name__} import run; print(repr({expression}))"
    environment = {**os.environ, "PYTHONPATH": str(COLLECTIONS), "PATH": "/usr/bin"}
    done = subprocess.run(
        [sys.executable, "-c", script], input="a script\n", env=environment, capture_output=True, text=True, timeout=50
    )
    assert (done.stdout.strip(), done.stderr) == (printed, "")


def test_a_variable_is_added_or_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GIT_DIR", "elsewhere")
    command = ["sh", "-c", "echo ${GIT_DIR-unset} $NAME; pwd"]
    assert run(command).stdout == "elsewhere\n/\n"
    assert run(command, cwd=tmp_path, environment={"GIT_DIR": None, "NAME": "x"}).stdout == f"unset x\n{tmp_path}\n"


def test_what_was_printed_before_the_end_of_the_time_is_kept() -> None:
    found = shell("echo early; echo odd >&2; sleep 60", 0.3)
    assert (found.code, found.stdout, found.stderr) == (None, "early\n", "odd\nstopped after 0.3 s")


def test_children_are_stopped_with_it_and_a_service_that_it_started_is_not_waited_for(tmp_path: Path) -> None:
    shell(f"sh -c 'echo $$ >{tmp_path}/child; sleep 60'; true", 0.5)
    assert ends((tmp_path / "child").read_text())
    start = time.monotonic()
    found = shell(f"sleep 60 & echo $! >{tmp_path}/service")
    service = int((tmp_path / "service").read_text())
    assert (found.code, time.monotonic() - start < 10) == (0, True)
    os.kill(service, 9)


def test_an_interrupt_stops_the_command(tmp_path: Path) -> None:
    def interrupt(*_arguments: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(KeyboardInterrupt):
            shell(f"echo $$ >{tmp_path}/pid; exec sleep 60")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists()


def test_a_short_command_is_not_slowed_down() -> None:
    used = []
    for _ in range(20):
        start = time.monotonic()
        run(["true"])
        used.append(time.monotonic() - start)
    # The pause between two looks at a command that runs for long.
    assert min(used) < 0.02


def test_much_output_is_read_whole_while_it_comes() -> None:
    found = shell("head -c 3000000 /dev/zero | tr '\\0' x; head -c 200000 /dev/zero | tr '\\0' y >&2")
    assert (found.code, len(found.stdout), len(found.stderr)) == (0, 3_000_000, 200_000)


def test_what_a_command_printed_before_it_was_looked_at_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    popen = command._popen

    def ended(*arguments: Any) -> subprocess.Popen[bytes]:
        process = popen(*arguments)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        return process

    monkeypatch.setattr(command, "_popen", ended)
    assert shell("echo out; echo err >&2") == Outcome(0, "out\n", "err\n")


def test_one_that_closes_its_output_is_waited_for_without_work() -> None:
    start, worked = time.monotonic(), time.process_time()
    assert shell("echo x; exec >&- 2>&-; sleep 0.6; exit 5") == Outcome(5, "x\n", "")
    assert time.monotonic() - start >= 0.6
    assert time.process_time() - worked < 0.1


def test_a_daemon_writes_to_its_file_and_is_gone_at_the_end(tmp_path: Path) -> None:
    output = tmp_path / "output"
    script = "trap '' TERM; echo up; sleep 60 & echo $!; wait; sleep 60"
    with Daemon(["sh", "-c", script], output, cwd=tmp_path) as daemon:
        end = time.monotonic() + 20
        while len(output.read_text().split()) < 2 and time.monotonic() < end:
            time.sleep(0.01)
        assert daemon.process.poll() is None
    said, child = output.read_text().split()
    assert (said, daemon.process.returncode) == ("up", -9)
    assert ends(child)


def test_a_daemon_that_has_ended_is_no_error(tmp_path: Path) -> None:
    with Daemon(["true"], tmp_path / "output", cwd=tmp_path) as daemon:
        daemon.process.wait(20)
    assert daemon.process.returncode == 0


UNKILLABLE = """
import os, sys
from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import run_together
os.killpg = lambda group, signal: print("killed", group, flush=True)
outcome = run_together([["sleep", "60"], ["echo", "done"]], 0.3)
print([one.code for one in outcome], outcome[1].stdout)
"""


def test_one_that_no_signal_ends_holds_neither_this_process_nor_its_output():
    # As a process in uninterruptible sleep: it stays, and whoever reads this output would wait for its end.
    start = time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(COLLECTIONS)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", UNKILLABLE], capture_output=True, text=True, env=environment, timeout=50
    )
    killed, said, *_rest = done.stdout.splitlines()
    group = int(killed.split()[1])
    try:
        assert time.monotonic() - start < 20
        assert os.getsid(group) == group
        assert (said, done.stderr, done.returncode) == ("[None, 0] done", "", 0)
    finally:
        os.killpg(group, 9)


def test_commands_run_side_by_side():
    start = time.monotonic()
    outcomes = run_together([["sleep", "0.4"]] * 6, 10)
    assert [one.code for one in outcomes] == [0] * 6
    assert time.monotonic() - start < 2


def test_a_command_that_cannot_be_given_stops_those_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    popen, started = command._popen, []

    def kept(*arguments: Any) -> subprocess.Popen[bytes]:
        started.append(popen(*arguments))
        return started[-1]

    monkeypatch.setattr(command, "_popen", kept)
    with pytest.raises(ValueError, match="null byte"):
        run_together([["sleep", "60"], ["echo", "a\0b"]], 30)
    (sleeping,) = started
    if sleeping.poll() is None:
        sleeping.kill()
    assert sleeping.returncode == -signal.SIGKILL
