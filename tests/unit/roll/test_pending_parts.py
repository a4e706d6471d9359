# SPDX-License-Identifier: GPL-3.0-or-later
"""What the roles' results in check mode say of a node: what is pending, whether it needs the node without jobs, and a reboot."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll.pending_parts import (
    ALWAYS,
    DRAINS,
    NOTES,
    PROBLEM,
    PendingNode,
    needs,
    pending,
)

QUIET = {"reasons": {}, "in_use": []}


def of(**registered: Any) -> PendingNode:
    return pending({"n1": {NOTES: QUIET, **registered}}, ["n1"])["n1"]


def test_a_converged_node_has_nothing_pending():
    found = of(
        **{name: {"changed": False, "changed_files": []} for need in needs().values() for name in need.registered}
    )
    assert (found.is_pending, found.drain, found.problem) == (False, False, "")


def test_a_new_driver_drains_and_reboots():
    found = of(
        __gpu_driver_done={
            "changed": True,
            "installed": ["nvidia-driver", "nvidia-dkms", "libcuda1", "nvidia-smi"],
            "changed_files": ["/run/bedplate/reboot-wanted/gpu_driver"],
        }
    )
    assert found.parts == {"GPU driver": "install nvidia-driver, nvidia-dkms, libcuda1 and 1 more"}
    assert found.drain
    assert found.text == "GPU driver, reboot"


def test_a_changed_file_of_node_tuning_needs_no_drain_and_a_changed_command_line_does():
    files = {"changed": True, "changed_files": ["/etc/sysctl.d/60-bedplate.conf"]}
    assert (of(__node_tuning_done=files).drain, of(__node_tuning_done=files).is_pending) == (False, True)
    line = {"changed": True, "reboot_wanted": True, "reason": "the running kernel lacks iommu=pt"}
    found = of(__node_tuning_done={"changed": True, "steps": {"kernel_cmdline": line}})
    assert found.reboot == {"kernel and hardware": "the running kernel lacks iommu=pt"}
    assert found.drain


@pytest.mark.parametrize("name", needs())
def test_a_change_of_a_part_drains_as_its_row_has_it(name: str):
    need = needs()[name]
    found = of(**{need.registered[-1]: {"changed": True, "changed_files": ["/etc/a"]}})
    assert (found.parts, found.reboot, found.drain) == ({need.part: "write /etc/a"}, {}, need.drain == ALWAYS)


@pytest.mark.parametrize(
    ("result", "reboot"),
    [
        ({"changed": True, "reboot_wanted": True}, {"packages": "a new kernel"}),
        ({"changed": True, "reboot_wanted": False}, {}),
        ({"changed": False, "reboot_wanted": True}, {}),
    ],
)
def test_a_kernel_that_is_installed_is_a_reboot(result: dict[str, Any], reboot: dict[str, str]):
    assert of(__roll_packages={"installed": ["linux-image-amd64 6.1.140-1"], **result}).reboot == reboot


@pytest.mark.parametrize("key", ["waiting", "findings"])
def test_what_waits_for_jobs_needs_a_drain(key: str):
    step = {"changed": False, key: ["GPU 0000:1b:00.0 must get --power-limit=600, and is in use"]}
    found = of(__gpu_driver_done={"changed": False, "steps": {"gpu_settings": step}})
    assert found.parts == {"GPU driver": "gpu settings after the jobs"}
    assert found.drain


@pytest.mark.parametrize(
    ("result", "items"),
    [
        ({"changes": ["munge.service: enabled, started"]}, ("unit or hold: munge.service: enabled, started",)),
        (
            {"installed": ["munge"], "changes": ["munge.service: enabled"]},
            ("install munge", "unit or hold: munge.service: enabled"),
        ),
        ({"changed_files": ["/run/bedplate/reboot-wanted/gpu_driver"]}, ()),
    ],
)
def test_items_name_all_that_a_task_would_change(result: dict[str, Any], items: tuple[str, ...]):
    assert of(__slurm_compute_done={"changed": True, **result}).items == {"Slurm": items}


def test_a_note_of_an_earlier_run_is_a_reboot_though_no_role_changes_anything():
    found = of(**{NOTES: {"reasons": {"gpu_driver": "driver 580 is installed and not loaded"}}})
    assert (found.reboot, found.drain) == ({"GPU driver": "driver 580 is installed and not loaded"}, True)


@pytest.mark.parametrize(
    ("registered", "problem"),
    [
        (
            {"__cuda_done": {"failed": True, "msg": "no package cuda-toolkit-13-0"}},
            "CUDA: no package cuda-toolkit-13-0",
        ),
        ({"__cuda_done": {"unreachable": True, "msg": "timed out"}}, "CUDA: no answer by SSH"),
        ({PROBLEM: "Deploy CUDA: no such variable"}, "Deploy CUDA: no such variable"),
        ({NOTES: {"unreachable": True}}, "no answer by SSH"),
        ({NOTES: {"failed": True, "msg": "no space left"}}, "no space left"),
        ({NOTES: None}, "no answer by SSH"),
    ],
)
def test_what_cannot_be_compared_is_a_problem_of_the_node(registered: dict[str, Any], problem: str):
    assert of(**registered).problem == problem


def test_every_part_has_a_name_of_its_own_and_says_when_it_drains():
    assert {need.drain for need in needs().values()} <= set(DRAINS)
    assert len({need.part for need in needs().values()}) == len(needs())


def test_security_updates_are_counted_and_removed_packages_are_named():
    packages = {
        "installed": ["zip 2", "libssl3 3"],
        "security": ["libssl3 3"],
        "removed": ["libnew 1"],
        "changed": True,
    }
    found = of(__roll_packages=packages)
    assert found.parts == {"packages": "install zip 2, libssl3 3, remove libnew 1, security updates among them: 1"}
    assert found.items["packages"] == ("install zip 2", "install libssl3 3", "remove libnew 1")
