"""Compiled code of collections that tests keep from one process to the next."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.compiled import sitecustomize

NAME = "/x/ansible_collections/a/b.py"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sitecustomize, "FOLDER", tmp_path / "kept")
    return tmp_path / "kept"


def value(source: str, name: str = NAME) -> object:
    there: dict[str, object] = {}
    exec(sitecustomize.kept_compile(source=source, filename=name, mode="exec", flags=0, dont_inherit=True), there)
    return there["a"]


def test_code_is_kept_by_its_source(folder: Path):
    assert [value("a = 1"), value("a = 1"), value("a = 2")] == [1, 1, 2]
    assert len(list(folder.iterdir())) == 2


def test_code_of_a_copy_is_kept_once_and_names_its_own_file(folder: Path):
    source = "def a(): pass"
    found = [value(source, name) for name in (NAME, NAME.replace("/x/", "/y/"))]
    assert [one.__code__.co_filename for one in found] == [NAME, NAME.replace("/x/", "/y/")]
    assert len(list(folder.iterdir())) == 1


def test_kept_code_is_used(folder: Path, monkeypatch: pytest.MonkeyPatch):
    value("a = 1")
    monkeypatch.setattr(sitecustomize, "_compile", None)
    assert value("a = 1") == 1


def test_a_damaged_file_is_compiled_again(folder: Path):
    value("a = 1")
    next(folder.iterdir()).write_bytes(b"")
    assert value("a = 1") == 1


def test_other_files_and_other_calls_are_the_builtins(folder: Path):
    assert value("a = 1", "/x/b.py") == 1
    assert isinstance(sitecustomize.kept_compile("a = 1", NAME, "exec", ast.PyCF_ONLY_AST), ast.Module)
    assert not folder.exists()


def test_python_reads_the_file_where_its_folder_is_on_the_path():
    code = "import builtins; print(builtins.compile.__name__)"
    environment = {"PYTHONPATH": str(Path(sitecustomize.__file__).parent)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "kept_compile\n"
