# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines that a no-change run of site.yml prints, on recordings of few and of more nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from benchmarks import site

ROOT = Path(__file__).parents[3]
# A node costs seconds. The callback brief folds hosts from 21 on.
COUNTS = {"default": (4, 8), "brief": (4, 24)}
# Ansible's own output, as an installed collection has it, and that of this repository's ansible.cfg.
CALLBACKS = {"default": {"ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default"}, "brief": {}}
_RESULT = re.compile(r"(ok|changed|included): ")
_HEADING = re.compile(r"(PLAY|TASK|RUNNING HANDLER) \[(.*)\] \**$")


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[tuple[str, int], str]:
    folder = tmp_path_factory.mktemp("site")
    site.prepare(folder, sorted({count for counts in COUNTS.values() for count in counts}))
    playbook = str(ROOT / "playbooks/site.yml")
    return {
        (name, count): site.play(folder, playbook, count, CALLBACKS[name])
        for name, counts in COUNTS.items()
        for count in counts
    }


def not_happened(text: str) -> Iterator[str]:
    """Yield the headings and lines of an output for plays, tasks and hosts on which nothing ran."""
    play, task = "", ""
    for line in [*text.splitlines(), "PLAY [] ***"]:
        heading = _HEADING.match(line)
        if line.startswith("skipping: "):
            yield line
        elif heading:
            if task:
                yield f"TASK {task}"
            task = heading[2]
            if heading[1] == "PLAY":
                if play:
                    yield f"PLAY {play}"
                play, task = heading[2], ""
        elif _RESULT.match(line):
            play, task = "", ""


def own(text: str) -> list[str]:
    """Return the lines of an output without Ansible's line for each host."""
    return [line for line in text.splitlines() if line.strip() and not re.match(r"(ok|changed): \[", line)]


@pytest.mark.playbooks
@pytest.mark.parametrize("callback", CALLBACKS)
def test_lines_do_not_grow_with_hosts(printed: Mapping[tuple[str, int], str], callback: str) -> None:
    few, many = (own(printed[callback, count]) for count in COUNTS[callback])
    assert len(many) <= len(few), "\n".join(many)
    if callback == "default":
        assert [line for line in few if line.startswith("PLAY")] == [line for line in many if line.startswith("PLAY")]


@pytest.mark.playbooks
def test_nothing_is_printed_that_did_not_happen(printed: Mapping[tuple[str, int], str]) -> None:
    text = printed["brief", COUNTS["brief"][0]]
    assert list(not_happened(text)) == []
    # The run itself is there.
    assert text.count("PLAY [") >= 10
    assert text.count("ok: [gpu01]") >= 10


@pytest.mark.playbooks
def test_many_hosts_without_a_change_are_a_line_for_each_play(printed: Mapping[tuple[str, int], str]) -> None:
    text = printed["brief", COUNTS["brief"][1]]
    assert "ok: [gpu" not in text
    assert f"Configure names and time on every machine: {COUNTS['brief'][1] + 1} ok" in text
    # Lines do not grow with hosts beyond that, so a thousand print as many; the recap and the table are a few more.
    assert len([line for line in text.splitlines() if line.strip()]) <= 55


@pytest.mark.playbooks
@pytest.mark.parametrize("callback", CALLBACKS)
def test_variables_are_checked_once(printed: Mapping[tuple[str, int], str], callback: str) -> None:
    assert printed[callback, COUNTS[callback][0]].count("TASK [Check every role variable of the inventory]") == 1


@pytest.mark.parametrize(
    ("recap", "unchanged"),
    [
        ("localhost : ok=1 changed=0\ngpu01 : ok=9 changed=0\n", True),
        ("localhost : ok=1 changed=0\ngpu01 : ok=9 changed=1\n", False),
        ("localhost : ok=1 changed=10\n", False),
        ("\n34 other hosts: nothing changed, nothing failed\n", True),
        ("gpu01 : ok=9 changed=1\n\n33 other hosts: nothing changed, nothing failed\n", False),
        ("\n", False),
    ],
)
def test_a_run_that_changes_one_node_is_no_run_without_a_change(recap: str, unchanged: bool) -> None:
    assert site.is_unchanged(recap) is unchanged


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("PLAY [a] ***\n\nTASK [b] ***\nok: [n1]\n", []),
        (
            "PLAY [a] ***\nskipping: no hosts matched\n\nPLAY [c] ***\nTASK [d] **\nok: [x]",
            ["skipping: no hosts matched", "PLAY a"],
        ),
        ("PLAY [a] ***\n\nTASK [b] ***\n\nTASK [b] ***\nok: [n1]\n", ["TASK b"]),
        ("PLAY [a] ***\n\nTASK [b] ***\nskipping: [n1]\n", ["skipping: [n1]", "TASK b", "PLAY a"]),
        ("PLAY [a] ***\n\nTASK [b] ***\nok: [n1]\nTASK [c] ***\n", ["TASK c"]),
    ],
)
def test_headings_without_a_result_are_found(text: str, found: list[str]) -> None:
    assert list(not_happened(text)) == found
