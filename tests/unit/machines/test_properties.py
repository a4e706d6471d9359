"""What holds for any text of another system, and for any record that people and git have had in hand."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.machines import imported, recorded
from tests.fuzz.seeds import change, seeds

OURS = {"imported": imported, "recorded": recorded}
SEEDS = [seed for seed in seeds() if seed[0] in OURS]


@given(st.sampled_from(SEEDS), st.randoms(use_true_random=False))
@settings(derandomize=True, deadline=None, max_examples=300)
def test_no_text_breaks_a_reader_and_no_wrong_value_is_written(seed: tuple[str, str], rng: random.Random):
    name, text = seed
    OURS[name](change(text, rng))
