"""What a node of an EL gets: files for dnf in the place of apt's, locks in the place of holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import gpu_software_drift
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.rpm import LOCKS
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack import stack_table
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.apt_repositories import (
    PackageRepository,
    located,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.dnf_repositories import (
    key_values,
    locks,
    repository_values,
    stream_values,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.part_files import rendered_template
from tests.kit.decided import decided

KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQENBF\n-----END PGP PUBLIC KEY BLOCK-----\n"
FILE = """\
plugin: bedplate.cluster.racks
site: s
cluster: c
networks: {management: {cidr: 10.0.0.0/24}}
profiles:
  card: {gpus: {model: h100, count: 1}, sockets: 1, cores_per_socket: 2, memory_mib: 1024}
racks: {r1: {nodes: gpu1, profile: card}}
hosts: {ctl1: {address: 10.0.0.10}}
services: {controllers: [ctl1]}
partitions: {all: {nodes: all}}
gpu_stack: {os: SYSTEM, source: nvidia, driver: "580.65.06", cuda: ["12.9"], dcgm: "4", keys: {nvidia: nvidia.asc}, MORE}
"""
KERNEL = "5.14.0-503.11.1.el9_5"
STATED = f"kernel: {KERNEL}.x86_64"


def part(tmp_path: Path, name: str, system: str = "rocky-9", more: str = "features") -> dict[str, Any]:
    """Return a part of a role: cuda, dcgm, or of gpu_driver `prepare` and `driver`."""
    (tmp_path / "nvidia.asc").write_text(KEY)
    text = FILE.replace("SYSTEM", system).replace(", MORE", "" if more == "features" else f", {more}")
    path = tmp_path / "c.bedplate.yml"
    path.write_text(text)
    return decided(*(("gpu_driver", path, "gpu1", name) if name in ("prepare", "driver") else (name, path, "gpu1")))


def lines_of(entries: list[dict[str, str]]) -> list[str]:
    """Return the lines of the block for versionlock's list."""
    (block,) = (one for one in entries if one["path"] == LOCKS)
    assert block["state"] == "block"
    return block["content"].splitlines()[1:]


def test_every_part_is_of_dnf_and_holds_nothing_by_apt(tmp_path: Path) -> None:
    for name in ("prepare", "driver", "cuda", "dcgm"):
        told = part(tmp_path, name)
        assert (told["manager"], told["expected"]["manager"], told["hold"]) == ("dnf", "dnf", [])
        paths = [one["path"] for one in told["sources"]]
        assert paths
        assert not [path for path in paths if "apt" in path]
    assert part(tmp_path, "driver")["steps"]["gpu_facts"]["proof"]["manager"] == "dnf"
    assert part(tmp_path, "driver", "debian-13")["manager"] == "apt"


def test_a_repository_is_its_key_and_a_file_that_has_both_signatures_checked(tmp_path: Path) -> None:
    key, repository = part(tmp_path, "cuda")["sources"][:2]
    assert key == {"path": "/etc/pki/rpm-gpg/RPM-GPG-KEY-bedplate-nvidia", "content": KEY}
    assert repository["path"] == "/etc/yum.repos.d/bedplate-nvidia.repo"
    assert repository["content"].startswith("[bedplate-nvidia]\n")
    for line in ("gpgcheck=1", "repo_gpgcheck=1", f"gpgkey=file://{key['path']}"):
        assert line in repository["content"].splitlines()
    # It would let dnf choose among the streams.
    assert "module_hotfixes" not in repository["content"]


def repository_file(repository: PackageRepository) -> str:
    return rendered_template("gpu_driver", "node_os/yum.repo.j2", {"item": repository_values(repository)})


def test_of_a_repository_whose_packages_have_no_signature_the_list_is_checked() -> None:
    (row,) = (one for one in stack_table.default().repositories if one.name == "container-toolkit")
    text = repository_file(located(row, "rocky-9", key="/etc/pki/there"))
    assert "\ngpgcheck=0\nrepo_gpgcheck=1\n" in text


def test_a_key_that_the_machine_has_is_named_and_not_written() -> None:
    repository = PackageRepository("x", "http://x", (), (), "/etc/pki/there")
    assert key_values(repository) == []
    assert "gpgkey=file:///etc/pki/there\n" in repository_file(repository)


def test_a_stream_is_enabled_where_the_system_has_streams(tmp_path: Path) -> None:
    pins = {one["path"]: one for one in part(tmp_path, "driver")["sources"]}
    assert pins["/etc/dnf/modules.d/nvidia-driver.module"]["content"] == (
        "[nvidia-driver]\nname=nvidia-driver\nstream=580-open\nprofiles=\nstate=enabled\n"
    )
    assert [one["path"] for one in part(tmp_path, "driver", "rocky-10")["sources"]] == [LOCKS]
    assert stream_values("") == []


def test_of_the_driver_one_version_is_locked_and_what_drags_in_another_is_left_out(tmp_path: Path) -> None:
    told = part(tmp_path, "driver")
    lines = lines_of(told["sources"])
    assert {"kmod-nvidia-open-dkms-3:580.65.06-*.*", "nvidia-modprobe-3:580.65.06-*.*", "!cuda-drivers*"} <= set(lines)
    # It matches the driver itself, and an exclusion knows no exception.
    assert "!nvidia-driver*" not in lines
    locked = {line.rpartition("-3:")[0] for line in lines if "-3:" in line}
    assert locked >= {entry.partition("=")[0] for entry in told["packages"] if "=3:" in entry}
    assert "nvidia-modprobe=3:580.65.06-*" in told["follow"]


def test_dcgm_and_cuda_have_locks_of_their_own(tmp_path: Path) -> None:
    assert lines_of(part(tmp_path, "cuda")["sources"]) == ["cuda-toolkit-12-9-12.9.1-1.*"]
    lines = lines_of(part(tmp_path, "dcgm")["sources"])
    assert lines[0].startswith("datacenter-gpu-manager-4-core-1:4.")
    assert lines[-1] == "!datacenter-gpu-manager"


def test_a_stated_kernel_is_installed_and_locked_with_all_that_goes_with_it(tmp_path: Path) -> None:
    first, told = (part(tmp_path, name, more=STATED) for name in ("prepare", "driver"))
    # Headers set nothing off there; a kernel would boot, proven or not.
    assert first["packages"] == ["dkms", f"kernel-devel={KERNEL}"]
    assert told["packages"][-3:] == [f"{name}={KERNEL}" for name in ("kernel-devel", "kernel-core", "kernel-modules")]
    # Before the build packages, or an old lock would keep them away; so not with the driver's.
    lines = lines_of(first["sources"])
    assert {f"{name}-{KERNEL}.*" for name in ("kernel", "kernel-core", "kernel-devel", "kernel-modules-core")} <= set(
        lines
    )
    assert not [line for line in lines_of(told["sources"]) if "kernel-" in line]
    assert told["expected"]["pinned"]["kernel-core"] == KERNEL
    assert "kernel-core" in told["expected"]["several"]


def test_without_a_stated_kernel_none_comes_by_itself_but_its_headers_can_be_had(tmp_path: Path) -> None:
    told = part(tmp_path, "prepare")
    lines = lines_of(told["sources"])
    assert {"!kernel", "!kernel-core"} <= set(lines)
    assert "!kernel-devel" not in lines
    assert told["packages"] == ["dkms", "kernel-devel"]
    expect = told["expected"]
    assert expect["none"] == [
        name for name, version in expect["pinned"].items() if name.startswith("kernel") and version == "*"
    ]
    assert "kernel-core" in expect["none"]
    assert part(tmp_path, "driver", more=STATED)["expected"]["none"] == []


def test_without_anything_to_lock_there_is_no_block() -> None:
    assert locks("nothing", {}, []) == []


def test_kernels_of_other_flavours_do_not_come_by_themselves_either(tmp_path: Path) -> None:
    told = part(tmp_path, "prepare")
    assert {"!kernel-rt-core", "!kernel-64k-core"} <= set(lines_of(told["sources"]))
    assert "kernel-rt-core" in told["expected"]["none"]


def test_what_came_with_a_toolkit_is_locked_as_it_came(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told = part(tmp_path, "cuda")
    assert told["follow"] == told["expected"]["follow"] == ["*-12-9", "cuda-toolkit-*config-common"]
    reader = gpu_software_drift.READERS["dnf"](
        lambda argv: Outcome(0, "cuda-nvcc-12-9\t0:12.9.86-1\nlibnpp-12-9\t0:12.4.1-1\n", "")
    )
    monkeypatch.setattr(
        gpu_software_drift.rpm, "locks", lambda: frozenset(["cuda-nvcc-12-9-0:12.9.86-1.*", "libnpp-12-9-0:1-1.*"])
    )
    seen = gpu_software_drift.InstalledState(reader.packages({"*-12-9": "*"}), reader.held({}, ["*-12-9"]), "", "", {})
    (found,) = gpu_software_drift.packages({}, {"*-12-9": "*"}, seen, "cuda")
    assert (found.kind, found.where, found.expected) == ("hold", "package libnpp-12-9", "held")


SEEN = {"libml": "3:580.1-*", "dcgm": "4.5-*", "kernel-core": "5.14.0-1.el9"}
RPM = "libml\t3:580.1-1.el9\ndcgm\t1:4.5-1\nkernel-core\t0:5.14.0-1.el9\nkernel-core\t0:5.14.0-2.el9\n"


def test_the_state_of_packages_is_of_rpm(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(argv: list[str]) -> Outcome:
        assert argv[0] == "rpm"
        return Outcome(0, RPM, "")

    reader = gpu_software_drift.READERS["dnf"](run)
    there = reader.packages(SEEN)
    assert there == {"libml": ["3:580.1-1.el9"], "dcgm": ["4.5-1"], "kernel-core": ["5.14.0-1.el9", "5.14.0-2.el9"]}
    monkeypatch.setattr(
        gpu_software_drift.rpm, "locks", lambda: frozenset(["libml-3:580.1-*.*", "kernel-core-5.14.0-1.el9.*"])
    )
    seen = gpu_software_drift.InstalledState(there, reader.held(SEEN), "", "", {})
    (found,) = gpu_software_drift.packages(SEEN, {}, seen, "r", several=["kernel-core"])
    assert (found.kind, found.where, found.expected) == ("hold", "package dcgm", "held")
    # Of anything else one version is all that may be there.
    more: Any = [one.where for one in gpu_software_drift.packages(SEEN, {}, seen, "r")]
    assert more == ["package dcgm", "package kernel-core"]
