# SPDX-License-Identifier: GPL-3.0-or-later
"""The prolog fails only for a fresh verdict of this boot that no job can run, in every shell that may be a node's sh."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.health_finding import CLASSES
from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.verdict_line import STATUSES, Verdict
from tests.unit.health.scripts.script_node import BOOT, UPTIME, ScriptNode, is_root, shells

NAME = "bedplate-prolog.sh"
OTHER_BOOT = "99999999-2222-3333-4444-555555555555"
FAIL = f"1 fail {BOOT} {UPTIME} 180 cannot-run"
SICK = f"{FAIL} gpu-lost@0000:3b:00.0 GPU is lost\n"


@pytest.fixture(params=shells())
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def node(tmp_path: Path) -> ScriptNode:
    return ScriptNode(tmp_path)


# verdict, exit status, counted causes
TABLE = {
    "sick": (SICK, 1, []),
    "sick without a text": (f"{FAIL}\n", 1, []),
    "sick, written just now and rounded up": (SICK.replace(f" {UPTIME} ", f" {UPTIME + 5} "), 1, []),
    "sick, on the last second": (SICK.replace(f" {UPTIME} 180 ", f" {UPTIME - 180} 180 "), 1, []),
    "stale by a second": (SICK.replace(f" {UPTIME} 180 ", f" {UPTIME - 181} 180 "), 0, ["stale"]),
    "of the future": (SICK.replace(f" {UPTIME} ", f" {UPTIME + 6} "), 0, ["stale"]),
    "of another boot": (SICK.replace(BOOT, OTHER_BOOT), 0, ["boot"]),
    "of another version": (SICK.replace("1 fail", "2 fail"), 0, ["version"]),
    "empty": ("", 0, ["malformed"]),
    "an empty line": ("\n", 0, ["malformed"]),
    "without the end of the line": (SICK.rstrip(), 0, ["malformed"]),
    "too few words": (f"1 fail {BOOT} {UPTIME} 180\n", 0, ["malformed"]),
    "two blanks": (SICK.replace(" fail ", "  fail "), 0, ["malformed"]),
    "a leading blank": (f" {SICK}", 0, ["malformed"]),
    "a tab": (SICK.replace(" fail ", "\tfail "), 0, ["malformed"]),
    "an unknown status": (SICK.replace(" fail ", " dead "), 0, ["malformed"]),
    "an unknown class": (SICK.replace("cannot-run", "cannot-walk"), 0, ["malformed"]),
    "a carriage return": (f"{FAIL}\r\n", 0, ["malformed"]),
    "no number": (SICK.replace(f" {UPTIME} ", " 5k "), 0, ["malformed"]),
    "a negative number": (SICK.replace(f" {UPTIME} ", " -1 "), 0, ["malformed"]),
    "an octal number": (SICK.replace(f" {UPTIME} ", " 08 "), 0, ["malformed"]),
    "a number too large": (SICK.replace(f" {UPTIME} 180 ", f" {UPTIME} {2**64 + 180} "), 0, ["malformed"]),
    "a number that overflows": (SICK.replace(f" {UPTIME} 180 ", f" {UPTIME} {2**63 - 1} "), 0, ["malformed"]),
    "an expression": (SICK.replace(f" {UPTIME} ", f" {UPTIME}+0 "), 0, ["malformed"]),
    "a name of a variable": (SICK.replace(f" {UPTIME} 180 ", f" {UPTIME} now "), 0, ["malformed"]),
    "no version": (SICK.replace("1 fail", "one fail"), 0, ["malformed"]),
    "too long": (f"{FAIL} {'x' * 5000}\n", 0, ["malformed"]),
    "very long": ("x" * 200_000 + "\n", 0, ["malformed"]),
    "patterns of file names": (f"{FAIL} /* * ~ ? [a-z]\n", 1, []),
    "text in the way of a shell": (f"{FAIL} $(touch X) `touch X` ;touch X; \\n %s %n ${{X}} && touch X\n", 1, []),
    "binary": (bytes(range(256)) + b"\n", 0, ["malformed"]),
    "a second line": (f"1 ok {BOOT} {UPTIME} 180 -\n{SICK}", 0, []),
}


@pytest.mark.parametrize("case", TABLE)
def test_a_row_of_the_table(node, shell, case):
    verdict, status, causes = TABLE[case]
    node.verdict(verdict)
    done = node.run(node.script(NAME), shell)
    assert (done.returncode, node.passed()) == (status, causes)
    assert done.stdout == ""
    assert done.stderr.count("\n") == status
    assert sorted(path.name for path in node.folder.rglob("X")) == []


@pytest.mark.parametrize("health_class", ["-", *CLASSES])
@pytest.mark.parametrize("status", STATUSES)
def test_only_a_failure_of_the_class_cannot_run_fails(node, shell, status, health_class):
    node.verdict(Verdict(status, BOOT, UPTIME - 60, 180, health_class, "check@device").line())
    done = node.run(node.script(NAME), shell)
    assert (done.returncode, node.passed()) == (int((status, health_class) == ("fail", "cannot-run")), [])


def test_the_line_names_check_device_and_remedy(node, shell):
    node.verdict(SICK)
    (line,) = node.run(node.script(NAME), shell).stderr.splitlines()
    assert line.startswith("bedplate: no job can run on this node: gpu-lost@0000:3b:00.0 GPU is lost. ")
    assert f"{node.health}/verdict.json" in line


@pytest.mark.parametrize(("text", "shown"), [(r" gpu\lost\n", r": gpu\lost\n. "), ("", ": no check named. ")])
def test_the_text_is_repeated_as_it_is(node, shell, text, shown):
    node.verdict(f"{FAIL}{text}\n")
    assert shown in node.run(node.script(NAME), shell).stderr


@pytest.mark.parametrize("text", ["\x1b[2J", "\x07", "é\x80"])
def test_what_a_terminal_would_obey_is_not_repeated(node, shell, text):
    node.verdict(f"{FAIL} gpu-lost {text}\n".encode("latin-1"))
    done = node.run(node.script(NAME), shell)
    assert done.returncode == 1
    assert done.stderr.isascii()
    assert done.stderr.rstrip("\n").isprintable()


def test_zero_bytes_are_no_words(node, shell):
    node.verdict(SICK.encode().replace(b" fail", b"\0 fa\0il"))
    assert node.run(node.script(NAME), shell).returncode in (0, 1)
    node.verdict(b"\0" * 5000)
    assert node.run(node.script(NAME), shell).returncode == 0


def test_a_missing_verdict_passes_and_is_counted(node, shell):
    script = node.script(NAME)
    for _ in range(2):
        done = node.run(script, shell)
        assert (done.returncode, done.stderr) == (0, "")
    assert node.passed() == ["absent", "absent"]


# Root reads every file.
@pytest.mark.parametrize("kind", ["directory", "pipe", "dangling", *([] if is_root() else ["unreadable"])])
def test_a_path_that_is_not_a_readable_file_passes_at_once(node, shell, kind):
    path = node.health / "verdict"
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "dangling":
        path.symlink_to("nothing")
    else:
        node.verdict(SICK)
        path.chmod(0)
    assert node.run(node.script(NAME), shell).returncode == 0
    assert node.passed() == (["malformed"] if kind == "unreadable" else ["absent"])


@pytest.mark.parametrize("name", ["proc/uptime", "proc/sys/kernel/random/boot_id"])
@pytest.mark.parametrize("text", [None, "", "\n", "08.1 2\n", "x\n"])
def test_an_unknown_boot_or_time_passes(node, shell, name, text):
    node.verdict(SICK)
    path = node.folder / name
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    assert node.run(node.script(NAME), shell, options=["-u"]).returncode == 0
    assert node.passed() == ["stale" if name == "proc/uptime" else "boot"]


def test_the_file_gate_off_passes_every_job(node, shell):
    node.verdict(SICK)
    (node.folder / "etc/bedplate/health/gate-off").touch()
    done = node.run(node.script(NAME), shell)
    assert (done.returncode, done.stderr, node.passed()) == (0, "", [])


@pytest.mark.parametrize("kind", ["no directory", "pipe", "directory", "full"])
def test_a_count_that_cannot_be_written_changes_nothing(node, shell, kind):
    path = node.health / "passed"
    if kind == "no directory":
        shutil.rmtree(node.health)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("/dev/full")
    done = node.run(node.script(NAME), shell)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_read_only_file_system_changes_nothing(node, shell):
    if not is_root():
        pytest.skip("needs root to mount")
    script = node.script(NAME)
    mount = f"mount --bind {node.health} {node.health} && mount -o remount,ro,bind {node.health} && "
    inner = f"{mount} ! touch {node.health}/x 2>/dev/null && exec {node.sh(shell)} {script}"
    done = subprocess.run(["unshare", "--mount", "sh", "-c", inner], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_with_unset_variables_as_errors_it_does_the_same(node, shell):
    script = node.script(NAME)
    for verdict, status in ((None, 0), ("\n", 0), ("1 fail\n", 0), (SICK, 1), (f"1 ok {BOOT} {UPTIME} 60 -\n", 0)):
        if verdict is not None:
            node.verdict(verdict)
        assert node.run(script, shell, options=["-u"]).returncode == status
    assert node.passed() == ["absent", "malformed", "malformed"]


def test_an_error_of_the_shell_itself_passes(node, shell):
    node.verdict(SICK)
    script = node.script(NAME, ("set -f\n", "set -f\nfound=$((08))\n"))
    assert node.run(script, shell).returncode == 0


def test_a_closed_standard_error_does_not_pass_a_sick_node(node, shell):
    node.verdict(SICK)
    argv = [node.sh(shell), str(node.script(NAME))]
    assert subprocess.run(["sh", "-c", 'exec "$@" 2>&-', "sh", *argv], check=False).returncode == 1
