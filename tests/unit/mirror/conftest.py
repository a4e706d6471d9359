"""One key for an origin and one for the mirror, of a kind that is made at once."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror import signing
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.signing import Signer
from tests.unit.mirror.origins import Archive, Deb


@pytest.fixture(scope="session")
def origin_key() -> Signer:
    return _key("an origin")


@pytest.fixture(scope="session")
def mirror_key() -> Signer:
    return _key("a test")


def _key(name: str) -> Signer:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signing, "ALGORITHM", "ed25519")
        return signing.signer(signing.generate(name))


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, origin_key: Signer) -> Archive:
    found = Archive(tmp_path_factory.mktemp("origin"), origin_key)
    found.add(
        Deb("driver", "1:2.0-1", "library (= 2.0-1), helper | other-helper"),
        Deb("driver", "1:2.1-1", "library (= 2.1-1), helper | other-helper"),
        Deb("library", "2.0-1", content="two"),
        Deb("library", "2.1-1"),
        Deb("helper", "1"),
        Deb("toolkit", "1.18.2-1", "libtool"),
        Deb("real-libtool", "3+x~1", more="Provides: libtool\n"),
        Deb("unneeded", "1"),
    )
    return found


@pytest.fixture
def archive(tmp_path: Path, built: Archive) -> Archive:
    """An origin of this test's own."""
    shutil.copytree(built.directory, tmp_path / "origin")
    return Archive(tmp_path / "origin", built.signer, list(built.debs))
