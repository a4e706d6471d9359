"""The GPU software on Ubuntu 24.04: DKMS's settings in one package, the sources in another, and other modules than the driver's.

apt, dpkg and DKMS are real; the machine is Debian's container under Ubuntu's name, and NVIDIA's packages are stand-ins.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from lab.paths import state_of
from lab.scenario_run import recap, run

testinfra_hosts = ["ansible://gpu_nodes"]

SCENARIO = Path(__file__).parents[1]
ROOT = SCENARIO.parents[1]
FILE = SCENARIO / "gpu_ubuntu.bedplate.yml"
KEYS = state_of("molecule-gpu_ubuntu") / "vendor/public/keys"
PLAYBOOK, VERIFY = ROOT / "playbooks/gpu.yml", ROOT / "playbooks/verify.yml"
KERNEL, NEXT = "6.8.0-90-generic", "6.8.0-100-generic"
# NVIDIA's archive, and Canonical's: the driver, a later one, and the two packages with the sources.
NODES = {
    "gpu1": ("580.65.06", "590.48.01", ("nvidia-dkms-580-open", "nvidia-kernel-source-580-open")),
    "gpu2": ("580.173.02", "595.71.05", ("nvidia-dkms-580-server-open", "nvidia-kernel-source-580-server-open")),
}
BROKEN = "610.57.04"
Write = Callable[[Mapping[str, str]], Path]
CONF = """\
PACKAGE_NAME="{name}"
PACKAGE_VERSION="1.0"
BUILT_MODULE_NAME[0]="{name}"
DEST_MODULE_LOCATION[0]="/updates/dkms"
AUTOINSTALL="yes"
MAKE[0]="make -C ${{kernel_source_dir}} M=${{dkms_tree}}/{name}/1.0/build modules"
"""
# A file system of a site: it compiles for the kernel that runs, and for a later one only once it is mended.
BREAKS = """\
#include <linux/module.h>
#ifdef BROKEN
#error this kernel is too new
#endif
MODULE_LICENSE("GPL");
"""


def play(cluster_file: Path, *arguments: str, playbook: Path = PLAYBOOK) -> subprocess.CompletedProcess[str]:
    return run("gpu_ubuntu", playbook, cluster_file, *arguments)


@pytest.fixture
def other(tmp_path: Path) -> Write:
    """Return a function that writes the scenario's cluster file with other words."""

    def write(words: Mapping[str, str]) -> Path:
        text = FILE.read_text().replace("keys/", f"{KEYS}/")
        for old, new in words.items():
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "other.bedplate.yml"
        path.write_text(text)
        return path

    return write


def of_driver(host) -> dict[str, str]:
    said = host.check_output(
        "dpkg-query --show --showformat='${Package} ${db:Status-Status} ${Version}\\n' '*nvidia*' 'libnv*' | sort"
    )
    rows = [line.split() for line in said.splitlines()]
    return {row[0]: row[2] for row in rows if row[1] == "installed" and "container" not in row[0]}


def holds_exactly(host, version: str, kernel: str = KERNEL) -> None:
    packages = of_driver(host)
    assert {one.partition("-")[0] for one in packages.values()} == {version}
    assert set(packages) <= set(host.check_output("apt-mark showhold").split())
    assert f"nvidia/{version}, {kernel}, x86_64: installed" in host.check_output("dkms status")
    assert host.check_output(f"modinfo --set-version {kernel} --field version nvidia") == version


def everything(host) -> tuple[str, ...]:
    """Return what a refused run must leave alone."""
    commands = (
        "dpkg-query --show --showformat='${Package} ${Version} ${Status}\\n'",
        "dkms status | sort",
        "cat /etc/apt/preferences.d/bedplate-driver.pref",
        "ls /boot /etc/dkms",
    )
    return tuple(host.check_output(command) for command in commands)


def of(host) -> tuple[str, str, str, tuple[str, str]]:
    """Return the name of a node, its driver, a later one, and the packages with the sources."""
    name = host.check_output("hostname")
    return (name, *NODES[name])


def test_the_gate_is_on_and_has_both_packages(host):
    _name, driver, _later, sources = of(host)
    holds_exactly(host, driver)
    (proof,) = json.loads(host.file("/var/lib/bedplate/dkms.json").content_string)
    assert set(proof["packages"]) == set(sources)
    assert (proof["name"], proof["module_version"], proof["kernel"]) == ("nvidia", driver, KERNEL)
    # The one package has the settings, and the other one the sources.
    assert "/dkms.conf" in host.check_output(f"dpkg --listfiles {sources[0]}")
    assert "/dkms.conf" not in host.check_output(f"dpkg --listfiles {sources[1]}")


def test_an_upgrade_of_everything_changes_none_of_it(host):
    before = of_driver(host)
    assert "nvidia-kernel-source" in " ".join(before)
    host.check_output("apt-get --quiet update && DEBIAN_FRONTEND=noninteractive apt-get --quiet --yes dist-upgrade")
    assert of_driver(host) == before


def test_verify_agrees(host):
    done = play(FILE, "--tags=gpu", playbook=VERIFY)
    assert done.returncode == 0, done.stdout


def test_an_upgrade_and_a_downgrade_change_the_whole_set(host, other: Write):
    name, driver, later, _sources = of(host)
    for version in (later, driver):
        done = play(other({driver: version}), f"--limit={name}")
        assert done.returncode == 0, done.stdout
        holds_exactly(host, version)
    assert recap(play(FILE, f"--limit={name}").stdout)[name]["changed"] == 0


def test_a_driver_that_does_not_compile_leaves_everything_as_it_was(host, other: Write):
    name, driver, _later, _sources = of(host)
    if name != "gpu1":
        return  # Canonical's archive has no such driver.
    before = everything(host)
    done = play(other({driver: BROKEN}), f"--limit={name}")
    assert done.returncode != 0
    assert f"nvidia {BROKEN} does not compile for kernel {KERNEL}" in " ".join(done.stdout.split())
    assert everything(host) == before


def test_the_nodes_other_modules_must_compile_for_the_next_kernel(host, other: Write):
    """A node whose file system is missing after the reboot is a node down."""
    name, driver, _later, _sources = of(host)
    running = host.check_output("uname -r")
    source = "/usr/src/sitefs-1.0"
    host.check_output(f"mkdir {source}")
    conf, makefile = CONF.format(name="sitefs"), "obj-m := sitefs.o\n"
    for path, text in {"dkms.conf": conf, "Makefile": makefile, "sitefs.c": BREAKS}.items():
        host.check_output(f"cat >{source}/{path} <<'END'\n{text}END\n")
    try:
        # The kernel of the machine that the container is on runs; what DKMS has for it counts.
        debian = host.check_output("ls -d /usr/src/linux-headers-*-amd64 | sort --version-sort | tail -n 1")
        host.check_output(f"mkdir -p /lib/modules/{running}")
        host.check_output(f"dkms install -m sitefs -v 1.0 -k {running} --kernelsourcedir {debian} --force")
        assert f"sitefs/1.0, {running}, x86_64: installed" in host.check_output("dkms status")
        host.check_output(f"sed --in-place 's/^obj-m/ccflags-y := -DBROKEN\\n&/' {source}/Makefile")
        before = everything(host)
        later = other({KERNEL: NEXT})
        done = play(later, f"--limit={name}")
        assert done.returncode != 0
        assert f"sitefs 1.0 does not compile for kernel {NEXT}" in " ".join(done.stdout.split())
        assert f"linux-image-{NEXT}" not in host.check_output("dpkg-query --show --showformat='${Package} '")
        assert [one for one, two in zip(everything(host), before, strict=True) if one != two] in (
            [],
            [everything(host)[0]],
        )
        host.check_output(f"sed --in-place /BROKEN/d {source}/Makefile")
        done = play(later, f"--limit={name}")
        assert done.returncode == 0, done.stdout
        holds_exactly(host, driver, NEXT)
        assert f"sitefs/1.0, {NEXT}, x86_64: installed" in host.check_output("dkms status")
        assert recap(play(later, f"--limit={name}").stdout)[name]["changed"] == 0
    finally:
        host.run("dkms remove -m sitefs -v 1.0 --all; rm -rf /usr/src/sitefs-1.0")
