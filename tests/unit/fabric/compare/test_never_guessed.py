"""No GUID is recorded for the wrong host, whatever is unnamed, renumbered, crossed, exchanged, replaced or moved."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core import guid_record
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.netfile import with_guids
from tests.unit.fabric.compare.impostors import FAULTS, FabricOfImpostors, faults_of, judged, without_guids
from tests.unit.fabric.compare.test_planted_faults import PLANS

NAMES = ("leaf-spine", "rail-optimised", "three-tier", "planes of one leaf", "rail-only")


def fabric(seed: int) -> FabricOfImpostors:
    rng = random.Random(seed)
    plan = without_guids(PLANS[NAMES[seed % len(NAMES)]])
    # Before the first record, or after it: then some things are on record that are no longer so.
    plan = with_guids(plan) if rng.random() < 0.5 else plan
    return faults_of(rng, plan, guid_record.record_of(plan), 1 + seed % 6)


def check(seeds: range) -> None:
    wrong = {seed: found for seed in seeds if (found := judged(fabric(seed)))}
    assert not wrong, "\n".join(f"{seed}: {fabric(seed).told}: {found}" for seed, found in wrong.items())


def test_no_guid_is_recorded_for_the_wrong_host():
    check(range(20))


@pytest.mark.nightly
def test_no_guid_is_recorded_for_the_wrong_host_in_300_sets():
    check(range(1000, 1300))


def test_most_of_what_names_its_host_is_recorded():
    """A record of nothing is never wrong."""
    made = [one for one in map(fabric, range(20)) if not one.old]
    cards = sum(len(one.plan.hcas) for one in made)
    kept = sum(name in one.plan.hcas for one in made for name in one.compared()[1])
    assert kept > 0.8 * cards > 0


def test_every_fault_is_among_the_sets():
    planted = Counter(name for seed in range(1000, 1300) for name in fabric(seed).told)
    assert set(planted) == {"same_name", *(fault.__name__ for fault in FAULTS)}
    assert min(planted.values()) >= 20
