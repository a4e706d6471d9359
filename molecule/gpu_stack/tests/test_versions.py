"""Versions from the index of the repository: one lock, nodes that stay as they are until an update, a driver that no table has."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.paths import state_of
from lab.scenario_run import recap, run, ssh
from lab.vendor import repository, standins
from tests.kit.nvidia_packages import held, installed, of_driver

# Each test begins where the one before it ended.
testinfra_hosts = ["local://"]

SCENARIO = Path(__file__).parents[1]
PLAYBOOKS = SCENARIO.parents[1] / "playbooks"
VENDOR = state_of("molecule-gpu_stack") / "vendor"
OLD, GAINED = "580.65.06", "580.999.10"
OLD_PART, NEW_PART = "12.9.1.4-1", "12.9.2.7-1"
SYSTEMS = ("debian-12", "debian-13", "ubuntu-24.04")
NODE = "gpu1"
UPDATE = ("-e", "gpu_resolve=update")


@dataclass
class Site:
    """The scenario with a branch instead of a version, and with a lock beside its cluster file."""

    file: Path
    lock: Path
    set_of_first_install: dict[str, str] | None = None

    def resolve(self, *arguments: str) -> str:
        done = run("gpu_stack", PLAYBOOKS / "gpu_resolve.yml", self.file, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        # Long lines are wrapped.
        return " ".join(done.stdout.split())

    def deploy(self) -> int:
        """Deploy the GPU software of the node, and return the number of changed tasks."""
        done = run("gpu_stack", PLAYBOOKS / "gpu.yml", self.file, f"--limit={NODE}")
        assert done.returncode == 0, done.stdout + done.stderr
        return recap(done.stdout)[NODE]["changed"]


class Node:
    """The node, for commands and for the readers of packages."""

    def check_output(self, command: str) -> str:
        done = ssh("gpu_stack", "root", NODE, command)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout.strip()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    text = (SCENARIO / "gpu_stack.bedplate.yml").read_text()
    text = text.replace("keys/nvidia.asc", str(VENDOR / "public/keys/nvidia.asc"))
    text = text.replace(f'driver: "{OLD}"', 'driver: "580"')
    assert 'driver: "580"' in text
    (folder / "west.bedplate.yml").write_text(text)
    yield Site(folder / "west.bedplate.yml", folder / "west.gpu-lock.json")
    # The next run of the scenario builds its repositories again.
    (VENDOR / "stamp").unlink(missing_ok=True)


@pytest.fixture(scope="module")
def node() -> Node:
    return Node()


def gain_versions() -> None:
    """Add a driver, and a newer part of a toolkit, to the repositories that the nodes read."""
    settings = json.loads((SCENARIO / "vendor.json").read_text())
    row = {"name": "libcublas-{dashed}", "version": "{cuda}.2.7-1"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(standins._data(), "each cuda", [*standins._data()["each cuda"], row])
        repository.build(
            VENDOR, SYSTEMS, drivers=settings["drivers"], more_drivers=[*settings["more_drivers"], GAINED], broken=settings["broken"]
        )  # fmt: skip


def strip(node: Node) -> None:
    """Make the node one that bedplate has not seen: no package of NVIDIA, no source, pin or record."""
    names = " ".join(installed(node))
    node.check_output(
        f"apt-mark unhold {names} >/dev/null; DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes purge {names} && "
        "rm -rf /etc/apt/preferences.d/bedplate-* /etc/apt/sources.list.d/bedplate-* /var/lib/bedplate && apt-get --quiet update"
    )
    assert installed(node) == {}


def test_two_resolves_from_one_index_write_one_lock(site: Site):
    assert f"{site.lock} written" in site.resolve()
    text = site.lock.read_bytes()
    site.lock.unlink()
    site.resolve()
    assert site.lock.read_bytes() == text
    assert "is as the indexes of the repositories are" in site.resolve(*UPDATE)
    assert site.lock.read_bytes() == text


@pytest.mark.full_in("gpu")
def test_a_branch_is_its_newest_version_in_the_lock(site: Site, node: Node):
    text = site.lock.read_bytes()
    site.lock.unlink()
    # A whole site writes a missing lock, and goes by it.
    done = run("gpu_stack", PLAYBOOKS / "site.yml", site.file, f"--limit={NODE}", "--tags=gpu")
    assert done.returncode == 0, done.stdout + done.stderr
    assert site.lock.read_bytes() == text
    assert set(of_driver(node).values()) == {f"{OLD}-1"}
    site.set_of_first_install = packages = installed(node)
    assert packages["libcublas-12-9"] == OLD_PART
    # Exact versions: a pattern would let a repository decide.
    pins = node.check_output("cat /etc/apt/preferences.d/bedplate-driver.pref").splitlines()
    assert f"Pin: version {OLD}-1" in pins
    assert f"Pin: version {OLD}-*" not in pins
    assert site.deploy() == 0


@pytest.mark.full_in("gpu")
def test_an_index_that_gained_versions_changes_no_node(site: Site, node: Node):
    text = site.lock.read_bytes()
    gain_versions()
    assert "exists and stays as it is" in site.resolve()
    assert site.lock.read_bytes() == text
    assert site.deploy() == 0
    node.check_output("apt-get --quiet update && DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes dist-upgrade")
    # The newer ones are on offer.
    assert f"{GAINED}-1" in node.check_output("apt-cache madison libcuda1")
    assert NEW_PART in node.check_output("apt-cache madison libcublas-12-9")
    assert installed(node) == site.set_of_first_install


@pytest.mark.full_in("gpu")
def test_a_node_that_is_installed_weeks_later_gets_the_same_set(site: Site, node: Node):
    strip(node)
    # Without the lock, apt takes what is newest by then.
    site.deploy()
    assert installed(node) == site.set_of_first_install
    assert site.deploy() == 0


@pytest.mark.full_in("gpu")
def test_an_update_prints_the_difference_and_the_next_run_installs_it(site: Site, node: Node):
    text = site.lock.read_bytes()
    check = site.resolve(*UPDATE, "--check")
    output = site.resolve(*UPDATE)
    for shown in (check, output):
        assert f"libcuda1 {OLD}-1 -> {GAINED}-1 (hgx, card)" in shown
        assert f"nvidia-fabricmanager {OLD}-1 -> {GAINED}-1 (hgx)" in shown
        assert f"libcublas-12-9 {OLD_PART} -> {NEW_PART} (hgx, card)" in shown
        assert "libnccl2 " not in shown
    assert site.lock.read_bytes() != text
    # An update of the lock touches no node.
    assert installed(node) == site.set_of_first_install
    assert site.deploy() > 0
    # The table has no such driver.
    packages = of_driver(node)
    assert set(packages.values()) == {f"{GAINED}-1"}
    assert set(packages) <= held(node)
    assert installed(node)["libcublas-12-9"] == NEW_PART
    assert f"nvidia/{GAINED}, " in node.check_output("dkms status")
    assert site.deploy() == 0


@pytest.mark.full_in("gpu")
def test_a_node_of_a_lock_that_is_gone_is_refused_and_not_changed(site: Site, node: Node):
    text, before = site.lock.read_bytes(), installed(node)
    site.lock.unlink()
    try:
        for mode in ((), ("--check",)):
            done = run("gpu_stack", PLAYBOOKS / "gpu.yml", site.file, f"--limit={NODE}", *mode)
            assert done.returncode != 0
            said = " ".join(done.stdout.split())
            assert "/etc/bedplate/gpu-lock exists" in said
            assert str(site.lock) in said
    finally:
        site.lock.write_bytes(text)
    assert installed(node) == before
    assert site.deploy() == 0


def test_a_cluster_file_without_a_lock_does_not_know_that_driver(site: Site):
    other = site.file.with_name("other.bedplate.yml")
    other.write_text(site.file.read_text().replace('driver: "580"', f'driver: "{GAINED}"'))
    done: subprocess.CompletedProcess[str] = run("gpu_stack", PLAYBOOKS / "gpu.yml", other, f"--limit={NODE}")
    assert done.returncode != 0
    assert "playbooks/gpu_resolve.yml writes one" in " ".join(done.stdout.split())
