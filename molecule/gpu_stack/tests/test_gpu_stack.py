"""NVIDIA's repository, of stand-ins with the real names and relations: one set on every node, upwards, downwards and by force."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lab.paths import state_of
from lab.scenario_run import recap, run

testinfra_hosts = ["ansible://gpu_nodes"]

SCENARIO = Path(__file__).parents[1]
ROOT = SCENARIO.parents[1]
KEYS = state_of("molecule-gpu_stack") / "vendor/public/keys"
PLAYBOOK = ROOT / "playbooks/gpu.yml"
VERIFY = ROOT / "playbooks/verify.yml"
OLD, NEW, BROKEN, UNKNOWN = "580.65.06", "590.48.01", "595.71.05", "999.10.01"
COUPLED = ("nvidia-kernel-open-dkms", "nvidia-kernel-support", "firmware-nvidia-gsp", "libcuda1", "nvidia-driver-cuda")
HGX = ("nvidia-fabricmanager", "libnvidia-nscq")


def play(cluster_file: Path, *arguments: str, playbook: Path = PLAYBOOK) -> subprocess.CompletedProcess[str]:
    return run("gpu_stack", playbook, cluster_file, *arguments)


def verify(cluster_file: Path) -> subprocess.CompletedProcess[str]:
    return play(cluster_file, "--tags=gpu", playbook=VERIFY)


@pytest.fixture
def other(tmp_path: Path):
    """Return a function that writes the scenario's cluster file with other words."""

    def write(**words: str) -> Path:
        text = (SCENARIO / "gpu_stack.bedplate.yml").read_text().replace("keys/nvidia.asc", f"{KEYS}/nvidia.asc")
        for old, new in words.items():
            found = {"driver": OLD, "key": "nvidia.asc"}.get(old, old)
            assert found in text
            text = text.replace(found, new)
        path = tmp_path / "other.bedplate.yml"
        path.write_text(text)
        return path

    return write


def installed(host) -> dict[str, str]:
    """Return package -> version of all that is installed of NVIDIA's."""
    said = host.check_output(
        "dpkg-query --show --showformat='${Package} ${db:Status-Status} ${Version}\\n' "
        "'*nvidia*' 'libcuda*' 'cuda*' 'datacenter-gpu-manager*' 'libnv*' nvlsm | sort"
    )
    rows = [line.split() for line in said.splitlines()]
    return {row[0]: row[2] for row in rows if row[1] == "installed"}


def of_driver(host) -> dict[str, str]:
    return {name: version for name, version in installed(host).items() if not name.startswith(("cuda", "datacenter"))}


def kernel(host) -> str:
    return host.check_output("ls /boot/vmlinuz-*").removeprefix("/boot/vmlinuz-")


def is_hgx(host) -> bool:
    return host.check_output("hostname") == "gpu1"


def holds_exactly(host, version: str) -> None:
    """Assert that one version of every package of the driver is there, held, and its module compiled for the next kernel."""
    packages = of_driver(host)
    assert set(packages.values()) == {f"{version}-1"}
    assert set(COUPLED) <= set(packages)
    assert (set(HGX) <= set(packages)) == is_hgx(host)
    # What comes as a dependency of others too, and what would bring another kernel.
    held = set(host.check_output("apt-mark showhold").split())
    assert {*packages, "linux-headers-amd64"} <= held
    assert host.check_output(f"modinfo --set-version {kernel(host)} --field version nvidia") == version
    status = host.check_output("dkms status")
    assert f"nvidia/{version}, {kernel(host)}, x86_64: installed" in status
    assert len(status.splitlines()) == 1


def test_one_version_of_everything_on_every_system(host):
    holds_exactly(host, OLD)
    system = host.check_output(". /etc/os-release; echo $VERSION_ID")
    assert system == ("13" if is_hgx(host) else "12")


def test_the_open_module_was_compiled_here(host):
    path = host.check_output(f"modinfo --set-version {kernel(host)} --filename nvidia")
    assert host.check_output(f"modinfo --field license {path}") == "Dual MIT/GPL"
    assert host.check_output(f"modinfo --field vermagic {path}").startswith(f"{kernel(host)} ")


def test_services_are_those_of_the_platform(host):
    units = {"nvidia-persistenced": True, "nvidia-dcgm": True, "nvidia-fabricmanager": is_hgx(host)}
    for name, wanted in units.items():
        assert (host.run(f"systemctl is-enabled {name}").stdout.strip() == "enabled") == wanted, name
        # No driver is loaded, so each of them could only fail.
        assert not host.service(name).is_running, name


def test_toolkits_are_side_by_side_and_users_find_the_first(host):
    packages = installed(host)
    assert packages["cuda-toolkit-12-9"].startswith("12.9.")
    assert packages["cuda-toolkit-13-0"].startswith("13.0.")
    for version in ("12.9", "13.0"):
        assert f"release {version}" in host.check_output(f"/usr/local/cuda-{version}/bin/nvcc --version")
    assert "release 12.9" in host.check_output("bash -lc 'nvcc --version'")
    assert host.file("/usr/local/cuda").linked_to == "/usr/local/cuda-12.9"


def test_dcgm_is_of_the_drivers_cuda(host):
    names = {name for name in installed(host) if name.startswith("datacenter")}
    assert names == {"datacenter-gpu-manager-4-core", "datacenter-gpu-manager-4-cuda13"}


def test_an_upgrade_of_everything_changes_none_of_it(host):
    before = installed(host)
    # There is something newer, of which apt knows.
    assert f"{UNKNOWN}-1" in host.check_output("apt-cache madison libcuda1")
    host.check_output("apt-get --quiet update && DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes dist-upgrade")
    assert installed(host) == before


@pytest.mark.parametrize("name", ["cuda-drivers", "cuda", "nvidia-open", "cuda-12-9", "datacenter-gpu-manager"])
def test_nobody_gets_a_driver_by_a_metapackage(host, name):
    asked = host.run(f"DEBIAN_FRONTEND=noninteractive apt-get --yes --simulate install {name}")
    assert asked.rc != 0
    assert "Inst" not in asked.stdout


def test_verify_agrees_and_says_what_it_could_not_see(host):
    done = verify(SCENARIO / "gpu_stack.bedplate.yml")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("fault", "told", "mend"),
    [
        ("apt-mark unhold libcuda1", "package libcuda1: wanted held, found not held", "apt-mark hold libcuda1"),
        ("systemctl disable nvidia-dcgm", "unit nvidia-dcgm.service: wanted enabled, found disabled", "systemctl enable nvidia-dcgm"),
        ("mkdir /m; mv /lib/modules/*/updates/dkms/nvidia.ko* /m/; depmod $(ls /lib/modules)",
         "wanted 580.65.06, found none; do not reboot",
         "mv /m/* /lib/modules/*/updates/dkms/; rmdir /m; depmod $(ls /lib/modules)"),
        ("dpkg --remove --force-depends libnvidia-cfg1", "package libnvidia-cfg1: wanted 580.65.06-*, found not installed",
         f"apt-get --yes install libnvidia-cfg1={OLD}-1 && apt-mark hold libnvidia-cfg1"),
    ],
)  # fmt: skip
def test_verify_names_what_is_wrong(host, fault, told, mend):
    host.check_output(fault)
    try:
        done = verify(SCENARIO / "gpu_stack.bedplate.yml")
        assert done.returncode != 0
        assert told in done.stdout
        assert host.check_output("hostname") in re.search(r"(?s)TASK.*", done.stdout)[0]
    finally:
        host.check_output(mend)


def test_a_driver_that_does_not_compile_leaves_everything_as_it_was(host, other):
    before, held = installed(host), host.check_output("apt-mark showhold")
    pins = host.file("/etc/apt/preferences.d/bedplate-driver.pref").content_string
    done = play(other(driver=BROKEN), f"--limit={host.check_output('hostname')}")
    assert done.returncode != 0
    assert f"nvidia {BROKEN} does not compile for kernel {kernel(host)}" in done.stdout
    assert "error:" in done.stdout
    assert "Nothing was installed and nothing is rebooted" in done.stdout
    assert (installed(host), host.check_output("apt-mark showhold")) == (before, held)
    assert host.file("/etc/apt/preferences.d/bedplate-driver.pref").content_string == pins
    assert not host.file("/run/bedplate/reboot-wanted").exists
    holds_exactly(host, OLD)


def test_a_repository_with_another_key_is_not_believed(host, other):
    before = installed(host)
    # Whoever has the repository could offer anything.
    done = play(other(driver=NEW, key="mirror.asc"), f"--limit={host.check_output('hostname')}")
    assert done.returncode != 0
    assert "NO_PUBKEY" in done.stdout or "Missing key" in done.stdout, done.stdout
    assert installed(host) == before
    assert play(SCENARIO / "gpu_stack.bedplate.yml").returncode == 0


def test_a_whole_set_is_replaced_by_another_and_back(host, other):
    limit = f"--limit={host.check_output('hostname')}"
    for version in (NEW, OLD):
        changed = play(other(driver=version), limit)
        assert changed.returncode == 0, changed.stdout + changed.stderr
        holds_exactly(host, version)
        again = play(other(driver=version), limit)
        assert recap(again.stdout)[host.check_output("hostname")]["changed"] == 0, again.stdout
