"""A key of a kind that rpm reads."""

from __future__ import annotations

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror import signing
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.signing import Signer


@pytest.fixture(scope="session")
def rsa_key() -> Signer:
    return signing.signer(signing.generate("an origin of rpms"))
