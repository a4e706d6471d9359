"""Two keys that are made at once, and stand-ins of NVIDIA's repositories that may gain a version."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror import signing
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.signing import Signer
from lab.vendor import repository
from tests.unit.gpu_index.sites import GAINED, OLDER, SYSTEMS, VendorSite


@pytest.fixture(scope="session")
def signer() -> Signer:
    return _key("an archive")


@pytest.fixture(scope="session")
def stranger() -> Signer:
    return _key("somebody else")


def _key(name: str) -> Signer:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signing, "ALGORITHM", "ed25519")
        return signing.signer(signing.generate(name))


@pytest.fixture(scope="session")
def stages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the repositories as they are first, and with a version that the table does not have, signed by the same keys."""
    top = tmp_path_factory.mktemp("stages")
    repository.build(top, SYSTEMS, drivers=OLDER)
    shutil.copytree(top / "public", top / "first")
    repository.build(top, SYSTEMS, drivers=OLDER, more_drivers=[GAINED])
    return {"first": top / "first", "later": top / "public"}


@pytest.fixture
def site(tmp_path: Path, stages: dict[str, Path]) -> VendorSite:
    return VendorSite(tmp_path, stages)
