"""What compiles a driver: fetched once for each image, and never half."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from lab import archives, image, paths
from lab.host import choose
from lab.podman import Podman
from lab.shell import LabError
from tests.kit import sentences

SENTENCES = Path(__file__).parent / "sentences.txt"


class Fetching(Podman):
    """Podman whose containers fetch a package, as long as there is one."""

    def __init__(self) -> None:
        super().__init__(choose("v2", True))
        self.runs: list[tuple[str, ...]] = []
        self.gone = False

    def __call__(self, *args: str, stdin: str | bytes | None = None, why: str = "", timeout: float = 300) -> str:
        self.runs.append(args)
        out = Path(next(arg for arg in args if arg.startswith("--volume=")).removeprefix("--volume=").partition(":")[0])
        (out / "dkms_1_all.deb").touch()
        (out / "lock").touch()
        if self.gone:
            raise LabError(why)
        return ""


@pytest.fixture
def podman(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fetching:
    monkeypatch.setattr(archives, "image_cache", lambda: tmp_path)
    monkeypatch.setattr(image, "ensure", lambda _podman, release: f"image:{release}")
    return Fetching()


def test_packages_are_fetched_by_the_image_of_the_release_once(podman: Fetching, tmp_path: Path) -> None:
    folder = archives.ensure(podman, "bookworm")
    assert archives.ensure(podman, "bookworm") == folder
    assert [path.name for path in folder.iterdir()] == ["dkms_1_all.deb"]
    assert len(podman.runs) == 1
    assert "image:bookworm" in podman.runs[0]
    assert {"--download-only", "dkms", "linux-headers-amd64"} <= set(podman.runs[0])
    assert archives.links(folder) == {"var/cache/apt/archives/dkms_1_all.deb": "/srv/debian/dkms_1_all.deb"}


def test_a_fetch_that_failed_leaves_nothing_and_says_what_to_do(podman: Fetching, tmp_path: Path) -> None:
    podman.gone = True
    with pytest.raises(LabError, match="`python3 -m lab down --all`") as caught:
        archives.ensure(podman, "trixie")
    sentences.check(SENTENCES, "packages that are not there any more", [caught.value])
    assert list(tmp_path.iterdir()) == []


def test_the_oldest_of_a_release_go_and_those_of_others_stay(podman: Fetching, tmp_path: Path) -> None:
    for name in ("archives-a", "archives-b", "archives-c", "archives-bookworm-a"):
        (tmp_path / name).mkdir()
    archives.ensure(podman, "trixie")
    left = {path.name for path in tmp_path.iterdir()}
    assert len(left) == image.KEPT + 1
    assert {"archives-bookworm-a", f"archives-{image.tag('trixie')}"} <= left


def test_another_process_waits_for_an_image_that_is_being_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = tmp_path / "bedplate/lock"
    with paths.one_at_a_time(), file.open("w") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with file.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
