"""Findings for machines: JSON and JUnit's XML."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import (
    ERROR,
    NOTICE,
    WARNING,
    Finding,
    from_json,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.places import KINDS
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.report.finding_files import as_json, junit
from tests.unit.fabric import cases
from tests.unit.fabric.report.test_page import EVIL, FINDINGS, evil


def test_json_has_all_and_is_the_same_again():
    plan = cases.rails()
    found = as_json(plan, FINDINGS)
    assert found == as_json(plan, FINDINGS)
    read = json.loads(found)
    assert from_json(read["findings"]) == FINDINGS
    assert read["counts"] == {"missing": 1, "slow": 1, "unread": 1}
    assert (read["worst"], read["ok"], read["fabric"]) == ("error", None, "fabric")
    as_json(*evil()).encode("ascii")


@pytest.mark.parametrize(("fail_on", "failures"), [(ERROR, 1), (WARNING, 2), (NOTICE, 3)])
def test_junit_fails_from_a_severity_on(fail_on: str, failures: int):
    found = ElementTree.fromstring(junit(cases.rails(), FINDINGS, fail_on=fail_on))
    assert (found.get("failures"), found.get("skipped")) == (str(failures), str(3 - failures))
    assert len(list(found.iter("failure"))) == failures
    assert len(list(found.iter("skipped"))) == 3 - failures
    assert found.get("tests") == str(len(list(found.iter("testcase")))) == str(3 + len(KINDS) - 3)
    failure = next(found.iter("failure"))
    assert failure.text == "rack r0, leaf-su00-r0 port 1: the cable is missing; plug it in"
    assert failure.get("type") == ERROR


def test_a_case_of_junit_has_the_same_name_whatever_else_is_found():
    def names(findings: list[Finding]) -> list[str | None]:
        found = ElementTree.fromstring(junit(cases.rails(), findings))
        return [case.get("name") for case in found if len(case)]

    several = [*FINDINGS, replace(FINDINGS[0], found="it holds another")]
    assert names(several)[0] == "rack r0, leaf-su00-r0 port 1: the cable is missing"
    assert names(several[1:]) == names(several)[1:]
    assert len(set(names(several))) == len(several)


def test_junit_of_a_fabric_that_is_right_has_a_case_for_each_kind():
    found = ElementTree.fromstring(junit(cases.rails(), []))
    assert [case.get("classname") for case in found] == [f"fabric.{kind}" for kind in KINDS]
    assert all(len(case) == 0 for case in found)
    plan, findings = evil()
    assert EVIL.replace("\u2028", "") in str(
        next(ElementTree.fromstring(junit(plan, findings)).iter("failure")).text
    ).replace("\u2028", "")
