# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings of a fabric for machines: as JSON, and as JUnit's XML."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import (
    ERROR,
    NOTICE,
    WARNING,
    Finding,
    to_json,
)

from ..core.fabric_model import Plan
from ..core.places import KINDS, worst
from .since_last import FIRST, SinceLast
from .svg import xml_text

_GRAVITY = (NOTICE, WARNING, ERROR)


def as_json(plan: Plan, findings: Sequence[Finding], *, ok: int | None = None, since: SinceLast = FIRST) -> str:
    """Return findings for machines; `worst` is the gravest severity, "" without findings. `since` has the new ones."""
    counts: Mapping[str, int] = Counter(one.kind for one in findings)
    found = {
        "fabric": plan.name,
        "worst": worst(findings),
        "ok": ok,
        "planned": sum(1 for _unused in plan.present),
        "counts": {kind: counts[kind] for kind in sorted(counts)},
        "new": len(since.new),
        "findings": [{**row, "new": since.is_new(one)} for row, one in zip(to_json(findings), findings, strict=True)],
        "gone": to_json(since.gone),
    }
    return json.dumps(found, indent=1) + "\n"


def junit(plan: Plan, findings: Sequence[Finding], *, fail_on: str = ERROR) -> str:
    """Return findings as JUnit's XML: a case for each, and one passed case for each kind without any.

    A case is named after what it says, so that a CI knows it again whatever else is found.
    Findings below the severity `fail_on` are skipped cases, so that they are seen and break nothing.
    """
    found = {one.kind for one in findings}
    good = [kind for kind in KINDS if kind not in found]
    fatal = sum(_is_fatal(one, fail_on) for one in findings)
    counts = {"tests": len(findings) + len(good), "failures": fatal, "skipped": len(findings) - fatal, "errors": 0}
    suite = _element(None, "testsuite", name=f"fabric {plan.name}", **counts)
    for kind in good:
        _element(suite, "testcase", classname=f"fabric.{kind}", name=f"{KINDS[kind]}: none")
    for one in findings:
        case = _element(suite, "testcase", classname=f"fabric.{one.kind}", name=f"{one.where}: {one.difference}")
        if _is_fatal(one, fail_on):
            outcome = _element(case, "failure", type=one.severity, message=one.difference)
        else:
            outcome = _element(case, "skipped", message=one.difference)
        outcome.text = xml_text(one)
    ElementTree.indent(suite)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suite, encoding="unicode")}\n'


def _is_fatal(finding: Finding, fail_on: str) -> bool:
    return _GRAVITY.index(finding.severity) >= _GRAVITY.index(fail_on)


def _element(parent: ElementTree.Element | None, tag: str, **attributes: object) -> ElementTree.Element:
    """Return a new element; text from the network has no signs that XML does not take."""
    written = {name: xml_text(value) for name, value in attributes.items()}
    return ElementTree.Element(tag, written) if parent is None else ElementTree.SubElement(parent, tag, written)
