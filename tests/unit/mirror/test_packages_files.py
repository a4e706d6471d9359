"""Indices, signatures and the key in the secrets directory, each alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretStore
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror import packages_files
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.cluster_mirror import unknown_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.mirror_model import (
    MirrorError,
    MirrorPackage,
    Need,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.mirror_report import size
from tests.kit import sentences

SENTENCES = Path(__file__).parent / "sentences.txt"

GOOD = {"Package": "ab", "Version": "1:2.0-1~x+y", "Architecture": "all", "Size": "1", "SHA256": "0" * 64}


def test_a_paragraph_is_written_as_it_was_read_but_for_its_place_and_weak_sums():
    text = "Package: a\nMD5sum: 1\nDescription: b\n c\n .\n d\nFilename: pool/x.deb\nSHA1: 2\n"
    (fields,) = packages_files.parse(text)
    assert (
        packages_files.text_of(fields, "pool/y.deb") == "Package: a\nDescription: b\n c\n .\n d\nFilename: pool/y.deb\n"
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("Package", "../a"),
        ("Package", "a"),
        ("Version", "1/../2"),
        ("Architecture", "a/b"),
        ("SHA256", "0"),
        ("Size", "-1"),
    ],
)
def test_an_index_with_words_that_are_no_file_names_is_refused(field, value):
    packages_files.check(GOOD)
    with pytest.raises(MirrorError, match=field):
        packages_files.check({**GOOD, field: value})


def test_parts_are_those_that_need_a_package_through_whatever_provides_it():
    found = {
        "a": {"Depends": "b (>= 1), c:any | d"},
        "b": {"Pre-Depends": "virtual"},
        "d": {},
        "e": {"Provides": "x, virtual (= 1)", "Depends": "a"},
        "f": {"Depends": "d"},
    }
    needs = [Need("a", "*", "driver"), Need("f", "*", "cuda")]
    assert packages_files.parts_of(found, needs) == {
        "a": ("driver",),
        "b": ("driver",),
        "d": ("cuda", "driver"),
        "e": ("driver",),
        "f": ("cuda",),
    }


def test_another_file_of_the_same_version_has_another_name():
    one = MirrorPackage("a", "1:2", "all", "", "", 1, "0" * 64, "")
    other = MirrorPackage("a", "1:2", "all", "", "", 1, "1" * 64, "")
    assert (one.file, other.file) == ("pool/a_2_all.00000000.deb", "pool/a_2_all.11111111.deb")


@pytest.mark.tools("gpg")
def test_only_what_the_key_has_signed_is_verified(mirror_key, origin_key):
    signed = mirror_key.sign("a\nb\n")
    assert mirror_key.verified(signed) == "a\nb\n"
    assert mirror_key.verified("before\n" + signed + "after\n") in ("a\nb\n", None)
    assert mirror_key.verified(signed.replace("\nb\n", "\nc\n")) is None
    assert mirror_key.verified(origin_key.sign("a\nb\n")) is None
    assert mirror_key.verified("a\nb\n") is None


@pytest.mark.tools("gpg")
def test_a_message_without_any_signature_is_not_verified(mirror_key):
    stored = subprocess.run(
        ["gpg", "--batch", "--armor", "--store"], input="a\n", capture_output=True, text=True, check=True
    )
    assert "BEGIN PGP MESSAGE" in stored.stdout
    assert mirror_key.verified(stored.stdout) is None


@pytest.mark.tools("gpg")
def test_the_secret_half_is_in_no_repr(mirror_key):
    assert "PRIVATE" in mirror_key.secret
    assert repr(mirror_key) == f"Signer({mirror_key.fingerprint})"


def test_a_secret_that_another_program_makes_is_made_once(tmp_path):
    store = SecretStore(tmp_path / "secrets")
    assert not store.has("signing")
    assert store.keep("signing", lambda: b"one") == b"one"
    assert store.keep("signing", lambda: b"two") == b"one"
    assert store.has("signing")
    assert (tmp_path / "secrets/signing").stat().st_mode & 0o777 == 0o400


def test_a_misspelt_variable_is_named_with_the_nearest():
    (line,) = unknown_variables(["mirror_prune", "mirror_listonly", "gpu_mirror"])
    assert [
        value for value in ("mirror_listonly ", "playbooks/mirror.yml", "mirror_list_only?") if value not in line
    ] == []
    sentences.check(SENTENCES, "a misspelt variable", [line])


def test_sizes_are_for_readers():
    assert size(12_345_678) == "12.3 MB"
