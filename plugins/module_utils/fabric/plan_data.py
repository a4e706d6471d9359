# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan as data, as it goes to a module: dicts and lists, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.model import (
    Domain,
    Hca,
    Link,
    Partition,
    Plan,
    SubnetManager,
    Switch,
)

_LISTS: dict[str, Any] = {"links": Link, "partitions": Partition, "managers": SubnetManager, "domains": Domain}


def to_data(plan: Plan) -> dict[str, Any]:
    """Return a plan as data; what `from_data` makes of it is equal."""
    found = asdict(plan)
    del found["used"]
    return {**found, "switches": list(found["switches"].values()), "hcas": list(found["hcas"].values())}


def from_data(data: Mapping[str, Any]) -> Plan:
    """Return the plan; ValueError names what is not of a plan."""
    known = {one.name for one in fields(Plan)} - {"used"}
    if unknown := sorted(set(data) - known):
        raise ValueError(f"{', '.join(unknown)} is nothing of a plan; allowed: {', '.join(sorted(known))}")
    values = {name: value for name, value in data.items() if name not in (*_LISTS, "switches", "hcas")}
    try:
        plan = Plan(**values)
        plan.add(*(Switch(**one) for one in data.get("switches", [])), *(Hca(**one) for one in data.get("hcas", [])))
        for name, kind in _LISTS.items():
            setattr(plan, name, [kind(**one) for one in data.get(name, [])])
    except TypeError as error:
        raise ValueError(f"a part of the plan is not as it was written: {error}") from None
    plan.domains = [Domain(**{**one, "hosts": tuple(one["hosts"])}) for one in data.get("domains", [])]
    return plan
