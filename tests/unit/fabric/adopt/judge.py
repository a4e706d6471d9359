"""Adopt a fabric that exists as an operator does, break it at random, and judge what the comparison says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import Discovery
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.adopt.adoption import Adoption, adoption
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_drift import comparison
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.unnamed_nodes import guid_in_name
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checked_plan import planned
from tests.unit.fabric.adopt.shapes import Existing, ends_of
from tests.unit.fabric.compare import faulty
from tests.unit.fabric.compare.faulty import FACTORY, FAULTS, World, matches, plant

# What makes another name or GUID of a card says nothing where the card has no name.
_OF_NAMES = (faulty.unnamed, faulty.replaced, faulty.duplicate_guid, faulty.duplicate_name)


def adopted(there: Existing) -> tuple[Plan, Adoption]:
    """Write the files of an adoption, paste its section, and return the plan that follows."""
    found = adoption(there.cluster(), there.outputs())
    assert found.refused == ""
    for path, text in found.files.items():
        Path(path).write_text(text)
    there.path.write_text(f"{there.path.read_text()}{found.snippet}\n")
    return planned(there.cluster()).plan, found


def nameless(plan: Plan) -> list[str]:
    """Return the HCAs of a plan that have no name."""
    return [name for name in plan.hcas if guid_in_name(name)]


def _sparing(fault: Callable[[World], bool], names: list[str]) -> Callable[[World], bool]:
    """Return a fault that befalls no card without a name."""

    def planted(world: World) -> bool:
        ends = ends_of(world.plan, names) - world.touched
        world.touched |= ends
        done = fault(world)
        world.touched -= ends
        return done

    return planted


def broken(plan: Plan, seed: int, count: int, left: tuple[Callable[[World], bool], ...] = ()) -> World:
    """Return an adopted fabric with random faults, without those that are `left` out; its cards without a name still have none."""
    names = nameless(plan)
    faults = tuple(
        _sparing(fault, names) if fault in _OF_NAMES else fault for fault in FAULTS if fault not in left
    )
    return plant(plan, seed, count, faults, lambda world: world.rename.update((name, FACTORY) for name in names))


def judge(world: World, discoveries: dict[str, Discovery]) -> None:
    """Compare, and fail unless every planted fault is reported once, with a place and a remedy, and nothing else is."""
    found = comparison(world.plan, discoveries).findings
    told = "\n".join(f"{one.kind} {one.ports}: {one}" for one in found)
    for expected in world.expected:
        assert sum(matches(expected, one) for one in found) == 1, f"{expected} is not reported once:\n{told}"
    for one in found:
        assert any(matches(expected, one) for expected in world.expected), f"{world.expected}, but: {one.kind} {one}"
        assert one.where
        assert one.remedy
