# SPDX-License-Identifier: GPL-3.0-or-later
"""A run whose process may still work is never taken over: only a process that would be seen here counts as gone."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll.run_holder import holder, is_gone

BOOT, NAMESPACE = "c134ef4a-beec-4b42-9f91-c97b521c3502", "pid:[4026531836]"


def proc(folder: Path, boot: str = BOOT, namespace: str = NAMESPACE, **starts: int) -> Path:
    """Return a /proc of a boot and a PID namespace; `starts` is p<number> -> the start of a process."""
    for name, start in starts.items():
        (folder / name[1:]).mkdir(parents=True)
        (folder / name[1:] / "stat").write_text(f"{name[1:]} (a b) S {' '.join(['0'] * 18)} {start} 0\n")
    if boot:
        (folder / "sys/kernel/random").mkdir(parents=True)
        (folder / "sys/kernel/random/boot_id").write_text(f"{boot}\n")
    if namespace:
        (folder / "self/ns").mkdir(parents=True)
        (folder / "self/ns/pid").symlink_to(namespace)
    return folder


def test_the_holder_begins_with_the_host(tmp_path: Path):
    assert holder(7, proc(tmp_path, p7=99)) == f"{socket.gethostname()}:7:99:c134ef4a:4026531836"


@pytest.mark.parametrize(
    ("now", "gone"),
    [
        ({"p7": 99}, False),
        ({}, True),
        ({"p7": 100}, True),
        ({"boot": "11111111-beec-4b42-9f91-c97b521c3502"}, False),
        ({"namespace": "pid:[4026532999]"}, False),
        ({"boot": ""}, False),
        ({"namespace": ""}, False),
    ],
    ids=["runs", "ended", "another process", "another boot", "another container", "no boot id", "no namespace"],
)
def test_a_process_is_gone_only_where_it_would_be_seen(tmp_path: Path, now: dict[str, Any], gone: bool):
    other = holder(7, proc(tmp_path / "then", p7=99))
    assert is_gone(other, proc(tmp_path / "now", **now)) is gone


def test_a_process_that_proc_hides_is_not_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def denied(*_: object) -> None:
        raise PermissionError

    other = holder(7, proc(tmp_path / "then", p7=99))
    monkeypatch.setattr(os, "kill", denied)
    assert not is_gone(other, proc(tmp_path / "now"))


@pytest.mark.parametrize("other", ["", "ci1:4711:88213", "elsewhere:7:99:c134ef4a:4026531836"])
def test_a_holder_of_another_machine_or_form_is_not_gone(tmp_path: Path, other: str):
    assert not is_gone(other, proc(tmp_path))


def test_without_a_boot_id_and_a_namespace_nobody_is_gone(tmp_path: Path):
    assert not is_gone(f"{socket.gethostname()}:7:99::", proc(tmp_path, boot="", namespace=""))


def test_this_process_runs():
    assert not is_gone(holder(os.getpid()))
