"""The real apt with a snapshot's repositories alone: what an upgrade offers, up and down, and what stays."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages import upgrades
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.snapshot_view import SnapshotView
from tests.kit.apt_root import AptRoot

PIN = "Package: *\nPin: release l=bedplate-snapshot\nPin-Priority: 1001\n"


def paragraph(name: str, version: str, more: str = "") -> str:
    return (
        f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: x <x@example.org>\n{more}Filename: {name}.deb\n"
        f"Size: 1\nSHA256: {'0' * 64}\nDescription: x\n"
    )


def repository(folder: Path, kind: str, *packages: str) -> str:
    """Write a flat repository, and return a source for it; who signed it is not of this test."""
    place = folder / kind
    place.mkdir(parents=True, exist_ok=True)
    (place / "Packages").write_text("\n".join(packages))
    (place / "Release").write_text(
        f"Label: bedplate-snapshot\nOrigin: bedplate\nSuite: {kind}\nDate: Thu, 01 Jan 2026 00:00:00 UTC\n"
    )
    return f"Types: deb\nURIs: {place.as_uri()}\nSuites: ./\nTrusted: yes\n"


@pytest.fixture
def root(tmp_path: Path) -> AptRoot:
    found = AptRoot(tmp_path / "machine")
    # The machine's own sources have a newer version of everything, and are not those of the snapshot.
    source = repository(tmp_path / "own", "own", paragraph("zip", "9"), paragraph("tar", "9"))
    (found.etc / "sources.list.d/own.sources").write_text(source)
    return found


def view_of(root: AptRoot, folder: Path, *kinds: tuple[str, list[str]]) -> SnapshotView:
    found = SnapshotView(lambda argv: _without_sandbox(root, argv), folder / "view")
    sources = {
        f"sources.d/{kind}.sources": repository(folder / "snapshot", kind, *packages) for kind, packages in kinds
    }
    found.write({**sources, "preferences": PIN})
    return found


def _without_sandbox(root: AptRoot, argv: object) -> Outcome:
    return root.run([str(word) for word in argv])  # type: ignore[attr-defined]


def installed(root: AptRoot, *packages: tuple[str, str, str]) -> None:
    rows = [
        f"Package: {name}\nStatus: {status}\nVersion: {version}\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n"
        for name, version, status in packages
    ]
    (root.base / "state/status").write_text("\n".join(rows))


OK, HELD = "install ok installed", "hold ok installed"


def test_packages_go_up_and_down_to_the_snapshot(root: AptRoot, tmp_path: Path) -> None:
    installed(
        root,
        ("zip", "1", OK),
        ("tar", "3", OK),
        ("sed", "1", OK),
        ("driver", "5", HELD),
        ("slurmd", "2", OK),
        ("alone", "1", OK),
    )
    view = view_of(
        root,
        tmp_path,
        ("system", [paragraph(name, "2") for name in ("zip", "tar", "driver", "slurmd")]),
        ("security", [paragraph("sed", "2")]),
    )
    upgrades.refresh("apt", view.run)
    found = upgrades.offered("apt", view.run, exact=True)
    assert {(one.name, one.old, one.new, one.is_security) for one in found} == {
        ("zip", "1", "2", False),
        ("tar", "3", "2", False),
        ("sed", "1", "2", True),
    }
    upgrades.refuse_own_upgrades("apt", found, view.run)


def test_the_machines_own_sources_and_lists_stay_as_they_are(root: AptRoot, tmp_path: Path) -> None:
    installed(root, ("zip", "1", OK))
    # Nor does the file count that older releases have.
    (root.etc / "sources.list").write_text(f"deb [trusted=yes] {(tmp_path / 'own/own').as_uri()} ./\n")
    view = view_of(root, tmp_path, ("system", [paragraph("zip", "1")]))
    upgrades.refresh("apt", view.run)
    assert upgrades.offered("apt", view.run, exact=True) == []
    assert [path.name for path in (root.base / "state/lists").iterdir()] == ["partial"]
    assert [path.name for path in (root.etc / "sources.list.d").iterdir()] == ["own.sources"]


def test_a_former_snapshot_leaves_nothing_in_the_view(root: AptRoot, tmp_path: Path) -> None:
    installed(root, ("zip", "1", OK))
    view_of(root, tmp_path, ("system", [paragraph("zip", "2")]), ("site", [paragraph("zip", "3")]))
    view = view_of(root, tmp_path, ("system", [paragraph("zip", "2")]))
    upgrades.refresh("apt", view.run)
    assert [one.new for one in upgrades.offered("apt", view.run, exact=True)] == ["2"]


def test_a_downgrade_installs_what_it_needs_and_removes_nothing(root: AptRoot, tmp_path: Path) -> None:
    installed(root, ("tool", "3", OK), ("library", "3", OK))
    view = view_of(
        root,
        tmp_path,
        (
            "system",
            [
                paragraph("tool", "2", "Depends: library (= 2), more\n"),
                paragraph("library", "2"),
                paragraph("more", "1"),
            ],
        ),
    )
    upgrades.refresh("apt", view.run)
    found = upgrades.offered("apt", view.run, exact=True)
    assert {(one.name, one.old, one.new) for one in found} == {
        ("tool", "3", "2"),
        ("library", "3", "2"),
        ("more", "", "1"),
    }
    simulated = view.run(
        ["apt-get", "--simulate", "--yes", "--no-remove", "--only-upgrade", "install", "tool=2", "library=2"]
    )
    assert simulated.code == 0, simulated.text
    assert {one.name for one in upgrades.parsed_apt(simulated.stdout)} == {"tool", "library", "more"}


def test_dnf_reads_the_repositories_of_the_view_alone(tmp_path: Path) -> None:
    commands: list[list[str]] = []

    def run(argv: object) -> Outcome:
        commands.append(list(argv))  # type: ignore[call-overload]
        query = "--installed" in commands[-1]
        rows = (
            "zip\tx86_64\t0:3-1\t@System\nslurm-slurmd\tx86_64\t0:1-1\t@System\n"
            if query
            else "zip\tx86_64\t0:2-1\tsnapshot-security\n"
        )
        return Outcome(0, rows, "")

    view = SnapshotView(run, tmp_path / "view")
    view.write({"repos.d/snapshot-system.repo": "[bedplate-snapshot-system]\n"})
    found = upgrades.offered("dnf", view.run, exact=True)
    assert [(one.name, one.old, one.new, one.is_security) for one in found] == [("zip", "0:3-1", "0:2-1", True)]
    upgrades.install("dnf", found, view.run, exact=True)
    assert all(f"--setopt=reposdir={tmp_path}/view/repos.d" in command for command in commands)
    assert commands[-1][-2:] == ["distro-sync", "zip"]


def test_a_dependency_of_a_newer_snapshot_goes_and_everything_else_stays(root: AptRoot, tmp_path: Path) -> None:
    installed(
        root, ("tool", "2", OK), ("more", "1", OK), ("mine", "1", OK), ("needed", "1", OK), ("of-the-snapshot", "1", OK)
    )
    status = root.base / "state/status"
    status.write_text(
        status.read_text().replace("Package: tool\n", "Package: tool\nDepends: more, of-the-snapshot\n", 1)
    )
    automatic = ("more", "needed", "of-the-snapshot")
    rows = "\n".join(f"Package: {name}\nArchitecture: all\nAuto-Installed: 1\n" for name in automatic)
    (root.base / "state/extended_states").write_text(rows)
    packages = [paragraph("tool", "1", "Depends: needed\n"), paragraph("of-the-snapshot", "1")]
    view = view_of(root, tmp_path, ("system", packages))
    upgrades.refresh("apt", view.run)
    found = upgrades.offered("apt", view.run, exact=True)
    # `mine` was installed by a person, and the snapshot has `of-the-snapshot`.
    assert upgrades.surplus("apt", found, view.run) == ["more"]
    # Before the downgrade `tool` needs it.
    assert "more" not in upgrades.surplus("apt", [], view.run)


def test_a_package_that_others_need_is_not_removed_with_them(root: AptRoot, tmp_path: Path) -> None:
    installed(root, ("tool", "2", OK), ("more", "1", OK))
    status = root.base / "state/status"
    status.write_text(status.read_text().replace("Package: tool\n", "Package: tool\nDepends: more\n", 1))
    view = view_of(root, tmp_path, ("system", []))
    with pytest.raises(upgrades.UpgradeError, match="tool would be removed with more"):
        upgrades.remove("apt", ["more"], view.run)
