"""Programs of module_utils on nodes: the files of one never hide those of another, of whichever release."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common import shipped

PROGRAMS = (
    "tuning.apply_tuning",
    "rdma.apply_rdma",
    "gpu.mig_program",
    "gpu_settings.apply_settings",
    "health.agent.node_health",
    "health.control.health_control",
    "health.exporter.slurm_exporter",
    "provision.order_server",
)
HEALTH = "ansible_collections.bedplate.cluster.plugins.module_utils.health"
OF_RELEASE_0_1_0 = "/usr/local/lib/bedplate/lib"


def folders(program: str) -> set[str]:
    return {str(parent) for path, _text in shipped.files(program) for parent in PurePosixPath(path).parents}


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_files_of_a_program_are_in_its_library(program: str):
    paths = [path for path, _text in shipped.files(program)]
    assert len(paths) > 3
    assert [path for path in paths if not path.startswith(f"{shipped.library(program)}/ansible_collections/")] == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_only_root_may_write_to_the_folders_from_which_root_runs_a_program(program: str):
    found = {one["path"]: one for one in shipped.entries(program)}
    assert [path for path, _text in shipped.files(program) if "content" not in found[path]] == []
    below = {folder for folder in folders(program) if f"{folder}/".startswith(f"{shipped.library(program)}/")}
    stated = {path: (one["owner"], one["group"], one["mode"]) for path, one in found.items() if "content" not in one}
    assert stated == dict.fromkeys(below, ("root", "root", "0755"))


@pytest.mark.parametrize(
    "code",
    [
        f"import {HEALTH}.agent.node_health; from {HEALTH}.tables import thresholds, xid_tables; "
        "thresholds.default(); xid_tables.xids(); xid_tables.sxids(); xid_tables.line_rows()",
        f"import {HEALTH}.probes.run_probe",
    ],
)
def test_the_health_agent_has_its_tables_and_probes_on_a_node(tmp_path: Path, code: str):
    """The files of a node have no __init__.py: there, tables are read by their path."""
    for path, text in shipped.files("health.agent.node_health"):
        file = tmp_path / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    library = tmp_path / shipped.library("health.agent.node_health").lstrip("/")
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, env={"PYTHONPATH": str(library)}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_programs_share_no_library_with_each_other_nor_with_an_older_release():
    """Roles are updated one after the other: with a shared one, gpu/devices.py of 0.1.0 hid the folder gpu/devices."""
    libraries = [shipped.library(program) for program in PROGRAMS]
    assert len({*libraries, OF_RELEASE_0_1_0}) == len(PROGRAMS) + 1
    for library in (*libraries, OF_RELEASE_0_1_0):
        assert sum(library in folders(program) for program in PROGRAMS) == (library != OF_RELEASE_0_1_0)


@pytest.mark.parametrize("program", PROGRAMS)
def test_no_file_of_a_program_has_the_name_of_a_folder_beside_it(program: str):
    modules = {path.removesuffix(".py") for path, _text in shipped.files(program)}
    assert modules & folders(program) == set()


def _with_the_parser(module: str, text: str) -> Iterator[str]:
    """Yield all that a module of module_utils imports from there, as modules or names of them."""
    package = module.split(".")[:-1]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1] + (node.module.split(".") if node.module else [])
            yield from (".".join([*base, alias.name]) for alias in node.names)


def test_imports_that_are_read_without_a_parser_are_those_that_python_finds():
    """A module that is not found is missing on the node, and the program does not start."""
    folder = Path(shipped.__file__).parents[2] / "module_utils"
    modules = {
        ".".join(path.relative_to(folder).with_suffix("").parts): path.read_text() for path in folder.rglob("*.py")
    }
    assert len(modules) > 100
    for module, text in modules.items():
        parsed = {one if one in modules else one.rpartition(".")[0] for one in _with_the_parser(module, text)}
        assert set(shipped.imported(module, text)) == parsed, module


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from . import files, text\n", ["common.files", "common.text"]),
        ("from .files import (  # comment\n    atomic_write,  # text\n    read as text,\n)\n", ["common.files"]),
        ("from ..tuning.boot import cmdline_tokens as tokens\n", ["tuning.boot.cmdline_tokens"]),
        (f"def f():\n    from {shipped._PACKAGE}.common import text\n", ["common.text"]),
        ("from os import path\n>>> from .files import no\n", []),
    ],
)
def test_each_form_of_an_import_is_read(text: str, expected: list[str]):
    assert shipped.imported("common.remedies", text) == expected
