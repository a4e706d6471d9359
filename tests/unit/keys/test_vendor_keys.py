"""The table of the keys with which owners sign, against the table of repositories."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack import stack_table
from ansible_collections.bedplate.cluster.plugins.plugin_utils.keys import openpgp, vendor_keys

PAGE = Path(__file__).parents[3] / "docs/gpu-stack.md"
TABLE = Path(vendor_keys.__file__).with_name("vendor_keys.json")


def test_every_row_says_what_it_is_and_where_it_is_from() -> None:
    repositories = {row.name: row for row in stack_table.default().repositories}
    for row in json.loads(TABLE.read_text())["keys"]:
        assert set(row["systems"]) <= set(repositories[row["repository"]].systems)
        assert row["from"]
        assert isinstance(row["verified"], bool)
        assert ("fingerprint" in row) != ("ends" in row)
        assert re.fullmatch(
            r"[0-9A-F]{40}" if "fingerprint" in row else r"[0-9A-F]{8}", row.get("fingerprint") or row["ends"]
        )
        # Eight digits are no proof, so such a row cannot be a verified one.
        assert not ("ends" in row and row["verified"])


def test_a_repository_has_one_key_on_a_system() -> None:
    named = [(row.repository, system) for row in vendor_keys.table() for system in row.systems]
    assert len(named) == len(set(named))
    needed = {
        (row.name, system) for row in stack_table.default().repositories if not row.keyring for system in row.systems
    }
    assert set(named) == needed


@pytest.mark.parametrize(
    ("repository", "system", "fingerprint", "fits"),
    [
        ("nvidia", "ubuntu-24.04", "EB693B3035CD5710E231E123A4B469963BF863CC", True),
        ("nvidia", "debian-12", "EB693B3035CD5710E231E123A4B469963BF863CC", True),
        ("nvidia", "debian-13", "02182E60104FCDC26EAE1B8597A5D4CB8793F200", True),
        ("nvidia", "debian-13", "EB693B3035CD5710E231E123A4B469963BF863CC", False),
        ("nvidia", "rocky-9", "610C7B14E068A878070DA4E99CD0A493D42D0685", True),
        ("nvidia", "rocky-9", "000000000000000000000000000000003BF863CC", False),
        ("nvidia", "rocky-10", "00000000000000000000000000000000CDF6BA43", True),
        ("nvidia", "rocky-10", "610C7B14E068A878070DA4E99CD0A493D42D0685", False),
        ("container-toolkit", "rocky-10", "C95B321B61E88C1809C4F759DDCAE044F796ECB0", True),
    ],
)
def test_which_key_signs_which_system(repository: str, system: str, fingerprint: str, fits: bool) -> None:
    key = vendor_keys.key_of(repository, system)
    assert key is not None
    assert key.fits(fingerprint) is fits


def test_a_distribution_signs_with_its_own_keyring() -> None:
    assert vendor_keys.key_of("debian", "debian-13") is None


def test_the_page_has_each_of_them() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if re.match(r"\| (nvidia|container-toolkit) \|", line)]
    assert len(rows) == len(vendor_keys.table())
    for key, row in zip(vendor_keys.table(), rows, strict=True):
        assert f"| {key.repository} |" in row
        assert f"`{openpgp.written(key.fingerprint or key.ends)}`" in row
