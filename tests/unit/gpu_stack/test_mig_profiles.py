"""Which MIG instances a GPU takes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack import mig_profiles

DATA = Path(mig_profiles.__file__).with_name("mig.json")
SCHEMA = json.loads(DATA.with_name("mig.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
CARDS = {card.name: card for card in mig_profiles.default().cards}


def rows() -> dict[str, Any]:
    return json.loads(DATA.read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def mistakes(data: dict[str, Any]) -> list[str]:
    """Return what the schema finds in a table, or else shapes that are not there or do not fit."""
    found = [f"{'/'.join(map(str, error.absolute_path))}: {error.message}" for error in VALIDATOR.iter_errors(data)]
    return found or list(unknown(data)) or list(misfits(mig_profiles.build(data)))


def unknown(data: dict[str, Any]) -> Iterator[str]:
    for number, row in enumerate(data["gpus"]):
        for name, (shape, _) in row["profiles"].items():
            if shape not in data["shapes"]:
                yield f"gpus/{number}/profiles/{name}: no shape {shape}"


def misfits(table: mig_profiles.MigTable) -> Iterator[str]:
    for number, card in enumerate(table.cards):
        for name, (_, most) in card.profiles.items():
            if not card.fits({name: most}):
                yield f"gpus/{number}/profiles/{name}: {most} do not fit where its shape may begin"


def test_the_table_is_right_and_a_model_is_never_in_both_lists() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert mistakes(rows()) == []
    assert not {card.model for card in mig_profiles.default().cards} & set(mig_profiles.default().without)


@pytest.mark.parametrize(
    ("card", "layout", "fits"),
    [
        ("h100 of 80 GB", {"1g.10gb": 7}, True),
        ("h100 of 80 GB", {"1g.10gb": 8}, False),
        # NVIDIA's own examples: 4-2-1, 3-2-1-1, 2-1-1-1-1-1.
        ("a100 of 40 GB", {"4g.20gb": 1, "2g.10gb": 1, "1g.5gb": 1}, True),
        ("a100 of 40 GB", {"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 2}, True),
        ("a100 of 40 GB", {"2g.10gb": 1, "1g.5gb": 5}, True),
        # Seven of the compute slices are 3 + 3 + 1, and the two take all memory.
        ("h100 of 80 GB", {"3g.40gb": 2, "1g.10gb": 1}, False),
        ("h100 of 80 GB", {"4g.40gb": 1, "3g.40gb": 1}, True),
        ("h100 of 80 GB", {"4g.40gb": 2}, False),
        # Three of 2g leave the seventh slice.
        ("h200 of 141 GB", {"2g.35gb": 3, "1g.18gb": 1}, True),
        ("h200 of 141 GB", {"2g.35gb": 3, "1g.35gb": 1}, True),
        ("h200 of 141 GB", {"2g.35gb": 3, "1g.18gb": 2}, False),
        ("h200 of 141 GB", {"1g.18gb": 6, "1g.18gb+me": 1}, True),
        ("a30 of 24 GB", {"1g.6gb+me": 1, "2g.12gb+me": 1}, False),
        ("a30 of 24 GB", {"2g.12gb": 1, "1g.6gb": 2}, True),
        ("b200 of 180 GB", {"7g.180gb": 1}, True),
        ("b200 of 180 GB", {"7g.180gb": 1, "1g.23gb": 1}, False),
        ("b200 of 180 GB", {"1g.10gb": 1}, False),
    ],
)
def test_what_fits_on_one_gpu(card: str, layout: dict[str, int], fits: bool) -> None:
    assert CARDS[card].fits(layout) is fits


@pytest.mark.parametrize("name", CARDS)
def test_what_fits_into_the_memory_takes_no_more_compute_slices_than_there_are(name: str) -> None:
    """So `fits` looks at the memory slices alone."""
    card = CARDS[name]
    compute = {profile: int(profile.partition("g.")[0]) for profile in card.profiles}
    for counts in itertools.product(*(range(most + 1) for _, most in card.profiles.values())):
        taken = sum(count * slices for count, slices in zip(counts, compute.values(), strict=True))
        if taken > max(compute.values()):
            assert not card.fits({name: count for name, count in zip(compute, counts, strict=True) if count})


def test_large_instances_are_made_first() -> None:
    # Else the driver says "Insufficient Resources" for what fits: its placements are left to it.
    layout = {"1g.5gb": 1, "1g.10gb": 1, "3g.20gb": 1, "1g.5gb+me": 1}
    assert mig_profiles.in_order(layout) == ["3g.20gb", "1g.10gb", "1g.5gb", "1g.5gb+me"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda data: data["gpus"][1].pop("model"), "gpus/1: 'model' is a required property"),
        (lambda data: data["gpus"][0]["profiles"].update({"1g.6gb": ["9g", 4]}), "gpus/0/profiles/1g.6gb: no shape 9g"),
        (lambda data: data["gpus"][0]["profiles"].update({"big": ["2g", 1]}), "gpus/0/profiles: 'big'"),
        (lambda data: data["gpus"][0].update(verified="yes"), "gpus/0/verified: 'yes'"),
        (lambda data: data["gpus"][0].update({"from": ""}), "gpus/0/from: ''"),
        (
            lambda data: data["gpus"][0]["profiles"].update({"1g.6gb": ["1 of 4", 5]}),
            "gpus/0/profiles/1g.6gb: 5 do not",
        ),
        (lambda data: data["shapes"]["2g"].update(at=2), "shapes/2g/at: 2 is not of type 'array'"),
        (lambda data: data.pop("shapes"), ": 'shapes' is a required property"),
    ],
)
def test_a_mistake_in_the_table_is_found_with_its_row(change: Any, named: str) -> None:
    data = rows()
    change(data)
    assert named in "\n".join(mistakes(data))
