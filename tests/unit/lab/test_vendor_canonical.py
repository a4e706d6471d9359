"""Stand-ins with the relations of Canonical's archive: ranges, virtual names that one package at a time has, suites and components."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.resolve import Request, Stack, resolve
from lab.vendor import repository
from lab.vendor.repository import Repository
from tests.unit.lab.test_vendor import Apt, asked

pytestmark = [pytest.mark.playbooks, pytest.mark.tools("apt-get", "gpg", "dpkg-deb")]

SYSTEM, DRIVER, LATER = "ubuntu-24.04", "580.173.02", "595.71.05"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    folder = tmp_path_factory.mktemp("canonical")
    return repository.build(folder, [SYSTEM], drivers=["580.65.06"], canonical=[SYSTEM])


@pytest.fixture
def apt(tmp_path: Path, built: Repository) -> Apt:
    flat = built.part(SYSTEM, "mirror")
    client = Apt(tmp_path / "apt", flat, built.key("mirror"))
    archive, key = built.public / "ubuntu" / SYSTEM, built.key("ubuntu").with_suffix(".gpg")
    suites = ("noble", "noble-updates", "noble-security")
    lines = (f"deb [signed-by={key}] file://{archive} {suite} restricted multiverse\n" for suite in suites)
    (client.root / "etc/sources.list").write_text("".join(lines))
    paths = archive.glob("dists/*/*/binary-*/Packages")
    client.stanzas = [one for path in paths for one in path.read_text().split("\n\n") if one]
    done = client("update")
    assert done.returncode == 0, done.stderr
    return client


def stack(driver: str = DRIVER, **wanted: object) -> Stack:
    return resolve(Request(SYSTEM, "canonical", driver, ("h100",), gpu_count=8, **wanted))  # type: ignore[arg-type]


def of_installed(names: dict[str, str]) -> set[str]:
    return {version.partition("-")[0] for name, version in names.items() if "nv" in name}


@pytest.mark.parametrize("driver", [DRIVER, LATER])
@pytest.mark.parametrize("module", ["open", "proprietary"])
def test_the_resolvers_set_is_one_version_with_its_fabric(apt: Apt, driver: str, module: str) -> None:
    found = stack(driver, module=module)
    apt.install_records({})
    apt.pin(found)
    chosen = apt.chosen("install", "--no-install-recommends", *asked(found))
    assert {one.name for one in found.packages} <= {*chosen, "dkms"}
    assert of_installed(chosen) == {driver}
    # Nobody names it: a dependency with the version in its name.
    assert f"nvidia-firmware-{driver[:3]}-server-{driver}" in chosen


def test_open_and_proprietary_exclude_each_other(apt: Apt) -> None:
    both = apt("--simulate", "--yes", "install", "nvidia-dkms-580-server", "nvidia-dkms-580-server-open")
    assert both.returncode != 0
    assert "nvidia-dkms-kernel" in both.stdout + both.stderr or "Conflicts" in both.stdout


def test_the_fabric_manager_of_another_driver_cannot_be_had(apt: Apt) -> None:
    """It needs a name that only the kernel packages of exactly its version provide."""
    found = stack(LATER)
    apt.pin(found)
    apt.install_records(apt.chosen("install", "--no-install-recommends", *asked(found)))
    refused = apt("--simulate", "--yes", "--no-remove", "install", "nvidia-fabricmanager-580")
    assert refused.returncode != 0
