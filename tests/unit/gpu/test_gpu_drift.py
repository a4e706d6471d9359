"""GPU software read back: MIG and Secure Boot are compared where there is something to compare. Commands are stand-ins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command as node_command
from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import gpu_drift, gpu_inventory
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.devices import nvidia_smi
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver import secure_boot_state
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.next_kernel import BootError
from tests.kit import sentences
from tests.unit.gpu.tree import Tree

SENTENCES = Path(__file__).parent / "sentences.txt"

WANTED = {
    "role": "gpu_driver", "manager": "apt", "several": [], "none": [],
    "packages": {}, "pinned": {}, "units": [], "driver": {}, "signed": True,
    "module": {"file": "nvidia.ko", "version": "580.159.04", "kernel": "6.1"}, "mig": [["7g.80gb"]],
}  # fmt: skip
GOOD = "GPU 0: NVIDIA H100 (UUID: GPU-0)\n  MIG 7g.80gb Device 0: (UUID: MIG-0)\n"


@pytest.fixture
def gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the facts of a machine with Secure Boot and one GPU, in one instance."""
    tree = Tree(tmp_path)
    tree.driver()
    tree.gpu("0000:0f:00.0", 0)
    tree.write("proc/driver/nvidia/capabilities/gpu0/mig/gi0/ci0/access", "")
    monkeypatch.setattr(node_command, "run", lambda argv: Outcome(0, "580.159.04\n", ""))
    return {**tree.facts(), "secure_boot": "enabled"}


def compared(wanted: dict[str, Any], gpu: dict[str, Any], boots: gpu_drift._Boots) -> list[Finding]:
    return list(gpu_drift._compared(wanted, gpu, boots))


def programs(listing: Outcome) -> Callable[..., Outcome]:
    """Return what runs commands of a machine; `listing` is the answer of nvidia-smi."""
    return lambda argv, seconds=0.0: listing if argv[0] == "nvidia-smi" else Outcome(0, "580.159.04\n", "")


def told(
    monkeypatch: pytest.MonkeyPatch, gpu: dict[str, Any], listing: Outcome, obstacle: Finding | None = None
) -> list[Finding]:
    monkeypatch.setattr(node_command, "run", programs(listing))

    def judge(state: str | None, run: Any, module: str, kernel: str) -> Finding | None:
        assert (state, module, kernel) == (gpu["secure_boot"], "nvidia.ko", "6.1")
        return obstacle

    monkeypatch.setattr(secure_boot_state, "judge", judge)
    return compared(dict(WANTED), gpu, gpu_drift._Boots("6.1"))


def test_a_machine_as_wanted_has_no_finding(monkeypatch: pytest.MonkeyPatch, gpu: dict[str, Any]) -> None:
    assert told(monkeypatch, gpu, Outcome(0, GOOD, "")) == []


def test_other_instances_and_an_unknown_key_are_findings(monkeypatch: pytest.MonkeyPatch, gpu: dict[str, Any]) -> None:
    obstacle = Finding("secure-boot", "Secure Boot", "an enrolled key", "not enrolled", "all steps")
    found = told(monkeypatch, gpu, Outcome(0, GOOD.replace("7g", "4g"), ""), obstacle)
    assert [(one.kind, one.where, one.expected, one.found) for one in found] == [
        ("mig", "MIG of GPU 0000:0f:00.0", "1 x 7g.80gb", "1 x 4g.80gb"),
        ("secure-boot", "Secure Boot", obstacle.expected, obstacle.found),
    ]
    assert "playbooks/gpu.yml" in found[1].remedy
    sentences.check(SENTENCES, "other instances and a key that is not enrolled", found)


def test_an_nvidia_smi_that_hangs_is_no_good_machine(monkeypatch: pytest.MonkeyPatch, gpu: dict[str, Any]) -> None:
    (found,) = told(monkeypatch, gpu, Outcome(None, "", ""))
    assert (found.kind, found.where) == ("mig", "MIG")
    assert "nvidia-smi -L" in found.found
    sentences.check(SENTENCES, "MIG that nvidia-smi does not list", [found])


def test_what_nvlink_takes_is_compared_too(
    monkeypatch: pytest.MonkeyPatch, gpu: dict[str, Any], tmp_path: Path
) -> None:
    path = tmp_path / "nodes_config.cfg"
    path.write_text("10.0.0.1\n")
    monkeypatch.setitem(WANTED, "nvlink", {"nodes_file": str(path), "nodes": ["10.0.0.1", "10.0.0.2"], "modules": []})
    (found,) = told(monkeypatch, gpu, Outcome(0, GOOD, ""))
    assert (found.kind, found.where) == ("imex-nodes", str(path))
    assert "10.0.0.2" in found.found


def test_a_module_of_the_fabric_manager_is_looked_for_in_memory(
    monkeypatch: pytest.MonkeyPatch, gpu: dict[str, Any]
) -> None:
    driver = {"version": gpu["driver"]["version"], "flavour": gpu["driver"]["flavour"]}
    monkeypatch.setitem(WANTED, "driver", driver)
    monkeypatch.setitem(WANTED, "nvlink", {"nodes_file": "", "modules": ["of_no_machine"]})
    (found,) = told(monkeypatch, gpu, Outcome(0, GOOD, ""))
    assert (found.kind, found.where) == ("module-loaded", "kernel module of_no_machine")


def test_what_came_with_the_packages_is_to_be_held_too(monkeypatch: pytest.MonkeyPatch, gpu: dict[str, Any]) -> None:
    def run(argv: list[str]) -> Outcome:
        told = {
            "dpkg-query": "cuda-nvcc-12-9\tinstalled\t12.9.86-1\nlibnpp-12-9\tinstalled\t12.4-1\n",
            "apt-mark": "libnpp-12-9\n",
        }
        return Outcome(0, told.get(argv[0], ""), "")

    monkeypatch.setattr(node_command, "run", run)
    wanted = {"role": "cuda", "manager": "apt", "several": [], "none": [], "packages": {}, "pinned": {}, "units": []}
    (found,) = compared({**wanted, "follow": ["*-12-9"]}, gpu, gpu_drift._Boots())
    assert (found.kind, found.where) == ("hold", "package cuda-nvcc-12-9")
    assert compared(wanted, gpu, gpu_drift._Boots()) == []


def test_packages_of_an_older_branch_are_found(monkeypatch: pytest.MonkeyPatch, gpu: dict[str, Any]) -> None:
    def run(argv: list[str]) -> Outcome:
        told = {"dpkg-query": "libnvidia-compute-570\tinstalled\t570.1-1\n", "modinfo": "580.159.04\n"}
        return Outcome(0, told.get(argv[0], ""), "")

    monkeypatch.setattr(node_command, "run", run)
    (found,) = compared(
        {**WANTED, "signed": False, "mig": [], "others": ["libnvidia-compute-[0-9]*"]}, gpu, gpu_drift._Boots("6.1")
    )
    assert (found.kind, found.where, found.found) == ("package", "package libnvidia-compute-570", "570.1-1")
    assert "580.159.04" in found.expected


NOT_KNOWN = "whether kernel 6.1 boots next is not known: GRUB boots one of its entries"
OTHER = "kernel 6.1 is stated, and 6.2 boots next"


def unknown(kernel: str, manager: str, *, installed: bool) -> str:
    assert (kernel, manager, installed) == ("6.1", "dnf", True)
    return NOT_KNOWN


def test_before_a_reboot_a_kernel_of_which_nothing_tells_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_drift, "boot_problem", unknown)
    boots = gpu_drift._boots({"kernel": "6.1"}, "dnf", sure=False)
    assert (boots.kernel, boots.findings) == ("6.1", ())
    assert boots.unknown == NOT_KNOWN
    (finding,) = gpu_drift._boots({"kernel": "6.1"}, "dnf", sure=True).findings
    assert (finding.kind, finding.where) == ("next-kernel", "kernel")
    assert "6.1" in finding.expected
    assert NOT_KNOWN in finding.remedy
    sentences.check(SENTENCES, "before a reboot nothing tells which kernel boots", [finding])


@pytest.mark.parametrize("sure", [True, False])
def test_another_kernel_that_boots_next_is_always_a_finding(monkeypatch: pytest.MonkeyPatch, sure: bool) -> None:
    def other(kernel: str, manager: str, *, installed: bool) -> str:
        raise BootError(OTHER)

    monkeypatch.setattr(gpu_drift, "boot_problem", other)
    (finding,) = gpu_drift._boots({"kernel": "6.1"}, "apt", sure).findings
    assert (finding.kind, finding.where, finding.expected, finding.remedy) == ("next-kernel", "kernel", "6.1", OTHER)
    sentences.check(SENTENCES, "another kernel boots next", [finding])
    assert gpu_drift._boots({}, "apt", sure) == gpu_drift._Boots()


def test_nobody_looks_for_the_module_of_a_kernel_that_does_not_boot(
    monkeypatch: pytest.MonkeyPatch, gpu: dict[str, Any]
) -> None:
    monkeypatch.setattr(node_command, "run", programs(Outcome(0, GOOD, "")))
    finding = Finding("next-kernel", "kernel", "6.1", "6.2", "fix")
    boots = gpu_drift._Boots(findings=(finding,))
    assert compared(dict(WANTED), gpu, boots) == [finding]


@pytest.mark.parametrize("running", [True, False], ids=["verify", "before a reboot"])
def test_a_nouveau_that_is_not_kept_out_is_a_finding(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, running: bool
) -> None:
    monkeypatch.setattr(gpu_drift, "_compared", lambda *_arguments: iter(()))
    Tree(tmp_path).driver()
    (tmp_path / "etc/modprobe.d").mkdir(parents=True)
    file = tmp_path / "etc/modprobe.d/bedplate-gpu-driver.conf"
    file.write_text("#blacklist nouveau\n")
    wanted = {**WANTED, "module": {}, "signed": False, "blacklisted": ["nouveau"]}

    def found() -> list[tuple[str, str]]:
        findings = gpu_drift.findings(str(tmp_path), wanted, running)
        return [(one.where, one.remedy) for one in findings if one.kind == "modprobe"]

    ((where, remedy),) = found()
    assert where == "kernel module nouveau"
    assert "playbooks/gpu.yml" in remedy
    file.write_text("blacklist nouveau\n")
    assert found() == []


ROW = "00000000:0F:00.0, GPU-0, NVIDIA H100, Enabled, Disabled, Disabled, Enabled, Enabled, Completed, Success\n"


@pytest.mark.parametrize(
    ("answer", "kind", "where", "found"),
    [
        (Outcome(0, ROW, ""), "gpu-failure", "GPU 0000:10:00.0", "nvidia-smi does not list it"),
        (Outcome(None, "", ""), "unread", "nvidia-smi", "no answer within"),
        (Outcome(255, "", "NVML: Unknown Error"), "unread", "nvidia-smi", "'NVML: Unknown Error'"),
    ],
    ids=["a GPU is not listed", "it hangs", "it fails"],
)
def test_gpus_that_nvidia_smi_does_not_report_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Outcome, kind: str, where: str, found: str
) -> None:
    tree = Tree(tmp_path)
    tree.driver()
    tree.gpu("0000:0f:00.0", 0)
    tree.gpu("0000:10:00.0", 1)
    monkeypatch.setattr(node_command, "run", programs(answer))
    monkeypatch.setattr(gpu_drift, "_boots", lambda *_given, **_more: gpu_drift._Boots("6.1"))

    def ask(seconds: float, problems: list[str]) -> nvidia_smi.SmiOutput | None:
        return nvidia_smi.query("nvidia-smi", seconds, problems, lambda *_given: answer)

    monkeypatch.setattr(gpu_inventory, "nvidia_smi_query", lambda _root, query: ask if query else None)
    driver = {"version": "580.159.04", "flavour": "open"}
    wanted = {**WANTED, "mig": [], "signed": False, "driver": driver, "units": []}
    errors = [one for one in gpu_drift.findings(str(tmp_path), wanted) if one.severity == "error"]
    assert [(one.kind, one.where) for one in errors] == [(kind, where)]
    assert found in errors[0].found
    assert "drain the node" in errors[0].remedy
    # A part that does not compare the driver does not query it.
    assert [one for one in gpu_drift.findings(str(tmp_path), {**wanted, "driver": {}}) if one.severity == "error"] == []
