# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node learns of a secret: which content it may replace, and which units must not run on another one."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.action.files import Arguments, _Source, _wanted
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_plan import DesiredFile

ENTRY = {"path": "/etc/munge/munge.key", "secret": "munge_key", "used_by": ["slurmd.service"]}


def wanted(folder: Path, check: bool = False, **variables: Any) -> DesiredFile:
    task = SimpleNamespace(check_mode=check)
    action: Any = SimpleNamespace(
        _task=task, _templar=SimpleNamespace(template=lambda value: value), _loader=SimpleNamespace()
    )
    return _wanted(ENTRY, _Source(action, {"bedplate_secrets_dir": str(folder / "secrets"), **variables}))


def test_a_secret_has_its_guards(tmp_path: Path) -> None:
    found = wanted(tmp_path)
    assert (found.used_by, found.sensitive, found.mode) == (["slurmd.service"], True, "0600")
    assert "bedplate_new_secrets=true" in found.refusal
    assert found.content == (tmp_path / "secrets/munge_key").read_bytes()


def test_new_secrets_replace_any_content_on_purpose_alone(tmp_path: Path) -> None:
    found = wanted(tmp_path, bedplate_new_secrets=True)
    assert (found.used_by, found.refusal) == ([], "")
    assert wanted(tmp_path, bedplate_new_secrets=False).used_by == ["slurmd.service"]


def test_check_mode_makes_none(tmp_path: Path) -> None:
    assert wanted(tmp_path, check=True).content.startswith(b"placeholder of the secret munge_key")
    assert not (tmp_path / "secrets").exists()


@pytest.mark.parametrize("key", ["payload", "sources_payload"])
def test_debug_output_has_no_payload(key: str) -> None:
    text = repr(Arguments({"manifest": "slurm", key: "packed"}))
    assert "packed" not in text
    assert "slurm" in text
