"""What engines, Slurm and the kernel say, against what was wanted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.containers.container_drift import ContainerReader
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.parts.container_part import CDI_SPEC
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"


SAID = "spank: said by the tool"


class Machine:
    """A machine whose tools say what the test says."""

    def __init__(self, **says: str) -> None:
        self.says = says

    def run(self, argv: list[str], timeout: float) -> Outcome:
        text = self.says.get(argv[0], "")
        return Outcome(1 if text.startswith("!") else 0, text.removeprefix("!"), SAID)


def findings(root: Path, machine: Machine, *engines: dict[str, Any], **wanted: Any) -> list[Finding]:
    return list(ContainerReader(root, machine.run).findings({"engines": engines, **wanted}))


def with_driver(root: Path, *, gpus: int, spec: str | None) -> Path:
    (root / "proc/driver/nvidia").mkdir(parents=True)
    (root / "proc/driver/nvidia/version").touch()
    (root / "dev").mkdir()
    for name in ("nvidiactl", "nvidia-uvm", *(f"nvidia{number}" for number in range(gpus))):
        (root / "dev" / name).touch()
    if spec is not None:
        (root / "var/run/cdi").mkdir(parents=True)
        (root / "var/run/cdi/nvidia.yaml").write_text(spec)
    return root


SPEC = "containerEdits:\n  deviceNodes:\n  - path: /dev/nvidia0\n  - path: /dev/nvidia1\n  - path: /dev/nvidiactl\n"


@pytest.mark.parametrize(
    ("gpus", "spec", "field", "said"),
    [
        (2, SPEC, "", ""),
        (2, None, "found", "No such file"),
        (3, SPEC, "expected", "nvidia2"),
        (1, SPEC, "found", "nvidia1"),
    ],
)
def test_the_specification_names_the_gpus_that_are_there(
    tmp_path: Path, gpus: int, spec: str | None, field: str, said: str
) -> None:
    found = findings(with_driver(tmp_path, gpus=gpus, spec=spec), Machine(), spec=CDI_SPEC)
    assert [one.kind for one in found] == ["cdi"] * bool(field)
    if field:
        assert CDI_SPEC in found[0].where
        assert said in getattr(found[0], field)
        sentences.check(SENTENCES, f"the specification of {gpus} GPUs, {'there' if spec else 'not there'}", found)


def test_without_a_driver_it_is_said_that_nothing_was_checked(tmp_path: Path) -> None:
    checker = ContainerReader(tmp_path, Machine().run)
    (notice,) = checker.findings({"engines": [], "spec": CDI_SPEC})
    assert (notice.kind, notice.severity, notice.where) == ("not-checked", "notice", "the CDI specification")


DOCKER = {"name": "docker", "cdi": True}
OLD = {"name": "docker", "cdi": False}
CONTAINERD = {"name": "containerd", "cdi": True, "plugin": "io.containerd.grpc.v1.cri"}


@pytest.mark.parametrize(
    ("case", "engine", "says", "where", "values"),
    [
        ("", DOCKER, {"docker": json.dumps({"ServerVersion": "26", "CDISpecDirs": ["/etc/cdi"]})}, [], ""),
        ("no CDI", DOCKER, {"docker": json.dumps({"ServerVersion": "26", "CDISpecDirs": []})}, ["docker"], "CDI"),
        ("a dead daemon", DOCKER, {"docker": "!Cannot connect"}, ["docker"], "Cannot connect"),
        ("an empty answer", DOCKER, {"docker": "{}"}, ["docker"], "{}"),
        ("", OLD, {"docker": json.dumps({"ServerVersion": "20", "Runtimes": {"runc": {}, "nvidia": {}}})}, [], ""),
        ("no runtime", OLD, {"docker": json.dumps({"ServerVersion": "20", "Runtimes": {"runc": {}}})}, ["docker"], "nvidia runc"),
        ("", CONTAINERD, {"containerd": '[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = true', "systemctl": "active"}, [], ""),
        ("no CDI", CONTAINERD, {"containerd": '[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = false', "systemctl": "active"},
         ["containerd"], "enable_cdi false"),
        ("not active", CONTAINERD, {"containerd": '[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = true', "systemctl": "failed"},
         ["unit containerd.service"], "failed"),
        ("no settings", CONTAINERD, {"containerd": "!no"}, ["containerd"], "no"),
        ("no runtime", {**CONTAINERD, "cdi": False}, {"containerd": "", "systemctl": "active"}, ["containerd"] * 2, "runc"),
        ("", {"name": "podman"}, {"podman": "5.4.2"}, [], ""),
        ("does not work", {"name": "podman"}, {"podman": "!broken"}, ["podman"], "broken"),
        ("", {"name": "crio"}, {"crio": '[crio.runtime]\ncdi_spec_dirs = ["/var/run/cdi"]', "systemctl": "active"}, [], ""),
        ("no CDI", {"name": "crio"}, {"crio": "[crio.runtime]", "systemctl": "active"}, ["crio"], "cdi_spec_dirs /var/run/cdi"),
        ("does not work", {"name": "enroot"}, {"enroot": "!not found"}, ["enroot"], "found"),
    ],
)  # fmt: skip
def test_engines_are_asked_how_they_understand_their_settings(
    tmp_path: Path, case: str, engine: dict[str, Any], says: dict[str, str], where: list[str], values: str
) -> None:
    found = findings(tmp_path, Machine(**says), engine)
    assert [one.where for one in found] == where
    assert {one.kind for one in found} <= {"container-engine", "unit"}
    if found:
        assert all(value in found[0].difference for value in values.split())
        sentences.check(SENTENCES, f"{engine['name']}: {case}", found)


def test_limits_of_namespaces_are_those_of_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "proc/sys/user").mkdir(parents=True)
    (tmp_path / "proc/sys/user/max_user_namespaces").write_text("0\n")
    (tmp_path / "proc/sys/kernel").mkdir()
    (tmp_path / "proc/sys/kernel/apparmor_restrict_unprivileged_userns").write_text("1\n")
    found = findings(tmp_path, Machine(enroot="4.1.2"), {"name": "enroot"})
    assert [(one.kind, one.where, one.expected[-1], one.found) for one in found] == [
        ("sysctl", "sysctl user.max_user_namespaces", "2", "0"),
        ("sysctl", "sysctl kernel.apparmor_restrict_unprivileged_userns", "0", "1"),
    ]
    assert all("sysctl --system" in one.remedy for one in found)
    sentences.check(SENTENCES, "limits of namespaces", found)


def test_pyxis_is_there_when_srun_has_its_options(tmp_path: Path) -> None:
    wanted = {"plugin": "/p.so", "entry": "/e.conf"}
    assert findings(tmp_path, Machine(srun="  --container-image=[USER@]"), pyxis=wanted) == []
    (found,) = findings(tmp_path, Machine(srun="Usage: srun"), pyxis=wanted)
    assert (found.kind, found.where, found.found) == ("pyxis", "srun", SAID)
    assert "--container-image" in found.expected
    assert "PlugStackConfig=/etc/slurm/plugstack.conf" in found.remedy
    sentences.check(SENTENCES, "srun without pyxis", [found])
