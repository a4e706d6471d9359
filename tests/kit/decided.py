"""Decisions of roles as tests look at them: the arguments of bedplate.cluster.deploy, with what verify expects."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.role_choices import role_choices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.decision import Decision
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.render import render_part
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.decisions import HostRequest, decide

_LISTS = ("sources", "packages", "hold", "follow", "files", "units")


def shown(role: str, decision: Decision | None, part: str = "") -> dict[str, Any]:
    """Return the arguments of a part, by default that of the role's name; {} where the host does not have it.

    Lists that the part does not have are empty. Beside them `expected` (what the reader of the role's name compares) and `steps`, each
    with the arguments of its only module.
    """
    if decision is None:
        return {}
    name = part or role
    name = name if name in decision.parts else f"{name}_absent"
    found = render_part(role, name, decision.parts[name]) if name in decision.parts else {}
    steps = {step: next(iter(modules)).arguments for step, modules in decision.steps.items()}
    expected = decision.expected.get(role, decision.expected)
    return {**{key: [] for key in _LISTS}, **found, "expected": expected, "steps": steps}


def decision(
    role: str, path: Path | str, host: str, reported: Mapping[str, Any] | None = None, **variables: Any
) -> Decision:
    """Return the decision of a role for a host of a cluster file; `variables` by what is behind `<role>_`."""
    named = {f"{role}_{key}": value for key, value in variables.items()}
    choices = role_choices(role, named, lambda value: value)
    return decide(role, HostRequest(load(str(path)), host, choices, reported or {}))


def gpu_reported(gpu: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of the task that asked bedplate.cluster.gpu_facts, as later tasks of gpu_driver have it."""
    return {"steps": {"gpu_facts": {"gpu": gpu}}}


def decided(role: str, path: Path | str, host: str, part: str = "", **variables: Any) -> dict[str, Any]:
    """Return a part as `shown`, by the decision of the role for a host of a cluster file."""
    return shown(role, decision(role, path, host, **variables), part)
