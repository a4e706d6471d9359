"""Two snapshots on a machine: the real apt and dpkg install, upgrade, and return, in a root of their own; verify agrees each time."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.common.sysfs import Root
from ansible_collections.bedplate.cluster.plugins.module_utils.drift import snapshot_packages
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages import upgrades
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.snapshot_view import SnapshotView
from ansible_collections.bedplate.cluster.plugins.plugin_utils.mirror.signing import Signer
from tests.unit.mirror.origins import Archive, Deb
from tests.unit.mirror.snapshots.made import make, order_of, origin_of

pytestmark = pytest.mark.tools("apt-get", "gpg", "dpkg-deb", "dpkg")

OLD, NEW = "2026-11-20", "2026-11-26"
PIN = "Package: *\nPin: release l=bedplate-snapshot\nPin-Priority: 1001\n"


class Machine:
    """A root with dpkg's and apt's records; packages of the test have no scripts, so nothing of this machine runs there."""

    def __init__(self, base: Path, snapshots: Path, key: Signer) -> None:
        self.base, self.snapshots, self.key = base, snapshots, key
        places = (
            "var/lib/dpkg/info",
            "var/lib/dpkg/updates",
            "state/lists/partial",
            "cache/archives/partial",
            "etc/apt",
        )
        for name in (*places, "etc/apt/sources.list.d", "etc/apt/preferences.d", "log"):
            (base / name).mkdir(parents=True, exist_ok=True)
        (base / "var/lib/dpkg/status").touch()
        # Neither settings nor hooks of this machine.
        (base / "apt.conf").write_text('Dir::Etc::main "none";\nDir::Etc::parts "/dev/null/none";\n')

    def run(self, argv: Sequence[str]) -> Outcome:
        words = list(argv)
        options: list[str] = []
        if words[0].startswith("apt-"):
            settings = {
                "Dir::Etc": self.base / "etc/apt",
                "Dir::State": self.base / "state",
                "Dir::State::status": self.base / "var/lib/dpkg/status",
                "Dir::Cache": self.base / "cache",
                "Dir::Log": self.base / "log",
                "APT::Sandbox::User": "root",
                "DPkg::Options::": f"--root={self.base}",
            }
            options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
        elif words[0] == "dpkg-query":
            options = [f"--admindir={self.base}/var/lib/dpkg"]
        environment = {
            "LC_ALL": "C",
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "DEBIAN_FRONTEND": "noninteractive",
            "APT_CONFIG": str(self.base / "apt.conf"),
        }
        done = subprocess.run(
            [words[0], *options, *words[1:]], capture_output=True, text=True, check=False, env=environment
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def url(self, snapshot: str, kind: str) -> str:
        return (self.snapshots / snapshot / "debian-13" / kind).as_uri()

    def source(self, snapshot: str, kind: str) -> str:
        lines = "".join(f" {line or '.'}\n" for line in self.key.public.strip().splitlines())
        return f"Types: deb\nURIs: {self.url(snapshot, kind)}\nSuites: ./\nSigned-By:\n{lines}"

    def choose(self, snapshot: str) -> None:
        """Write the sources of a snapshot, as the role node_os does."""
        for kind in ("system", "security"):
            (self.base / f"etc/apt/sources.list.d/{kind}.sources").write_text(self.source(snapshot, kind))
        (self.base / "etc/apt/preferences.d/snapshot.pref").write_text(PIN)
        assert self.run(["apt-get", "update", "--error-on=any"]).code == 0

    def roll(self, snapshot: str) -> tuple[list[str], list[str]]:
        """Upgrade as the module os_packages does; return what was installed and removed."""
        view = SnapshotView(self.run, self.base / "view")
        files = {f"sources.d/{kind}.sources": self.source(snapshot, kind) for kind in ("system", "security")}
        view.write({**files, "preferences": PIN})
        upgrades.refresh("apt", view.run)
        found = upgrades.offered("apt", view.run, exact=True)
        upgrades.refuse_own_upgrades("apt", found, view.run)
        predicted = upgrades.surplus("apt", found, view.run)
        if found:
            upgrades.install("apt", found, view.run, exact=True)
        removed = upgrades.surplus("apt", [], view.run)
        assert predicted == removed
        upgrades.remove("apt", removed, view.run)
        return sorted(map(str, found)), removed

    @property
    def installed(self) -> dict[str, str]:
        rows = self.run(["dpkg-query", "--show", "--showformat", "${db:Status-Status} ${Package} ${Version}\\n"]).stdout
        return {row.split()[1]: row.split()[2] for row in rows.splitlines() if row.startswith("installed ")}

    def findings(self, snapshot: str) -> list[Finding]:
        urls = {kind: self.url(snapshot, kind) for kind in ("system", "security")}
        expected = {"manager": "apt", "name": snapshot, "urls": urls, "base": f"{self.snapshots.as_uri()}/"}
        return list(snapshot_packages.findings(Root(str(self.base)), expected, self.run))


@pytest.fixture
def machine(tmp_path: Path, origin_key: Signer, mirror_key: Signer) -> Machine:
    system, security = Archive(tmp_path / "system", origin_key), Archive(tmp_path / "security", origin_key)
    system.add(Deb("tool", "1.0", "library (= 1.0)"), Deb("library", "1.0"), Deb("fixed", "1.0"), Deb("kept", "1.0"))
    security.add(Deb("unused", "1"))
    origins = origin_of(system), origin_of(security, "security")
    make(order_of(tmp_path, OLD, *origins), mirror_key)
    system.add(Deb("tool", "1.1", "library (= 1.1), more"), Deb("library", "1.1"), Deb("more", "1"), Deb("kept", "1.1"))
    security.add(Deb("fixed", "1.0+u1"))
    make(order_of(tmp_path, NEW, *origins), mirror_key)
    return Machine(tmp_path / "machine", tmp_path / "snapshots", mirror_key)


def test_packages_go_up_and_return_and_nothing_is_from_elsewhere(machine: Machine) -> None:
    machine.choose(OLD)
    done = machine.run(["apt-get", "install", "--yes", "--quiet", "tool", "fixed", "kept"])
    assert done.code == 0, done.text
    old = {"tool": "1.0", "library": "1.0", "fixed": "1.0", "kept": "1.0"}
    assert (machine.installed, machine.findings(OLD)) == (old, [])
    # A roll to the snapshot that the machine has does nothing.
    assert machine.roll(OLD) == ([], [])
    machine.choose(NEW)
    (waiting,) = machine.findings(NEW)
    assert (waiting.kind, waiting.severity) == ("packages-pending", "warning")
    assert "4 wait, security updates among them: 1 (fixed)" in waiting.found
    installed, removed = machine.roll(NEW)
    assert (installed, removed) == (["fixed 1.0+u1", "kept 1.1", "library 1.1", "more 1", "tool 1.1"], [])
    assert machine.findings(NEW) == []
    assert (machine.base / "usr/share/more/file").exists()
    machine.choose(OLD)
    assert {one.kind for one in machine.findings(OLD)} == {"package-outside"}
    installed, removed = machine.roll(OLD)
    assert (installed, removed) == (["fixed 1.0", "kept 1.0", "library 1.0", "tool 1.0"], ["more"])
    assert (machine.installed, machine.findings(OLD)) == (old, [])
    assert machine.roll(OLD) == ([], [])


def test_a_held_package_stays(machine: Machine) -> None:
    machine.choose(OLD)
    assert machine.run(["apt-get", "install", "--yes", "--quiet", "tool", "kept"]).code == 0
    status = machine.base / "var/lib/dpkg/status"
    text = status.read_text()
    status.write_text(
        text.replace("Package: kept\nStatus: install ok installed", "Package: kept\nStatus: hold ok installed")
    )
    assert status.read_text() != text
    machine.choose(NEW)
    machine.roll(NEW)
    assert (machine.installed["kept"], machine.installed["tool"]) == ("1.0", "1.1")
    # Its version is one of the snapshot, too.
    assert machine.findings(NEW) == []


def test_a_package_from_elsewhere_is_named_and_another_version_goes_down(
    machine: Machine, tmp_path: Path, origin_key: Signer
) -> None:
    machine.choose(OLD)
    own = Archive(tmp_path / "own", origin_key)
    own.add(Deb("own", "1"), Deb("kept", "9"))
    for deb in own.debs:
        done = machine.run(["apt-get", "install", "--yes", "--quiet", str(own.directory / deb.file)])
        assert done.code == 0, done.text
    assert {(one.kind, one.where) for one in machine.findings(OLD)} == {
        ("package-outside", "package own"),
        ("package-outside", "package kept"),
    }
    assert machine.roll(OLD) == (["kept 1.0"], [])
    assert [one.where for one in machine.findings(OLD)] == ["package own"]
