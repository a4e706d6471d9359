"""What a cluster file asks of a mirror."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror import cluster_mirror
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.mirror_model import MirrorError
from tests.kit import sentences
from tests.kit.public_keys import ONE, ONE_FINGERPRINT
from tests.unit.mirror.sites import SITE, write_site

SENTENCES = Path(__file__).parent / "sentences.txt"

# Stated, since it is not the key that NVIDIA publishes.
KEYS = f"keys: {{nvidia: n.asc}}\n  fingerprints: {{nvidia: {ONE_FINGERPRINT}}}"


def cluster_of(tmp_path: Path, more: str = "", **changes: str) -> Cluster:
    text = SITE
    for name, value in changes.items():
        lines = [f"  {name}: {value}" if line.startswith(f"  {name}: ") else line for line in text.splitlines()]
        text = "\n".join(lines) + "\n"
    path = tmp_path / "away.bedplate.yml"
    path.write_text(text.replace("@mirror@", more))
    return load(str(path))


def test_the_distributions_own_archive_and_what_compiles_modules_are_part_of_it(tmp_path):
    (system,) = cluster_mirror.systems_of(cluster_of(tmp_path))
    assert (system.name, len(system.sets)) == ("debian-13", 1)
    wanted = {need.name: (need.version, need.part) for need in system.sets[0].needs}
    assert wanted["nvidia-kernel-dkms"] == ("550.163.01-2", "kernel")
    assert wanted["dkms"] == ("*", "build")
    assert wanted["linux-headers-amd64"] == ("*", "build")
    debian, security = system.origins
    assert debian.components == ("main", "contrib", "non-free", "non-free-firmware")
    assert security.suites == ("trixie-security",)
    assert "Pin-Priority: 1001" in system.sets[0].preferences


def test_a_mirror_in_the_file_is_no_origin_of_itself(tmp_path):
    (tmp_path / "mirror.asc").write_text(ONE)
    with_mirror = cluster_of(tmp_path, "mirror: {url: 'http://m.example.org', key: mirror.asc}")
    found = cluster_mirror.systems_of(with_mirror)
    assert [origin.name for origin in found[0].origins] == ["debian", "debian-security"]
    assert found == cluster_mirror.systems_of(cluster_of(tmp_path))


def test_a_set_of_nvidia_has_only_its_own_origins_and_the_distributions_base(tmp_path):
    (tmp_path / "n.asc").write_text(ONE)
    found = cluster_mirror.systems_of(cluster_of(tmp_path, KEYS, source="nvidia", driver='"580"', module="open"))
    components = {origin.name: origin.components for origin in found[0].origins}
    assert components == {"debian": ("main",), "debian-security": ("main",), "nvidia": ()}
    assert found[0].origins[2].key == ONE


def test_keys_that_are_not_there_are_named(tmp_path):
    wanted = cluster_of(tmp_path, "keys: {nvidia: gone.asc}", source="nvidia", driver='"580"', module="open")
    with pytest.raises(MirrorError, match=r"away\.bedplate\.yml:\d+: gpu_stack\.keys\.nvidia: .*/gone\.asc") as caught:
        cluster_mirror.systems_of(wanted)
    sentences.check(
        SENTENCES, "a key that is not there", [one.replace(str(tmp_path), "") for one in caught.value.mistakes]
    )


def test_a_system_with_rpms_is_said_not_to_be_mirrored(tmp_path):
    (tmp_path / "n.asc").write_text(ONE)
    wanted = cluster_of(tmp_path, KEYS, os="rocky-9", source="nvidia", driver='"580"', module="open")
    with pytest.raises(MirrorError, match=r"profile h100: rocky-9 .*rpm") as caught:
        cluster_mirror.systems_of(wanted)
    sentences.check(SENTENCES, "a system with rpms", caught.value.mistakes)


def test_further_packages_are_a_set_of_their_own(tmp_path):
    (system,) = cluster_mirror.systems_of(cluster_of(tmp_path), ["slurmd", "munge=0.5.16-1"])
    assert [(need.name, need.version, need.part) for need in system.sets[1].needs] == [
        ("slurmd", "*", "site"),
        ("munge", "0.5.16-1", "site"),
    ]
    with pytest.raises(MirrorError, match=r"^mirror_packages: '-o x'; .*NAME=VERSION") as caught:
        cluster_mirror.systems_of(cluster_of(tmp_path), ["-o x"])
    sentences.check(SENTENCES, "a package that is an option", caught.value.mistakes)


def test_files_need_an_address_and_a_checksum(tmp_path):
    good = {"url": "https://x.example.org/a.tgz", "sha256": "A" * 64}
    assert [(one.name, one.sha256) for one in cluster_mirror.files_of([good])] == [("a.tgz", "a" * 64)]
    with pytest.raises(MirrorError) as caught:
        cluster_mirror.files_of([good, good, {"url": "ftp://x/", "sha256": "1", "name": "../a", "md5": "1"}])
    assert [text.split(";")[0] for text in caught.value.mistakes] == [
        "mirror_files[1]: name 'a.tgz'",
        "mirror_files[2]: md5",
        "mirror_files[2]: url 'ftp://x/'",
        "mirror_files[2]: sha256 '1'",
        "mirror_files[2]: name '../a'",
    ]
    sentences.check(SENTENCES, "files without an address or a checksum", caught.value.mistakes)


def test_a_directory_in_the_inventory_is_refused(tmp_path):
    cluster = load(str(write_site(tmp_path / "site", "http://m", ONE)))
    assert cluster_mirror.directory_of("", cluster) == Path("/srv/bedplate/mirror/away")
    with pytest.raises(MirrorError, match=rf"{tmp_path}/site/mirror .*{tmp_path}/site\b") as inside:
        cluster_mirror.directory_of(str(tmp_path / "site/mirror"), cluster)
    with pytest.raises(MirrorError, match=r"mirror_directory") as relative:
        cluster_mirror.directory_of("mirror", cluster)
    said = [str(one.value).replace(str(tmp_path), "") for one in (inside, relative)]
    sentences.check(SENTENCES, "a directory in the inventory, and a relative one", said)


TWO = """\
  gb200:
    gpus: {model: gb200, count: 4}
    sockets: 2
    cores_per_socket: 72
    memory_mib: 1024
racks:
  r2: {nodes: "tray[1-2]", profile: gb200}
"""


def test_profiles_of_two_architectures_have_a_repository_each(tmp_path):
    (tmp_path / "n.asc").write_text(ONE)
    text = SITE.replace("racks:\n", TWO).replace("  module: proprietary\n", f"  {KEYS}\n")
    text = text.replace("source: debian", "source: nvidia").replace('"550"', '"595"')
    path = tmp_path / "both.bedplate.yml"
    path.write_text(text.replace("@mirror@", ""))
    more = ["tmux", "linux-image-6.12.107+deb13-amd64", "linux-image-6.12.107+deb13-arm64"]
    plain, arm64 = cluster_mirror.systems_of(load(str(path)), more)
    assert [(one.name, one.architecture) for one in (plain, arm64)] == [
        ("debian-13", "amd64"),
        ("debian-13-arm64", "arm64"),
    ]
    names = [{need.name for need in one.sets[0].needs} for one in (plain, arm64)]
    assert [("linux-headers-amd64" in one, "linux-headers-arm64" in one) for one in names] == [
        (True, False),
        (False, True),
    ]
    assert [("nvidia-imex" in one) for one in names] == [False, True]
    urls = [{origin.name: origin.url.rsplit("/", 2)[1:] for origin in one.origins} for one in (plain, arm64)]
    assert [one["nvidia"] for one in urls] == [["debian13", "x86_64"], ["debian13", "sbsa"]]
    assert urls[0]["debian"] == urls[1]["debian"]
    assert [need.name for need in plain.sets[-1].needs] == more[:2]
    assert [need.name for need in arm64.sets[-1].needs] == [more[0], more[2]]
