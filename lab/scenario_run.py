# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbook runs on the machines of a molecule scenario, for tests that change the site and run again."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import testinfra

from lab.paths import ROOT, ssh_config_of, state_of

# A module that is compiled takes minutes.
TIMEOUT = 900


def run(scenario: str, playbook: Path, cluster_file: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a playbook on the machines of a scenario, with this cluster file; the result has its output as text."""
    return subprocess.run(
        command(scenario, playbook, cluster_file, *arguments),
        env=environment(scenario),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def command(scenario: str, playbook: Path, cluster_file: Path, *arguments: str) -> list[str]:
    """Return the command of a run."""
    secrets = state_of(f"molecule-{scenario}") / "secrets"
    return [
        "ansible-playbook",
        f"--inventory={cluster_file}",
        f"--inventory={ROOT / 'molecule' / 'inventory'}",
        str(playbook),
        f"--extra-vars=bedplate_secrets_dir={secrets}",
        *arguments,
    ]


def environment(scenario: str) -> dict[str, str]:
    """Return the environment of a run."""
    return {
        **os.environ,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_NOCOLOR": "1",
        # Molecule enables one of its own alone.
        "ANSIBLE_CALLBACKS_ENABLED": "bedplate.cluster.report",
        "BEDPLATE_REPORT": str(report_of(scenario)),
        "ANSIBLE_SSH_COMMON_ARGS": f'-F "{ssh_config_of(f"molecule-{scenario}")}"',
    }


def report_of(scenario: str) -> Path:
    """Return the folder of the report of the last run."""
    return state_of(f"molecule-{scenario}") / "report"


def ssh(scenario: str, user: str, machine: str, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command on a machine of a scenario, named or by address, in a separate connection."""
    options = ["-F", str(ssh_config_of(f"molecule-{scenario}")), "-o", "ControlMaster=no", "-o", "ControlPath=none"]
    return subprocess.run(
        ["ssh", *options, "-l", user, machine, command], capture_output=True, text=True, timeout=60, check=False
    )


def machine(config: Any, name: str) -> Any:
    """Return one machine of testinfra, for a test that is of this one alone; `config` is pytest's."""
    option = config.option
    return testinfra.get_host(
        f"ansible://{name}", ansible_inventory=option.ansible_inventory, ssh_config=option.ssh_config
    )


def recap(output: str) -> dict[str, dict[str, int]]:
    """Return host -> counter -> number of the recap of a run. Lines of the report follow it.

    >>> recap("PLAY RECAP ***\\ngpu01 : ok=2 changed=1 unreachable=0 failed=0\\nsite.yml: done")
    {'gpu01': {'ok': 2, 'changed': 1, 'unreachable': 0, 'failed': 0}}
    """
    hosts = {}
    for line in output[output.rindex("PLAY RECAP") :].splitlines()[1:]:
        host, _, counters = line.partition(":")
        if counters.lstrip().startswith("ok="):
            hosts[host.strip()] = {name: int(number) for name, number in re.findall(r"(\w+)=(\d+)", counters)}
    return hosts
