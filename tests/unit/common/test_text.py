"""Names that somebody may have meant."""

from __future__ import annotations

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean, nearest


@pytest.mark.parametrize(
    ("word", "options", "expected"),
    [
        ("prunne", {}, "prune"),
        ("nothing", {}, ""),
        ("NODENAME", {}, ""),
        ("NODENAME", {"fold": True}, "NodeName"),
        ("zzz", {"cutoff": 0.0}, "prune"),
        # What all have in common would make these alike.
        ("mirror_x", {}, "mirror_b"),
        ("mirror_x", {"prefix": "mirror_"}, ""),
    ],
)
def test_the_nearest_word_is_one_that_is_alike(word: str, options: dict[str, object], expected: str) -> None:
    names = ["mirror_b"] if word.startswith("mirror_") else ["prune", "NodeName"]
    assert nearest(word, names, **options) == expected  # type: ignore[arg-type]


def test_the_question_goes_on_with_the_sentence() -> None:
    known = iter(["gpu", "cpu"])
    assert did_you_mean("gup", known) == " Did you mean 'gpu'?"
    assert did_you_mean("gup", ["gpu"], lead=", did") == ", did you mean 'gpu'?"
    assert did_you_mean("gup", ["gpu"], lead="Did", quoted=False) == "Did you mean gpu?"
    assert did_you_mean("x", ["gpu"], otherwise="see gpu(1)") == "see gpu(1)"
    assert did_you_mean("x", ["gpu"]) == ""
