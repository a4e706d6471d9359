# SPDX-License-Identifier: GPL-3.0-or-later
"""gpg reports VALIDSIG for a signature of an expired or revoked key as well: only GOODSIG is a good one."""

from __future__ import annotations

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_index import signatures
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_index.index_model import IndexReadError

VALID = "VALIDSIG 0218AAAA 2026-11-20 1795132800 0 4 0 22 8 00 0218AAAA"


def require(*lines: str) -> None:
    status = "".join(f"[GNUPG:] {line}\n" for line in lines)
    signatures._require("http://m.example.org/InRelease", Outcome(0, status, ""))


@pytest.mark.parametrize(
    ("word", "why"), [("EXPKEYSIG", "has expired"), ("REVKEYSIG", "was revoked"), ("EXPSIG", "has expired")]
)
def test_a_signature_that_no_longer_counts_proves_nothing(word: str, why: str) -> None:
    with pytest.raises(IndexReadError, match=why):
        require("NEWSIG", f"{word} 97A5D4CB8793F200 an archive", VALID)
    # An archive may have a newer key beside it.
    require(
        "NEWSIG", f"{word} 97A5D4CB8793F200 an archive", VALID, "NEWSIG", "GOODSIG 97A5D4CB8793F201 an archive", VALID
    )
