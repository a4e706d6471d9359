"""What the journal of a unit that died shows, in short."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.unit_log import (
    LINES,
    last_lines,
    shorten,
)
from tests.kit import sentences

SENTENCES = Path(__file__).parents[1] / "sentences.txt"
CAUSE = "2026-11-22T10:00:00+00:00 ctl1 slurmctld[71]: slurmctld: error: cannot find jobcomp plugin for jobcomp/nosuch"
LIMIT = (
    "2026-11-22T10:00:00+00:00 ctl1 slurmctld[71]: slurmctld: error: _handle_assoc_tres_run_secs: job {}: assoc 1 TRES {} "
    "grp_used_tres_run_secs underflow, tried to remove 9 seconds when only 0 remained."
)


def test_lines_of_one_function_do_not_hide_the_cause():
    # slurmctld 24.11 has written so, its cause before the lines of each limit of each job.
    limits = [LIMIT.format(job, tres) for job in range(1, 20) for tres in ("cpu", "mem", "node", "billing")]
    short = shorten([CAUSE, *limits])
    assert short[1:] == [CAUSE, *limits[-3:]]
    assert "73" in short[0]
    sentences.check(SENTENCES, "lines of a journal that are left out", short[:1])


@pytest.mark.parametrize(
    "lines",
    [
        ["first", "second"],
        # What differs in more than a number is something else.
        [f"2026-11-22T10:00:00+00:00 n a[1]: error: no file {name}" for name in ("a", "b", "c", "d", "e")],
        ["2026-11-22T10:00:00+00:00 n a[1]: fatal: x", "2026-11-22T10:00:00+00:00 n a[1]: fatal: y"],
    ],
)
def test_few_lines_stay_as_they_are(lines: list[str]):
    assert shorten(lines) == lines


def test_many_different_lines_are_cut_at_their_beginning():
    lines = [f"{'x' * number}" for number in range(1, 100)]
    assert shorten(lines) == lines[-LINES:]


class Journal:
    """journalctl, with what it shows since a time and of old."""

    def __init__(self, recent: str) -> None:
        self.recent = recent
        self.commands: list[list[str]] = []

    def __call__(self, argv: list[str], timeout: float) -> Outcome:
        self.commands.append(argv)
        since = any(word.startswith("--since=") for word in argv)
        return Outcome(0, self.recent if since else "of old\n", "")


def test_what_journald_has_not_written_yet_is_waited_for():
    journal = Journal("the cause\n")
    assert last_lines(journal, "a.service", 1790000000.7) == "the cause"
    assert [argv[1] for argv in journal.commands] == ["--sync", "--unit=a.service"]
    assert "--since=@1790000000" in journal.commands[1]


def test_without_a_word_since_the_change_the_last_of_old_are_shown():
    assert last_lines(Journal(""), "a.service", 0.0) == "of old"
