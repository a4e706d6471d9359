# SPDX-License-Identifier: GPL-3.0-or-later
"""The accounts of BMCs in the secrets directory: on the disk before the BMC has them, and saved once they are proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.commission.own_secrets import (
    NodeSecrets,
    OwnSecrets,
    new_password,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import ClusterSecrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.given_secrets import GivenSecrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Account


def own(folder: Path, given: dict[str, str] | None = None, *, make: bool = True) -> OwnSecrets:
    return OwnSecrets(
        ClusterSecrets(GivenSecrets(given or {}, lambda value: value, lambda path: b""), lambda: folder, make)
    )


def test_an_account_is_pending_until_it_is_proved(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    made = own(folder).prepare("gpu01", "bedplate", 0, 0)
    path = folder / "bmc/gpu01.pending"
    assert path.read_text() == f"bedplate:{made.password}"
    assert path.stat().st_mode & 0o777 == 0o400
    assert own(folder).prepare("gpu01", "other", 0, 0) == made
    known, errors = own(folder).read(["gpu01", "gpu02"])
    assert (known, errors) == ({"gpu01": NodeSecrets(pending=made), "gpu02": NodeSecrets()}, {})
    for _again in range(2):
        own(folder).promote("gpu01", made)
        assert [one.name for one in (folder / "bmc").iterdir() if ".known" not in one.name] == ["gpu01"]
    assert own(folder).read(["gpu01"])[0]["gpu01"].own == made


def test_a_given_account_is_not_written(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    given = own(folder, {"bmc/gpu01": "site:own-canary"})
    account = given.read(["gpu01"])[0]["gpu01"].own
    assert account == Account("site", "own-canary")
    given.promote("gpu01", Account("site", "own-canary"))
    assert not folder.exists()


def test_no_secret_is_made_where_none_may_be(tmp_path: Path) -> None:
    with pytest.raises(SecretError, match="secret bmc/gpu01"):
        own(tmp_path / "secrets", make=False).prepare("gpu01", "bedplate", 0, 0)


def test_an_unusable_secret_is_the_error_of_its_node(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    folder.mkdir(mode=0o700)
    (folder / "bmc").mkdir()
    (folder / "bmc/gpu01").write_text("canary")
    (folder / "bmc/gpu01").chmod(0o400)
    known, errors = own(folder).read(["gpu01", "gpu02"])
    assert list(known) == ["gpu02"]
    assert "secret bmc/gpu01: not an account" in str(errors["gpu01"])
    assert "canary" not in str(errors["gpu01"])


def test_signed_certificates_are_noted_until_one_is_on_record(tmp_path: Path) -> None:
    secrets = own(tmp_path / "secrets")
    assert secrets.issued("gpu01") == ()
    for fingerprint in ("ab" * 32, "cd" * 32):
        secrets.note_issued("gpu01", fingerprint)
    assert secrets.issued("gpu01") == ("ab" * 32, "cd" * 32)
    for _again in range(2):
        secrets.forget_issued("gpu01")
    assert secrets.issued("gpu01") == ()


def test_the_note_of_a_signed_certificate_is_private_and_no_link(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    folder.mkdir(mode=0o700)
    secrets = own(folder)
    secrets.note_issued("gpu01", "ab" * 32)
    path = folder / "bmc/.gpu01.issued"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        secrets.note_issued("gpu01", "cd" * 32)


@pytest.mark.parametrize(
    ("shortest", "longest", "length"), [(0, 0, 20), (8, 64, 20), (8, 16, 16), (24, 0, 24), (24, 64, 24)]
)
def test_a_password_fits_the_bounds_and_has_all_kinds_of_signs(shortest: int, longest: int, length: int) -> None:
    made = {new_password(shortest, longest) for _ in range(200)}
    assert len(made) == 200
    for one in made:
        assert len(one) == length
        assert any(sign.isupper() for sign in one)
        assert any(sign.islower() for sign in one)
        assert any(sign.isdigit() for sign in one)
        assert one.count("-") == 1
        assert "-" not in (one[0], one[-1])


def test_a_bmc_that_takes_short_passwords_only_is_refused() -> None:
    with pytest.raises(SecretError, match="at most 10 characters; allowed: 12"):
        new_password(0, 10)


def test_candidates_are_tried_from_the_likely_to_the_factory_s() -> None:
    one, pending, factory = Account("bedplate", "a"), Account("bedplate", "b"), Account("root", "f")
    found = NodeSecrets(one, pending, factory).candidates
    assert found == (one, pending, Account("root", "a"), Account("root", "b"), factory)
    assert NodeSecrets(factory=factory).candidates == (factory,)
    assert NodeSecrets().candidates == ()
    assert NodeSecrets(Account("root", "a"), None, factory).candidates == (Account("root", "a"), factory)
