"""What the role container_runtime is told to part to a machine, and what its variables may not ask for."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.containers.toml_editor import set_values
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.rpm import LOCKS
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.unit_plan import read_units
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.file_entries import mistakes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts.container_part import (
    CDI_SPEC,
    ContainerError,
    PyxisHeaders,
    decide,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts.part_plan import software_of
from tests.kit import sentences
from tests.kit.decided import shown

SENTENCES = Path(__file__).parents[1] / "sentences.txt"

FILE = """\
plugin: bedplate.cluster.racks
site: s
cluster: c
networks: {management: {cidr: 10.0.0.0/24}}
profiles:
  gpu: {gpus: {model: h100, count: 1}, sockets: 1, cores_per_socket: 2, memory_mib: 1024}
racks:
  r1: {nodes: gpu1, profile: gpu}
hosts: {ctl1: {address: 10.0.0.10}}
services: {controllers: [ctl1]}
partitions: {all: {nodes: all}}
"""
KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQ==\n-----END PGP PUBLIC KEY BLOCK-----\n"
CHOICES: dict[str, Any] = {
    "engines": ["podman"],
    "packages": {},
    "enroot": [],
    "enroot_settings": {"ENROOT_RUNTIME_PATH": "/run/enroot/user-$(id -u)"},
    "pyxis": {},
    "pyxis_prefix": "/usr/local",
    "pyxis_packages": ["gcc"],
    "namespaces": 65536,
}
PYXIS = {"path": "/etc/slurm/plugstack.conf.d/pyxis.conf", "content": "required /usr/local/lib/slurm/spank_pyxis.so\n"}
NAMES = {
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
}


@pytest.fixture
def part(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Return what a host gets of a cluster file with this system and toolkit, and these choices.

    Beside the part of the role's name those of enroot and pyxis, as `enroot`, `pyxis_build` and `pyxis`; {} where the host has none.
    """

    def part(
        system: str = "debian-13", host: str = "gpu1", toolkit: str = ', container_toolkit: "1.18.2"', **choices: Any
    ) -> dict[str, Any]:
        path = tmp_path / "c.bedplate.yml"
        (tmp_path / "m.asc").write_text(KEY)
        driver = {"debian-13": "550", "debian-12": "535.309.01"}.get(system, "580")
        source = "debian" if system.startswith("debian") else "nvidia"
        stack = f"os: {system}, source: {source}, driver: '{driver}', mirror: {{url: 'http://m.example.org/gpu', key: m.asc}}{toolkit}"
        module = ", module: proprietary" if system == "debian-12" else ""
        path.write_text(f"{FILE}gpu_stack: {{{stack}{module}}}\n")
        made = decide(software_of(load(path), host), {**CHOICES, **choices}, PyxisHeaders(["gcc"]), {})
        names = [name for name in ("enroot", "pyxis_build", "pyxis") if name in made.parts]
        others = {name: shown("container_runtime", made, name) for name in names}
        return {"enroot": {}, "pyxis": {}, **shown("container_runtime", made), **others}

    return part


def test_the_toolkit_is_four_packages_of_one_version_and_held(part: Callable[..., dict[str, Any]]) -> None:
    found = part()
    toolkit = dict(entry.split("=") for entry in found["packages"] if "=" in entry)
    assert set(toolkit) == NAMES == set(found["hold"])
    assert set(toolkit.values()) == {"1.18.2-1"}
    assert found["expected"]["container_toolkit"]["packages"] == toolkit
    assert "podman" in found["packages"]
    pins = [entry["content"] for entry in found["sources"] if entry["path"].startswith("/etc/apt/preferences.d/")]
    assert len(pins) == 1
    assert all(name in pins[0] for name in NAMES)


def test_on_el_dnf_brings_and_locks_it(part: Callable[..., dict[str, Any]]) -> None:
    told = part("rocky-9")
    assert (told["manager"], told["hold"], told["packages"][-1]) == ("dnf", [], "podman")
    (locks,) = (one["content"] for one in told["sources"] if one["path"] == LOCKS)
    assert "libnvidia-container1-1.18.2-1.*" in locks.splitlines()


def test_deploy_takes_what_is_brought(part: Callable[..., dict[str, Any]]) -> None:
    found = part(engines=["podman", "docker", "containerd"])
    assert mistakes("container_runtime", [*found["sources"], *found["files"]], []) == []
    assert read_units([*found["units"], *found["steps"]["daemons"]["units"]])[1] == []


def test_a_toolkit_that_leaves_the_file_takes_its_pins_holds_and_unit_along(
    part: Callable[..., dict[str, Any]],
) -> None:
    gone = part(toolkit="")
    assert [gone[key] for key in ("sources", "packages", "hold", "files")] == [[]] * 4
    assert [unit.name for unit in read_units(gone["units"])[0] if unit.may_be_absent] == [
        "bedplate-cdi.service", "nvidia-cdi-refresh.path", "nvidia-cdi-refresh.service",
    ]  # fmt: skip
    # Of a login node the file says nothing, so nothing of it is taken away.
    assert gone["state"] == "absent"
    others = part(host="ctl1"), part()
    assert ["state" in one for one in others] == [False, False]
    assert [one.get("manifest") for one in others] == [None, "container_runtime"]


@pytest.mark.parametrize(("host", "toolkit"), [("ctl1", ', container_toolkit: "1.18.2"'), ("gpu1", "")])
def test_without_a_toolkit_nothing_is_brought_but_pyxis(
    part: Callable[..., dict[str, Any]], tmp_path: Path, host: str, toolkit: str
) -> None:
    assert part(host=host, toolkit=toolkit)["packages"] == []
    assert part(host=host, toolkit=toolkit)["pyxis"] == {}
    found = part(host=host, toolkit=toolkit, **archives(tmp_path))
    assert (found["packages"], found["enroot"]) == ([], {})
    assert list(found["steps"]) == ["pyxis_archive", "pyxis_build"]
    assert found["steps"]["pyxis_archive"]["dest"] == "/var/lib/bedplate/archives/pyxis-1.tar.gz"
    assert found["pyxis"]["files"] == [PYXIS]
    # Verify compares containers where there is a toolkit.
    assert found["expected"] == {}


def test_the_unit_asks_for_the_driver_and_not_for_a_file_name(part: Callable[..., dict[str, Any]]) -> None:
    found = part()
    unit = next(entry["content"] for entry in found["files"] if entry["path"].endswith(".service"))
    assert "ConditionPathExists=/proc/driver/nvidia/version" in unit
    assert "ExecCondition" not in unit
    assert "modules.dep" not in unit
    assert f"cdi generate --output={CDI_SPEC}" in unit
    assert "create-dev-char-symlinks" in unit
    masked = [unit["name"] for unit in found["units"] if unit.get("masked")]
    assert masked == ["nvidia-cdi-refresh.path", "nvidia-cdi-refresh.service"]


@pytest.mark.parametrize(
    ("system", "engine", "values"),
    [
        ("debian-13", "docker", {"features": {"cdi": True}}),
        ("debian-12", "docker", {"runtimes": {"nvidia": {"path": "/usr/bin/nvidia-container-runtime", "runtimeArgs": []}}}),
        ("debian-13", "containerd", {"plugins": {"io.containerd.grpc.v1.cri": {"enable_cdi": True}}}),
    ],
)  # fmt: skip
def test_an_engine_gets_what_its_release_reads(
    part: Callable[..., dict[str, Any]], system: str, engine: str, values: dict[str, Any]
) -> None:
    steps = part(system, engines=[engine])["steps"]
    assert steps["settings"]["settings"][0]["values"] == values
    assert steps["daemons"]["units"] == [{"name": f"{engine}.service", "enabled": True, "state": "started"}]


def test_an_engine_without_cdi_keeps_runc_and_gets_a_runtime_that_reads_it(
    part: Callable[..., dict[str, Any]],
) -> None:
    settings = part("debian-12", engines=["containerd"])["steps"]["settings"]["settings"]
    text = set_values("", settings[0]["values"])
    assert "containerd.runtimes.runc]" in text
    assert "containerd.runtimes.nvidia.options]" in text
    assert settings[1]["values"] == {"nvidia-container-runtime": {"mode": "cdi"}}


def test_podman_has_no_daemon_and_no_settings(part: Callable[..., dict[str, Any]]) -> None:
    assert part()["steps"] == {}


def test_what_a_system_lacks_can_be_named(part: Callable[..., dict[str, Any]]) -> None:
    found = part(engines=["crio"], packages={"crio": ["cri-o"]})
    assert "cri-o" in found["packages"]
    assert found["steps"]["settings"]["settings"][0]["unit"] == "crio.service"


def archives(tmp_path: Path) -> dict[str, Any]:
    """Return choices with enroot by URL and pyxis from the control node."""
    path = tmp_path / "pyxis-1.tar.gz"
    path.write_bytes(b"tar")
    return {
        "engines": ["podman", "enroot"],
        "enroot": [{"source": "https://example.org/enroot_4.1.2-1_amd64.deb?raw=1", "sha256": "A" * 64}],
        "pyxis": {"source": str(path), "sha256": hashlib.sha256(b"tar").hexdigest()},
    }


def test_enroot_and_pyxis(part: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    found = part(**archives(tmp_path))
    deb, url = "enroot_4.1.2-1_amd64.deb", "https://example.org/enroot_4.1.2-1_amd64.deb?raw=1"
    path = f"/var/lib/bedplate/archives/{deb}"
    assert found["steps"]["archives"] == {"path": path, "url": url, "sha256": "a" * 64}
    assert found["steps"]["debs"] == {"archives": [{"path": path, "sha256": "a" * 64}]}
    assert found["pyxis"]["files"] == [PYXIS]
    compared = found["expected"]["containers"]
    assert compared["pyxis"] == {"plugin": "/usr/local/lib/slurm/spank_pyxis.so", "entry": PYXIS["path"]}
    assert (compared["spec"], [one["name"] for one in compared["engines"]]) == (CDI_SPEC, ["podman", "enroot"])
    assert mistakes("x", [*found["enroot"]["files"], *found["pyxis"]["files"]], []) == []
    texts = {entry["path"]: entry.get("content", "") for entry in found["enroot"]["files"]}
    assert "user.max_user_namespaces = 65536" in texts["/etc/sysctl.d/60-bedplate-namespaces.conf"]
    assert texts["/etc/enroot/enroot.conf.d/60-bedplate.conf"] == "ENROOT_RUNTIME_PATH /run/enroot/user-$(id -u)\n"
    assert "squashfs-tools" in found["packages"]
    none = part(**{**archives(tmp_path), "namespaces": 0})
    texts = {entry["path"]: entry.get("content", "") for entry in none["enroot"]["files"]}
    assert "max_" not in texts["/etc/sysctl.d/60-bedplate-namespaces.conf"]


@pytest.mark.parametrize(
    ("case", "choices", "values"),
    [
        ("unknown", {"engines": ["pod"]}, "container_runtime_engines: 'pod'; .*: podman, docker, containerd, crio, enroot"),
        ("without packages", {"engines": ["crio"]}, "crio .* debian-13 .*: podman, docker, containerd, enroot"),
        ("twice", {"engines": ["podman", "podman"]}, "container_runtime_engines: podman"),
        ("packages of an unknown one", {"packages": {"pod": ["x"]}}, "container_runtime_packages: 'pod'"),
        ("no archive", {"engines": ["enroot"]}, "container_runtime_enroot: the engine enroot"),
        ("no checksum", {"engines": ["enroot"], "enroot": [{"source": "x.deb"}]}, r"container_runtime_enroot\[1\]: .*{source"),
        ("a short checksum", {"engines": ["enroot"], "enroot": [{"source": "/x.deb", "sha256": "12"}]}, "sha256 '12'; .* 64"),
        ("a relative path", {"engines": ["enroot"], "enroot": [{"source": "x.deb", "sha256": "1" * 64}]},
         r"container_runtime_enroot\[1\].*'x\.deb'"),
        ("no file", {"engines": ["enroot"], "enroot": [{"source": "/none/x.deb", "sha256": "1" * 64}]}, r"/none/x\.deb"),
        ("another name", {"engines": ["enroot"], "enroot": [{"source": "/etc/passwd", "sha256": "1" * 64}]}, r" \*\.deb"),
        ("", {"engines": ["enroot"], "enroot": [{"source": "/etc/passwd", "sha256": "1" * 64}]}, "/etc/passwd .*SHA-256 [0-9a-f]+, .*111"),
        ("two of one name", {"engines": ["enroot"], "enroot": [{"source": f"http://{one}/x.deb", "sha256": "1" * 64} for one in "ab"]},
         r"x\.deb"),
        ("no tar", {"engines": ["enroot"], "enroot": ["x"], "pyxis": {"source": "http://a/p.zip", "sha256": "1" * 64}}, r" \*\.tar\*"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_what_is_allowed(
    part: Callable[..., dict[str, Any]], case: str, choices: dict[str, Any], values: str
) -> None:
    with pytest.raises(ContainerError, match=values) as caught:
        part(**choices)
    if case:
        said = re.sub(r"SHA-256 [0-9a-f]+", "SHA-256 DIGEST", str(caught.value))
        sentences.check(SENTENCES, f"an engine that cannot be: {case}", [said])


def test_all_mistakes_are_told_at_once(part: Callable[..., dict[str, Any]]) -> None:
    with pytest.raises(ContainerError) as caught:
        part(engines=["pod", "crio", "enroot"], packages={"x": []})
    assert len(str(caught.value).splitlines()) == 4


@pytest.mark.parametrize(
    ("system", "engine", "package"),
    [
        ("debian-12", "podman", "podman"),
        ("debian-13", "docker", "docker-cli"),
        ("ubuntu-22.04", "docker", "docker.io"),
        ("ubuntu-22.04", "containerd", "containerd"),
        ("ubuntu-24.04", "docker", "docker.io"),
        ("ubuntu-24.04", "containerd", "containerd"),
        ("ubuntu-24.04", "podman", "podman"),
        ("rocky-9", "podman", "podman"),
    ],
)
def test_each_system_has_an_engine_of_its_distribution(
    part: Callable[..., dict[str, Any]], system: str, engine: str, package: str
) -> None:
    assert package in part(system, engines=[engine])["packages"]
