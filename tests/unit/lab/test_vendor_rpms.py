"""The stand-ins as rpms of an EL9, asked by the real dnf in a root of its own: streams, versions, signatures. None is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.resolve import Request, Stack, resolve
from lab.vendor import repository, rpms
from lab.vendor.repository import Repository
from lab.vendor.standins import StandIn

pytestmark = [pytest.mark.full, pytest.mark.tools("rpmbuild", "rpmsign", "createrepo_c", "dnf", "gpg")]

OLDER, LATER, NEWER, UNKNOWN = "580.65.06", "580.126.09", "590.48.01", "999.10.01"
SYSTEM = "rocky-9"
OTHERS = ("dkms", "infiniband-diags", "libibumad")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Repository:
    folder = tmp_path_factory.mktemp("vendor")
    made = repository.build(folder, [SYSTEM], drivers=[OLDER, LATER, NEWER], more_drivers=[UNKNOWN])
    others = made.public / "distribution"
    others.mkdir()
    rpms.write(others, [StandIn(name, "1-1", "distribution") for name in OTHERS])
    subprocess.run(["createrepo_c", "--quiet", str(others)], check=True, timeout=60)
    return made


class Dnf:
    """dnf as on a machine that has nothing but the distribution's few packages and one repository, whose signatures it checks."""

    def __init__(self, root: Path, built: Repository, repository: Path) -> None:
        self.root = root
        for folder in ("repos", "log"):
            (root / folder).mkdir(parents=True)
        (root / "dnf.conf").write_text("[main]\nplugins=0\nmodule_platform_id=platform:el9\nreposdir=/nowhere\n")
        (root / "repos/all.repo").write_text(
            f"[others]\nname=others\nbaseurl=file://{built.public}/distribution\ngpgcheck=0\n"
            f"[gpu]\nname=gpu\nbaseurl=file://{repository}\ngpgcheck=1\nrepo_gpgcheck=1\ngpgkey=file://{built.key('mirror')}\n"
        )

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        options = {
            "reposdir": self.root / "repos", "cachedir": self.root / "cache", "persistdir": self.root / "state",
            "logdir": self.root / "log", "module_platform_id": "platform:el9",
        }  # fmt: skip
        flags = [f"--setopt={name}={value}" for name, value in options.items()]
        command = ["dnf", f"--config={self.root}/dnf.conf", f"--installroot={self.root}/root", "--releasever=9", *flags]
        return subprocess.run(
            [*command, "--assumeyes", *arguments], capture_output=True, text=True, check=False, timeout=120,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": str(self.root)},
        )  # fmt: skip

    def chosen(self, *packages: str) -> dict[str, str]:
        """Return package -> version of what dnf would install, whose signatures it has checked."""
        done = self("--downloadonly", "install", *packages)
        assert done.returncode == 0, done.stdout + done.stderr
        # A long name has a line of its own.
        return dict(re.findall(rf"^ (\S+)\s+{os.uname().machine}\s+(\S+)\s+gpu\s", done.stdout, re.MULTILINE))


@pytest.fixture
def dnf(tmp_path: Path, built: Repository) -> Dnf:
    return Dnf(tmp_path / "dnf", built, built.part(SYSTEM, "mirror"))


def stack(driver: str) -> Stack:
    return resolve(
        Request(SYSTEM, "nvidia", driver, ("h200",), gpu_count=8, cuda=("12.9",), dcgm="4.5.3", toolkit="1.18.2")
    )


def asked(found: Stack) -> list[str]:
    return [one.name if one.version == "*" else f"{one.name}-{one.version}" for one in found.packages]


@pytest.mark.parametrize("driver", [OLDER, LATER, NEWER])
def test_a_stream_has_the_resolvers_set_and_no_other_branch(dnf: Dnf, driver: str) -> None:
    found = stack(driver)
    enabled = dnf("module", "enable", found.stream)
    assert enabled.returncode == 0, enabled.stdout + enabled.stderr
    chosen = dnf.chosen(*asked(found))
    assert {one.name for one in found.packages} - set(OTHERS) <= set(chosen)
    drivers = {
        name: match[1]
        for name, version in chosen.items()
        if (match := re.search(r"(\d{3}\.\d+\.\d+)-1\.el9$", version))
    }
    # What comes as "this or a later one" is of the branch all the same, for the stream has no other; a lock has to keep the rest.
    later = LATER if driver == OLDER else driver
    assert {name for name, version in drivers.items() if version != driver} == (
        {"nvidia-modprobe"} if later != driver else set()
    )
    assert set(drivers.values()) <= {driver, later}


def test_no_package_of_a_stream_comes_without_it(dnf: Dnf) -> None:
    done = dnf("--downloadonly", "install", "kmod-nvidia-open-dkms")
    assert done.returncode != 0
    assert "modular filtering" in done.stdout + done.stderr


def test_a_stream_is_not_changed_without_a_reset(dnf: Dnf) -> None:
    assert dnf("module", "enable", stack(OLDER).stream).returncode == 0
    refused = dnf("module", "enable", stack(NEWER).stream)
    assert refused.returncode != 0
    assert "module reset" in refused.stdout + refused.stderr
    assert dnf("module", "reset", "nvidia-driver").returncode == 0
    assert dnf("module", "enable", stack(NEWER).stream).returncode == 0


@pytest.mark.parametrize("tamper", ["nothing", "repomd", "unsigned repomd", "package", "unsigned package"])
def test_what_somebody_changed_is_refused(tmp_path: Path, built: Repository, tamper: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(built.part(SYSTEM, "mirror"), copy)
    name = f"libnvidia-container1-1.18.2-1.{os.uname().machine}.rpm"
    package = copy / name
    if tamper == "repomd":
        (copy / "repodata/repomd.xml").write_text(
            (copy / "repodata/repomd.xml").read_text().replace("<revision>", "<revision>9")
        )
    elif tamper == "unsigned repomd":
        (copy / "repodata/repomd.xml.asc").unlink()
    elif tamper == "package":
        package.write_bytes(package.read_bytes()[:-1] + b"x")
    elif tamper == "unsigned package":
        subprocess.run(["rpmsign", "--delsign", str(package)], check=True, capture_output=True, timeout=60)
    done = Dnf(tmp_path / "dnf", built, copy)("--downloadonly", "install", "libnvidia-container1-1.18.2-1")
    assert (done.returncode == 0) == (tamper == "nothing"), done.stdout + done.stderr


def test_the_same_name_and_the_same_file_are_in_two_specs() -> None:
    first, second = StandIn("a", "1-1", "x"), StandIn("a", "2-1", "x")
    assert [len(group) for group in rpms._groups([first, second, StandIn("b", "1-1", "x")])] == [2, 1]
    assert rpms.nevra(StandIn("a", "3:1.2-1.el9", "x")).startswith("a-3:1.2-1.el9.")
    assert rpms.file_name(StandIn("a", "3:1.2-1.el9", "x")).startswith("a-1.2-1.el9.")
