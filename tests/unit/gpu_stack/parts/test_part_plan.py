"""What a node gets of GPU software by its profile: where from, which parts, and what the cluster file may not say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.unit_plan import read_units
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.gpu_stack_checks import version_mistakes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.schema.fields import Mistake
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.apt_repositories import (
    PackageRepository,
    pin_values,
    source_values,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts.driver_part import build_packages
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts.part_plan import (
    GpuSoftware,
    software_of,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.keys.repository_keys import judged
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.part_files import rendered_template
from tests.kit import sentences
from tests.kit.decided import decided

SENTENCES = Path(__file__).parents[1] / "sentences.txt"

KEY = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nmQENBF\n-----END PGP PUBLIC KEY BLOCK-----\n"
FILE = """\
plugin: bedplate.cluster.racks
site: s
cluster: c
networks: {management: {cidr: 10.0.0.0/24}}
profiles:
  new: {gpus: {model: h100, count: 1}, sockets: 1, cores_per_socket: 2, memory_mib: 1024, NEW}
  old: {gpus: {model: v100, count: 1}, sockets: 1, cores_per_socket: 2, memory_mib: 1024, OLD}
racks:
  r1: {nodes: new1, profile: new}
  r2: {nodes: old1, profile: old}
hosts: {ctl1: {address: 10.0.0.10}}
services: {controllers: [ctl1]}
partitions: {all: {nodes: all}}
"""
NVIDIA = 'gpu_stack: {os: debian-13, source: nvidia, driver: "580", keys: {nvidia: nvidia.asc}, MORE}\n'


def cluster(tmp_path: Path, stack: str, new: str = "", old: str = "") -> Any:
    (tmp_path / "nvidia.asc").write_text(KEY)
    path = tmp_path / "c.bedplate.yml"
    text = FILE.replace("NEW", f"gpu_stack: {{{new}}}" if new else "features: []")
    text = text.replace("OLD", f"gpu_stack: {{{old}}}" if old else "features: []")
    path.write_text(text + stack.replace(", MORE", ""))
    return load(path)


def wanted(tmp_path: Path, host: str = "new1", more: str = "features", **profiles: str) -> GpuSoftware:
    stack = NVIDIA if more == "features" else NVIDIA.replace("MORE", more)
    found = software_of(cluster(tmp_path, stack, **profiles), host)
    assert found is not None
    return found


def of_file(tmp_path: Path, name: str, host: str = "new1") -> dict[str, Any]:
    """Return a part of the role that has it, of the cluster file that is there."""
    role = {"driver": "gpu_driver", "prepare": "gpu_driver", "toolkit": "container_runtime"}.get(name, name)
    return decided(role, tmp_path / "c.bedplate.yml", host, name if role == "gpu_driver" else "")


def part(tmp_path: Path, name: str, host: str = "new1", more: str = "features", **profiles: str) -> dict[str, Any]:
    """Return a part of the same cluster file as `wanted`."""
    _ = wanted(tmp_path, host, more, **profiles)
    return of_file(tmp_path, name, host)


def read_by_apt(tmp_path: Path, name: str) -> list[str]:
    """Return paths of the files that apt reads before it installs a part; the driver's repositories come with `prepare`."""
    first = of_file(tmp_path, "prepare")["sources"] if name == "driver" else []
    paths = [entry["path"] for entry in [*first, *of_file(tmp_path, name)["sources"]]]
    return [path for path in paths if path.startswith("/etc/apt/")]


def mistakes(tmp_path: Path, stack: str, **profiles: str) -> list[Mistake]:
    with pytest.raises(ClusterFileError) as caught:
        cluster(tmp_path, stack, **profiles)
    return caught.value.mistakes


def test_a_profile_says_what_differs_on_its_nodes(tmp_path: Path) -> None:
    profiles = {"old": 'module: proprietary, driver: "570", os: debian-12'}
    new, old = wanted(tmp_path, "new1", **profiles), wanted(tmp_path, "old1", **profiles)
    assert (new.file.os, new.stack.module, new.stack.driver[:3]) == ("debian-13", "open", "580")
    assert (old.file.os, old.stack.module, old.stack.driver[:3]) == ("debian-12", "proprietary", "570")
    # What it does not say is the cluster's.
    assert (old.file.source, old.file.keys) == ("nvidia", (("nvidia", str(tmp_path / "nvidia.asc")),))


def test_an_empty_list_of_a_profile_takes_away_what_the_cluster_wants(tmp_path: Path) -> None:
    both = {"more": 'cuda: ["12.9"]', "old": "cuda: []"}
    assert part(tmp_path, "cuda", "new1", **both)["hold"] == ["cuda-toolkit-12-9"]
    none = part(tmp_path, "cuda", "old1", **both)
    # What was there before is taken away, so these are empty, and the part is there.
    assert none["manifest"] == "cuda"
    assert [none[key] for key in ("sources", "packages", "hold", "follow", "files")] == [[]] * 5


def test_profiles_may_say_all_of_it(tmp_path: Path) -> None:
    whole = 'os: debian-13, source: debian, driver: "550"'
    found = cluster(tmp_path, "", new=whole)
    assert software_of(found, "old1") is None
    assert found.profiles["new"].gpu_stack.driver == "550"


@pytest.mark.parametrize(
    ("stack", "profiles", "where", "values"),
    [
        ("", {"new": "os: debian-13"}, "profiles.new.gpu_stack", ["source, driver"]),
        (NVIDIA, {"old": "module: open"}, "profiles.old.gpu_stack", ["profile old: module open", "v100"]),
        (NVIDIA.replace("keys: {nvidia: nvidia.asc}, ", ""), {}, "gpu_stack", ["'nvidia'", "profile new"]),
        (NVIDIA.replace("MORE", 'container_toolkit: "1.18.2"'), {}, "gpu_stack.keys", ["'container-toolkit'"]),
        (NVIDIA.replace("MORE", "urls: {nvida: 'http://x'}"), {}, "gpu_stack.urls.nvida", ["'nvida'", "'nvidia'?"]),
        (NVIDIA.replace("MORE", "urls: {nvidia: x}"), {}, "gpu_stack.urls.nvidia", ["'x'", "http, https or file"]),
        (NVIDIA.replace("MORE", "mirror: {url: 'http://x'}"), {}, "gpu_stack.mirror", ["'key'"]),
        (NVIDIA.replace("MORE", "module_options: {x: 0}"), {}, "gpu_stack.module_options.x", ["0"]),
    ],
)  # fmt: skip
def test_mistakes_are_told_where_they_are(
    tmp_path: Path, stack: str, profiles: dict[str, str], where: str, values: list[str]
) -> None:
    found = mistakes(tmp_path, stack, **profiles)
    assert where in [one.where for one in found]
    (first, *_others) = [one for one in found if one.where == where]
    assert [value for value in values if value not in first.message] == []
    sentences.check(SENTENCES, f"a mistake in {where}: {', '.join(values)}", [first.message])


@pytest.mark.parametrize("value", ["https://keys.example.org/nvidia.asc", "5", "[a, b]"])
def test_a_wrong_key_is_one_mistake(tmp_path: Path, value: str) -> None:
    stack = NVIDIA.replace("nvidia.asc", value).replace("MORE", f"fingerprints: {{nvidia: {'A' * 40}}}")
    (found,) = mistakes(tmp_path, stack)
    assert found.where == "gpu_stack.keys.nvidia"


@pytest.mark.parametrize(
    ("stack", "values"),
    [
        (NVIDIA.replace("MORE", 'cuda: ["12.7"]'), ["profile new", "12.7", "playbooks/gpu_resolve.yml"]),
        (
            NVIDIA.replace('"580"', '"587"'),
            ["profile new", "driver 587", "nvidia on debian-13", "playbooks/gpu_resolve.yml"],
        ),
    ],
)
def test_mistakes_about_versions_are_told_before_anything_is_touched(
    tmp_path: Path, stack: str, values: list[str]
) -> None:
    # A run may still write the lock that has these versions, so the file can be read.
    first, *_others = version_mistakes(cluster(tmp_path, stack))
    assert first.startswith(f"{tmp_path}/c.bedplate.yml:14: gpu_stack: ")
    assert [value for value in values if value not in first] == []
    sentences.check(
        SENTENCES, f"a mistake of versions: {', '.join(values[1:2])}", [first.rpartition(": gpu_stack: ")[2]]
    )


@pytest.mark.parametrize(("file", "told"), [("nowhere.asc", "nowhere.asc"), ("c.bedplate.yml", "-----BEGIN PGP")])
def test_keys_are_read_before_any_machine_is_touched(tmp_path: Path, file: str, told: str) -> None:
    found = cluster(tmp_path, NVIDIA.replace("nvidia.asc", file))
    # Both profiles name it.
    (text,) = judged(found).mistakes
    assert re.match(rf"{re.escape(str(tmp_path))}/c\.bedplate\.yml:\d+: gpu_stack\.keys\.nvidia: ", text)
    assert told in text
    sentences.check(SENTENCES, f"the key {file}", [re.sub(r"\S*/", "", text)])
    with pytest.raises(ValueError, match=file):
        _ = software_of(found, "new1").repositories


def test_a_gpu_of_a_name_of_the_sites_own_is_told_what_it_is(tmp_path: Path) -> None:
    text = (
        FILE.replace("model: h100", "model: big")
        .replace("OLD", "features: []")
        .replace("NEW", "gpu_stack: {model: h100}")
    )
    (tmp_path / "nvidia.asc").write_text(KEY)
    (tmp_path / "c.bedplate.yml").write_text(text + NVIDIA.replace(", MORE", ""))
    found = software_of(load(tmp_path / "c.bedplate.yml"), "new1")
    assert found is not None
    assert found.stack.module == "open"


def test_a_profile_without_gpus_has_no_gpu_software(tmp_path: Path) -> None:
    text = (
        FILE.replace("gpus: {model: v100, count: 1}, ", "")
        .replace("OLD", "gpu_stack: {}")
        .replace("NEW", "features: []")
    )
    (tmp_path / "c.bedplate.yml").write_text(text)
    with pytest.raises(ClusterFileError) as caught:
        load(tmp_path / "c.bedplate.yml")
    (mistake,) = caught.value.mistakes
    assert mistake.where == "profiles.old.gpu_stack"
    sentences.check(SENTENCES, "gpu_stack of a profile without GPUs", [mistake.message])


def test_a_mirror_is_where_everything_comes_from(tmp_path: Path) -> None:
    more = (
        'mirror: {url: "http://10.0.0.1/gpu/", key: nvidia.asc}, container_toolkit: "1.18.2", cuda: ["12.9"], dcgm: "4"'
    )
    told = wanted(tmp_path, more=more)
    assert [(one.name, one.url, one.suites) for one in told.repositories] == [
        ("mirror", "http://10.0.0.1/gpu/debian-13", ("./",))
    ]
    for name in ("driver", "cuda", "dcgm", "toolkit"):
        assert read_by_apt(tmp_path, name) == [
            "/etc/apt/sources.list.d/bedplate-mirror.sources",
            f"/etc/apt/preferences.d/bedplate-{name}.pref",
        ]


def test_a_mirror_has_a_repository_for_each_architecture(tmp_path: Path) -> None:
    more = 'mirror: {url: "http://10.0.0.1/gpu/", key: nvidia.asc}'
    profiles = {"old": 'model: gh200, driver: "595"'}
    urls = [wanted(tmp_path, host, more, **profiles).repositories[0].url for host in ("new1", "old1")]
    assert urls == ["http://10.0.0.1/gpu/debian-13", "http://10.0.0.1/gpu/debian-13-arm64"]


def test_nodes_of_two_architectures_are_in_one_cluster(tmp_path: Path) -> None:
    profiles = {"old": 'model: gh200, driver: "595"'}
    told = [part(tmp_path, "prepare", host, **profiles) for host in ("new1", "old1")]
    build = [build_packages(wanted(tmp_path, host, **profiles)) for host in ("new1", "old1")]
    # The open module's package needs a C++ compiler as well.
    assert build == [["dkms", "g++", "linux-headers-amd64"], ["dkms", "g++", "linux-headers-arm64"]]
    assert [one["packages"] for one in told] == [["dkms", "g++"]] * 2
    assert ["/x86_64\n" in one["sources"][0]["content"] for one in told] == [True, False]
    assert ["/sbsa\n" in one["sources"][0]["content"] for one in told] == [False, True]
    assert all("linux-image-[!0-9]*" in one["expected"]["pinned"] for one in told)


def test_each_part_has_its_own_repositories_packages_and_pins(tmp_path: Path) -> None:
    (tmp_path / "toolkit.asc").write_text(KEY)
    more = 'container_toolkit: "1.18.2", cuda: ["12.9"], dcgm: "4"'
    stack = NVIDIA.replace("MORE", more).replace("keys: {", "keys: {container-toolkit: toolkit.asc, ")
    told = software_of(cluster(tmp_path, stack), "new1")
    assert told is not None
    seen: dict[str, str] = {}
    for name in ("driver", "cuda", "dcgm", "toolkit"):
        repositories = [path.rsplit("/", 1)[1] for path in read_by_apt(tmp_path, name)][:-1]
        assert repositories == [f"bedplate-{'container-toolkit' if name == 'toolkit' else 'nvidia'}.sources"]
        assert not set(told.pinned(name)) & set(seen)
        seen |= told.pinned(name)
    assert seen == dict(told.stack.pinned)
    assert {one.name for one in told.packages("toolkit")} <= set(told.pinned("toolkit"))


def test_the_first_cuda_is_the_one_that_users_find(tmp_path: Path) -> None:
    told = part(tmp_path, "cuda", more='cuda: ["12.9", "13.0"]', old='cuda: ["12.9"]')
    assert told["packages"] == ["cuda-toolkit-12-9=12.9.1-1", "cuda-toolkit-13-0=13.0.2-1"]
    assert told["hold"] == ["cuda-toolkit-12-9", "cuda-toolkit-13-0"]
    # The toolkit is a metapackage: what it brings has versions of its own, and stays as it came.
    assert told["follow"] == told["expected"]["follow"] == ["*-12-9", "cuda-toolkit-*config-common", "*-13-0"]
    files = {entry["path"]: entry for entry in told["files"]}
    assert files["/usr/local/cuda"] == {"path": "/usr/local/cuda", "state": "link", "target": "/usr/local/cuda-12.9"}
    assert "PATH=/usr/local/cuda-12.9/bin:$PATH" in files["/etc/profile.d/bedplate-cuda.sh"]["content"]


DIRECT = "gpudirect: [peermem, nvidia-fs, gdrcopy=2.5.1]"
UNIT = "bedplate-gpudirect.service"


def test_modules_of_gpudirect_are_proven_with_the_driver_and_installed_after_it(tmp_path: Path) -> None:
    cluster(tmp_path, NVIDIA, new=DIRECT)
    path = tmp_path / "c.bedplate.yml"
    driver, cuda = decided("gpu_driver", path, "new1", "driver"), decided("cuda", path, "new1")
    names = {"nvidia-fs-dkms": "2.26.6-*", "gdrdrv-dkms": "2.5.1-*", "libgdrapi": "2.5.1-*"}
    assert cuda["packages"] == [f"{name}={version}" for name, version in names.items()]
    assert cuda["hold"] == list(names)
    assert not set(driver["packages"]) & set(cuda["packages"])
    assert driver["steps"]["gpu_facts"]["proof"]["further"] == [
        {"name": "nvidia-fs", "packages": {"nvidia-fs-dkms": "2.26.6-*"}},
        {"name": "gdrdrv", "packages": {"gdrdrv-dkms": "2.5.1-*"}},
    ]
    build = {"modules": ["nvidia-fs", "gdrdrv"], "driver": "580.126.09"}
    assert cuda["steps"] == {"gpudirect_build": build}
    files = {one["path"]: one.get("content") for one in cuda["files"]}
    assert files["/etc/modules-load.d/bedplate-gpudirect.conf"] == "nvidia-peermem\nnvidia-fs\ngdrdrv\n"
    assert driver["expected"]["gpudirect"] == {
        "modules": {"nvidia-peermem": "nvidia_peermem", "nvidia-fs": "nvidia_fs", "gdrdrv": "gdrdrv"},
        "devices": ["/dev/gdrdrv"],
        "dkms": ["nvidia-fs", "gdrdrv"],
    }
    units, mistakes = read_units(cuda["units"])
    assert mistakes == []
    (unit,) = units
    assert [unit.where(one).state for one in ("580.126.09", "570.124.06", None)] == ["started", None, None]
    assert cuda["expected"]["units"] == [UNIT]


def test_a_module_of_the_driver_alone_has_no_packages_of_its_own(tmp_path: Path) -> None:
    cluster(tmp_path, NVIDIA.replace("MORE", "gpudirect: [peermem]"))
    path = tmp_path / "c.bedplate.yml"
    cuda, driver = decided("cuda", path, "new1"), decided("gpu_driver", path, "new1", "driver")
    assert (cuda["packages"], cuda["steps"]) == ([], {})
    assert [one["name"] for one in cuda["units"]] == [UNIT]
    assert "further" not in driver["steps"]["gpu_facts"]["proof"]


def test_without_gpudirect_nothing_of_it_is_on_a_node(tmp_path: Path) -> None:
    cluster(tmp_path, NVIDIA.replace("MORE", 'cuda: ["12.9"]'))
    path = tmp_path / "c.bedplate.yml"
    cuda, driver = decided("cuda", path, "new1"), decided("gpu_driver", path, "new1", "driver")
    assert (cuda["units"], cuda["steps"], cuda["expected"]["units"]) == ([], {}, [])
    assert driver["expected"]["gpudirect"] == {}
    assert not [one for one in cuda["files"] if "gpudirect" in one["path"]]


def test_dcgm_is_of_the_drivers_cuda_and_runs_where_that_driver_does(tmp_path: Path) -> None:
    told = part(tmp_path, "dcgm", more='cuda: ["12.9"], dcgm: "4"')
    assert "datacenter-gpu-manager-4-cuda13=1:4.6.0-*" in told["packages"]
    pins = told["sources"][-1]["content"]
    assert "Package: datacenter-gpu-manager\nPin: version *\nPin-Priority: -1\n" in pins
    (unit,), mistakes = read_units(told["units"])
    assert mistakes == []
    assert [unit.where(version).state for version in (None, "580.126.09\n", "570.1.2\n")] == [None, "started", None]
    # Packages may start and stop nothing when they are installed: the engine of another version would run on.
    assert unit.restart_after == ["/usr/bin/nv-hostengine"]
    assert unit.where(None).restart_after == ()


def test_dcgm_that_leaves_the_file_takes_its_pins_holds_and_unit_along(tmp_path: Path) -> None:
    gone = part(tmp_path, "dcgm")
    assert [gone[key] for key in ("sources", "packages", "hold", "follow")] == [[]] * 4
    assert (gone["state"], gone["manager"], gone["expected"]) == ("absent", "apt", {})
    # Whatever runs: it would watch another driver with this one's library.
    assert gone["units"] == [{"name": "nvidia-dcgm.service", "enabled": False, "state": "stopped", "drop_ins": {}}]
    assert "state" not in part(tmp_path, "dcgm", more='dcgm: "4"')


def test_module_options_go_where_the_source_reads_them(tmp_path: Path) -> None:
    more = 'module_options: {NVreg_RestrictProfilingToAdminUsers: "0"}'
    files = {entry["path"]: entry["content"] for entry in part(tmp_path, "driver", more=more)["files"]}
    assert list(files) == [wanted(tmp_path, more=more).stack.options_file]
    assert files["/etc/modprobe.d/bedplate-nvidia.conf"] == "options nvidia NVreg_RestrictProfilingToAdminUsers=0\n"


def test_persistence_is_turned_on_where_the_distribution_turns_it_off(tmp_path: Path) -> None:
    profiles = {"new": "os: ubuntu-24.04"}
    told = part(tmp_path, "driver", **profiles)
    files = {entry["path"]: entry["content"] for entry in told["files"]}
    text = files["/etc/systemd/system/nvidia-persistenced.service.d/bedplate.conf"]
    assert "ExecStart=\nExecStart=/usr/bin/nvidia-persistenced --user nvidia-persistenced --persistence-mode" in text
    assert "StopWhenUnneeded=false" in text
    (unit,), mistakes = read_units(told["units"])
    assert mistakes == []
    # Its package has started it already where the driver is loaded.
    path = "/etc/systemd/system/nvidia-persistenced.service.d/bedplate.conf"
    runs = unit.where(told["expected"]["driver"]["version"])
    assert (runs.name, runs.enabled, runs.state, runs.restart_after) == (
        "nvidia-persistenced.service", True, "started", [path],
    )  # fmt: skip
    assert part(tmp_path, "driver")["files"] == []


def of_values(template: str, values: dict[str, Any]) -> str:
    return rendered_template("gpu_driver", f"node_os/{template}", {"item": values})


def test_a_key_stands_in_the_file_of_its_repository() -> None:
    values = source_values(PackageRepository("x", "http://x", ("noble",), ("main", "extra"), KEY))
    text = of_values("apt.sources.j2", values)
    assert "Suites: noble\nComponents: main extra\nSigned-By:\n -----BEGIN" in text
    # A blank line would end the paragraph, and with it the key.
    assert "\n .\n mQENBF\n" in text
    assert "\n\n" not in text


def test_preferences_of_no_other_repository() -> None:
    text = of_values("apt.pref.j2", pin_values("about", {"b": "1", "a": "1", "c": "2*"}, never=("x*", "a")))
    assert text == (
        "# about\n\nPackage: a b\nPin: version 1\nPin-Priority: 1001\n\nPackage: c\nPin: version 2*\nPin-Priority: 1001\n\n"
        "Package: x*\nPin: version *\nPin-Priority: -1\n"
    )
