"""Which MIG instances a GPU takes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import mig

DATA = Path(mig.__file__).with_name("mig.json")
CARDS = {card.name: card for card in mig.default().cards}


def test_each_row_says_where_it_is_from_and_a_model_is_never_in_both_lists() -> None:
    assert all(card.origin for card in mig.default().cards)
    assert not {card.model for card in mig.default().cards} & set(mig.default().without)


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


def test_large_instances_are_made_first() -> None:
    # Else the driver says "Insufficient Resources" for what fits: its placements are left to it.
    layout = {"1g.5gb": 1, "1g.10gb": 1, "3g.20gb": 1, "1g.5gb+me": 1}
    assert mig.in_order(layout) == ["3g.20gb", "1g.10gb", "1g.5gb", "1g.5gb+me"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda data: data["gpus"][1].pop("model"), "gpus, row 2: KeyError('model')"),
        (lambda data: data["gpus"][0]["profiles"].update({"1g.6gb": ["9g", 4]}), "gpus, row 1: KeyError('9g')"),
        (lambda data: data["gpus"][0]["profiles"].update({"big": ["2g", 1]}), "gpus, row 1: ValueError"),
        (lambda data: data["gpus"][0].update(verified="yes"), "gpus, row 1: from is to be a text"),
        (lambda data: data["gpus"][0]["profiles"].update({"1g.6gb": ["1 of 4", 5]}), "row 1: 5 of 1g.6gb do not fit"),
        (lambda data: data.pop("shapes"), "mig.json: shapes, gpus or without"),
    ],
)
def test_a_malformed_table_is_refused_with_its_row(tmp_path: Path, change: Any, told: str) -> None:
    data = copy.deepcopy(json.loads(DATA.read_text(encoding="utf-8")))
    change(data)
    path = tmp_path / "mig.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(mig.MigTableError, match=r"mig\.json") as error:
        mig.read(path)
    assert told in str(error.value)
