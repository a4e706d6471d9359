"""What engines, Slurm and the kernel say, against what was wanted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.container_checks import Checker
from ansible_collections.bedplate.cluster.plugins.module_utils.node_command import Outcome
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu import container_cdi


class Machine:
    """A machine whose tools say what the test says."""

    def __init__(self, **says: str) -> None:
        self.says = says

    def run(self, argv: list[str], timeout: float) -> Outcome:
        text = self.says.get(argv[0], "")
        return Outcome(1 if text.startswith("!") else 0, text.removeprefix("!"), "spank: said by the tool")


def findings(root: Path, machine: Machine, *engines: dict[str, Any], **wanted: Any) -> list[str]:
    return [str(one) for one in Checker(root, machine.run).findings({"engines": engines, **wanted})]


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
    ("gpus", "spec", "said"),
    [
        (2, SPEC, []),
        (2, None, ["expected written at boot, found No such file"]),
        (3, SPEC, ["expected a device for nvidia2, found none"]),
        (1, SPEC, ["found also nvidia1"]),
    ],
)
def test_the_specification_names_the_gpus_that_are_there(
    tmp_path: Path, gpus: int, spec: str | None, said: list[str]
) -> None:
    found = findings(with_driver(tmp_path, gpus=gpus, spec=spec), Machine(), spec=container_cdi.SPEC)
    assert [one in text for one, text in zip(said, found, strict=True)] == [True] * len(said)


def test_without_a_driver_it_is_said_that_nothing_was_checked(tmp_path: Path) -> None:
    checker = Checker(tmp_path, Machine().run)
    (notice,) = checker.findings({"engines": [], "spec": container_cdi.SPEC})
    assert (notice.kind, notice.severity, notice.where) == ("not-checked", "notice", "the CDI specification")


DOCKER = {"name": "docker", "cdi": True}
OLD = {"name": "docker", "cdi": False}
CONTAINERD = {"name": "containerd", "cdi": True, "plugin": "io.containerd.grpc.v1.cri"}


@pytest.mark.parametrize(
    ("engine", "says", "said"),
    [
        (DOCKER, {"docker": json.dumps({"ServerVersion": "26", "CDISpecDirs": ["/etc/cdi"]})}, ""),
        (DOCKER, {"docker": json.dumps({"ServerVersion": "26", "CDISpecDirs": []})}, "expected reads CDI specifications"),
        (DOCKER, {"docker": "!Cannot connect"}, "expected a daemon that answers, found Cannot connect"),
        (DOCKER, {"docker": "{}"}, "expected a daemon that answers"),
        (OLD, {"docker": json.dumps({"ServerVersion": "20", "Runtimes": {"runc": {}, "nvidia": {}}})}, ""),
        (OLD, {"docker": json.dumps({"ServerVersion": "20", "Runtimes": {"runc": {}}})}, "expected a runtime nvidia, found runc"),
        (CONTAINERD, {"containerd": '[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = true', "systemctl": "active"}, ""),
        (CONTAINERD, {"containerd": '[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = false', "systemctl": "active"}, "found false"),
        (CONTAINERD, {"containerd": '[plugins."io.containerd.grpc.v1.cri"]\nenable_cdi = true', "systemctl": "failed"}, "found failed"),
        (CONTAINERD, {"containerd": "!no"}, "expected settings that it can read, found no"),
        ({**CONTAINERD, "cdi": False}, {"containerd": "", "systemctl": "active"}, "expected a runtime runc, found none"),
        ({"name": "podman"}, {"podman": "5.4.2"}, ""),
        ({"name": "podman"}, {"podman": "!broken"}, "podman: expected works, found broken"),
        ({"name": "crio"}, {"crio": '[crio.runtime]\ncdi_spec_dirs = ["/var/run/cdi"]', "systemctl": "active"}, ""),
        ({"name": "crio"}, {"crio": "[crio.runtime]", "systemctl": "active"}, "expected cdi_spec_dirs with /var/run/cdi"),
        ({"name": "enroot"}, {"enroot": "!not found"}, "enroot: expected works, found not found"),
    ],
)  # fmt: skip
def test_engines_are_asked_how_they_understand_their_settings(
    tmp_path: Path, engine: dict[str, Any], says: dict[str, str], said: str
) -> None:
    found = findings(tmp_path, Machine(**says), engine)
    assert bool(found) == bool(said)
    assert said in "\n".join(found)


def test_limits_of_namespaces_are_those_of_the_kernel(tmp_path: Path) -> None:
    (tmp_path / "proc/sys/user").mkdir(parents=True)
    (tmp_path / "proc/sys/user/max_user_namespaces").write_text("0\n")
    (tmp_path / "proc/sys/kernel").mkdir()
    (tmp_path / "proc/sys/kernel/apparmor_restrict_unprivileged_userns").write_text("1\n")
    found = findings(tmp_path, Machine(enroot="4.1.2"), {"name": "enroot"})
    assert found == [
        "sysctl user.max_user_namespaces: expected at least 2, found 0; sysctl --system; which file in /etc/sysctl.d comes "
        "after bedplate's and says otherwise?",
        "sysctl kernel.apparmor_restrict_unprivileged_userns: expected 0, found 1; sysctl --system; which file in /etc/sysctl.d comes "
        "after bedplate's and says otherwise?",
    ]


def test_pyxis_is_there_when_srun_has_its_options(tmp_path: Path) -> None:
    wanted = {"plugin": "/p.so", "entry": "/e.conf"}
    assert findings(tmp_path, Machine(srun="  --container-image=[USER@]"), pyxis=wanted) == []
    found = findings(tmp_path, Machine(srun="Usage: srun"), pyxis=wanted)
    assert "found spank: said by the tool" in found[0]
    assert "PlugStackConfig=/etc/slurm/plugstack.conf" in found[0]
