"""The lock: one index gives one lock, and no node changes before somebody updates it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.gpu_stack_checks import version_mistakes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.role_choices import role_choices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_index import resolve_lock
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_index.index_model import IndexReadError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_index.resolve_lock import LockReport, UnmetError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_lock import lock_document
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts.part_plan import LOCKED, software_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.render import render_part
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.decisions import HostRequest, decide
from tests.kit.decided import decided
from tests.kit.public_keys import TWO_FINGERPRINT
from tests.unit.gpu_index.sites import GAINED, VendorSite

pytestmark = pytest.mark.tools("gpg", "createrepo_c")
PARTS = (("gpu_driver", "driver"), ("cuda", ""), ("dcgm", ""), ("container_runtime", "toolkit"))


def resolve(site: VendorSite, mode: str = "missing", check: bool = False) -> LockReport:
    return resolve_lock.resolve(site.cluster(), mode, check=check)


def node(site: VendorSite, host: str) -> list[Any]:
    """Return all that a node gets."""
    return [decided(role, site.file, host, part) for role, part in PARTS]


def driver(site: VendorSite, host: str) -> str:
    found = software_of(site.cluster(), host)
    assert found is not None
    return found.stack.driver


def test_two_resolves_from_one_index_give_one_lock(site):
    first = resolve(site)
    assert first.changed
    text = site.lock.read_bytes()
    site.lock.unlink()
    assert resolve(site).sha256 == first.sha256
    assert site.lock.read_bytes() == text
    # Nor does an update change it.
    again = resolve(site, "update")
    assert (again.changed, again.lines) == (False, [])
    assert site.lock.read_bytes() == text


def test_an_index_that_gained_a_version_changes_no_node_until_update(site):
    resolve(site)
    hosts = ("deb1", "rpm1")
    text, before = site.lock.read_bytes(), {host: node(site, host) for host in hosts}
    site.become("later")
    report = resolve(site)
    assert (report.changed, site.lock.read_bytes()) == (False, text)
    assert {host: node(site, host) for host in hosts} == before
    # A node that is installed weeks later gets what the first one got.
    assert node(site, "deb2") == before["deb1"]
    assert [driver(site, host) for host in hosts] == ["580.65.06", "580.65.06"]

    report = resolve(site, "update")
    assert report.changed
    assert "libcuda1 580.65.06-1 -> 580.999.10-1 (deb)" in report.lines
    assert "nvidia-fabricmanager 580.65.06-1.el9 -> 580.999.10-1.el9 (rpm)" in report.lines
    assert not [line for line in report.lines if line.startswith(("libnccl2", "datacenter"))]
    assert [driver(site, host) for host in hosts] == [GAINED, GAINED]
    for host in hosts:
        assert node(site, host) != before[host]


def test_a_version_that_no_table_has_needs_no_row(site):
    site.become("later")
    site.write('driver: "580"', f'driver: "{GAINED}"')
    # Without a lock it is not known; the file can be read all the same, so that a run can write one.
    assert [GAINED in line and "playbooks/gpu_resolve.yml" in line for line in version_mistakes(site.cluster())] == [
        True,
        True,
    ]
    resolve(site)
    assert version_mistakes(site.cluster()) == []
    assert driver(site, "deb1") == GAINED


def test_a_version_that_the_lock_does_not_have_is_a_mistake_with_its_remedy(site):
    resolve(site)
    site.become("later")
    site.write('driver: "580"', f'driver: "{GAINED}"')
    found = version_mistakes(site.cluster())
    assert len(found) == 2
    assert "gpu_resolve=update" in found[0]
    assert "which has 580.65.06, 590.48.01" in found[0]


def test_all_versions_of_a_set_are_exact(site):
    resolve(site)
    for host in ("deb1", "rpm1"):
        for part in node(site, host):
            loose = [one for one in part["packages"] if "*" in one.partition("=")[2]]
            assert loose in ([], ["kernel-devel=*"]), host
    (cuda,) = (one for one in node(site, "deb1") if one.get("manifest") == "cuda")
    # What the toolkit consists of has versions of its own.
    assert "libcublas-12-9=12.9.1.4-1" in cuda["follow"]
    assert "cuda-12-9" not in json.dumps([one.get("follow") for one in node(site, "deb1")])


def test_check_mode_predicts_the_lock_and_writes_none(site, tmp_path, monkeypatch):
    monkeypatch.setattr(lock_document, "_predictions", {})
    lock_document.keep_predictions_in(tmp_path)
    report = resolve(site, check=True)
    assert (report.changed, site.lock.exists()) == (True, False)
    predicted = lock_document.predicted_path_of(site.file)
    assert predicted is not None
    try:
        # Later tasks of the run use it.
        assert driver(site, "deb1") == "580.65.06"
    finally:
        predicted.unlink()
    assert driver(site, "deb1") == "580.126.09"
    resolve(site)
    site.become("later")
    assert GAINED in str(resolve(site, "update", check=True).lines)
    assert driver(site, "deb1") == "580.65.06"
    predicted.unlink()


def test_all_repositories_that_cannot_be_read_are_told_at_once_and_nothing_is_written(site):
    for part in ("nvidia/debian-13", "toolkit/debian-13"):
        (site.directory / "public" / part / "InRelease").unlink()
    (site.directory / "public/nvidia/rocky-9/repodata/repomd.xml.asc").write_text("x")
    with pytest.raises(IndexReadError) as caught:
        resolve(site)
    assert [line.partition(":")[0] for line in caught.value.mistakes[:3]] == [
        "debian-13, repository nvidia",
        "debian-13, repository container-toolkit",
        "rocky-9, repository nvidia",
    ]
    assert "gpu_resolve: 'off'" in caught.value.mistakes[-1]
    assert not site.lock.exists()


def test_a_key_with_another_fingerprint_than_the_stated_one_writes_no_lock(site):
    site.write(more=f"  fingerprints: {{nvidia: {TWO_FINGERPRINT}}}\n")
    with pytest.raises(IndexReadError) as caught:
        resolve(site)
    assert TWO_FINGERPRINT[:4] in caught.value.mistakes[0]
    assert "gpu_stack.keys.nvidia" in caught.value.mistakes[0]
    assert not site.lock.exists()


def test_an_owners_repository_without_a_key_is_not_read(site):
    # The nodes have a mirror, so the cluster file needs no key of an owner.
    site.write(
        ", container-toolkit: keys/toolkit.asc", "", '  mirror: {url: "http://m.example.org/gpu", key: none.asc}\n'
    )
    with pytest.raises(IndexReadError, match="no key for repository 'container-toolkit'"):
        resolve_lock.resolve(site.cluster(), "missing", origins=True)
    assert not site.lock.exists()


def test_an_index_without_a_driver_writes_no_lock(site):
    site.write("nvidia: keys/nvidia.asc", "nvidia: keys/toolkit.asc")
    site.file.write_text(site.file.read_text().replace("/public/nvidia/", "/public/toolkit/"))
    with pytest.raises(IndexReadError) as caught:
        resolve(site)
    assert "debian-13: no driver of nvidia is complete in these indexes: " in caught.value.mistakes[0]
    assert not site.lock.exists()


def edit(site: VendorSite, **packages: tuple[str, ...]) -> None:
    """Give packages of debian-13 other versions in the lock, with its right digest; a package without versions goes."""
    lock = lock_document.read(site.file)
    assert lock is not None
    source = lock.systems["debian-13"]["nvidia"]
    assert set(packages) <= set(source.packages)
    changed = {name: versions for name, versions in {**source.packages, **packages}.items() if versions}
    systems = {**lock.systems, "debian-13": {"nvidia": replace(source, packages=changed)}}
    lock_document.write(site.lock, lock_document.lock_of(systems))


def test_a_package_that_was_built_again_alone_keeps_the_version_of_the_others(site):
    resolve(site)
    edit(site, libcuda1=("580.65.06-2", "580.65.06-1"))
    found = software_of(site.cluster(), "deb1")
    assert found is not None
    assert dict(found.stack.pinned)["libcuda1"] == "580.65.06-1"


@pytest.mark.parametrize("name", ["libnvidia-container1", "datacenter-gpu-manager-4-core"])
def test_a_package_of_a_set_that_no_index_has_is_a_mistake(site, name):
    resolve(site)
    assert version_mistakes(site.cluster()) == []
    edit(site, **{name: ()})
    (line,) = version_mistakes(site.cluster())
    assert name in line
    assert "gpu_resolve=update" in line


def test_off_reads_nothing(site):
    (site.directory / "public/nvidia/debian-13/InRelease").unlink()
    assert not resolve(site, "off").changed
    assert not site.lock.exists()


def test_off_says_which_versions_are_used(site):
    assert "bedplate's table" in resolve(site, "off").msg
    resolve(site)
    assert f"the versions of {site.lock} are used" in resolve(site, "off").msg


def test_an_update_replaces_a_lock_that_is_no_text(site):
    resolve(site)
    text = site.lock.read_text()
    site.lock.write_bytes(b"\xff\x00\xfe")
    assert resolve(site, "update").changed
    assert site.lock.read_text() == text


def test_a_lock_that_was_edited_is_refused_and_an_update_mends_it(site):
    resolve(site)
    text = site.lock.read_text()
    site.lock.write_text(text.replace("580.65.06", "580.95.05"))
    (line,) = version_mistakes(site.cluster())
    assert line.startswith(f"{site.lock}: sha256: ")
    assert "edited by hand" in line
    assert "gpu_resolve=update" in line
    with pytest.raises(lock_document.LockError):
        resolve(site)
    assert resolve(site, "update").changed
    assert site.lock.read_text() == text


def test_a_system_that_the_lock_does_not_have_is_a_mistake(site):
    site.write("r2: {nodes: rpm1, profile: rpm}", "r2: {nodes: deb3, profile: deb}")
    text = site.file.read_text()
    start, end = text.index("  rpm:"), text.index("racks:")
    site.file.write_text(text[:start] + text[end:])
    resolve(site)
    site.write()
    (line,) = version_mistakes(site.cluster())
    assert "the lock has no versions of nvidia on rocky-9" in line
    assert not resolve(site).changed
    assert resolve(site, "update").changed
    assert version_mistakes(site.cluster()) == []


def test_two_addresses_of_one_repository_are_refused(site):
    text = site.file.read_text()
    extra = (
        text[text.index("  deb:") : text.index("  rpm:")]
        .replace("  deb:", "  other:")
        .replace("/public/", "/elsewhere/")
    )
    site.file.write_text(
        text.replace("  rpm:", f"{extra}  rpm:", 1).replace("r1: {", "r0: {nodes: other1, profile: other}\n  r1: {")
    )
    with pytest.raises(IndexReadError) as caught:
        resolve(site)
    assert "profile other: repository nvidia of debian-13" in caught.value.mistakes[0]


def test_a_module_of_gpudirect_has_the_version_of_the_index_and_one_of_the_site_its_own(site):
    site.write(more="  gpudirect: [nvidia-fs, gdrcopy=2.5.1]\n")
    resolve(site)
    cuda = decided("cuda", site.file, "deb1")
    assert {"nvidia-fs-dkms=2.26.6-1", "gdrdrv-dkms=2.5.1-*"} <= set(cuda["packages"])
    proof = decided("gpu_driver", site.file, "deb1", "driver")["steps"]["gpu_facts"]["proof"]
    assert [one["packages"] for one in proof["further"]] == [
        {"nvidia-fs-dkms": "2.26.6-1"},
        {"gdrdrv-dkms": "2.5.1-*"},
    ]
    # A version that no index has is refused by name, before any node is touched.
    site.write(more="  gpudirect: [nvidia-fs=2.99.1]\n")
    assert all("nvidia-fs-dkms 2.99.1-*" in line for line in version_mistakes(site.cluster()))
    assert len(version_mistakes(site.cluster())) == 2


ALL_PARTS = (("gpu_driver", "prepare"), *PARTS)


def obstacles(site: VendorSite, by_table: bool = False) -> list[Any]:
    """Return what stops each part that installs packages by a version."""
    request = HostRequest(site.cluster(), "deb1", {}, gpu_by_table=by_table)
    found = []
    for role, part in ALL_PARTS:
        choices = role_choices(role, {}, lambda value: value)
        parts = decide(role, replace(request, choices=choices)).parts
        name = part if role == "gpu_driver" else role
        found.append(render_part(role, name, parts[name])["obstacle"])
    return found


def marker(site: VendorSite) -> list[str]:
    files = decided("gpu_driver", site.file, "deb1", "driver")["files"]
    return [entry["content"] for entry in files if entry["path"] == LOCKED]


def test_a_lost_lock_stops_each_part_on_the_nodes_that_were_installed_from_it(site):
    assert marker(site) == []
    # A new site without a lock: nothing stops a node that has no such file.
    assert {one["path"] for one in obstacles(site)} == {LOCKED}
    resolve(site)
    assert obstacles(site) == [None] * len(ALL_PARTS)
    (text,) = marker(site)
    assert site.lock.name in text
    site.lock.unlink()
    assert marker(site) == []
    for one in obstacles(site):
        assert one["path"] == LOCKED
        assert str(site.lock) in one["advice"]
        assert lock_document.UPDATE in one["advice"]
        assert "gpu_resolve: 'off'" in one["advice"]
    assert obstacles(site, by_table=True) == [None] * len(ALL_PARTS)


@pytest.mark.parametrize("check", [True, False])
def test_an_update_that_loses_the_stated_version_is_refused_and_the_lock_before_stays(
    site, tmp_path, monkeypatch, check
):
    monkeypatch.setattr(lock_document, "_predictions", {})
    lock_document.keep_predictions_in(tmp_path)
    site.become("later")
    site.write('driver: "580"', f'driver: "{GAINED}"')
    assert resolve(site).changed
    text = site.lock.read_bytes()
    site.become("first")
    with pytest.raises(UnmetError) as caught:
        resolve(site, "update", check=check)
    lines = [line for line in caught.value.mistakes if "[unknown-driver]" in line]
    assert [line.partition("profile ")[2].partition(":")[0] for line in lines] == ["deb", "rpm"]
    # The repositories were just read.
    assert "gpu_resolve=update" not in str(caught.value)
    assert "The lock before stays in force" in caught.value.mistakes[-1]
    assert site.lock.read_bytes() == text
    assert not list(tmp_path.glob("bedplate-*"))
    assert driver(site, "deb1") == GAINED


@pytest.mark.parametrize("check", [True, False])
def test_a_first_lock_with_which_a_profile_cannot_be_installed_is_not_written(site, tmp_path, monkeypatch, check):
    monkeypatch.setattr(lock_document, "_predictions", {})
    lock_document.keep_predictions_in(tmp_path)
    site.write('driver: "580"', f'driver: "{GAINED}"')
    with pytest.raises(UnmetError, match=r"\[unknown-driver\]") as caught:
        resolve(site, check=check)
    assert "No lock exists" in caught.value.mistakes[-1]
    assert lock_document.in_force(site.file) is None


def test_a_lock_that_lacks_the_stated_version_stays_with_the_warnings_of_validate(site):
    resolve(site)
    site.write('driver: "580"', f'driver: "{GAINED}"')
    report = resolve(site)
    assert not report.changed
    assert len(report.warnings) == 2
    assert report.warnings == version_mistakes(site.cluster())


def test_a_key_that_nothing_was_compared_with_is_shown_when_its_index_is_read(site):
    report = resolve(site)
    assert report.changed
    assert any("gpu_stack.keys.nvidia" in line for line in report.warnings)
    # No index is read, so no key is.
    assert resolve(site).warnings == []


@pytest.mark.parametrize("name", ["libcuda1", "nvidia-persistenced"])
def test_a_lock_without_a_whole_driver_is_a_mistake_and_an_update_mends_it(site, name):
    resolve(site)
    text = site.lock.read_text()
    edit(site, **{name: ()})
    # The file can be read all the same, or no update could run.
    (line,) = version_mistakes(site.cluster())
    assert "the lock has no whole driver of nvidia on debian-13" in line
    assert "gpu_resolve=update" in line
    assert resolve(site, "update").changed
    assert site.lock.read_text() == text
