"""Settings of GPUs: applied and read back, applied again after the driver was loaded again, held back by a job, removed with their note.

The node has a tree of a loaded driver and a stand-in for nvidia-smi, which keeps the settings in a file. All else is real.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.paths import state_of
from lab.scenario_run import recap, run, ssh

# Each test begins where the one before it ended.
testinfra_hosts = ["local://"]

SCENARIO = Path(__file__).parents[1]
PLAYBOOKS = SCENARIO.parents[1] / "playbooks"
KEY = state_of("molecule-gpu_stack") / "vendor/public/keys/nvidia.asc"
NODE, COUNT = "gpu1", 8
UNIT, NOTE = "bedplate-gpu-settings.service", "/run/bedplate/reboot-wanted/gpu_settings"
SETTINGS = "{power_limit_watts: 600, graphics_clock_max_mhz: 1500, compute_mode: exclusive_process}"
AS_STATED = ("600.00", "1500", "Exclusive_Process")
DEFAULTS = ("700.00", "1980", "Default")
QUERY = "nvidia-smi --query-gpu=power.limit,clocks.current.graphics,compute_mode --format=csv,noheader"
# GPUs and NVSwitches on the PCI bus, as an HGX board of H100 has them, and the files of a loaded driver.
LOAD = """\
set -e
for place in /sys/bus/pci/devices /sys/module /proc/driver; do mount -t tmpfs bedplate-driver $place; done
device() { mkdir "/sys/bus/pci/devices/$1"; cd "/sys/bus/pci/devices/$1"; echo 0x10de >vendor; echo "$2" >class; echo "$3" >device; }
mkdir -p /proc/driver/nvidia/capabilities /sys/module/nvidia
for number in 0 1 2 3 4 5 6 7; do
    device "0000:1$number:00.0" 0x030200 0x2330
    mkdir -p "/proc/driver/nvidia/gpus/0000:1$number:00.0"
    printf 'Model: \\t NVIDIA H100 80GB HBM3\\nGPU UUID: \\t GPU-0000:1%s:00.0\\nDevice Minor: \\t %s\\nGPU Excluded: \\t No\\n' \\
        $number $number >"/proc/driver/nvidia/gpus/0000:1$number:00.0/information"
done
for number in 0 1 2 3; do device "0000:a$number:00.0" 0x068000 0x22a3; done
echo 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  VERSION' >/proc/driver/nvidia/version
echo 'EnableGpuFirmware: 18' >/proc/driver/nvidia/params
echo VERSION >/sys/module/nvidia/version
echo SCRIPT | base64 --decode >/usr/local/bin/nvidia-smi
chmod 0755 /usr/local/bin/nvidia-smi
"""
UNLOAD = f"""\
pkill slurmstepd
systemctl stop nvidia-fabricmanager nvidia-persistenced {UNIT}
umount /sys/bus/pci/devices /sys/module /proc/driver
rm -rf /usr/local/bin/nvidia-smi /run/nvidia-smi.* /run/slurmstepd /run/bedplate
"""
# The driver forgets its settings; persistenced, which keeps the driver in use, must stop before the module can go.
RELOADED = (
    "systemctl stop nvidia-persistenced && rm /run/nvidia-smi.json && mv /sys/module/nvidia /sys/module/old && "
    "cp -r /sys/module/old /sys/module/nvidia && rm -r /sys/module/old && systemctl start nvidia-persistenced"
)


def node(command: str) -> str:
    """Run a command on the node, and return its output."""
    done = ssh("gpu_stack", "root", NODE, command)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout.strip()


def settings() -> set[tuple[str, ...]]:
    """Return the settings of the GPUs: one row if all have the same."""
    rows = node(QUERY).splitlines()
    assert len(rows) == COUNT
    return {tuple(row.split(", ")) for row in rows}


def wait_for(expected: set[tuple[str, ...]], read: Callable[[], set[tuple[str, ...]]] = settings) -> None:
    """Wait until the GPUs have these settings."""
    until = time.monotonic() + 20
    while (found := read()) != expected and time.monotonic() < until:
        time.sleep(0.3)
    assert found == expected, node(f"systemctl status --no-pager {UNIT}; journalctl --no-pager --unit={UNIT}")


def changes() -> int:
    """Return the number of changes that nvidia-smi has made."""
    return int(node("cat /run/nvidia-smi.log 2>/dev/null | wc -l"))


@dataclass
class Site:
    """The scenario with the driver that the node has, and with settings of the GPUs of its profile."""

    folder: Path
    driver: str

    def file(self, stated: str) -> Path:
        """Return the cluster file with these settings, or with none ("")."""
        text = (SCENARIO / "gpu_stack.bedplate.yml").read_text()
        more = f", settings: {stated}" if stated else ""
        for old, new in (
            ("keys/nvidia.asc", str(KEY)),
            ('driver: "580.65.06"', f'driver: "{self.driver}"'),
            (f"{{model: h100, count: {COUNT}}}", f"{{model: h100, count: {COUNT}{more}}}"),
        ):
            assert old in text
            text = text.replace(old, new)
        path = self.folder / "other.bedplate.yml"
        path.write_text(text)
        return path

    def deploy(self, stated: str = SETTINGS) -> tuple[int, str]:
        """Deploy the driver with these settings; return the number of changed tasks, and the output on one line."""
        arguments = (f"--limit={NODE}", "--tags=gpu_driver_services")
        done = run("gpu_stack", PLAYBOOKS / "gpu.yml", self.file(stated), *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return recap(done.stdout)[NODE]["changed"], " ".join((done.stdout + done.stderr).split())

    def verify(self, stated: str = SETTINGS) -> set[tuple[str, ...]]:
        """Return kind, severity, expected and found value of each finding about settings."""
        report = self.folder / "findings.json"
        run("gpu_stack", PLAYBOOKS / "verify.yml", self.file(stated), f"--limit={NODE}", "--tags=gpu",
            f"--extra-vars=verify_report_file={report}")  # fmt: skip
        rows: list[dict[str, Any]] = json.loads(report.read_text())
        kinds = ("gpu-power", "gpu-clock", "gpu-compute-mode", "gpu-ecc", "gpu-settings", "unread", "unit-drop-in")
        return {(row["kind"], row["severity"], row["expected"], row["found"]) for row in rows if row["kind"] in kinds}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    # Which driver the node has depends on the tests before these.
    driver = node("dpkg-query --show --showformat='${Version}' libcuda1").rpartition("-")[0]
    script = base64.b64encode((SCENARIO / "nvidia_smi.py").read_bytes()).decode()
    try:
        node(LOAD.replace("VERSION", driver).replace("SCRIPT", script))
        yield Site(tmp_path_factory.mktemp("site"), driver)
    finally:
        ssh("gpu_stack", "root", NODE, UNLOAD)


def test_settings_are_applied_read_back_and_then_kept(site: Site):
    assert settings() == {DEFAULTS}
    assert site.deploy()[0] > 0
    assert settings() == {AS_STATED}
    assert node(f"systemctl is-active {UNIT} && systemctl is-enabled {UNIT}").split() == ["active", "enabled"]
    before = changes()
    assert site.deploy()[0] == 0
    assert changes() == before


@pytest.mark.parametrize(
    "event", [RELOADED, "rm /run/nvidia-smi.json && systemctl restart nvidia-persistenced"], ids=["driver", "persistenced"]
)  # fmt: skip
def test_systemd_applies_them_again_after_a_reload(site: Site, event: str):
    """No run of Ansible does it: the unit starts with persistenced."""
    assert settings() == {AS_STATED}
    node(event)
    wait_for({AS_STATED})


def test_verify_names_a_changed_setting_and_a_run_restores_it(site: Site):
    node("nvidia-smi -i 0000:13:00.0 --power-limit=500 --lock-gpu-clocks=0,1900")
    assert site.verify() == {
        ("gpu-power", "error", "600 W", "500.00"),
        ("gpu-clock", "error", "at most 1500 MHz", "1900"),
    }
    assert site.deploy()[0] == 1
    assert settings() == {AS_STATED}


def test_a_job_holds_settings_back_and_the_first_run_after_it_applies_them(site: Site):
    lower = SETTINGS.replace("600", "550")
    node("cp /bin/sleep /run/slurmstepd; setsid /run/slurmstepd 600 >/dev/null 2>&1 </dev/null &")
    before = changes()
    # The file is written, and the run says what waits.
    changed, output = site.deploy(lower)
    assert changed == 1
    assert "0000:17:00.0 must get --power-limit=550" in output
    assert "slurmstepd (" in output
    assert "slurmstepd" in node(f"cat {NOTE}")
    assert site.verify(lower) == {("gpu-power", "warning", "550 W", "600.00")}
    changed, output = site.deploy(lower)
    assert (changed, changes(), settings()) == (0, before, {AS_STATED})
    assert "must get --power-limit=550" in output
    node("pkill slurmstepd")
    assert site.deploy(lower)[0] == 1
    assert settings() == {("550.00", *AS_STATED[1:])}
    assert node(f"test ! -e {NOTE}") == ""
    assert site.deploy(lower)[0] == 0


@pytest.mark.full_in("gpu")
def test_settings_that_leave_the_file_take_their_unit_and_their_note_along(site: Site):
    node(f"echo 'GPU 0000:10:00.0 must get --power-limit=550' >{NOTE}")
    before = changes()
    assert site.deploy("")[0] == 1
    assert node(f"ls /etc/systemd/system/{UNIT} /etc/bedplate/gpu-settings.json {NOTE} 2>/dev/null || true") == ""
    assert changes() == before
    assert site.deploy("")[0] == 0
