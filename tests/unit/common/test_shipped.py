"""Programs of module_utils on nodes: the files of one never hide those of another, of whichever release."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common import shipped

PROGRAMS = ("tuning.apply_tuning", "rdma.apply_rdma", "gpu.mig_program")
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
