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
from .model.health import NO_NEEDS
from .rack_layout import Floor
from .schema.fields import Mistakes, Path
from .services import hosts_of

# Release -> version that was seen, of Debian. 24.11.5: of 12 job starts four to six ended with `slurmstepd: segfault at 0 ip 0` on three
# nodes. 26.05.5: of 12 batch jobs on a node six were requeued, `Can not read return code from slurmstepd`. Without it none.
_NO_PRIVATE_TMP = {"24.11": "24.11.5", "26.05": "26.05.5"}
_UNITS = {"m": 60, "h": 3600, "M": 1 << 20, "G": 1 << 30}
# The release from which on slurmctld answers Prometheus itself.
OWN_METRICS = (25, 11)
# Checks that no table lists one by one: the row `foreign` has one for each name. A cluster file switches no `advice` on.
_NUMBERED = re.compile(r"s?xid-[1-9][0-9]{0,4}|foreign-[a-z0-9][a-z0-9-]{0,47}")
_ROWS_OF_SEVERAL = ("foreign", "advice")
# Ports of Slurm by default, on which its exporter cannot listen.
_SLURM_PORTS = {"SlurmctldPort": "6817", "SlurmdPort": "6818"}
# Options that name scripts, and the kind of slurm.scripts under which several of them run one after the other.
_SCRIPTS = {"prolog": "prolog", "epilog": "epilog", "healthcheckprogram": "health_check"}


class _Absent(dict[str, Any]):
    """A section of a wrong type, which is a mistake already: each key is without a value."""

    def __missing__(self, key: str) -> None:
        return None


def health_of(data: Mapping[str, Any] | None, mistakes: Mistakes) -> Health | None:
    """Return the section `health`; None if the file lacks it."""
    if data is None:
        return None
    drain, evidence = data["drain"] or _Absent(), data["evidence"] or _Absent()
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
    data: Mapping[str, Any] | None, floor: Floor, slurm: Slurm, health: Health | None, mistakes: Mistakes
) -> Monitoring | None:
    """Return the section `monitoring`; None if the file lacks it."""
    if data is None:
        return None
    if health is None:
        mistakes.add(("monitoring",), "needs the section health, whose figures it collects. Add health: {}.")
    release = tuple(int(part) for part in slurm.version.split("."))
    found = Monitoring(
        servers=hosts_of(data["servers"], ("monitoring", "servers"), floor, mistakes),
        slurm_exporter=release < OWN_METRICS if data["slurm"] == "auto" else bool(data["slurm"]),
        slurm_port=data["slurm_port"] or 0,
        node_port=data["node_port"] or 0,
        dcgm_port=data["dcgm_port"] or 0,
        textfile=data["textfile"] or "",
    )
    _check_ports(found, slurm.options, mistakes)
    return found


def check_health(health: Health | None, slurm: Slurm, profiles: Mapping[str, Profile], mistakes: Mistakes) -> None:
    """Note what of `health` cannot be beside the rest of the file."""
    if health is None:
        for profile in profiles.values():
            if profile.health != NO_NEEDS:
                text = "is read only with the section health. Add health: {}, or remove it."
                mistakes.add(("profiles", profile.name, "health"), text)
        return
    if health.private_tmp and slurm.version in _NO_PRIVATE_TMP:
        seen = _NO_PRIVATE_TMP[slurm.version]
        text = f"slurmstepd of Slurm {slurm.version} fails at job starts with it, and the jobs are requeued (seen with {seen})."
        mistakes.add(("health", "private_tmp"), f"{text} Remove the key, or use another release.")
    _check_scripts(slurm.options, mistakes)
    _check_interval(slurm.options, mistakes)
    _check_constraints(slurm.options, mistakes)
    _check_thresholds(health, profiles, mistakes)
    for profile in profiles.values():
        _check_needs(profile, mistakes)


def _check_needs(profile: Profile, mistakes: Mistakes) -> None:
    path: Path = ("profiles", profile.name, "health")
    needs = profile.health
    rails = len({nic.rail for nic in profile.nics if nic.rail is not None})
    if needs.rails_needed is not None and needs.rails_needed > rails:
        text = f"{needs.rails_needed} is more than the {rails} rails of the profile's NICs. Allowed: 0 to {rails}."
        mistakes.add((*path, "rails_needed"), text)
    if needs.nvlink and not profile.gpus:
        mistakes.add((*path, "nvlink"), "true needs gpus in the profile.")
    for mount in dict.fromkeys(one for one in needs.mounts if needs.mounts.count(one) > 1):
        mistakes.add((*path, "mounts"), f"{mount} is named twice.")


def _check_ports(monitoring: Monitoring, options: Mapping[Any, Any], mistakes: Mistakes) -> None:
    """Note ports that two programs of one machine would share."""
    taken = {str(monitoring.node_port): "node_port"}
    if monitoring.dcgm_port and str(monitoring.dcgm_port) in taken:
        mistakes.add(("monitoring", "dcgm_port"), f"{monitoring.dcgm_port} is node_port, too. Choose another port.")
    stated = {name: value for _key, name, value in _options(options)}
    taken |= {stated.get(name.lower(), port): name for name, port in _SLURM_PORTS.items()}
    if monitoring.slurm_port and monitoring.slurm_exporter and (other := taken.get(str(monitoring.slurm_port))):
        mistakes.add(("monitoring", "slurm_port"), f"{monitoring.slurm_port} is {other}, too. Choose another port.")


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


def _check_interval(given: Mapping[Any, Any], mistakes: Mistakes) -> None:
    for key, value in given.items():
        if str(key).lower() == "healthcheckinterval" and (value is None or text_of(value) == "0"):
            text = f"{'null' if value is None else 0} turns off the program that restarts a dead health agent."
            mistakes.add(("slurm", "options", key), f"{text} Allowed: seconds, such as 300.")


def _check_constraints(given: Mapping[Any, Any], mistakes: Mistakes) -> None:
    for key, name, value in _options(given):
        if name == "schedulerparameters" and "extra_constraints" in value.replace(" ", "").lower().split(","):
            text = (
                "extra_constraints lets jobs choose nodes by their Extra, in which `health` keeps the nodes' reports."
            )
            mistakes.add(("slurm", "options", key), f"{text} Remove it, or leave `health` out.")


def _check_ignored(rows: Iterable[Mapping[str, Any] | None], mistakes: Mistakes) -> None:
    known = [name for name in (*table.default().rows, *sorted(named_checks())) if name not in _ROWS_OF_SEVERAL]
    found: set[str] = set()
    for number, row in enumerate(rows):
        path: Path = ("health", "ignore", number, "check")
        check = (row and row["check"]) or ""
        if check in found:
            mistakes.add(path, f"check {check!r} is named twice.")
        if check and check not in known and not _NUMBERED.fullmatch(check):
            hint = (
                did_you_mean(check, known)
                or " Allowed: xid-NUMBER, sxid-NUMBER, foreign-NAME or a check of docs/reference/health.md."
            )
            mistakes.add(path, f"check {check!r} is unknown.{hint}")
        found.add(check)


def _check_thresholds(health: Health, profiles: Mapping[str, Profile], mistakes: Mistakes) -> None:
    models = {profile.gpus.model for profile in profiles.values() if profile.gpus}
    wrong = False
    for name, quantities in health.thresholds.items():
        path: Path = ("health", "thresholds", name)
        if name not in profiles and name not in models:
            mistakes.unknown(path, "profile or GPU model", name, dict.fromkeys([*profiles, *sorted(models)]))
        for quantity, keys in quantities.items():
            wrong |= not _has_legal_keys((*path, quantity), quantity, keys, mistakes)
    # What two keys make together is only judged once each of them is legal.
    for profile in () if wrong else profiles.values():
        _check_rows(health, profile, mistakes)


def _has_legal_keys(path: Path, quantity: str, keys: Mapping[Any, Any], mistakes: Mistakes) -> bool:
    known = list(table.default().rows)
    if quantity not in known:
        hint = did_you_mean(quantity, known) or " Allowed: a check of the first table of docs/reference/health.md."
        mistakes.add(path, f"check {quantity!r} is unknown.{hint}")
        return False
    is_legal = True
    for key, value in keys.items():
        try:
            table.check_site_key(quantity, key, value)
        except ThresholdError as error:
            mistakes.add((*path, key), f"{error}.")
            is_legal = False
    return is_legal


def _check_rows(health: Health, profile: Profile, mistakes: Mistakes) -> None:
    """Check each row as the nodes of a profile get it: bedplate's, its GPU model's, then both of the site."""
    model = profile.gpus.model if profile.gpus else ""
    own = health.thresholds.get(profile.name, {})
    for quantity, keys in health.thresholds_of(model, profile.name).items():
        try:
            table.rows_for(NodeProfile(model=model, thresholds={quantity: keys}))
        except ThresholdError as error:
            place = profile.name if quantity in own else model
            mistakes.add(("health", "thresholds", place, quantity), f"{error}.")
