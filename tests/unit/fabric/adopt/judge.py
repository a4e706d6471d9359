"""Adopt a fabric that exists as an operator does, break it at random, and judge what the comparison says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import Discovery
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import ToolOutput
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.adopt.adoption import Adoption, adoption
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.compare.fabric_drift import comparison
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.places import describe
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.unnamed_nodes import guid_in_name
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan.checked_plan import planned
from tests.unit.fabric.adopt.shapes import Existing, ends_of
from tests.unit.fabric.compare import faulty
from tests.unit.fabric.compare.faulty import FACTORY, FAULTS, End, Expected, World, matches, plant

# What makes another name or GUID of a card says nothing where the card has no name.
_OF_NAMES = (faulty.unnamed, faulty.replaced, faulty.duplicate_guid, faulty.duplicate_name)


def adopted(there: Existing, outputs: Sequence[ToolOutput] = ()) -> tuple[Plan, Adoption]:
    """Write the files of an adoption, paste its section, and return the plan that follows; `outputs` are of the real tool."""
    found = adoption(there.cluster(), outputs or there.outputs())
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
    faults = tuple(_sparing(fault, names) if fault in _OF_NAMES else fault for fault in FAULTS if fault not in left)
    return plant(plan, seed, count, faults, lambda world: world.rename.update((name, FACTORY) for name in names))


def judge(world: World, discoveries: dict[str, Discovery]) -> None:
    """Compare, and fail unless every planted fault is reported once, with a place and a remedy, and nothing else is."""
    found = comparison(world.plan, discoveries).findings
    told = "\n".join(f"{one.kind} {one.ports}: {one}" for one in found)
    for expected in world.expected:
        assert sum(matches(expected, one) for one in found) == 1, f"{expected} is not reported once:\n{told}"
    for one in found:
        fault = next((expected for expected in world.expected if matches(expected, one)), None)
        assert fault is not None, f"{world.expected}, but: {one.kind} {one}"
        assert one.where
        assert one.remedy
        assert is_right_fix(world, fault, one), f"{fault}, but: {one.kind} {one}"


def is_right_fix(world: World, fault: Expected, finding: Finding) -> bool:
    """Tell whether a finding sends people to the port that holds a wrong cable, and its remedy names where that belongs."""
    kind, ends = fault
    links = [link for link in world.plan.present if ends.issuperset(link.ends)]
    if kind in ("wrong-port", "miswired"):
        (link,) = links
        (now,) = ends - set(link.ends)
        return _named(world, finding.where, ends) == {now} and len(_named(world, finding.remedy, link.ends)) == 1
    if kind == "swapped":
        # One end of each of both cables: those that change places.
        both = _named(world, f"{finding.where}; {finding.remedy}", ends)
        return all(len(both.intersection(link.ends)) == 1 for link in links) and len(links) == len(both) == 2
    if kind in ("rotated", "shifted"):
        plugs = _named(world, finding.remedy, ends)
        return all(len(plugs.intersection(link.ends)) == 1 for link in links)
    if kind in ("missing", "slow", "half-seen", "extra"):
        return bool(_named(world, finding.where, ends))
    return True


def _named(world: World, text: str, ends: Iterable[End]) -> set[End]:
    """Return the ends that a text names."""
    return {end for end in ends if re.search(rf"(?<!\w){re.escape(describe(end, world.plan))}(?!\w|/)", text)}
