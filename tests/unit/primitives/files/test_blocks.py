"""Lines of ours inside a file of somebody else."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files import file_writer
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.blocks import placed, without_block
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_plan import DesiredFile
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import NodeFilesError
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
TEXT = b"account required pam_nologin.so\n@include common-account\nsession required pam_loginuid.so\n"
OURS = b"# bedplate demo: begin\naccount required pam_slurm_adopt.so\n# bedplate demo: end\n"


def apply(tmp_path: Path, *wanted: DesiredFile, manifest: str = "demo", check: bool = False) -> dict:
    return file_writer.apply(manifest, list(wanted), tmp_path / "state", check, True, "")


def block(path: Path, content: str = "account required pam_slurm_adopt.so\n", **keys) -> DesiredFile:
    return DesiredFile(
        str(path), state="block", content=content.encode(), after="^@include common-account", mode="", **keys
    )


@pytest.fixture
def sshd(tmp_path: Path) -> Path:
    path = tmp_path / "sshd"
    path.write_bytes(TEXT)
    path.chmod(0o640)
    return path


def test_it_comes_after_the_line_changes_in_place_and_goes_without_a_trace(tmp_path: Path, sshd: Path) -> None:
    assert apply(tmp_path, block(sshd))["changed_files"] == [str(sshd)]
    assert sshd.read_bytes() == TEXT.replace(b"@include common-account\n", b"@include common-account\n" + OURS)
    assert sshd.stat().st_mode & 0o777 == 0o640
    assert not apply(tmp_path, block(sshd))["changed"]
    assert apply(tmp_path, block(sshd, "other"))["changed"]
    assert sshd.read_bytes().count(b"bedplate demo") == 2
    assert b"\nother\n# bedplate demo: end\nsession" in sshd.read_bytes()
    assert apply(tmp_path)["changed_files"] == [str(sshd)]
    assert sshd.read_bytes() == TEXT


def test_check_mode_shows_the_lines_and_writes_nothing(tmp_path: Path, sshd: Path) -> None:
    result = apply(tmp_path, block(sshd), check=True)
    assert result["changed_files"] == [str(sshd)]
    assert "pam_slurm_adopt" in result["diff"][0]["after"]
    assert sshd.read_bytes() == TEXT
    missing = apply(tmp_path, block(tmp_path / "absent"), check=True)
    assert missing["changed_files"] == [str(tmp_path / "absent")]
    (unchecked,) = missing["unchecked"]
    assert str(tmp_path / "absent") in unchecked
    sentences.check(
        SENTENCES, "lines for a file that is missing, in check mode", [unchecked.replace(str(tmp_path), "")]
    )


def test_a_file_that_is_not_there_or_is_written_as_a_whole_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NodeFilesError, match=f"^{tmp_path}/absent: ") as absent:
        apply(tmp_path, block(tmp_path / "absent"))
    whole = tmp_path / "whole"
    apply(tmp_path, DesiredFile(str(whole), content=b"x\n"), manifest="owner")
    with pytest.raises(NodeFilesError, match=f"^{whole}: .* owner ") as caught:
        apply(tmp_path, block(whole))
    assert whole.read_bytes() == b"x\n"
    found = [str(one.value).replace(str(tmp_path), "") for one in (absent, caught)]
    sentences.check(SENTENCES, "lines for a file that is missing or is written as a whole", found)


def test_two_manifests_have_a_block_each(tmp_path: Path, sshd: Path) -> None:
    apply(tmp_path, block(sshd, "one"))
    apply(tmp_path, block(sshd, "two"), manifest="other")
    apply(tmp_path)
    assert b"\none\n" not in sshd.read_bytes()
    assert b"\ntwo\n" in sshd.read_bytes()
    apply(tmp_path, manifest="other")
    assert sshd.read_bytes() == TEXT


def test_without_its_last_mark_nothing_of_others_is_lost() -> None:
    broken = OURS.replace(b"# bedplate demo: end\n", b"") + TEXT
    assert TEXT in placed(broken, "demo", b"x\n", "")


@given(
    st.lists(st.sampled_from(["a", "b", "", "# c"])),
    st.lists(st.sampled_from(["x", "", "y"]), min_size=1),
    st.sampled_from(["", "a", "z"]),
)
def test_taking_out_undoes_placing(lines: list[str], ours: list[str], after: str) -> None:
    text = "".join(line + "\n" for line in lines).encode()
    put = placed(text, "demo", "\n".join(ours).encode() + b"\n", after)
    assert without_block(put, "demo") == text
    assert placed(put, "demo", "\n".join(ours).encode() + b"\n", after) == put
