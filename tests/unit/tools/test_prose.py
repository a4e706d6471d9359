"""The linter of words: each pattern finds its example, and nothing it finds is written in its places."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tools import prose
from tools.prose import RULES, Text, mistakes, rules, texts

ROWS = yaml.safe_load(RULES.read_text(encoding="utf-8"))["patterns"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    return tmp_path


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def found(path: Path) -> list[tuple[str, int, str]]:
    return [(text.kind, text.line, " ".join(text.text.split())) for text in texts(path)]


def test_there_are_at_most_forty_patterns():
    assert 20 < len(ROWS) <= 40


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row["now"]))
def test_a_pattern_finds_its_example_and_no_pattern_the_better_text(row: dict[str, str]):
    assert re.search(row["pattern"], row["now"], re.IGNORECASE)
    assert list(mistakes(Text("page.md", 1, "page", row["write"]))) == []


def test_a_page_has_paragraphs_without_code(root: Path):
    text = (
        "# One\n\nSet `told: 1`\nin it.\n\n```yaml\ntold: 1\n```\n\n| a | `b` |\n|---|---|\n\n    told code\n\nEnd.\n"
    )
    text += "<!-- keys: begin, made -->\n\n| told |\n\n<!-- keys: end -->\nLast.\n"
    page = write(root / "docs/page.md", text)
    assert [line for _, line, _ in found(page)] == [1, 3, 10, 11, 15, 21]


def test_words_on_two_lines_are_found_on_the_first(root: Path):
    page = write(root / "docs/page.md", "One line.\n\nThe node is\nnone of\nthem.\n")
    (text,) = [text for text in texts(page) if text.line == 3]
    assert [line for line, _ in mistakes(text)] == [3]


def test_a_wide_line_of_prose_is_found_and_a_wide_row_of_a_table_is_not(root: Path):
    page = write(
        root / "docs/page.md", "word " * 30 + "\n\n| " + "word " * 30 + "|\n\n```\n" + "word " * 30 + "\n```\n"
    )
    assert list(prose.wide_lines(page, 100)) == [1]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('raise ValueError(f"the file {name} was not found here")', [("message", 1, "the file X was not found here")]),
        ('yield "the file was not found"', [("message", 1, "the file was not found")]),
        ('mistakes.add(path, "the file was not found")', [("message", 1, "the file was not found")]),
        ('def f():\n    return ("the file "\n        "was not found")', [("message", 2, "the file was not found")]),
        ('def f():\n    """Return one.\n\n    Told more.\n    """', [("docstring", 2, "Return one.")]),
        ('A = 1\n"""The number that was told."""\nB = "one-word"', []),
    ],
)
def test_sentences_of_code_are_found(root: Path, code: str, expected: list[tuple[str, int, str]]):
    assert found(write(root / "a.py", code)) == expected


def test_names_of_tasks_and_messages_of_yaml_are_found(root: Path):
    text = (
        "- name: Play of it\n  hosts: all\n  tasks:\n    - name: Part | Write it\n      ansible.builtin.fail:\n        msg: It failed.\n"
        "    - block:\n        - name: Inner\n          units: [{name: unit}]\n"
    )
    assert found(write(root / "roles/a/tasks/main.yml", text)) == [
        ("task", 1, "Play of it"),
        ("task", 4, "Part | Write it"),
        ("message", 6, "It failed."),
        ("task", 8, "Inner"),
    ]


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("Write slurm.conf", 0),
        ("Controller | Refuse standbys without a running primary", 0),
        ("Slurm", 1),
        ("Write one two three four five six seven eight nine", 1),
        ("{{ item }}", 0),
    ],
)
def test_a_task_is_a_command_of_at_most_nine_words(name: str, number: int):
    assert len(list(prose.task_mistakes(name))) == number


@pytest.mark.parametrize(
    ("first", "number"),
    [("Return the names.", 0), ("What a role does.", 1), ("Whether it runs.", 1), ("Tell the names.", 2)],
)
def test_a_docstring_begins_with_a_command(first: str, number: int):
    assert len(list(mistakes(Text("a.py", 1, "docstring", first)))) == number


def test_a_mistake_ends_with_status_1_and_is_counted_by_folder(root: Path, capsys: pytest.CaptureFixture[str]):
    write(root / "docs/page.md", "It was told.\n")
    assert prose.main(["docs/*.md"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "docs/page.md:1: 'told'; write, for example: The node reports the driver.",
        "     1 docs",
    ]


def test_every_place_exists():
    for place in (place for kind in rules().places.values() for place in kind):
        assert list(prose.files([place])), place


def test_comments_of_defaults_are_sentences_and_others_are_not(root: Path):
    text = "---\n# The node is told it.\nrole_x: 1\n"
    assert found(write(root / "roles/role/defaults/main.yml", text)) == [("message", 2, "# The node is told it.")]
    assert found(write(root / "roles/role/vars/main.yml", text)) == []


def test_without_arguments_all_places_are_checked(monkeypatch: pytest.MonkeyPatch):
    seen: list[str] = []
    monkeypatch.setattr(prose, "check", lambda places: seen.extend(places) or [])
    assert prose.main([]) == 0
    assert seen == [place for places in rules().places.values() for place in places]
    assert len(rules().places) > 1
