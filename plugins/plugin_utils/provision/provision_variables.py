# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of provision.yml: their defaults, and mistakes in their values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..bmc import bmc_variables
from ..common import run_variables
from ..common.role_interfaces import role_options
from ..common.run_variables import RunVariable, as_whole, number, seconds

_HOSTLIST = RunVariable("", "names of nodes as a hostlist, such as gpu[01-04]", lambda value: isinstance(value, str))
_TEXT = RunVariable("", "a text", lambda value: isinstance(value, str))
_PORT = "a TCP port from 1 to 65535"
VARIABLES: dict[str, RunVariable] = {
    "provision_nodes": _HOSTLIST,
    "provision_wipe": _HOSTLIST,
    "provision_count": RunVariable(0, "the number of nodes in provision_wipe", number(1, 1_000_000), as_whole),
    "provision_without_slurm": _HOSTLIST,
    "provision_drain_seconds": seconds(0),
    "provision_at_once": RunVariable(64, "a number of nodes from 1 to 1024", number(1, 1024), as_whole),
    # A shorter bound would close the order of a machine that is writing its disk.
    "provision_install_seconds": RunVariable(3600, "whole seconds from 60 to 604800", number(60, 604_800), as_whole),
    "provision_off_seconds": seconds(300),
    "provision_ssh_seconds": seconds(1800),
    "provision_authorized_keys": RunVariable(
        "~/.ssh/id_ed25519.pub", "the path of a file with public keys", lambda value: isinstance(value, str)
    ),
    "provision_directory": RunVariable(
        "/var/lib/bedplate/provision",
        "an absolute path on the provision host",
        lambda value: str(value).startswith("/"),
    ),
    "provision_port": RunVariable(8443, _PORT, number(1, 65535), as_whole),
    "provision_words": _TEXT,
    "provision_public_key": RunVariable("", "a path on the provision host", lambda value: isinstance(value, str)),
    "bmc_port": RunVariable(443, _PORT, number(1, 65535), as_whole),
}
_PREFIXES = ("provision_", "bmc_")
_EXAMPLE = "Set it with -e provision_nodes=gpu[01-04]"


def mistakes(variables: Mapping[str, object]) -> list[str]:
    """Return each misspelt variable, each value that is not allowed, and that the nodes are missing."""
    # The role provision begins its variables with the same word.
    of_role = role_options("provision").keys() - VARIABLES.keys()
    own = {name: value for name, value in variables.items() if name not in of_role}
    found = run_variables.mistakes(own, VARIABLES, "provision_", "provision.yml")
    if "bmc_port" in variables and not VARIABLES["bmc_port"].takes(variables["bmc_port"]):
        found.append(f"bmc_port: {variables['bmc_port']!r}; allowed: {_PORT}")
    if variables.get("provision_nodes", "") == "":
        found.append(f"provision_nodes is missing; allowed: {_HOSTLIST.allowed}. There is no default. {_EXAMPLE}")
    return found


def stated_of(variables: Mapping[str, Any], template: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the variables of provision.yml that a task has, with their templates filled in."""
    return {name: template(variables[name]) for name in VARIABLES if name in variables}


def allowed_of(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables whose value is allowed."""
    return {name: value for name, value in stated.items() if VARIABLES[name].takes(value)}


def run_mistakes(variables: Mapping[str, Any], extra: Mapping[str, Any], template: Callable[[Any], Any]) -> list[str]:
    """Return all mistakes in the variables of a run. `variables` belong to the task, `extra` to the command line."""
    stated = stated_of(variables, template)
    found = mistakes({**{name: one for name, one in extra.items() if name not in stated}, **stated})
    found += bmc_variables.foreign(extra, "provision", VARIABLES)
    others = {name for known in bmc_variables.PLAYBOOKS.values() for name in known}
    of_bmcs = {name: one for name, one in extra.items() if name.startswith("bmc_") and name not in others}
    found += run_variables.mistakes(of_bmcs, {"bmc_port": VARIABLES["bmc_port"]}, "bmc_", "provision.yml")
    named = [name for name in extra if not name.startswith(_PREFIXES)]
    return found + run_variables.slips(named, variables, VARIABLES, {*others, *role_options("provision")}, "provision")


def choices(variables: Mapping[str, object]) -> dict[str, Any]:
    """Return the value of each variable, by its whole name. Raises ValueError for values that `mistakes` names."""
    return run_variables.choices(variables, VARIABLES, "")
