"""The real dnf reads signed repositories, before it trusts them; and says which packages no repository has."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command
from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files import manifest as records
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_plan import DesiredFile
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_writer import Keep, apply
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import NodeFilesError
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.dnf_check import DnfCheck
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.foreign_sources import (
    ForeignSources,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.source_change import SourceChange

pytestmark = pytest.mark.tools("dnf", "rpmbuild", "createrepo_c", "gpg")
SPEC = """\
Name: {name}
Version: 1
Release: 1
Summary: For tests
License: GPL-3.0-or-later
BuildArch: noarch
{more}
%description
For tests
%files
"""


def do(*argv: str | Path, home: Path | None = None) -> str:
    environment = {"GNUPGHOME": str(home)} if home else {}
    done = command.run([str(word) for word in argv], environment=environment)
    assert done.code == 0, done.text
    return done.stdout


class Repositories:
    """A folder of rpms that one of two keys signed, and an empty one."""

    def __init__(self, base: Path) -> None:
        self.base, self.folder, self.empty, self.home = base, base / "signed", base / "empty", base / "g"
        self.home.mkdir(mode=0o700)
        for folder in (self.folder, self.empty):
            folder.mkdir()
        for name, more in (("thing", ""), ("needy", "Requires: made-elsewhere")):
            spec = base / f"{name}.spec"
            spec.write_text(SPEC.format(name=name, more=more))
            do("rpmbuild", "-bb", "--quiet", "--define", f"_topdir {base}/build", spec)
        for rpm in (base / "build").rglob("*.rpm"):
            rpm.rename(self.folder / rpm.name)
        for folder in (self.folder, self.empty):
            do("createrepo_c", "--quiet", folder)
        gpg = ["gpg", "--batch", "--quiet", "--pinentry-mode", "loopback"]
        self.keys = {}
        for name in ("owner", "stranger"):
            address = f"{name}@example.org"
            do(*gpg, "--passphrase", "", "--quick-generate-key", address, "rsa2048", "sign", "never", home=self.home)
            self.keys[name] = do(*gpg, "--armor", "--export", address, home=self.home)
        signed = [*gpg, "--local-user", "owner@example.org", "--armor", "--detach-sign"]
        do(*signed, self.folder / "repodata/repomd.xml", home=self.home)
        do("gpgconf", "--kill", "gpg-agent", home=self.home)


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Repositories:
    return Repositories(tmp_path_factory.mktemp("d"))


class Machine:
    """A machine with its own repositories, cache and keys of dnf."""

    def __init__(self, base: Path, repositories: Repositories) -> None:
        self.yum, self.cache, self.state, self.root = base / "yum", base / "cache", base / "bedplate", base / "root"
        self.repositories = repositories
        self.yum.mkdir()
        self.key = base / "RPM-GPG-KEY-bedplate-nvidia"
        self.calls: list[list[str]] = []

    def run(self, argv: list[str]) -> Outcome:
        """Run dnf with its own system; rpm's records are empty."""
        self.calls.append(argv)
        own = [f"--installroot={self.root}", "--releasever=9", "--setopt=module_platform_id=platform:el9"]
        # Debian's dnf-plugins-core has this plugin on, with an unsigned repository of its own.
        own.append("--disableplugin=local")
        own += [f"--setopt=reposdir={self.yum}"] if not any("reposdir" in word for word in argv) else []
        own += [f"--setopt=cachedir={self.cache}"] if not any("cachedir" in word for word in argv) else []
        return command.run([*argv[:1], *own, *argv[1:]])

    @property
    def check(self) -> DnfCheck:
        return DnfCheck(self.yum, self.cache, self.run)

    def wanted(self, key: str, name: str = "bedplate-nvidia") -> list[DesiredFile]:
        text = (
            f"[{name}]\nname=x\nbaseurl=file://{self.repositories.folder}\nenabled=1\ngpgcheck=1\nrepo_gpgcheck=1\n"
            f"gpgkey=file://{self.key}\nskip_if_unavailable=0\n"
        )
        return [
            DesiredFile(str(self.key), content=self.repositories.keys[key].encode()),
            DesiredFile(str(self.yum / f"{name}.repo"), content=text.encode()),
        ]

    def deploy(self, wanted: list[DesiredFile], check: bool = False) -> dict[str, Any]:
        foreign = ForeignSources(self.state, check, yum=self.yum, run=self.run)

        def write(files: list[DesiredFile], keep: Keep) -> dict[str, Any]:
            return apply("gpu_driver.sources", files, self.state, check, True, str(self.state), keep=keep)

        return SourceChange("gpu_driver", self.state, foreign, True, write, self.check).apply(wanted, {})

    def files(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in (*self.yum.iterdir(), self.key) if path.is_file()}

    def reads(self) -> bool:
        """Return whether dnf reads the list of packages of all its repositories, as anybody calls it."""
        return self.run(["dnf", "--quiet", "--assumeyes", "--refresh", "makecache"]).code == 0


@pytest.fixture
def machine(tmp_path: Path, repositories: Repositories) -> Iterator[Machine]:
    found = Machine(tmp_path, repositories)
    yield found
    # gpg's agents of dnf's keyrings.
    for home in tmp_path.rglob("pubring"):
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False, timeout=60, capture_output=True)


def test_a_key_that_did_not_sign_leaves_no_repository(machine: Machine) -> None:
    with pytest.raises(NodeFilesError) as failure:
        machine.deploy(machine.wanted("stranger"))
    first, second = failure.value.problems
    assert first.startswith("dnf refuses these repositories: ")
    assert "GPG" in first
    assert str(machine.key) in second
    assert machine.files() == {}
    assert records.load(machine.state) == {}
    assert not any((machine.state / "take_back").glob("*"))
    assert machine.reads()


def test_a_wrong_key_gives_way_to_the_old_one(machine: Machine) -> None:
    machine.deploy(machine.wanted("owner"))
    before, recorded = machine.files(), records.load(machine.state)
    assert machine.reads()
    with pytest.raises(NodeFilesError):
        machine.deploy(machine.wanted("stranger"))
    assert (machine.files(), records.load(machine.state)) == (before, recorded)
    assert machine.reads()


def test_dnf_reads_only_what_has_changed_and_nothing_in_check_mode(machine: Machine) -> None:
    machine.deploy(machine.wanted("owner"), check=True)
    assert machine.calls == []
    machine.deploy(machine.wanted("owner"))
    assert len(machine.calls) == 1
    assert not machine.deploy(machine.wanted("owner"))["changed"]
    assert len(machine.calls) == 1


def test_a_broken_repository_of_others_is_none_of_our_business(machine: Machine) -> None:
    (machine.yum / "broken.repo").write_text("[broken]\nname=x\nbaseurl=file:///srv/nowhere\nskip_if_unavailable=0\n")
    assert not machine.reads()
    assert machine.deploy(machine.wanted("owner"))["changed"]
    assert "bedplate-nvidia.repo" in machine.files()


def test_a_withdrawn_key_is_trusted_no_longer(machine: Machine) -> None:
    machine.deploy(machine.wanted("owner"))
    assert machine.reads()
    (keyring,) = machine.cache.glob("bedplate-nvidia-*/pubring")
    # dnf itself keeps it, and reads what only the old key proves.
    machine.key.write_text(machine.repositories.keys["stranger"])
    machine.run(["dnf", "--quiet", "clean", "all"])
    assert machine.reads()
    machine.key.write_text(machine.repositories.keys["owner"])
    machine.check.forget_keys(machine.wanted("owner"))
    assert not keyring.exists()
    machine.key.write_text(machine.repositories.keys["stranger"])
    assert not machine.reads()


def test_a_changed_key_forgets_the_old_one(machine: Machine) -> None:
    machine.deploy(machine.wanted("owner"))
    assert machine.reads()
    (keyring,) = machine.cache.glob("bedplate-nvidia-*/pubring")
    both = [
        DesiredFile(one.path, content=one.content + machine.repositories.keys["stranger"].encode())
        if one.path == str(machine.key)
        else one
        for one in machine.wanted("owner")
    ]
    machine.deploy(both)
    assert not keyring.exists()
    assert machine.reads()


@pytest.mark.parametrize("code", [None, command.NOT_STARTED])
def test_no_answer_is_no_refusal(machine: Machine, code: int | None) -> None:
    check = DnfCheck(machine.yum, machine.cache, lambda _argv: Outcome(code, "", ""))
    assert check.refused(machine.wanted("stranger")) == ""


def repository(machine: Machine, folder: Path) -> None:
    (machine.yum / "distribution.repo").write_text(
        f"[distribution]\nname=x\nbaseurl=file://{folder}\ngpgcheck=0\nskip_if_unavailable=0\n"
    )


def test_a_package_that_no_repository_has(machine: Machine) -> None:
    repository(machine, machine.repositories.empty)
    assert machine.check.lacking(["thing"], []) == ["thing: no enabled repository has it"]
    # Where ours will be, though its key is not trusted yet.
    assert machine.check.lacking(["thing"], [f"file://{machine.repositories.folder}"]) == []
    repository(machine, machine.repositories.folder)
    assert machine.check.lacking(["thing"], []) == []
    # Nothing was installed to find out.
    assert command.run(["rpm", "--root", str(machine.root), "--query", "thing"]).code != 0


def test_a_dependency_that_no_repository_has(machine: Machine) -> None:
    repository(machine, machine.repositories.folder)
    (line,) = machine.check.lacking(["needy"], [])
    assert line == "needy-1-1.noarch needs made-elsewhere: no enabled repository has it"


def test_a_repository_that_cannot_be_read_is_for_the_installation_to_say(machine: Machine) -> None:
    repository(machine, Path("/srv/nowhere"))
    assert machine.check.lacking(["thing"], []) == []
