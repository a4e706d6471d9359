"""The table of what the long targets said last."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import full_results
from tools.full_results import BEGIN, END, PAGE, main, summary, with_row


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "testing.md"
    path.write_text(f"before\n{BEGIN}{END}after\n")
    return path


def rows(path: Path) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in path.read_text().splitlines()
        if line.startswith("| `")
    ]


def program(*lines: str, status: int = 0) -> list[str]:
    text = "; ".join(f"print({line!r})" for line in lines) or "pass"
    return [sys.executable, "-c", f"import sys; {text}; sys.exit({status})"]


def test_a_run_writes_one_row_and_leaves_the_rest_of_the_page(page):
    for number in (3, 4):
        arguments = ["roles", "--minutes", "20", "--page", str(page), "--", *program(f"{number} passed in 1.2s")]
        assert main(arguments) == 0
    ((target, _commit, date, minutes, result),) = rows(page)
    assert (target, result) == ("`full-roles`", "4 passed")
    assert minutes.endswith(", 20")
    assert date[:2] == "20"
    assert page.read_text().startswith("before\n")
    assert page.read_text().endswith("after\n")


def test_a_run_that_fails_is_written_as_one(page):
    assert main(["slurm", "--page", str(page), "--", *program("1 failed in 1.2s", status=3)]) == 3
    assert rows(page)[0][4] == "FAILED (3): 1 failed"


def test_a_run_that_takes_too_long_fails(page):
    assert main(["slurm", "--minutes", "0", "--page", str(page), "--", *program("1 passed in 1.2s")]) == 1
    assert rows(page)[0][4] == "1 passed, TOO LATE"


def test_rows_are_sorted(page):
    text = page.read_text()
    for name in ("slurm", "guest", "roles"):
        text = with_row(text, name, f"| `full-{name}` | x |")
    page.write_text(text)
    assert [row[0] for row in rows(page)] == ["`full-guest`", "`full-roles`", "`full-slurm`"]


def test_a_page_without_marks_is_an_error():
    with pytest.raises(ValueError, match="no table"):
        with_row("text", "slurm", "row")


def test_the_summary_is_what_the_command_marks():
    assert summary(["FULL RESULT: 400 keys", "FULL RESULT: 3 refused", "1 passed in 1s"]) == "400 keys; 3 refused"
    assert summary(["scenario ok"]) == ""


@pytest.mark.parametrize("lines", [["pytest -m guest tests/guest"], []])
def test_a_run_without_a_result_is_no_good_one(page, lines):
    assert main(["guest", "--page", str(page), "--", *program(*lines)]) == 1
    assert rows(page)[0][4] == f"FAILED (1): {lines[0] if lines else 'no output'}"


def test_the_page_has_the_table():
    text = PAGE.read_text()
    assert text.count(BEGIN) == text.count(END) == 1


def test_the_commit_is_named():
    assert full_results.commit().rstrip("+")
