# SPDX-License-Identifier: GPL-3.0-or-later
"""apt sees the new release's pins for a call alone; old packages are kept, and installed again without a start of a daemon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages import fetched
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.fetched import Fetch, FetchError

SIMULATED = """NOTE: This is only a simulation!
Inst libslurm45 (26.05.5-1 Debian:unstable [amd64])
Inst slurmd [24.11.5-4] (26.05.5-1 Debian:unstable [amd64]) []
Inst slurm-client [24.11.5-4] (26.05.5-1 Debian:unstable [amd64])
Remv slurm-wlm-old [24.11.5-4]
Conf slurmd (26.05.5-1 Debian:unstable [amd64])
"""
URIS = """'http://deb.debian.org/debian/pool/s/slurmd_26.05.5-1_amd64.deb' slurmd_26.05.5-1_amd64.deb 1000 SHA256:1
'http://deb.debian.org/debian/pool/s/libslurm45_26.05.5-1_amd64.deb' libslurm45_26.05.5-1_amd64.deb 500 SHA256:2
"""


class Apt:
    """A fake apt: it answers by verb, and keeps its calls with the preferences that it saw."""

    def __init__(self, code: int = 0, offered: str = "") -> None:
        self._code, self._offered = code, offered
        self.calls: list[list[str]] = []
        self.preferences: list[dict[str, str]] = []

    def __call__(self, argv: Sequence[str], *_seconds: float, cwd: Path | None = None, **_more: Any) -> Outcome:
        self.calls.append(list(argv))
        for one in argv:
            if one.startswith("Dir::Etc::PreferencesParts="):
                folder = Path(one.partition("=")[2])
                self.preferences.append({path.name: path.read_text() for path in folder.iterdir()})
        if argv[0] == "apt-cache":
            return Outcome(0, self._offered, "")
        if self._code:
            return Outcome(self._code, "Reading package lists...", "E: Version '26.05.*' for 'slurmd' was not found")
        if "download" in argv and cwd:
            name, _, version = argv[-1].partition("=")
            (cwd / f"{name}_{version.replace(':', '%3a')}_amd64.deb").write_text("x")
        return Outcome(0, SIMULATED if "--simulate" in argv else URIS if "--print-uris" in argv else "", "")


@pytest.fixture
def preferences(tmp_path: Path) -> Path:
    folder = tmp_path / "preferences.d"
    folder.mkdir()
    (folder / "bedplate-slurm").write_text("24.11.*")
    (folder / "site").write_text("site")
    return folder


def test_a_change_is_predicted_with_other_pins(preferences: Path):
    apt = Apt()
    found = Fetch(["slurmd=26.05.*"], "bedplate-slurm", "26.05.*", apt, preferences).change()
    assert found.installed == {
        "libslurm45": ("", "26.05.5-1"),
        "slurmd": ("24.11.5-4", "26.05.5-1"),
        "slurm-client": ("24.11.5-4", "26.05.5-1"),
    }
    assert (list(found.removed), found.size) == (["slurm-wlm-old"], 1500)
    assert apt.preferences == [{"bedplate-slurm": "26.05.*", "site": "site"}] * 2
    assert (preferences / "bedplate-slurm").read_text() == "24.11.*"
    assert all({"--simulate", "--print-uris"} & set(one) for one in apt.calls)


def test_nothing_to_change_asks_nothing(preferences: Path):
    apt = Apt()
    assert Fetch([], "x", "y", apt, preferences).change().installed == {}
    assert apt.calls == []


def test_apts_words_are_in_the_error(preferences: Path):
    with pytest.raises(FetchError, match=r"slurmd=26.05.*: E: Version '26.05.\*' for 'slurmd' was not found"):
        Fetch(["slurmd=26.05.*"], "bedplate-slurm", "26.05.*", Apt(code=100), preferences).download()


def test_a_download_installs_nothing(preferences: Path):
    apt = Apt()
    Fetch(["slurmd=26.05.*"], "bedplate-slurm", "26.05.*", apt, preferences).download()
    assert [("--download-only" in one, "install" in one) for one in apt.calls] == [(True, True)]


def test_old_packages_in_a_repository_or_in_apts_archives_can_be_had(tmp_path: Path):
    offered = " slurmd | 24.11.5-4 | http://deb.debian.org/debian trixie/main amd64 Packages\n"
    (tmp_path / "munge_1%3a0.5-1_amd64.deb").write_text("x")
    packages = {"slurmd": "24.11.5-4", "munge": "1:0.5-1", "sackd": "24.11.5-4"}
    assert fetched.not_to_be_had(packages, Apt(offered=offered), tmp_path) == ["sackd=24.11.5-4"]


def test_packages_are_kept_once(tmp_path: Path):
    archives, folder = tmp_path / "archives", tmp_path / "kept"
    archives.mkdir()
    folder.mkdir()
    (archives / "slurmd_24.11.5-4_amd64.deb").write_text("cached")
    apt = Apt()
    packages = {"slurmd": "24.11.5-4", "munge": "1:0.5-1"}
    assert fetched.keep(packages, folder, apt, archives)
    assert sorted(one.name for one in folder.iterdir()) == ["munge_1%3a0.5-1_amd64.deb", "slurmd_24.11.5-4_amd64.deb"]
    assert (folder / "slurmd_24.11.5-4_amd64.deb").read_text() == "cached"
    assert not fetched.keep(packages, folder, apt, archives)
    assert len(apt.calls) == 1


def test_a_download_that_leaves_no_file_is_an_error(tmp_path: Path):
    """On the way back it would be missing."""
    with pytest.raises(FetchError, match=r"apt-get download slurmd=24\.11\.5-4"):
        fetched.keep({"slurmd": "24.11.5-4"}, tmp_path, lambda *_, **__: Outcome(0, "", ""), tmp_path)


def test_kept_packages_start_no_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its data is restored only afterwards."""
    order: list[str] = []

    @contextmanager
    def quiet() -> Iterator[None]:
        order.append("no starts")
        yield
        order.append("starts")

    def run(argv: Sequence[str], *_: object, **__: object) -> Outcome:
        order.append(argv[0])
        return Outcome(0, "", "")

    (tmp_path / "slurmd_24.11.5-4_amd64.deb").write_text("x")
    monkeypatch.setattr(fetched, "no_starts", quiet)
    fetched.install_kept({"slurmd": "24.11.5-4"}, tmp_path, run)
    assert order == ["no starts", "apt-get", "starts"]


def test_a_missing_kept_package_installs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "slurmd_24.11.5-4_amd64.deb").write_text("x")
    apt = Apt()
    with pytest.raises(FetchError, match="no package of munge"):
        fetched.install_kept({"slurmd": "24.11.5-4", "munge": "1"}, tmp_path, apt)
    assert apt.calls == []


@pytest.mark.parametrize("had", [True, False])
def test_no_daemon_starts_meanwhile(tmp_path: Path, had: bool):
    policy = tmp_path / "policy-rc.d"
    if had:
        policy.write_text("the site's")
    with fetched.no_starts(policy):
        assert "exit 101" in policy.read_text()
        assert policy.stat().st_mode & 0o111
    assert policy.exists() is had
    assert [one.read_text() for one in tmp_path.iterdir()] == ["the site's"][: int(had)]
