"""Two runs that change one part of a machine: one waits for the other, and what it has read must still be there."""

from __future__ import annotations

import hashlib
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import NodeFilesError
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.lock import changed_since, one_at_a_time
from tests.kit import sentences
from tests.unit.primitives.test_stale_journal import Module, ModuleFailedError, run
from tests.unit.primitives.test_transaction import Node, first

SENTENCES = Path(__file__).with_name("sentences.txt")


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def other(directory: Path, begins: Any, ended: Any) -> None:
    begins.set()
    with one_at_a_time(directory, "demo"):
        ended.set()


def test_the_second_run_waits_for_the_first(tmp_path: Path):
    context = multiprocessing.get_context("spawn")
    begins, ended = context.Event(), context.Event()
    process = context.Process(target=other, args=(tmp_path, begins, ended))
    with one_at_a_time(tmp_path, "demo"):
        process.start()
        assert begins.wait(60)
        assert not ended.wait(0.5)
    assert ended.wait(60)
    process.join()


def test_a_lock_that_cannot_be_made_is_a_refusal(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NodeFilesError, match=f"^{tmp_path}/file") as caught, one_at_a_time(tmp_path / "file", "demo"):
        pass
    sentences.check(SENTENCES, "a lock that cannot be made", [str(caught.value).replace(str(tmp_path), "")])


def test_what_has_another_content_or_is_gone_has_changed(tmp_path: Path):
    for name in ("same", "other", "gone"):
        (tmp_path / name).write_text(name)
    digests = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in tmp_path.iterdir()}
    assert changed_since(digests) == []
    (tmp_path / "other").write_text("by hand")
    (tmp_path / "gone").unlink()
    assert changed_since(digests) == [str(tmp_path / "gone"), str(tmp_path / "other")]


@pytest.mark.parametrize("check", [False, True])
def test_files_that_another_run_has_written_are_not_overwritten(
    node: Node, monkeypatch: pytest.MonkeyPatch, check: bool
):
    first(node)
    path = node.root / "d.conf"
    read = {str(path): hashlib.sha256(path.read_bytes()).hexdigest()}
    path.write_text("by another run\n")
    before = node.tree(), node.records()
    monkeypatch.setattr(Module, "check_mode", check)
    with pytest.raises(ModuleFailedError, match=f"{path} ") as caught:
        run(node, node.wanted(**{"d.conf": "new\n"}), unchanged=read, take_back=True)
    assert (node.tree(), node.records()) == before
    sentences.check(
        SENTENCES, "another run has written a file", [caught.value.args[0]["msg"].replace(str(node.root), "")]
    )


def test_files_that_are_as_they_were_read_are_written(node: Node):
    first(node)
    path = node.root / "d.conf"
    read = {str(path): hashlib.sha256(path.read_bytes()).hexdigest()}
    run(node, node.wanted(**{"d.conf": "new\n"}), unchanged=read)
    assert path.read_text() == "new\n"
