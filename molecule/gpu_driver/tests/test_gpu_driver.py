"""The real packages of Debian's archive: one version of all of them, whoever asks for another; the module compiled by the real DKMS."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lab.scenario_run import machine, recap, run

testinfra_hosts = ["ansible://gpu_nodes"]

SCENARIO = Path(__file__).parents[1]
PLAYBOOK = SCENARIO.parents[1] / "playbooks/gpu.yml"
# Of each node: the driver, and the version of its packages.
DRIVERS = {"gpu1": ("550.163.01", "550.163.01-2"), "gpu2": ("535.309.01", "535.309.01-0+deb12u1")}
# Debian 12's open module, which calls pci_resize_resource() as kernels before 6.1.0-56 declare it.
FAILS = "535.261.03"
COUPLED = (
    "nvidia-kernel-dkms",
    "nvidia-kernel-support",
    "firmware-nvidia-gsp",
    "nvidia-alternative",
    "libcuda1",
    "libnvidia-ml1",
    "nvidia-smi",
)


@pytest.fixture(scope="module")
def name(host) -> str:
    return str(host.backend.host)


@pytest.fixture(scope="module")
def driver(name) -> str:
    return DRIVERS[name][0]


@pytest.fixture(scope="module")
def kernel(host) -> str:
    return host.check_output("ls /boot/vmlinuz-*").removeprefix("/boot/vmlinuz-")


@pytest.fixture
def other(tmp_path: Path):
    """Return a function that writes the scenario's cluster file with another text in place of one."""

    def write(old: str, new: str) -> Path:
        text = (SCENARIO / "gpu_driver.bedplate.yml").read_text()
        assert old in text
        path = tmp_path / "other.bedplate.yml"
        path.write_text(text.replace(old, new))
        return path

    return write


def installed(host) -> dict[str, str]:
    """Return package -> version of all that is installed of NVIDIA's driver."""
    said = host.check_output(
        "dpkg-query --show --showformat='${Package} ${db:Status-Status} ${Version}\\n' '*nvidia*' 'libcuda1'"
    )
    rows = [line.split() for line in said.splitlines()]
    return {row[0]: row[2] for row in rows if row[1] == "installed"}


def test_every_package_of_the_driver_is_of_one_version(host, name, driver):
    # Those of the toolkit have versions of CUDA.
    versions = {one: version for one, version in installed(host).items() if "~12.4." not in version}
    assert {versions[one] for one in COUPLED} == {DRIVERS[name][1]}
    others = {one for one, version in versions.items() if not version.startswith(driver)}
    # These have versions of their own in Debian.
    assert others <= {
        "nvidia-modprobe", "nvidia-kernel-common", "nvidia-support", "nvidia-installer-cleanup", "glx-alternative-nvidia",
        "nvidia-persistenced",
    }  # fmt: skip


def test_no_display_server_came_with_it(host):
    assert (
        host.run("dpkg-query --show --showformat='${db:Status-Status}' xserver-xorg-video-nvidia").stdout != "installed"
    )


def test_all_of_it_is_held(host):
    held = set(host.check_output("apt-mark showhold").split())
    assert set(COUPLED) <= held


def test_the_module_for_the_kernel_that_boots_next_is_there_and_of_that_version(host, kernel, driver):
    assert f"nvidia-current/{driver}, {kernel}, x86_64: installed" in host.check_output("dkms status")
    path = host.check_output(f"find /lib/modules/{kernel}/updates/dkms -name 'nvidia-current.ko*'")
    assert host.check_output(f"modinfo --field version {path}") == driver
    assert host.check_output(f"modinfo --field vermagic {path}").startswith(f"{kernel} ")
    assert json.loads(host.file("/var/lib/bedplate/dkms.json").content_string)[-1]["kernel"] == kernel


def test_an_upgrade_of_everything_changes_none_of_it(host):
    before = installed(host)
    host.check_output("DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes dist-upgrade")
    assert installed(host) == before


def test_nobody_gets_another_version_by_asking_for_it(host):
    # The open module is of the same source, and would replace this one.
    asked = host.run("apt-get --simulate --yes install nvidia-driver-bin=1.0")
    assert asked.rc != 0


def test_nouveau_is_kept_out(host):
    said = host.check_output("modprobe --showconfig")
    assert "blacklist nouveau" in said
    assert "options nouveau modeset=0" in said


def test_nvidia_smi_runs_and_says_that_there_is_no_driver(host):
    asked = host.run("nvidia-smi")
    assert asked.rc == 9
    assert "couldn't communicate with the NVIDIA driver" in asked.stdout


def test_no_reboot_is_wanted_where_there_is_no_gpu(host):
    assert not host.file("/run/bedplate/reboot-wanted").exists


def test_a_hold_and_a_pin_that_somebody_took_away_are_put_back(host, name):
    host.check_output("apt-mark unhold libcuda1; rm /etc/apt/preferences.d/bedplate-driver.pref")
    for expected in (1, 0):
        done = run("gpu_driver", PLAYBOOK, SCENARIO / "gpu_driver.bedplate.yml")
        assert done.returncode == 0, done.stdout
        assert recap(done.stdout)[name]["changed"] == expected, done.stdout
    assert "libcuda1" in host.check_output("apt-mark showhold").split()


PROGRAM = r"""
#include <cstdio>
#include <nccl.h>
__global__ void add(float *to, const float *from) { to[threadIdx.x] += from[threadIdx.x]; }
int main() {
  int runtime = 0, nccl = 0;
  cudaRuntimeGetVersion(&runtime);
  ncclGetVersion(&nccl);
  add<<<1, 32>>>(nullptr, nullptr);
  printf("%d %d %s\n", runtime, nccl, cudaGetErrorName(cudaGetLastError()));
}
"""


def test_the_toolkit_compiles_and_links_a_program_with_a_kernel(request):
    host = machine(request.config, "gpu1")
    assert "release 12.4" in host.check_output("nvcc --version")
    host.check_output("printf '%%s' %s >/tmp/add.cu && cd /tmp && nvcc -arch=sm_90 -o add add.cu -lnccl", PROGRAM)
    assert "sm_90" in host.check_output("cuobjdump --list-elf /tmp/add")
    # It runs up to the first thing that needs a GPU.
    runtime, nccl, error = host.check_output("/tmp/add").split()
    assert (runtime, nccl) == ("12040", "22203")
    assert error in ("cudaErrorNoDevice", "cudaErrorInsufficientDriver")
    assert {"nvidia-cuda-toolkit", "libnccl2", "libnccl-dev"} <= set(host.check_output("apt-mark showhold").split())


def test_a_module_that_does_not_compile_replaces_nothing_and_reboots_nothing(request, other):
    host = machine(request.config, "gpu2")
    kernel = host.check_output("ls /boot/vmlinuz-*").removeprefix("/boot/vmlinuz-")

    def state() -> list[object]:
        modules = host.check_output(f"sha256sum $(find /lib/modules/{kernel}/updates/dkms -type f | sort)")
        proven = host.file("/var/lib/bedplate/dkms.json").content_string
        return [
            installed(host),
            host.check_output("dkms status"),
            host.check_output("apt-mark showhold"),
            modules,
            proven,
        ]

    before, booted = state(), host.check_output("systemctl show --property=UserspaceTimestamp")
    wanted = other('driver: "535.309.01"', f'driver: "{FAILS}", module: open')
    done = run("gpu_driver", PLAYBOOK, wanted, "--limit=gpu2")
    said = done.stdout + done.stderr
    assert done.returncode != 0, said
    assert re.search(rf"nvidia-current-open {re.escape(FAILS)} [a-z ]*{re.escape(kernel)}", said)
    # What the compiler says, not what make makes of it.
    assert "error: too few arguments to function" in said
    assert "Nothing was installed" in said
    assert state() == before
    assert host.check_output("systemctl show --property=UserspaceTimestamp") == booted
    assert not host.file("/run/bedplate/reboot-wanted").exists


def test_a_kernel_for_which_it_does_not_compile_is_refused_before_any_node_is_touched(other):
    wanted = other('driver: "535.309.01"', f'driver: "{FAILS}", module: open, kernel: 6.1.0-56-amd64')
    done = run("gpu_driver", PLAYBOOK, wanted)
    assert done.returncode != 0
    assert "6.1.0-50" in done.stdout + done.stderr  # the newest kernel with which it works
    # The check of the variables knows the kernels, which a site may add to.
    assert set(recap(done.stdout)) == {"localhost"}


def test_a_driver_that_is_not_for_these_gpus_is_refused_before_any_node_is_touched(other):
    done = run("gpu_driver", PLAYBOOK, other("model: h100", "model: b200"))
    assert done.returncode != 0
    assert re.search(r"\bb200 [a-z ]*570\b", done.stdout + done.stderr)
    assert "TASK" not in done.stdout
