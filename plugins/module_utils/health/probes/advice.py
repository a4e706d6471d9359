# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse the verdicts of other tools: DCGM, gpud and NVIDIA's health validation. They are advice, never the only reason of an action.

The formats are the documented ones: `dcgmi health -c -j` and `dcgmi diag -j` of DCGM 3 and 4, gpud's /v1/states, and the NodeVerdict of
NVIDIA's health validation. An answer that is malformed or has an unknown word is unread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..facts.node_facts import Reading
from .reading_lines import one_line, unread

DCGM, GPUD, VALIDATION = SOURCES = ("dcgm", "gpud", "validation")
OK, WARN, FAIL = "ok", "warn", "fail"
_DCGM_HEALTH = {"Healthy": OK, "Warning": WARN, "Failure": FAIL}
# DCGM 3 prints PASS and DCGM 4 Pass. A test that was skipped did not check anything.
_DCGM_DIAG = {"pass": OK, "warn": WARN, "fail": FAIL}
_DCGM_SKIPPED = ("skip", "skipped", "notrun", "not run")
_GPUD = {"Healthy": OK, "Degraded": WARN, "Unhealthy": FAIL}
_VALIDATION = {"PASS": OK, "INFO": OK, "WARNING": WARN, "CRITICAL": FAIL}
_WORST = (OK, WARN, FAIL)
_LONGEST, _DEEPEST = 1 << 20, 12


class AdviceError(ValueError):
    """An answer that is not in the tool's documented format."""


def quantity(source: str) -> str:
    """Return the name of a tool's quantity, such as `advice/dcgm`."""
    return f"advice/{source}"


def parse(source: str, data: bytes | str) -> list[Reading]:
    """Return the readings of a tool's answer; the first is its verdict on the node. Raises no exception."""
    text = data.decode("utf-8", "replace") if isinstance(data, bytes) else data
    try:
        item = json.loads(text[:_LONGEST])
        found = list(_READERS[source](item))
    except AdviceError as error:
        return [unread(quantity(source), "", source, str(error))]
    except (ValueError, RecursionError) as error:
        return [unread(quantity(source), "", source, f"not JSON: {error}")]
    by_device: dict[str, Reading] = {}
    for device, value, why in found:
        known = by_device.get(device)
        if known is None or _WORST.index(value) > _WORST.index(str(known.value)):
            by_device[device] = Reading(quantity(source), device, value, source, one_line(why))
    whole = max((one.value for one in by_device.values()), key=lambda one: _WORST.index(str(one)), default=None)
    if whole is None:
        return [unread(quantity(source), "", source, "the answer has no result")]
    if "" not in by_device:
        by_device = {"": Reading(quantity(source), "", whole, source), **by_device}
    return list(by_device.values())


Rows = Iterator[tuple[str, str, str]]


def _dcgm(item: Any) -> Rows:
    """Yield device, verdict and text of a health report or a diagnosis."""
    top = _mapping(item, "the answer")
    for name in ("DCGM GPU Diagnostic", "DCGM Diagnostic"):
        if name in top:
            return _diagnosis(_mapping(top[name], name))
    return _health(_mapping(top.get("body"), "body"))


def _health(body: Mapping[str, Any]) -> Rows:
    overall = _mapping(body.get("Overall Health"), "Overall Health")
    yield "", _word(overall.get("value"), _DCGM_HEALTH), ""
    for kind, group in body.items():
        if kind == "Overall Health":
            continue
        for number, entity in _mapping(_mapping(group, kind).get("children"), kind).items():
            data = _mapping(entity, f"{kind} {number}")
            yield one_line(f"{kind} {number}"), _word(data.get("value"), _DCGM_HEALTH), _texts(data)


def _texts(data: Mapping[str, Any], depth: int = 0) -> str:
    """Return the texts below an entity, for people."""
    if depth > _DEEPEST:
        return ""
    found = []
    for name, child in (data.get("children") or {}).items() if isinstance(data.get("children"), dict) else ():
        if isinstance(child, dict):
            own = [str(child["value"])] if isinstance(child.get("value"), str) else []
            overflow = child.get("overflow")
            more = [str(one) for one in overflow] if isinstance(overflow, list) else []
            found.append(" ".join([str(name), *own, *more, _texts(child, depth + 1)]).strip())
    return "; ".join(found)


def _diagnosis(data: Mapping[str, Any]) -> Rows:
    for category in _list(data.get("test_categories"), "test_categories"):
        for test in _list(_mapping(category, "a category").get("tests"), "tests"):
            row = _mapping(test, "a test")
            name = str(row.get("name", "test"))
            results = [*_list(row.get("results"), "results"), *([row["test_summary"]] if "test_summary" in row else [])]
            for result in results:
                one = _mapping(result, "a result")
                status = one.get("status")
                if isinstance(status, str) and status.lower() in _DCGM_SKIPPED:
                    continue
                verdict = _word(status.lower() if isinstance(status, str) else status, _DCGM_DIAG)
                yield _entity(one), verdict, "" if verdict == OK else f"{name}: {_warnings(one)}"


def _entity(result: Mapping[str, Any]) -> str:
    """Return `GPU 3`; DCGM 3 has `gpu_id`, DCGM 4 `entity_group` and `entity_id`. A result of the whole test has neither."""
    if "gpu_id" in result:
        return one_line(f"GPU {result['gpu_id']}")
    if "entity_id" in result:
        return one_line(f"{result.get('entity_group', 'entity')} {result['entity_id']}")
    return ""


def _warnings(result: Mapping[str, Any]) -> str:
    found = result.get("warnings", "")
    rows = found if isinstance(found, list) else [found]
    return ", ".join(str(one.get("warning", one)) if isinstance(one, dict) else str(one) for one in rows)


def _gpud(item: Any) -> Rows:
    for row in _list(item, "the answer"):
        component = _mapping(row, "a component")
        name = component.get("component")
        if not isinstance(name, str) or not name:
            raise AdviceError("a component has no name")
        for state in _list(component.get("states"), f"states of {name}"):
            data = _mapping(state, f"a state of {name}")
            if data.get("health") == "Initializing":
                continue
            yield one_line(name), _word(data.get("health"), _GPUD), str(data.get("reason", ""))


def _validation(item: Any) -> Rows:
    data = _mapping(item, "the verdict")
    yield "", _word(data.get("overall_severity"), _VALIDATION), ""
    for row in _list(data.get("affected_components") or [], "affected_components"):
        component = _mapping(row, "a component")
        verdict = _word(component.get("max_severity"), _VALIDATION)
        checks = _list(component.get("check_ids") or [], "check_ids")
        for entity in _list(component.get("entities") or [], "entities"):
            yield one_line(str(entity)), verdict, ", ".join(str(one) for one in checks)


def _word(word: Any, words: Mapping[str, str]) -> str:
    if not isinstance(word, str) or word not in words:
        raise AdviceError(f"{str(word)[:40]!r} is not a known verdict")
    return words[word]


def _mapping(item: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(item, dict):
        raise AdviceError(f"{where} is not an object")
    return item


def _list(item: Any, where: str) -> list[Any]:
    if not isinstance(item, list):
        raise AdviceError(f"{where} is not a list")
    return item


_READERS: dict[str, Callable[[Any], Rows]] = {DCGM: _dcgm, GPUD: _gpud, VALIDATION: _validation}
