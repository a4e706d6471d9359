"""An inventory without a cluster file, used by an ordinary user with sudo through a jump host."""

from __future__ import annotations

import time
from typing import Any

import pytest
import testinfra

from lab.nodes import container_name
from lab.scenario_run import ssh

LAB = "molecule-plain"
testinfra_hosts = ["local://"]


def machine(name: str) -> Any:
    """Return a machine; only the jump host could reach it by SSH."""
    return testinfra.get_host(f"podman://{container_name(LAB, name)}")


@pytest.fixture(scope="module")
def ctl1() -> Any:
    return machine("ctl1")


@pytest.mark.parametrize("name", ["ctl1", "gpu1", "gpu2"])
def test_only_the_jump_host_can_log_in(name: str):
    for user in ("ops", "root"):
        direct = ssh("plain", user, name, "true")
        assert direct.returncode != 0, user
        assert "Permission denied" in direct.stderr


def test_sudo_wants_a_password_on_one_node_alone():
    for name, status in (("gpu1", 0), ("gpu2", 1)):
        assert machine(name).run("runuser -u ops -- sudo -n true").rc == status, name


@pytest.mark.parametrize("name", ["gpu1", "gpu2"])
def test_the_driver_of_the_variables_is_installed_and_held(name: str):
    node = machine(name)
    assert node.check_output("dpkg-query --show --showformat='${Version}' nvidia-kernel-open-dkms") == "580.65.06-1"
    assert "nvidia-kernel-open-dkms" in node.check_output("apt-mark showhold").split()
    origin = node.check_output("apt-cache policy nvidia-kernel-open-dkms")
    assert "http://10.215.11.10/nvidia/debian-13" in origin


def test_cuda_is_per_host():
    show = "dpkg-query --show --showformat='${db:Status-Abbrev}' cuda-toolkit-12-9"
    assert machine("gpu1").check_output(show).strip() == "hi"
    assert not machine("gpu2").run(show).stdout.startswith(("ii", "hi"))


@pytest.mark.parametrize(("name", "address"), [("gpu1", "10.219.11.11/24"), ("gpu2", "10.219.11.12/24")])
def test_rails_are_those_of_the_variables(name: str, address: str):
    text = machine(name).check_output("cat /etc/bedplate/rdma.json")
    assert '"pci": "0000:3b:00.0"' in text
    assert f'"address": "{address}"' in text


def test_slurm_runs_a_job_on_both_nodes(ctl1: Any):
    for _ in range(30):
        if ctl1.run("sinfo --noheader --format=%t --partition=gpu").stdout.split() == ["idle"]:
            break
        time.sleep(1)
    out = ctl1.check_output("srun --partition=gpu --nodes=2 --gpus-per-node=1 --time=1 hostname")
    assert sorted(out.split()) == ["gpu1", "gpu2"]


def test_partitions_are_those_of_the_variables(ctl1: Any):
    assert "Nodes=gpu1\n" in ctl1.check_output("scontrol show partition debug") + "\n"
    assert "MaxTime=1-00:00:00" in ctl1.check_output("scontrol show partition gpu")


def test_the_user_may_log_in_without_a_job():
    rules = machine("gpu1").check_output("cat /etc/pam.d/sshd")
    assert "account sufficient pam_succeed_if.so quiet user in ops\naccount required pam_slurm_adopt.so\n" in rules
