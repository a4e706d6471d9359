# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that playbooks/fabric*.yml take; docs/fabric.md says what each is for."""

from __future__ import annotations

from collections.abc import Iterable

from ..common.role_interfaces import misspelt_variables

PREFIX = "fabric_"
VARIABLES = (
    "fabric_adopt",
    "fabric_directory",
    "fabric_fail_on",
    "fabric_group_pattern",
    "fabric_host_pattern",
    "fabric_name",
    "fabric_port_dialect",
    "fabric_port_step",
    "fabric_record",
    "fabric_saved",
    "fabric_simulation_timeout",
    "fabric_slurm_version",
    "fabric_sources",
    "fabric_storage_pattern",
    "fabric_topology_partial",
)


def unknown_variables(names: Iterable[str]) -> list[str]:
    """Return the unknown names of variables that begin with `fabric_`, with the nearest known one.

    >>> unknown_variables(["fabric_fail_on", "fabric_failon", "other"])
    ['fabric_failon is not a variable of the playbooks of the fabric; did you mean fabric_fail_on?']
    """
    return misspelt_variables(names, PREFIX, VARIABLES, "the playbooks of the fabric")
