"""Which packages count as missing: what dpkg's records do not show as installed for good."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.dpkg import (
    Held,
    Holds,
    HoldsError,
    MissingPackages,
    installed_names,
    mismatched,
    missing_packages,
    of_other_versions,
    outdated,
    unknown,
)
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
RECORDS = """\
dpkg\tamd64\tinstalled\t1.22.6
munge\tamd64\tinstalled\t0.5.16-1
libmunge2\tamd64\tinstalled\t0.5.16-1
libc6\tamd64\tinstalled\t2.41-12
libc6\ti386\tinstalled\t2.41-12
tzdata\tall\tinstalled\t2025b-4
foreign\ti386\tinstalled\t1
slurmd\tamd64\tconfig-files\t24.11.5-4
broken\tamd64\thalf-configured\t1
"""
STATES = """\
Package: libmunge2
Architecture: amd64
Auto-Installed: 1

Package: tzdata
Architecture: amd64
Auto-Installed: 0

Package: passing-data
Architecture: amd64
Auto-Installed: 1
"""


class Records:
    """A dpkg-query that knows RECORDS, and what it was asked."""

    def __init__(self, text: str = RECORDS) -> None:
        self.text = text
        self.calls: list[list[str]] = []

    def run(self, argv: list[str]) -> Outcome:
        self.calls.append(argv)
        return Outcome(1, self.text, "dpkg-query: no packages found matching nothing")


@pytest.fixture
def states(tmp_path: Path) -> Path:
    path = tmp_path / "extended_states"
    path.write_text(STATES)
    return path


@pytest.mark.parametrize(
    "wanted",
    ["munge", "munge:amd64", "munge=0.5.16-1", "libc6", "libc6:i386", "libc6:amd64=2.41-12", "tzdata", "foreign:i386"],
)
def test_what_is_installed_as_asked_is_not_missing(wanted: str, states: Path) -> None:
    assert missing_packages([wanted], Records().run, states) == MissingPackages([], [])


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("nothing", "not installed"),
        ("slurmd", "removed, its configuration is left"),
        ("broken", "half configured"),
        ("munge=0.5.15-1", "another version"),
        ("munge=0.5.16", "a version is compared as a whole"),
        ("munge:arm64", "another architecture"),
        ("foreign", "installed for another architecture only"),
        ("munge=0.5.17*", "no version that begins so"),
        ("munge=0.*.16", "a pattern, which apt alone understands"),
        ("munge/trixie-backports", "a release, which apt alone understands"),
        ("munge*", "a pattern"),
    ],
)
def test_what_only_apt_can_bring_or_tell_is_missing(wanted: str, why: str, states: Path) -> None:
    assert missing_packages([wanted], Records().run, states) == MissingPackages([wanted], []), why


def test_what_follows_is_looked_at_only_where_it_is_installed(states: Path) -> None:
    run = Records().run
    followers = ["munge=0.5.16-*", "libmunge2=0.5.99-1", "nothing=1", "tzdata"]
    assert mismatched(followers, run) == ["libmunge2=0.5.99-1"]
    assert installed_names(followers, run) == ["munge", "libmunge2", "tzdata"]
    assert mismatched([], run) == installed_names([], run) == []


def test_a_pattern_follows_all_that_it_matches_and_only_what_nothing_else_names(states: Path) -> None:
    records = Records(
        RECORDS + "cuda-nvcc-12-9\tamd64\tinstalled\t12.9.86-1\ncuda-nvcc-13-0\tamd64\tinstalled\t13.0.88-1\n"
    )
    assert installed_names(["*-12-9"], records.run) == ["cuda-nvcc-12-9"]
    # dpkg understands patterns itself, so that not all of its records are read here.
    assert records.calls[0][-2:] == ["--", "*-12-9"]
    assert installed_names(["lib[!0-9c]*", "m*", "slurm*", "broke?"], records.run) == ["libmunge2", "munge"]
    assert installed_names(["*munge*", "munge=9"], records.run) == ["libmunge2", "munge"]
    # By its own entry it is astray, and by the pattern it would not be.
    assert mismatched(["*munge*=0.5.*", "munge=9"], records.run) == ["munge=9"]
    assert mismatched(["cuda-nvcc-*=13.*"], records.run) == ["cuda-nvcc-12-9=13.*"]


def test_a_beginning_of_a_version_is_compared_here(states: Path) -> None:
    assert missing_packages(["munge=0.5.*", "munge=0.5.16-*"], Records().run, states) == MissingPackages([], [])


def test_any_version_is_one_that_is_installed(states: Path) -> None:
    # As what is not coupled with the driver is asked for; apt would run, and something be reported, in every run.
    assert missing_packages(["munge=*", "nothing=*", "libmunge2=*"], Records().run, states) == MissingPackages(
        ["nothing=*"], ["libmunge2=*"]
    )


def test_what_was_installed_for_others_only_would_go_with_them(states: Path) -> None:
    wanted = ["libmunge2", "libmunge2:amd64", "libmunge2=0.5.16-1", "munge"]
    assert missing_packages(wanted, Records().run, states) == MissingPackages([], wanted[:3])


def test_a_package_for_all_architectures_can_be_installed_for_others_too(states: Path) -> None:
    records = Records(RECORDS + "passing-data\tall\tinstalled\t1\n")
    assert missing_packages(["passing-data"], records.run, states) == MissingPackages([], ["passing-data"])


def test_one_question_whatever_their_number_and_in_the_order_of_the_list(states: Path) -> None:
    records = Records()
    assert missing_packages(["slurmd", "munge", "nothing", "tzdata"], records.run, states).missing == [
        "slurmd",
        "nothing",
    ]
    assert len(records.calls) == 1
    assert records.calls[0][-5:] == ["dpkg", "munge", "nothing", "slurmd", "tzdata"]


def test_a_machine_without_dpkg_or_records_lacks_everything(tmp_path: Path) -> None:
    def none(argv: list[str]) -> Outcome:
        return Outcome(127, "", f"{argv[0]}: No such file or directory")

    assert missing_packages(["munge", "tzdata"], none, tmp_path / "none") == MissingPackages(["munge", "tzdata"], [])


def test_lists_are_outdated_when_a_source_changed_after_them(tmp_path: Path) -> None:
    lists, source = tmp_path / "lists", tmp_path / "apt/sources.list.d/site.sources"
    assert outdated(tmp_path / "apt", lists)  # never read
    lists.mkdir()
    assert not outdated(tmp_path / "apt", lists)
    source.parent.mkdir(parents=True)
    source.touch()
    now = lists.stat().st_mtime
    for path, age, expected in ((source, 10, False), (source, -10, True), (source.parent, -10, True)):
        for each in (source, source.parent):
            os.utime(each, (now - 10, now - 10))
        os.utime(path, (now - age, now - age))
        assert outdated(tmp_path / "apt", lists) is expected


def test_a_version_that_apts_lists_do_not_have_is_unknown_to_it() -> None:
    offered = "  munge | 0.5.16-1 | http://x trixie/main amd64 Packages\n  munge | 0.5.15-1 | http://x trixie/main amd64 Packages\n"
    records = Records(
        f"{offered} libc6:i386 | 2.41-12 | http://x trixie/main i386 Packages\nN: Unable to locate package gone\n"
    )
    wanted = [
        "munge=0.5.15-1",
        "munge=0.5.16-*",
        "munge=0.5.17-1",
        "gone=1",
        "gone=*",
        "libc6:i386=2.41-12",
        "munge",
        "gone",
        "m*",
    ]
    assert unknown(wanted, records.run) == ["munge=0.5.17-1", "gone=1", "gone=*"]
    assert records.calls == [["apt-cache", "madison", "gone", "libc6:i386", "munge"]]
    # Whether a name alone is there, as one that others provide, is apt's to tell.
    assert unknown(["munge", "gone"], records.run) == []
    assert len(records.calls) == 1


def test_the_real_dpkg_agrees(tmp_path: Path) -> None:
    native = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()
    version = subprocess.run(
        ["dpkg-query", "-W", "-f${Version}", "bash"], capture_output=True, text=True, check=True
    ).stdout
    good = [
        "bash",
        f"bash:{native}",
        f"bash={version}",
        "tzdata" if Path("/usr/share/zoneinfo/UTC").exists() else "dpkg",
    ]
    bad = ["no-such-package-here", f"bash={version}.1", "bash:s390x" if native != "s390x" else "bash:amd64"]
    assert missing_packages([*good, *bad], states=tmp_path / "none") == MissingPackages(bad, [])
    assert installed_names(["bas[!0-9]", "no-such-package-here*"]) == ["bash"]
    assert mismatched([f"ba?h={version}", "dpk[!0-9]=0"]) == ["dpkg=0"]


class Marks:
    """An apt-mark."""

    def __init__(self, *held: str) -> None:
        self.held = set(held)
        self.calls: list[list[str]] = []

    def run(self, argv: list[str]) -> Outcome:
        self.calls.append(argv)
        verb, names = argv[1], argv[2:]
        if "no-such-package" in names:
            return Outcome(100, "", "E: Unable to locate package no-such-package")
        if verb == "hold":
            self.held |= set(names)
        elif verb == "unhold":
            self.held -= set(names)
        return Outcome(0, "".join(f"{name}\n" for name in sorted(self.held)), "")


def test_packages_are_held_once_and_let_go_when_nobody_wants_them_held(tmp_path: Path) -> None:
    marks = Marks("by-hand", "both-ways")
    holds = Holds(tmp_path / "state", marks.run)
    predicted = holds.apply("driver", ["libcuda1", "both-ways", "shared"], True)
    assert predicted == Held(["libcuda1", "shared"], [], ["both-ways"])
    assert (marks.held, (tmp_path / "state").exists()) == ({"by-hand", "both-ways"}, False)
    assert holds.apply("driver", ["libcuda1", "both-ways", "shared"], False).hold == ["libcuda1", "shared"]
    assert holds.apply("cuda", ["shared"], False) == Held([], [], ["shared"])
    assert holds.apply("driver", ["libcuda1", "both-ways", "shared"], False) == Held([], [])
    gone = holds.apply("driver", ["libcuda1"], False)
    assert gone == Held([], ["both-ways"], [], ["shared"])
    sentences.check(SENTENCES, "a package that is no longer held", gone.changes)
    assert marks.held == {"by-hand", "libcuda1", "shared"}
    assert holds.apply("cuda", [], False) == Held([], ["shared"])
    assert holds.apply("driver", [], False) == Held([], ["libcuda1"])
    assert marks.held == {"by-hand"}


def test_a_package_that_a_later_task_holds_does_not_change_the_record_of_an_earlier_one(tmp_path: Path) -> None:
    """The patterns of a database match the daemon that the controller installs behind it on the same machine."""
    holds = Holds(tmp_path, Marks().run)
    assert holds.apply("database", ["slurmdbd"], False, ["libslurm42"]).hold == ["slurmdbd", "libslurm42"]
    assert holds.apply("controller", ["slurmctld"], False, ["libslurm42", "slurmdbd"]).hold == ["slurmctld"]
    record = tmp_path / "holds.json"
    os.utime(record, (1, 1))
    assert holds.apply("database", ["slurmdbd"], False, ["libslurm42", "slurmctld"]) == Held([], [])
    assert holds.apply("controller", ["slurmctld"], False, ["libslurm42", "slurmdbd"]) == Held([], [])
    assert record.stat().st_mtime == 1
    # Another order is no change either.
    assert holds.apply("database", ["libslurm42", "slurmdbd"], False, ["slurmctld"]) == Held([], [])
    assert record.stat().st_mtime == 1


@pytest.mark.parametrize("follow", [[], ["munge"]])
def test_the_record_changes_only_in_a_run_that_says_so(tmp_path: Path, follow: list[str]) -> None:
    """Somebody held munge before bedplate did, and somebody else released libcuda1."""
    marks = Marks("munge")
    holds = Holds(tmp_path, marks.run)
    holds.apply("driver", ["libcuda1"], False)
    marks.held.discard("libcuda1")
    sentence = "holds that only the record did not have"
    wanted = [] if follow else ["munge"]
    predicted = holds.apply("driver", wanted, True, follow)
    assert json.loads((tmp_path / "holds.json").read_text()) == {"driver": ["libcuda1"]}
    assert [one.partition(":")[0] for one in predicted.changes] == ["munge", "libcuda1"]
    assert holds.apply("driver", wanted, False, follow) == predicted
    assert json.loads((tmp_path / "holds.json").read_text()) == {"driver": ["munge"]}
    assert holds.apply("driver", wanted, False, follow).changes == []
    sentences.check(SENTENCES, sentence, predicted.changes)


def test_who_holds_nothing_asks_nothing(tmp_path: Path) -> None:
    marks = Marks()
    assert Holds(tmp_path, marks.run).apply("slurm", [], False) == Held([], [])
    assert marks.calls == []


def test_a_hold_that_somebody_took_away_is_put_back(tmp_path: Path) -> None:
    marks = Marks()
    holds = Holds(tmp_path, marks.run)
    holds.apply("driver", ["libcuda1"], False)
    marks.held.clear()
    assert holds.apply("driver", ["libcuda1"], False).changes == ["libcuda1: held"]


def test_what_apt_does_not_know_cannot_be_held(tmp_path: Path) -> None:
    with pytest.raises(HoldsError, match="apt-mark hold no-such-package: E: "):
        Holds(tmp_path, Marks().run).apply("driver", ["no-such-package"], False)
    assert not (tmp_path / "holds.json").exists()


def test_installed_packages_of_other_versions_are_told_and_what_was_removed_is_not():
    records = Records(
        "slurmctld\tamd64\tinstalled\t24.11.5-4\nslurm-wlm-jwt-plugin\tamd64\tinstalled\t1:26.05.5-1\n"
        "slurmd\tamd64\tconfig-files\t22.05.8-4\n"
    )
    wanted = ["slurmctld", "slurmd", "slurm-wlm*"]
    assert of_other_versions(wanted, "24.11.*", records.run) == {"slurm-wlm-jwt-plugin": "1:26.05.5-1"}
    assert of_other_versions(wanted, "26.05.*", records.run) == {"slurmctld": "24.11.5-4"}
