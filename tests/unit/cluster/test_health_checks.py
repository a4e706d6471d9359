"""The sections `health` and `monitoring`: what they make of a cluster file, and every mistake of them with its line."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.notices import notices

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
    "an ignored check that is a number": ("health:\n  ignore: [5]\n", [(2, "health.ignore[0]")]),
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
        [(4, "health.thresholds.gpu8.ecc-corrected.wran")],
    ),
    "a limit that is no number": (
        "health:\n  thresholds:\n    gpu8:\n      ecc-corrected: {warn: many}\n",
        [(4, "health.thresholds.gpu8.ecc-corrected")],
    ),
    "a private tmp in tmp": ("health:\n  private_tmp: /tmp/jobs\n", [(2, "health.private_tmp")]),
    "a private tmp with a release that crashes": (
        "health:\n  private_tmp: /var/lib/slurm-tmp\n",
        [(2, "health.private_tmp")],
    ),
    "a tick of a second": ("health:\n  interval: 1\n", [(2, "health.interval")]),
    "monitoring alone": ("monitoring: {}\n", [(1, "monitoring")]),
    "a strange server": ("health: {}\nmonitoring:\n  servers: mon9\n", [(3, "monitoring.servers")]),
    "a text for the caps": ("health:\n  drain: 5%\n", [(2, "health.drain")]),
    "a text for the evidence": ("health:\n  evidence: 30d\n", [(2, "health.evidence")]),
    "a cap without percent": ("health:\n  drain:\n    cluster: 5\n", [(3, "health.drain.cluster")]),
    "a day of a week": ("health:\n  dry_run_until: 2027-W05-1\n", [(2, "health.dry_run_until")]),
    "a date without a value": ("health:\n  dry_run_until:\n", [(2, "health.dry_run_until")]),
    "caps without a value": ("health:\n  drain:\n", [(2, "health.drain")]),
    "ignored twice": (
        "health:\n  ignore:\n    - {check: xid-94, reason: a}\n    - {check: xid-94, reason: b, until: 2027-01-31}\n",
        [(4, "health.ignore[1].check")],
    ),
    "all foreign checks": ("health:\n  ignore:\n    - {check: foreign, reason: a}\n", [(3, "health.ignore[0].check")]),
    "a name that no foreign check has": (
        "health:\n  ignore:\n    - {check: foreign/raid, reason: a}\n",
        [(3, "health.ignore[0].check")],
    ),
    "a Xid with a zero": ("health:\n  ignore:\n    - {check: xid-094, reason: a}\n", [(3, "health.ignore[0].check")]),
    "two keys of one check": (
        "health:\n  thresholds:\n    gpu8:\n      pcie-width:\n        warn: true\n        debounce: 1.5\n",
        [(5, "health.thresholds.gpu8.pcie-width.warn"), (6, "health.thresholds.gpu8.pcie-width.debounce")],
    ),
    "limits of a model and a profile that clash": (
        "health:\n  thresholds:\n    h100: {pcie-replay: {warn: 10, critical: 20}}\n    gpu8: {pcie-replay: {warn: 30}}\n",
        [(4, "health.thresholds.gpu8.pcie-replay")],
    ),
    "a port twice": ("health: {}\nmonitoring:\n  dcgm_port: 9100\n", [(3, "monitoring.dcgm_port")]),
    "a port of slurmctld": ("health: {}\nmonitoring:\n  slurm_port: 6817\n", [(3, "monitoring.slurm_port")]),
    "a folder with a specifier of systemd": (
        "health: {}\nmonitoring:\n  textfile: /var/%h\n",
        [(3, "monitoring.textfile")],
    ),
    "a private /dev": ("health:\n  private_tmp: /dev\n", [(2, "health.private_tmp")]),
    "a private folder in /tmp by a detour": ("health:\n  private_tmp: /var/../tmp\n", [(2, "health.private_tmp")]),
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
        "HealthCheckInterval: 0",
        "HealthCheckInterval: null",
        "SchedulerParameters: 'bf_max_job_test=9,extra_constraints'",
    ],
)
def test_options_of_slurm_that_clash_are_refused(tmp_path: Path, option: str) -> None:
    edit = (("    MessageTimeout: 30\n", f"    {option}\n"),)
    where = f"slurm.options.{option.split(':')[0]}"
    assert read(tmp_path, "", edit)
    assert [place for _line, place in mistakes(tmp_path, "health: {}\n", edit)] == [where]


PROFILE = "    features: [hbm3]\n"


@pytest.mark.parametrize(
    ("needs", "key"),
    [
        ("rails_needed: 3", "rails_needed"),
        ("rails_needed: null", "rails_needed"),
        ("mounts: [scratch]", "mounts[0]"),
        ("mounts: [/scratch/]", "mounts[0]"),
        ("mounts: [/a/../b]", "mounts[0]"),
        ("mounts: [/scratch, /scratch]", "mounts"),
    ],
)
def test_needs_of_a_profile_that_cannot_be(tmp_path: Path, needs: str, key: str) -> None:
    edit = ((PROFILE, f"{PROFILE}    health: {{{needs}}}\n"),)
    assert [place for _line, place in mistakes(tmp_path, "health: {}\n", edit)] == [f"profiles.gpu8.health.{key}"]


def test_needs_of_a_profile_are_read_with_health_alone(tmp_path: Path) -> None:
    edit = ((PROFILE, f"{PROFILE}    health: {{mounts: [/, /scratch/data]}}\n"),)
    assert read(tmp_path, "health: {}\n", edit).profiles["gpu8"].health.mounts == ("/", "/scratch/data")
    assert [place for _line, place in mistakes(tmp_path, "", edit)] == ["profiles.gpu8.health"]


def test_nvlink_needs_gpus(tmp_path: Path) -> None:
    edit = (("    memory_mib: 4000\n", "    memory_mib: 4000\n    health: {nvlink: true}\n"),)
    assert [place for _line, place in mistakes(tmp_path, "health: {}\n", edit)] == ["profiles.cpu.health.nvlink"]


@pytest.mark.parametrize("check", ["xid-94", "sxid-20034", "foreign-site-raid", "mount-hung", "xid-jobs"])
def test_checks_that_can_be_ignored(tmp_path: Path, check: str) -> None:
    health = read(tmp_path, f"health:\n  ignore: {{check: {check}, reason: a}}\n").health
    assert health
    assert [one.check for one in health.ignore] == [check]


@pytest.mark.parametrize(
    ("section", "word"),
    [
        ("health:\n  ignore: {check: xid-94, reason: a, until: 2026-01-01}\n", "xid-94"),
        ("health: {dry_run_until: 2126-01-01}\n", "2126-01-01"),
        ("health:\n  drain: {keep: 4}\n", "partitions gpu"),
    ],
)
def test_what_has_no_effect_is_a_notice(tmp_path: Path, section: str, word: str) -> None:
    day = date(2026, 6, 1)
    found = set(notices(read(tmp_path, section), day)) - set(notices(read(tmp_path, "health: {}\n"), day))
    assert [word in text for text in found] == [True]


def test_an_ignored_check_counts_again_after_its_last_day(tmp_path: Path) -> None:
    cluster = read(tmp_path, "health:\n  ignore: {check: xid-94, reason: a, until: 2026-06-01}\n")
    assert [len(notices(cluster, day)) for day in (date(2026, 6, 1), date(2026, 6, 2))] == [0, 1]
