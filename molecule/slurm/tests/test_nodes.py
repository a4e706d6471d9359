"""The nodes, seen from themselves."""

from __future__ import annotations

import pytest

from lab.scenario_site import CONTROLLER

testinfra_hosts = ["ansible://compute_nodes"]


def test_a_node_has_no_configuration_of_its_own(host):
    assert not host.file("/etc/slurm/slurm.conf").exists
    assert host.check_output("readlink -f /run/slurm/conf/slurm.conf") != ""
    assert f"--conf-server {CONTROLLER}:6817" in host.check_output("pgrep --exact --list-full slurmd")


def test_munge_key_is_shared_and_private(host):
    key = host.file("/etc/munge/munge.key")
    assert (key.user, key.group, key.mode, key.size) == ("munge", "munge", 0o400, 1024)
    assert host.run("munge -n | unmunge | grep -q Success").rc == 0


def test_memory_can_be_locked(host):
    assert host.check_output("systemctl show slurmd --property=LimitMEMLOCK --value") == "infinity"


@pytest.mark.parametrize("unit", ["munge.service", "slurmd.service"])
def test_daemons_come_back_at_boot(host, unit):
    assert host.service(unit).is_enabled
    assert host.service(unit).is_running


def test_logins_join_jobs(host):
    lines = host.file("/etc/pam.d/sshd").content_string.splitlines()
    account = [line for line in lines if line.startswith(("account", "@include common-account"))]
    assert account[-2:] == [
        "account sufficient pam_succeed_if.so quiet user in keeper",
        "account required pam_slurm_adopt.so",
    ]
    assert host.check_output("systemctl is-enabled systemd-logind.service || true") == "masked"
