# SPDX-License-Identifier: GPL-3.0-or-later
"""Nothing of an archive is used before its checksum is the one that the site stated."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.containers.archives import ArchiveError, verify
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.containers.local_debs import missing_packages
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.containers.pyxis_build import PyxisError
from ansible_collections.bedplate.cluster.plugins.modules import container_archive, container_settings
from tests.unit.gpu.containers.test_pyxis_build import Machine, archive, pyxis

OTHER = hashlib.sha256(b"another file").hexdigest()


def test_a_file_has_its_own_checksum_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "one.deb"
    path.write_bytes(b"one file")
    verify(path, hashlib.sha256(b"one file").hexdigest().upper())
    with pytest.raises(ArchiveError, match=OTHER):
        verify(path, OTHER)


def test_pyxis_is_not_built_from_another_archive(tmp_path: Path) -> None:
    archive(tmp_path / "p.tar.gz", Makefile="all:")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    machine = Machine()
    with pytest.raises(PyxisError, match=OTHER):
        pyxis(tmp_path, machine).build(tmp_path / "p.tar.gz", OTHER, scratch)
    assert not any(call[0] == "make" for call in machine.calls)
    assert list(scratch.iterdir()) == []


def test_no_package_is_read_while_another_one_is_not_as_stated(tmp_path: Path) -> None:
    files = []
    for name in ("one.deb", "two.deb"):
        (tmp_path / name).write_bytes(name.encode())
        files.append((tmp_path / name, hashlib.sha256(name.encode()).hexdigest()))
    calls: list[list[str]] = []

    def run(argv: list[str], _seconds: float) -> Outcome:
        calls.append(argv)
        return Outcome(0, "enroot\t4", "")

    with pytest.raises(ArchiveError, match=OTHER):
        missing_packages([files[0], (files[1][0], OTHER)], run)
    assert calls == []


@pytest.mark.parametrize(("stated", "written"), [(hashlib.sha256(b"new").hexdigest(), b"new"), (OTHER, b"old")])
def test_what_was_fetched_replaces_the_file_only_if_it_is_the_stated_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, stated: str, written: bytes
) -> None:
    source, path = tmp_path / "source.deb", tmp_path / "archives/one.deb"
    source.write_bytes(b"new")
    path.parent.mkdir()
    path.write_bytes(b"old")
    monkeypatch.setattr(container_archive, "open_url", lambda *_arguments, **_options: source.open("rb"))
    arguments = {"path": str(path), "url": "https://releases.test.internal/one.deb", "sha256": stated}
    with patch_module_args({**arguments, "_ansible_remote_tmp": str(tmp_path)}), pytest.raises(SystemExit):
        container_archive.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert path.read_bytes() == written
    assert bool(result.get("failed")) == (written == b"old")


@pytest.mark.parametrize("module", [container_archive, container_settings])
def test_a_full_disk_is_said_with_the_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, module: Any
) -> None:
    def full(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    source, path = tmp_path / "source.deb", tmp_path / "etc/daemon.json"
    source.write_bytes(b"new")
    monkeypatch.setattr(container_archive, "open_url", lambda *_arguments, **_options: source.open("rb"))
    monkeypatch.setattr(module, "atomic_write", full)
    arguments: dict[str, Any] = {
        "path": str(path), "url": "https://releases.test.internal/one.deb", "sha256": hashlib.sha256(b"new").hexdigest()
    }  # fmt: skip
    if module is container_settings:
        settings = [{"path": str(path), "format": "json", "values": {"a": 1}}]
        arguments = {"settings": settings, "note": str(tmp_path / "note"), "state_directory": str(tmp_path)}
    with patch_module_args({**arguments, "_ansible_remote_tmp": str(tmp_path)}), pytest.raises(SystemExit):
        module.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert result["failed"] is True
    assert all(part in result["msg"] for part in (str(path), "No space left", "df -h"))
    assert not path.exists()
