"""The sections `health` and `monitoring`: what they make of a cluster file, and every mistake of them with its line."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, ClusterFileError, load

BASE = (Path(__file__).parent / "base.yml").read_text()


def read(folder: Path, section: str, edits: tuple[tuple[str, str], ...] = ()) -> Cluster:
    text = BASE + section
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    file = folder / "site.bedplate.yml"
    file.write_text(text)
    return load(file)


def mistakes(folder: Path, section: str, edits: tuple[tuple[str, str], ...] = ()) -> list[tuple[int, str]]:
    """Return the mistakes as lines after the base and keys."""
    with pytest.raises(ClusterFileError) as caught:
        read(folder, section, edits)
    return [(one.line - BASE.count("\n"), one.where) for one in caught.value.mistakes]


def test_without_the_section_nothing_is_judged(tmp_path: Path) -> None:
    cluster = read(tmp_path, "")
    assert (cluster.health, cluster.monitoring) == (None, None)


def test_an_empty_section_has_safe_defaults(tmp_path: Path) -> None:
    health = read(tmp_path, "health: {}\n").health
    assert health
    assert health.dry_run_until is None
    assert (health.gate, health.interval, health.quiet_after_boot, health.resume) == ("prolog", 60, 600, "transient")
    caps = health.drain
    assert (caps.cluster, caps.nodes, caps.partition, caps.rack, caps.nvlink_domain) == (5, 20, 10, 25, 25)
    assert (caps.drains, caps.seconds, caps.keep) == (10, 600, 1)


@pytest.mark.parametrize("text", ["2027-01-31", '"2027-01-31"'])
def test_a_date_needs_no_quotes(tmp_path: Path, text: str) -> None:
    health = read(tmp_path, f"health: {{dry_run_until: {text}}}\n").health
    assert health
    assert health.dry_run_until == date(2027, 1, 31)


@pytest.mark.parametrize(("text", "gate"), [("true", "prolog"), ("false", "open"), ("strict", "strict")])
def test_the_gate_is_a_switch_with_a_word(tmp_path: Path, text: str, gate: str) -> None:
    health = read(tmp_path, f"health: {{gate: {text}}}\n").health
    assert health
    assert health.gate == gate


MISTAKES = {
    "not a date": ("health:\n  dry_run_until: soon\n", [(2, "health.dry_run_until")]),
    "a time of day": ("health:\n  dry_run_until: 2027-01-31 10:00:00\n", [(2, "health.dry_run_until")]),
    "another word": ("health:\n  gate: maybe\n", [(2, "health.gate")]),
    "a cap of nothing": ("health:\n  drain:\n    rack: 0%\n", [(3, "health.drain.rack")]),
    "more than all": ("health:\n  drain:\n    cluster: 101%\n", [(3, "health.drain.cluster")]),
    "a rate in seconds": ("health:\n  drain:\n    rate: 10/10s\n", [(3, "health.drain.rate")]),
    "ignored without a reason": ("health:\n  ignore:\n    - check: xid-94\n", [(3, "health.ignore[0]")]),
    "a strange check that is ignored": (
        "health:\n  ignore:\n    - {check: xd-94, reason: of the application}\n",
        [(3, "health.ignore[0].check")],
    ),
    "thresholds of a strange model": ("health:\n  thresholds:\n    h1000: {}\n", [(3, "health.thresholds.h1000")]),
    "a strange check": (
        "health:\n  thresholds:\n    gpu8:\n      ecc-corected: {warn: 5}\n",
        [(4, "health.thresholds.gpu8.ecc-corected")],
    ),
    "a strange key of a check": (
        "health:\n  thresholds:\n    gpu8:\n      ecc-corrected: {wran: 5}\n",
        [(4, "health.thresholds.gpu8.ecc-corrected")],
    ),
    "a limit that is no number": (
        "health:\n  thresholds:\n    gpu8:\n      ecc-corrected: {warn: many}\n",
        [(4, "health.thresholds.gpu8.ecc-corrected")],
    ),
    "a private tmp in tmp": ("health:\n  private_tmp: /tmp/jobs\n", [(2, "health.private_tmp")]),
    "a tick of a second": ("health:\n  interval: 1\n", [(2, "health.interval")]),
    "monitoring alone": ("monitoring: {}\n", [(1, "monitoring")]),
    "a strange server": ("health: {}\nmonitoring:\n  servers: mon9\n", [(3, "monitoring.servers")]),
    "several": ("health:\n  gate: maybe\n  interval: 1\n", [(2, "health.gate"), (3, "health.interval")]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_has_its_line(tmp_path: Path, name: str) -> None:
    section, expected = MISTAKES[name]
    assert mistakes(tmp_path, section) == expected


@pytest.mark.parametrize(
    "option",
    [
        "Prolog: /opt/p",
        "Epilog: /opt/p",
        "HealthCheckProgram: /opt/p",
        "SchedulerParameters: 'bf_max_job_test=9,extra_constraints'",
    ],
)
def test_options_of_slurm_that_clash_are_refused(tmp_path: Path, option: str) -> None:
    edit = (("    MessageTimeout: 30\n", f"    {option}\n"),)
    where = f"slurm.options.{option.split(':')[0]}"
    assert read(tmp_path, "", edit)
    assert [place for _line, place in mistakes(tmp_path, "health: {}\n", edit)] == [where]
