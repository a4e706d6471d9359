# SPDX-License-Identifier: GPL-3.0-or-later
"""Write findings as JUnit's XML, for a CI."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from xml.etree import ElementTree

from ...module_utils.common.finding import ERROR, NOTICE, WARNING, Finding

_GRAVITY = (NOTICE, WARNING, ERROR)
# What no XML may have in it.
_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def xml_text(value: object) -> str:
    """Return a value as text that XML and HTML can hold, with `?` for the signs that they cannot.

    >>> xml_text("a\\x00b")
    'a?b'
    """
    return _NO_XML.sub("?", str(value))


def junit(
    name: str, classname: str, kinds: Mapping[str, str], findings: Sequence[Finding], *, fail_on: str = ERROR
) -> str:
    """Return findings as JUnit's XML: a case for each, and one passed case for each kind without any.

    `name` is the suite's, `classname` the first part of the name of each class, `kinds` has kind -> title. A case is named after its place
    and its difference, so that a CI recognises it whatever else is found. Findings below the severity `fail_on` are skipped cases.
    """
    found = {one.kind for one in findings}
    good = [kind for kind in kinds if kind not in found]
    fatal = sum(_is_fatal(one, fail_on) for one in findings)
    counts = {"tests": len(findings) + len(good), "failures": fatal, "skipped": len(findings) - fatal, "errors": 0}
    suite = _element(None, "testsuite", name=name, **counts)
    for kind in good:
        _element(suite, "testcase", classname=f"{classname}.{kind}", name=f"{kinds[kind]}: none")
    for one in findings:
        place = f"{one.machine}: {one.where}" if one.machine else one.where
        case = _element(suite, "testcase", classname=f"{classname}.{one.kind}", name=f"{place}: {one.difference}")
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
