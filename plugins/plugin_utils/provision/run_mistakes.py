# SPDX-License-Identifier: GPL-3.0-or-later
"""Find mistakes in the variables of a playbook that commands BMCs, together with all others of an inventory and before any task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..bmc import bmc_variables
from ..bmc.bmc_targets import NameMistakesError, named_nodes, repeated_mistakes
from ..bmc.run_input import RunError
from ..cluster import Cluster
from .site_input import site_of

PROVISION = "provision"
PLAYBOOKS = (*bmc_variables.PLAYBOOKS, PROVISION)
_REPEATED = ("power_without_slurm",)
_NODES = {"power": "power_nodes", "bmc_commission": "bmc_nodes"}
"""Playbook -> the variable that names its nodes."""


def mistakes(
    playbook: str,
    variables: Mapping[str, Any],
    extra: Mapping[str, Any],
    template: Callable[[Any], Any],
    cluster: Cluster | None,
) -> list[str]:
    """Return all mistakes in the variables of a playbook, and in the names of its nodes if there is a cluster file."""
    if playbook == PROVISION:
        return _of_site(variables, extra, template)
    found = bmc_variables.run_mistakes(variables, extra, template, playbook)
    stated = bmc_variables.stated_of(variables, template, playbook)
    named = stated.get(_NODES.get(playbook, ""))
    if cluster is None or not isinstance(named, str) or not named:
        return found
    return found + _of_names(playbook, named, stated, cluster)


def _of_site(variables: Mapping[str, Any], extra: Mapping[str, Any], template: Callable[[Any], Any]) -> list[str]:
    """Return all mistakes in the input of provision.yml, the record of machines included."""
    try:
        site_of(variables, extra, template)
    except RunError as error:
        return str(error).splitlines()
    return []


def _of_names(playbook: str, named: str, stated: Mapping[str, Any], cluster: Cluster) -> list[str]:
    """Return mistakes in the names of nodes. The playbook finds nodes that --limit leaves out."""
    own, found = _NODES[playbook], list[str]()
    try:
        named_nodes(named, cluster, own)
    except NameMistakesError as error:
        found += str(error).splitlines()
    for name in _REPEATED:
        if isinstance(stated.get(name), str):
            found += repeated_mistakes(stated[name], name, named, own)
    return found
