"""Sources of others beside ours: found before anything is written, set aside, put back; and apt usable after every failure."""

from __future__ import annotations

import errno
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files import manifest as records
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_plan import DesiredFile
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_writer import Keep, apply
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import NodeFilesError
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages import foreign_sources
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.foreign_sources import (
    RECORD,
    ForeignSources,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.source_change import SourceChange
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror import signing
from tests.kit.apt_root import AptRoot

KEYRING = "/usr/share/keyrings/cuda-archive-keyring.gpg"
VENDOR = ["cuda-*.list", "cuda-*.repo"]


class Machine:
    """A machine with apt and dnf, whose repositories are folders."""

    def __init__(self, base: Path) -> None:
        self.apt = AptRoot(base)
        self.yum = base / "yum.repos.d"
        self.state = base / "bedplate"
        self.parts = self.apt.etc / "sources.list.d"
        self.yum.mkdir()
        self.repository = base / "repository"
        self.repository.mkdir()
        (self.repository / "Packages").write_text("")
        self.url = f"file:{self.repository}"
        self.calls: list[str] = []

    @property
    def ours(self) -> DesiredFile:
        """Return our source of the repository, which apt reads."""
        text = f"Types: deb\nURIs: {self.url}\nSuites: /\nTrusted: yes\nSigned-By: /etc/ours.gpg\n"
        return DesiredFile(str(self.parts / "bedplate-nvidia.sources"), content=text.encode())

    @property
    def signed(self) -> DesiredFile:
        """Return our source of the repository, with a key that has not signed it."""
        text = f"Types: deb\nURIs: {self.url}\nSuites: /\nSigned-By: /etc/ours.gpg\n"
        return DesiredFile(str(self.parts / "bedplate-nvidia.sources"), content=text.encode())

    def run(self, argv: list[str]) -> Outcome:
        self.calls.append(" ".join(argv))
        return self.apt.run(argv)

    def change(self, check: bool = False) -> SourceChange:
        foreign = ForeignSources(self.state, check, apt=self.apt.etc, yum=self.yum, run=self.run)

        def write(wanted: list[DesiredFile], keep: Keep) -> dict[str, Any]:
            return apply("gpu_driver.sources", wanted, self.state, check, True, str(self.state), keep=keep)

        return SourceChange("gpu_driver", self.state, foreign, True, write)

    def deploy(
        self, *wanted: DesiredFile, policy: str = "vendor", check: bool = False, alone: bool = False
    ) -> dict[str, Any]:
        return self.change(check).apply(list(wanted), {"policy": policy, "vendor": VENDOR, "alone": alone})

    def files(self) -> dict[str, str]:
        """Return all that apt and dnf read."""
        paths = [self.apt.etc / "sources.list", *self.parts.iterdir(), *self.yum.iterdir()]
        return {path.name: path.read_text() for path in paths if path.is_file()}

    def reads(self) -> bool:
        """Return whether apt reads its sources."""
        return self.apt.run(["apt-get", "indextargets"]).code == 0


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def keyring_list(machine: Machine) -> Path:
    """Write the source that cuda-keyring brings."""
    path = machine.parts / "cuda-debian12-x86_64.list"
    path.write_text(f"deb [signed-by={KEYRING}] {machine.url}/ /\n")
    path.chmod(0o644)
    return path


def test_the_file_of_the_vendors_package_is_moved_aside_and_put_back(machine: Machine) -> None:
    theirs = keyring_list(machine)
    before = machine.files()
    predicted = machine.deploy(machine.ours, check=True)
    assert machine.files() == before
    done = machine.deploy(machine.ours)
    assert sorted(machine.files()) == ["bedplate-nvidia.sources"]
    assert machine.reads()
    for key in ("changed", "changed_files", "removed", "changes"):
        assert predicted[key] == done[key]
    assert (done["removed"], [one.partition(": ")[0] for one in done["changes"]]) == ([str(theirs)], [f"{theirs}:1"])
    assert [one["after"] for one in done["diff"] if one["before_header"] == f"before: {theirs}"] == [""]
    # A second run finds nothing more to do, and asks apt nothing.
    machine.calls.clear()
    again = machine.deploy(machine.ours)
    assert (again["changed"], machine.calls) == (False, [])
    predicted = machine.deploy(check=True)
    gone = machine.deploy()
    assert machine.files() == before
    assert theirs.stat().st_mode & 0o777 == 0o644
    assert predicted["changed_files"] == gone["changed_files"] == [str(theirs)]
    assert not (machine.state / RECORD).exists()


def test_sources_that_are_alone_set_all_others_aside_until_they_go(machine: Machine) -> None:
    (machine.parts / "site.list").write_text(f"deb {machine.url}/other ./\n")
    (machine.apt.etc / "sources.list").write_text(f"# of the image\ndeb {machine.url}/image ./\n")
    (machine.yum / "site.repo").write_text("[site]\nbaseurl=http://m/x\n")
    before = machine.files()
    predicted = machine.deploy(machine.ours, policy="take_over", alone=True, check=True)
    assert machine.files() == before
    done = machine.deploy(machine.ours, policy="take_over", alone=True)
    assert (predicted["changed_files"], predicted["removed"]) == (done["changed_files"], done["removed"])
    there = machine.files()
    assert there["sources.list"] == f"# of the image\n# deb {machine.url}/image ./\n"
    # dnf has no source of ours here.
    assert sorted(there) == ["bedplate-nvidia.sources", "site.repo", "sources.list"]
    assert not machine.deploy(machine.ours, policy="take_over", alone=True)["changed"]
    # A package that was installed since has brought its source.
    (machine.parts / "late.list").write_text(f"deb {machine.url}/late ./\n")
    assert machine.deploy(machine.ours, policy="take_over", alone=True)["removed"] == [str(machine.parts / "late.list")]
    machine.deploy()
    assert {name: machine.files()[name] for name in before} == before


def test_repositories_of_dnf_that_are_alone_switch_all_others_off(machine: Machine) -> None:
    other = machine.yum / "site.repo"
    other.write_text("[site]\nbaseurl=http://m/x\n\n[off]\nbaseurl=http://m/y\nenabled=0\n")
    path = machine.yum / "bedplate-snapshot-system.repo"
    ours = DesiredFile(str(path), content=b"[bedplate-snapshot-system]\nbaseurl=http://m/s\n")
    found = ForeignSources(machine.state, check=False, apt=machine.apt.etc, yum=machine.yum).found(
        [ours], (), alone=True
    )
    assert [(one.path, one.lines[0]) for one in found] == [(str(other), 1)]


def refuse(monkeypatch: pytest.MonkeyPatch, name: str, path: Path) -> None:
    """Let the kernel refuse a function of Path for one file, as for an immutable one."""
    usual = getattr(Path, name)

    def refusing(self: Path, *arguments: Any, **more: Any) -> Any:
        if path in (self, *arguments):
            raise PermissionError(errno.EPERM, "Operation not permitted", str(path))
        return usual(self, *arguments, **more)

    monkeypatch.setattr(Path, name, refusing)


def test_where_one_file_cannot_be_moved_aside_the_others_are_back(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = keyring_list(machine)
    second = machine.parts / "cuda-ubuntu2404-x86_64.list"
    second.write_text(theirs.read_text())
    before = machine.files()
    refuse(monkeypatch, "unlink", second)
    with pytest.raises(NodeFilesError, match=str(second)):
        machine.deploy(machine.ours)
    assert machine.files() == before
    monkeypatch.undo()
    assert machine.deploy(machine.ours)["removed"] == [str(theirs), str(second)]


def test_a_file_that_cannot_be_put_back_stays_on_record(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = keyring_list(machine)
    before = machine.files()
    machine.deploy(machine.ours)
    usual = foreign_sources.atomic_write

    def refusing(path: Path, *arguments: Any, **more: Any) -> None:
        if path == theirs:
            raise PermissionError(errno.EPERM, "Operation not permitted", str(path))
        usual(path, *arguments, **more)

    monkeypatch.setattr(foreign_sources, "atomic_write", refusing)
    with pytest.raises(NodeFilesError, match=RECORD):
        machine.deploy()
    monkeypatch.undo()
    machine.deploy()
    assert machine.files() == before


def test_line_ends_of_another_system_are_put_back_as_they_were(machine: Machine) -> None:
    theirs = keyring_list(machine)
    theirs.write_bytes(theirs.read_bytes().replace(b"\n", b"\r\n"))
    before = theirs.read_bytes()
    machine.deploy(machine.ours)
    assert not theirs.exists()
    machine.deploy()
    assert theirs.read_bytes() == before


def test_the_record_is_for_root_alone_since_a_source_may_have_a_password(machine: Machine) -> None:
    path = keyring_list(machine)
    path.write_text(path.read_text() + "# deb https://me:secret@m.example.org /\n")
    machine.deploy(machine.ours)
    record = machine.state / RECORD
    assert record.stat().st_mode & 0o777 == 0o600
    assert "me:secret" in record.read_text()


@pytest.mark.parametrize("policy", ["vendor", "refuse"])
@pytest.mark.parametrize(
    ("name", "rest"),
    [
        # By an installer, by a person, and in a file with the vendor's name to which the site has added more.
        ("sources.list", "deb http://deb.example.org/debian trixie main\n"),
        ("sources.list.d/cuda.list", ""),
        ("sources.list.d/cuda-mine.list", "deb http://m.example.org/mine /\n"),
    ],
)
def test_any_other_source_is_refused_with_file_and_line_before_anything_is_written(
    machine: Machine, policy: str, name: str, rest: str
) -> None:
    path = machine.apt.etc / name
    path.write_text(f"{rest}\ndeb [signed-by=/other.gpg] {machine.url} /\n")
    before = machine.files()
    for check in (True, False):
        with pytest.raises(NodeFilesError) as failure:
            machine.deploy(machine.ours, policy=policy, check=check)
        (problem,) = failure.value.problems
        line = 2 + bool(rest)
        assert problem.startswith(f"{path}:{line}: ")
        assert "foreign_sources: take_over" in problem
        assert (machine.files(), machine.calls, records.load(machine.state)) == (before, [], {})
    assert machine.reads()


def test_every_source_in_the_way_is_named_at_once(machine: Machine) -> None:
    for name in ("a.list", "z.list"):
        (machine.parts / name).write_text(f"deb [signed-by=/other.gpg] {machine.url} /\n")
    keyring_list(machine)
    with pytest.raises(NodeFilesError) as failure:
        machine.deploy(machine.ours)
    assert [one.partition(": ")[0] for one in failure.value.problems] == [
        f"{machine.parts}/a.list:1",
        f"{machine.parts}/z.list:1",
    ]
    # The one that could be set aside stays too.
    assert len(machine.files()) == 3


def test_entries_of_a_file_with_others_are_switched_off_in_it_and_on_again(machine: Machine) -> None:
    plain, deb822 = machine.apt.etc / "sources.list", machine.parts / "site.sources"
    plain.write_text(f"# ours\ndeb [trusted=yes] file:/srv/other /\ndeb [signed-by=/other.gpg] {machine.url} /\n")
    deb822.write_text(
        f"Types: deb\nURIs: file:/srv/third\nSuites: /\nTrusted: yes\n\n# CUDA\nTypes: deb\nURIs: {machine.url}\nSuites: /\n"
        "Enabled: yes\nSigned-By: /third.gpg\n"
    )
    before = machine.files()
    done = machine.deploy(machine.ours, policy="take_over")
    assert {str(plain), str(deb822)} < set(done["changed_files"])
    after = machine.files()
    assert after["sources.list"] == before["sources.list"].replace("deb [signed-by=/other", "# deb [signed-by=/other")
    assert "# CUDA\nEnabled: no\nTypes: deb\n" in after["site.sources"]
    assert "Enabled: yes" not in after["site.sources"]
    assert machine.reads()
    assert not machine.deploy(machine.ours, policy="take_over")["changed"]
    machine.deploy()
    assert machine.files() == before


def test_a_file_that_was_changed_since_is_not_put_back(machine: Machine) -> None:
    plain = machine.apt.etc / "sources.list"
    plain.write_text(f"deb [signed-by=/other.gpg] {machine.url} /\n")
    machine.deploy(machine.ours, policy="take_over")
    plain.write_text("# by hand\n")
    done = machine.deploy()
    assert plain.read_text() == "# by hand\n"
    assert list(done["kept"]) == [str(plain)]
    assert not (machine.state / RECORD).exists()


def test_it_stays_aside_as_long_as_another_part_writes_our_source(machine: Machine) -> None:
    keyring_list(machine)
    machine.deploy(machine.ours)
    apply("cuda.sources", [machine.ours], machine.state, False, False, str(machine.state))
    machine.deploy()
    assert sorted(machine.files()) == ["bedplate-nvidia.sources"]
    assert list(json.loads((machine.state / RECORD).read_text())) == [str(machine.parts / "cuda-debian12-x86_64.list")]


def test_a_source_that_apt_refuses_leaves_everything_as_it_was(machine: Machine) -> None:
    keyring_list(machine)
    before = machine.files()
    with pytest.raises(NodeFilesError) as failure:
        machine.deploy(machine.signed)
    assert machine.url.removeprefix("file:") in str(failure.value)
    assert "as before" in str(failure.value)
    assert machine.files() == before
    assert machine.reads()
    assert records.load(machine.state) == {}
    assert not (machine.state / RECORD).exists()
    assert not any((machine.state / "take_back").glob("*"))


def test_a_changed_source_that_apt_refuses_gives_way_to_the_old_one(machine: Machine) -> None:
    machine.deploy(machine.ours)
    before, recorded = machine.files(), records.load(machine.state)
    with pytest.raises(NodeFilesError):
        machine.deploy(machine.signed)
    assert (machine.files(), records.load(machine.state)) == (before, recorded)
    assert machine.apt.run(["apt-get", "update"]).code == 0


@pytest.mark.tools("gpg")
def test_a_key_that_did_not_sign_is_refused_where_apt_keeps_its_older_lists(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signing, "ALGORITHM", "ed25519")
    right, wrong = (signing.signer(signing.generate(name)) for name in ("the archive", "somebody else"))
    empty = hashlib.sha256().hexdigest()
    release = f"Origin: x\nDate: Tue, 04 Nov 2025 10:00:00 UTC\nSHA256:\n {empty} 0 Packages\n"
    (machine.repository / "InRelease").write_text(right.sign(release))

    def source(key: str) -> DesiredFile:
        lines = "".join(f" {line or '.'}\n" for line in key.splitlines())
        text = f"Types: deb\nURIs: {machine.url}\nSuites: /\nSigned-By:\n{lines}"
        return DesiredFile(str(machine.parts / "bedplate-nvidia.sources"), content=text.encode())

    machine.deploy(source(right.public))
    before, recorded = machine.files(), records.load(machine.state)
    with pytest.raises(NodeFilesError) as failure:
        machine.deploy(source(wrong.public))
    assert "signature verification" in str(failure.value)
    assert (machine.files(), records.load(machine.state)) == (before, recorded)
    assert machine.apt.run(["apt-get", "update"]).stderr == ""


def test_a_broken_source_of_others_is_none_of_our_business(machine: Machine) -> None:
    (machine.parts / "broken.list").write_text("deb [signed-by=/none.gpg] file:/srv/nowhere /\n")
    assert machine.apt.run(["apt-get", "update"]).code == 100
    assert machine.deploy(machine.ours)["changed"]
    assert "bedplate-nvidia.sources" in machine.files()


def test_the_same_address_under_another_id_of_dnf(machine: Machine) -> None:
    base = "https://m.example.org/cuda/rhel9/x86_64"
    ours = DesiredFile(
        str(machine.yum / "bedplate-nvidia.repo"), content=f"[bedplate-nvidia]\nbaseurl={base}\n".encode()
    )
    theirs = machine.yum / "cuda-rhel9.repo"
    theirs.write_text(f"[cuda-rhel9-x86_64]\nname=cuda\nbaseurl={base}/\nenabled=1\ngpgcheck=0\n")
    mixed = machine.yum / "site.repo"
    mixed.write_text(
        f"[base]\nbaseurl=https://m.example.org/base\n\n[cuda]\nenabled = 1\nbaseurl={base}\n[off]\nbaseurl={base}\nenabled=0\n"
    )
    before = machine.files()
    with pytest.raises(NodeFilesError) as failure:
        machine.deploy(ours)
    (problem,) = failure.value.problems
    assert problem.startswith(f"{mixed}:4: ")
    assert machine.files() == before
    machine.deploy(ours, policy="take_over")
    assert sorted(machine.files()) == ["bedplate-nvidia.repo", "site.repo"]
    assert machine.files()["site.repo"] == before["site.repo"].replace("[cuda]\nenabled = 1\n", "[cuda]\nenabled=0\n")
    assert not machine.deploy(ours)["changed"]
    machine.deploy()
    assert machine.files() == before
