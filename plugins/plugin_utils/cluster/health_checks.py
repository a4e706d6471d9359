# SPDX-License-Identifier: GPL-3.0-or-later
"""Check `health` and `monitoring`: thresholds of known quantities and models, caps that allow a drain, options of Slurm that clash."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean
from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import NodeProfile
from ansible_collections.bedplate.cluster.plugins.module_utils.health.judge.rules_kernel import named_checks
from ansible_collections.bedplate.cluster.plugins.module_utils.health.tables import thresholds as table
from ansible_collections.bedplate.cluster.plugins.module_utils.health.tables.threshold_row import ThresholdError

from ..slurm.tables.conf_text import text_of
from .model import DrainCaps, Health, IgnoredCheck, Monitoring, Profile, Slurm
from .rack_layout import Floor
from .schema.fields import Mistakes, Path
from .services import hosts_of

_UNITS = {"m": 60, "h": 3600, "M": 1 << 20, "G": 1 << 30}
# The release from which on slurmctld answers Prometheus itself.
OWN_METRICS = (25, 11)
# Checks that no table lists one by one.
_NUMBERED = re.compile(r"s?xid-[0-9]{1,5}|foreign/[A-Za-z0-9_.-]+")
# Options that name scripts, and the kind of slurm.scripts under which several of them run one after the other.
_SCRIPTS = {"prolog": "prolog", "epilog": "epilog", "healthcheckprogram": "health_check"}


def health_of(data: Mapping[str, Any] | None, mistakes: Mistakes) -> Health | None:
    """Return the section `health`; None if the file lacks it."""
    if data is None:
        return None
    drain, evidence = data["drain"], data["evidence"]
    _check_ignored(data["ignore"], mistakes)
    rate = str(drain["rate"] or "10/10m")
    count, _slash, time = rate.partition("/")
    size = str(evidence["size"] or "2G")
    return Health(
        dry_run_until=_day(data["dry_run_until"]),
        gate=_gate(data["gate"]),
        interval=data["interval"] or 60,
        quiet_after_boot=600 if data["quiet_after_boot"] is None else data["quiet_after_boot"],
        drain=DrainCaps(
            cluster=_percent("cluster", drain["cluster"], mistakes),
            nodes=drain["nodes"] or 1,
            partition=_percent("partition", drain["partition"], mistakes),
            rack=_percent("rack", drain["rack"], mistakes),
            nvlink_domain=_percent("nvlink_domain", drain["nvlink_domain"], mistakes),
            drains=int(count),
            seconds=int(time[:-1]) * _UNITS[time[-1]],
            keep=drain["keep"] or 0,
        ),
        resume=data["resume"] or "transient",
        ignore=tuple(
            IgnoredCheck(one["check"], one["reason"], _day(one["until"]))
            for one in data["ignore"]
            if one and one["check"] and one["reason"]
        ),
        thresholds=data["thresholds"],
        evidence_days=evidence["days"] or 30,
        evidence_bytes=int(size[:-1]) * _UNITS[size[-1]],
        private_tmp=data["private_tmp"] or "",
    )


def monitoring_of(
    data: Mapping[str, Any] | None, floor: Floor, version: str, health: Health | None, mistakes: Mistakes
) -> Monitoring | None:
    """Return the section `monitoring`; None if the file lacks it. `version` is Slurm's release."""
    if data is None:
        return None
    if health is None:
        mistakes.add(("monitoring",), "needs the section health, whose figures it collects. Add health: {}.")
    release = tuple(int(part) for part in version.split("."))
    return Monitoring(
        servers=hosts_of(data["servers"], ("monitoring", "servers"), floor, mistakes),
        slurm_exporter=release < OWN_METRICS if data["slurm"] == "auto" else bool(data["slurm"]),
        slurm_port=data["slurm_port"] or 0,
        node_port=data["node_port"] or 0,
        dcgm_port=data["dcgm_port"] or 0,
        textfile=data["textfile"] or "",
    )


def check_health(health: Health | None, slurm: Slurm, profiles: Mapping[str, Profile], mistakes: Mistakes) -> None:
    """Note what of `health` cannot be beside the rest of the file."""
    if health is None:
        return
    _check_scripts(slurm.options, mistakes)
    _check_constraints(slurm.options, mistakes)
    _check_profiles(health.thresholds, profiles, mistakes)
    for profile in profiles.values():
        rails = {nic.rail for nic in profile.nics if nic.rail is not None}
        needed = profile.health.rails_needed
        if needed is not None and needed > len(rails):
            path: Path = ("profiles", profile.name, "health", "rails_needed")
            mistakes.add(path, f"{needed} is more than the {len(rails)} rails of the profile's NICs.")


def _day(text: str | None) -> date | None:
    return date.fromisoformat(text) if text else None


def _gate(value: bool | str | None) -> str:
    return value if isinstance(value, str) else "open" if value is False else "prolog"


def _percent(key: str, text: str | None, mistakes: Mistakes) -> int:
    number = int((text or "1%").removesuffix("%"))
    if not number:
        mistakes.add(("health", "drain", key), "0% allows no drain at all. Use at least 1%, or leave `health` out.")
    return number


def _options(given: Mapping[Any, Any]) -> Iterable[tuple[Any, str, str]]:
    return ((key, str(key).lower(), text_of(value)) for key, value in given.items() if value is not None)


def _check_scripts(given: Mapping[Any, Any], mistakes: Mistakes) -> None:
    for key, name, value in _options(given):
        if name in _SCRIPTS and value:
            kind = _SCRIPTS[name]
            text = f"{value} would run instead of the script of `health`. Name it in slurm.scripts.{kind}: both run."
            mistakes.add(("slurm", "options", key), text)


def _check_constraints(given: Mapping[Any, Any], mistakes: Mistakes) -> None:
    for key, name, value in _options(given):
        if name == "schedulerparameters" and "extra_constraints" in value.replace(" ", "").lower().split(","):
            text = (
                "extra_constraints lets jobs choose nodes by their Extra, in which `health` keeps the nodes' reports."
            )
            mistakes.add(("slurm", "options", key), f"{text} Remove it, or leave `health` out.")


def _check_ignored(rows: Iterable[Mapping[str, Any] | None], mistakes: Mistakes) -> None:
    known = [*table.default().rows, *sorted(named_checks())]
    for number, row in enumerate(rows):
        check = (row and row["check"]) or ""
        if check and check not in known and not _NUMBERED.fullmatch(check):
            hint = (
                did_you_mean(check, known)
                or " Allowed: xid-NUMBER, sxid-NUMBER, a check of docs/health.md or foreign/NAME."
            )
            mistakes.add(("health", "ignore", number, "check"), f"check {check!r} is unknown.{hint}")


def _check_profiles(thresholds: Mapping[str, Any], profiles: Mapping[str, Profile], mistakes: Mistakes) -> None:
    models = {profile.gpus.model for profile in profiles.values() if profile.gpus}
    for name, quantities in thresholds.items():
        path: Path = ("health", "thresholds", name)
        if name not in profiles and name not in models:
            mistakes.unknown(path, "profile or GPU model", name, dict.fromkeys([*profiles, *sorted(models)]))
        model = name if name in models else ""
        for quantity, keys in quantities.items():
            if quantity not in table.default().rows:
                known = list(table.default().rows)
                hint = did_you_mean(quantity, known) or " Allowed: see docs/health.md."
                mistakes.add((*path, quantity), f"check {quantity!r} is unknown.{hint}")
                continue
            try:
                table.rows_for(NodeProfile(model=model, thresholds={quantity: keys}))
            except ThresholdError as error:
                mistakes.add((*path, quantity), f"{error}.")
