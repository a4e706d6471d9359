"""A pair of OpenPGP keys, made by the real gpg."""

from __future__ import annotations

import pytest

from tests.kit.backups import Keys, make_keys


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    """A pair of keys with a passphrase."""
    return make_keys(tmp_path_factory.mktemp("keys"))
