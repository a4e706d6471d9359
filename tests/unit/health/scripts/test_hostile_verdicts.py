# SPDX-License-Identifier: GPL-3.0-or-later
"""Whichever bytes are in the verdict, the prolog runs none of them, and fails only for what the agent's own reader takes for a failure."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.module_utils.health.report.verdict_line import VerdictError, parse
from tests.unit.health.scripts.script_node import BOOT, UPTIME, ScriptNode, shells

_EXAMPLES = 5000 if os.environ.get("BEDPLATE_FULL") == "health" else 150
_TRAPS = [
    "$(>X)",
    "`>X`",
    "${X=1}",
    "$((X))",
    "*",
    "?",
    "[a-z]*",
    "~",
    "\\",
    "\\n",
    "%s",
    "'",
    '"',
    ";>X",
    "&",
    "|",
    "<",
    "(",
    "!",
    "#",
]
_NUMBERS = st.one_of(
    st.integers(-10, UPTIME + 400).map(str),
    st.integers(0, 2**70).map(str),
    st.integers(0, 99).map(lambda number: f"0{number}"),
    st.sampled_from(["", "0x10", "1e3", "1_0", "٣", "now", "X", "line", "5000 ", "+1", "1+1"]),
)
_TEXT = st.one_of(st.sampled_from(_TRAPS), st.text(max_size=30))
_LINES = st.builds(
    lambda words, text, end: (" ".join([*words, *text]) + end).encode("utf-8", "surrogatepass"),
    st.tuples(
        st.sampled_from(["1", "1", "1", "1", "2", "01", "one"]),
        st.sampled_from(["fail", "fail", "fail", "fail", "ok", "FAIL", "*"]),
        st.sampled_from([BOOT, BOOT, BOOT, BOOT, BOOT[:-1], "*", "[0-9]*"]),
        st.one_of(st.just(str(UPTIME)), st.just(str(UPTIME)), _NUMBERS),
        st.one_of(st.just("180"), st.just("180"), _NUMBERS),
        st.sampled_from(["cannot-run", "cannot-run", "cannot-run", "cannot-*", "-", "rma"]),
    ),
    st.lists(_TEXT, max_size=5),
    st.sampled_from(["\n", "\n", "\n", "", "\r\n", "\0\n", "\n\n"]),
)


@st.composite
def _changed_lines(draw: st.DrawFn) -> bytes:
    """Return a valid failure in which some bytes are others."""
    line = bytearray(f"1 fail {BOOT} {UPTIME} 180 cannot-run gpu-lost@0000:3b:00.0\n".encode())
    for _ in range(draw(st.integers(0, 2))):
        line[draw(st.integers(0, len(line) - 1))] = draw(st.integers(0, 255))
    return bytes(line)


def is_failure(verdict: bytes) -> bool:
    """Return whether the agent's reader takes the first line for a fresh failure. Shells leave out zero bytes."""
    line, _end, _rest = verdict.replace(b"\0", b"").partition(b"\n")
    try:
        found = parse(line.decode("utf-8", "surrogateescape"))
    except VerdictError:
        return False
    is_fresh = found.written - 5 <= UPTIME <= found.written + found.valid
    return (found.status, found.health_class, found.boot) == ("fail", "cannot-run", BOOT) and is_fresh


@pytest.mark.parametrize("shell", shells())
def test_a_hostile_verdict_never_runs_and_never_fails_a_job(shell, tmp_path_factory):
    node = ScriptNode(tmp_path_factory.mktemp("node"))
    script = node.script("bedplate-prolog.sh")
    before = sorted(path.name for path in node.folder.iterdir())
    failures: list[bytes] = []

    @settings(
        max_examples=_EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
    )
    @given(st.one_of(_LINES, _changed_lines(), st.binary(max_size=300)))
    def check(verdict: bytes) -> None:
        node.verdict(verdict)
        done = run(node, shell, script)
        assert done.returncode in (0, 1)
        assert done.returncode == 0 or is_failure(verdict)
        assert done.stdout == b""
        assert done.stderr.count(b"\n") == done.returncode
        failures.extend([verdict] * done.returncode)

    check()
    assert failures, "no verdict was a failure, so the test shows nothing"
    found = {path.name for path in node.folder.iterdir()} - {"shells"}
    assert found == set(before) - {"shells"}


def run(node: ScriptNode, shell: str, script: Path) -> subprocess.CompletedProcess[bytes]:
    argv = [node.sh(shell), str(script)]
    return subprocess.run(argv, env={}, cwd=node.folder, capture_output=True, timeout=30, check=False)
