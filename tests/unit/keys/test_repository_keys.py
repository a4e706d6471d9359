"""Keys of a cluster file: what is compared before a node trusts them, and what is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts.part_plan import software_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.keys import openpgp, vendor_keys
from ansible_collections.bedplate.cluster.plugins.plugin_utils.keys.repository_keys import judged
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.cluster_mirror import systems_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.mirror_model import MirrorError
from tests.kit import sentences
from tests.kit.public_keys import ONE, ONE_FINGERPRINT, TWO, TWO_FINGERPRINT

SENTENCES = Path(__file__).with_name("sentences.txt")
FILE = """\
plugin: bedplate.cluster.racks
site: s
cluster: c
networks: {management: {cidr: 10.0.0.0/24}}
profiles:
  new: {gpus: {model: h100, count: 1}, sockets: 1, cores_per_socket: 2, memory_mib: 1024}
  old: {gpus: {model: h100, count: 1}, sockets: 1, cores_per_socket: 4, memory_mib: 1024}
racks:
  r1: {nodes: new1, profile: new}
  r2: {nodes: old1, profile: old}
hosts: {ctl1: {address: 10.0.0.10}}
services: {controllers: [ctl1]}
partitions: {all: {nodes: all}}
gpu_stack:
  os: OS
  source: nvidia
  driver: "580"
  KERNEL
  keys: {nvidia: nvidia.asc}
"""
OURS = 'urls: {nvidia: "http://m.example.org/cuda"}'
STATED = f'fingerprints: {{nvidia: "{openpgp.written(ONE_FINGERPRINT)}"}}'
KERNEL = {"rocky-9": "kernel: 5.14.0-503.11.1.el9_5.x86_64", "rocky-10": "kernel: 6.12.0-55.9.1.el10_0.x86_64"}
LINE = FILE[: FILE.index("keys:")].count("\n") + 1


def cluster(folder: Path, *more: str, system: str = "debian-13", key: str = ONE) -> Cluster:
    (folder / "nvidia.asc").write_text(key)
    text = FILE.replace("OS", system).replace("KERNEL", KERNEL.get(system, "cuda: []"))
    path = folder / "c.bedplate.yml"
    path.write_text(text + "".join(f"  {line}\n" for line in more))
    return load(path)


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the first key of the tests for the one that NVIDIA publishes."""
    rows = tuple(
        replace(row, fingerprint=ONE_FINGERPRINT if row.fingerprint else "", ends=row.ends and ONE_FINGERPRINT[-8:])
        for row in vendor_keys.table()
    )
    monkeypatch.setattr(vendor_keys, "table", lambda: rows)


def said(lines: list[str], folder: Path) -> list[str]:
    return [line.replace(f"{folder}/", "") for line in lines]


@pytest.mark.parametrize("system", ["debian-13", "ubuntu-24.04", "rocky-9", "rocky-10"])
def test_a_stated_fingerprint_is_compared_wherever_the_repository_is(tmp_path: Path, system: str) -> None:
    for more in ((STATED,), (STATED, OURS)):
        right = judged(cluster(tmp_path, *more, system=system))
        assert (right.mistakes, right.notices) == ([], [])
        assert right.compared == [f"nvidia {openpgp.written(ONE_FINGERPRINT)}"]
        wrong = judged(cluster(tmp_path, *more, system=system, key=TWO))
        # Both profiles have it.
        (text,) = wrong.mistakes
        assert text.startswith(f"{tmp_path}/c.bedplate.yml:{LINE}: gpu_stack.keys.nvidia: ")
        assert openpgp.written(ONE_FINGERPRINT) in text
        assert openpgp.written(TWO_FINGERPRINT) in text
        assert (wrong.notices, wrong.compared) == ([], [])
    sentences.check(SENTENCES, "a key with another fingerprint than the stated one", said([text], tmp_path))


def test_a_second_key_in_the_file_would_be_trusted_as_well(tmp_path: Path) -> None:
    (text,) = judged(cluster(tmp_path, STATED, key=ONE + TWO)).mistakes
    assert openpgp.written(TWO_FINGERPRINT) in text
    both = f"fingerprints: {{nvidia: [{ONE_FINGERPRINT.lower()}, '0x{TWO_FINGERPRINT}']}}"
    assert judged(cluster(tmp_path, both, key=ONE + TWO)).mistakes == []
    # The new one of two, before the old one is gone.
    assert judged(cluster(tmp_path, both, key=TWO)).mistakes == []


@pytest.mark.parametrize("system", ["debian-12", "debian-13", "ubuntu-22.04", "rocky-9", "rocky-10"])
def test_at_its_owners_address_a_key_is_compared_with_the_published_one(tmp_path: Path, system: str) -> None:
    found = judged(cluster(tmp_path, system=system))
    (text,) = found.mistakes
    row = vendor_keys.key_of("nvidia", system)
    assert row is not None
    for fingerprint in (ONE_FINGERPRINT, row.fingerprint or row.ends):
        assert openpgp.written(fingerprint) in text
    # What a site writes where NVIDIA has a new key.
    assert f'fingerprints: {{nvidia: "{ONE_FINGERPRINT}"}}' in text
    assert judged(cluster(tmp_path, STATED, system=system)).mistakes == []
    sentences.check(SENTENCES, f"another key than NVIDIA's for {system}", said([text], tmp_path))


@pytest.mark.usefixtures("published")
def test_the_published_key_needs_no_word(tmp_path: Path) -> None:
    for more in ((), (OURS,)):
        found = judged(cluster(tmp_path, *more))
        assert (found.mistakes, found.notices) == ([], [])
        # Nobody has read it at NVIDIA.
        assert found.compared == [f"nvidia {openpgp.written(ONE_FINGERPRINT)} (not verified)"]
    assert judged(cluster(tmp_path, system="rocky-9")).compared == [f"nvidia {openpgp.written(ONE_FINGERPRINT)}"]
    # Eight digits are no proof.
    (text,) = judged(cluster(tmp_path, system="rocky-10")).notices
    assert openpgp.written(ONE_FINGERPRINT) in text
    sentences.check(SENTENCES, "a key of which only the end is published", said([text], tmp_path))


@pytest.mark.usefixtures("published")
@pytest.mark.parametrize("system", ["debian-13", "rocky-10"])
def test_a_second_key_beside_the_published_one_is_a_mistake(tmp_path: Path, system: str) -> None:
    for key in (ONE + TWO, TWO + ONE):
        (text,) = judged(cluster(tmp_path, system=system, key=key)).mistakes
        assert f"has the key {openpgp.written(TWO_FINGERPRINT)}." in text


@pytest.mark.usefixtures("published")
def test_a_site_that_signs_with_its_own_key_beside_the_owners_is_shown_both(tmp_path: Path) -> None:
    found = judged(cluster(tmp_path, OURS, key=ONE + TWO))
    (text,) = found.notices
    assert (found.mistakes, found.compared) == ([], [])
    assert openpgp.written(TWO_FINGERPRINT) in text


def test_a_sites_own_key_is_shown_as_long_as_no_fingerprint_is_stated(tmp_path: Path) -> None:
    found = judged(cluster(tmp_path, OURS))
    (text,) = found.notices
    assert (found.mistakes, found.compared) == ([], [])
    assert text.startswith(f"{tmp_path}/c.bedplate.yml:{LINE}: gpu_stack.keys.nvidia: ")
    assert openpgp.written(ONE_FINGERPRINT) in text
    assert f'fingerprints: {{nvidia: "{ONE_FINGERPRINT}"}}' in text
    sentences.check(SENTENCES, "a key of the site's own", said([text], tmp_path))


def test_the_key_of_a_mirror_too(tmp_path: Path) -> None:
    def of(more: str) -> Mapping[str, list[str]]:
        return vars(
            judged(cluster(tmp_path, STATED, f'mirror: {{url: "http://m.example.org/gpu", key: nvidia.asc{more}}}'))
        )

    (text,) = of("")["notices"]
    assert ": gpu_stack.mirror.key: " in text
    assert f'mirror: {{..., fingerprint: "{ONE_FINGERPRINT}"}}' in text
    assert of(f', fingerprint: "{ONE_FINGERPRINT}"')["notices"] == []
    (text,) = of(f", fingerprint: {TWO_FINGERPRINT}")["mistakes"]
    assert openpgp.written(ONE_FINGERPRINT) in text


@pytest.mark.parametrize(
    "text", ["-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQENBF\n-----END PGP PUBLIC KEY BLOCK-----\n"]
)
def test_a_damaged_key_is_a_mistake_of_the_file(tmp_path: Path, text: str) -> None:
    (mistake,) = judged(cluster(tmp_path, OURS, key=text)).mistakes
    assert mistake.startswith(f"{tmp_path}/c.bedplate.yml:{LINE}: gpu_stack.keys.nvidia: {tmp_path}/nvidia.asc ")


def test_no_node_gets_a_key_with_another_fingerprint_whatever_was_checked_before(tmp_path: Path) -> None:
    found = software_of(cluster(tmp_path, STATED, key=TWO), "new1")
    assert found is not None
    with pytest.raises(ValueError, match=openpgp.written(TWO_FINGERPRINT)):
        _ = found.repositories
    found = software_of(cluster(tmp_path, STATED), "new1")
    assert found is not None
    assert [one.key for one in found.repositories] == [ONE]


def test_no_node_gets_the_key_of_a_mirror_with_another_fingerprint(tmp_path: Path) -> None:
    mirror = f'mirror: {{url: "http://m.example.org/gpu", key: nvidia.asc, fingerprint: "{ONE_FINGERPRINT}"}}'
    found = software_of(cluster(tmp_path, mirror, key=TWO), "new1")
    assert found is not None
    with pytest.raises(ValueError, match=openpgp.written(TWO_FINGERPRINT)):
        _ = found.repositories
    found = software_of(cluster(tmp_path, mirror), "new1")
    assert found is not None
    assert [one.key for one in found.repositories] == [ONE]


def test_a_mirror_is_not_filled_from_a_repository_with_another_key(tmp_path: Path) -> None:
    mirror = 'mirror: {url: "http://m.example.org/gpu", key: not-made-yet.asc}'
    with pytest.raises(MirrorError) as failure:
        systems_of(cluster(tmp_path, STATED, mirror, key=TWO))
    assert openpgp.written(TWO_FINGERPRINT) in str(failure.value)
    assert systems_of(cluster(tmp_path, STATED, mirror))


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ("fingerprints: {nvida: " + ONE_FINGERPRINT + "}", "gpu_stack.fingerprints.nvida"),
        ("fingerprints: {container-toolkit: " + ONE_FINGERPRINT + "}", "gpu_stack.fingerprints.container-toolkit"),
        ("fingerprints: {nvidia: " + ONE_FINGERPRINT[-8:] + "}", "gpu_stack.fingerprints.nvidia"),
        ("fingerprints: {nvidia: 1234567890123456789012345678901234567890}", "gpu_stack.fingerprints.nvidia"),
        ("mirror: {url: 'http://m', key: nvidia.asc, fingerprint: x}", "gpu_stack.mirror.fingerprint"),
    ],
)
def test_slips_in_fingerprints_are_mistakes(tmp_path: Path, more: str, where: str) -> None:
    with pytest.raises(ClusterFileError) as caught:
        cluster(tmp_path, more)
    (mistake,) = caught.value.mistakes
    assert mistake.where == where
    sentences.check(SENTENCES, f"a mistake in {where}: {more}", [mistake.message])


def test_a_key_is_not_compared_for_a_profile_that_does_not_read_its_repository(tmp_path: Path) -> None:
    file = cluster(tmp_path, OURS, system="ubuntu-24.04", key=TWO)
    assert (judged(file).mistakes, len(judged(file).notices)) == ([], 1)
    path = tmp_path / "c.bedplate.yml"
    own = "gpu_stack: {source: canonical, urls: {ubuntu: 'http://m.example.org/u', ubuntu-security: 'http://m.example.org/u'}}"
    path.write_text(path.read_text().replace("cores_per_socket: 4,", f"cores_per_socket: 4, {own},"))
    # Canonical's archive alone: its own `urls` do not name NVIDIA's repository, which no node of the profile reads.
    report = judged(load(path))
    assert report.mistakes == []
    assert len(report.notices) == 1
