# SPDX-License-Identifier: GPL-3.0-or-later
"""The runs of ansible-test that `make sanity` is."""

from __future__ import annotations

from tools.sanity import BY_PYTHON, runs


def test_each_test_runs_once_and_tests_by_python_with_each_version():
    others, *by_python = runs([], ["3.9", "3.13"])
    left_out = [word for word in others if word != "--skip-test"]
    assert left_out == list(BY_PYTHON)
    assert by_python == [["--python", version, "--test", "compile", "--test", "import"] for version in ("3.9", "3.13")]


def test_a_chosen_test_is_the_only_run():
    assert runs(["--test", "yamllint"], ["3.9", "3.13"]) == [["--test", "yamllint"]]
