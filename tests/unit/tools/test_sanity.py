# SPDX-License-Identifier: GPL-3.0-or-later
"""The runs of ansible-test that `make sanity` is."""

from __future__ import annotations

from tools.sanity import BY_PYTHON, SLOW, runs


def by_python(version: str) -> list[str]:
    return ["--python", version, "--test", "compile", "--test", "import"]


def test_each_test_runs_once_and_tests_by_python_with_the_oldest():
    others, oldest = runs([], "3.9", "3.13")
    left_out = [word for word in others if word != "--skip-test"]
    assert left_out == [*BY_PYTHON, *SLOW]
    assert oldest == by_python("3.9")


def test_the_rest_is_pylint_and_the_newest_python():
    assert runs(["rest"], "3.9", "3.13") == [["--test", "pylint"], by_python("3.13")]


def test_a_python_that_is_missing_runs_nothing():
    assert len(runs([], "", "3.13")) == 1
    assert runs(["rest"], "3.9", "") == [["--test", "pylint"]]


def test_a_chosen_test_is_the_only_run():
    assert runs(["--test", "yamllint"], "3.9", "3.13") == [["--test", "yamllint"]]
