# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook bmc_commission over simulated BMCs, by ansible-playbook. No output has a secret."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.unit.commission.commissioned_site import Made

pytestmark = pytest.mark.playbooks


def flat(text: str) -> str:
    return " ".join(text.split())


def test_nodes_are_commissioned_once_and_other_playbooks_use_the_new_account(make: Made) -> None:
    site = make("gpu01", "gpu02", "gpu03")
    site.write_cluster(provision={"host": "ctl1", "bmc": {"ca": str(site.folder / "made-ca.pem")}})
    order = {"bmc_nodes": "gpu[01-02]", "bmc_ntp": "10.0.0.1", "bmc_ca_key": "make"}
    check = site.play("bmc_commission", "--check", "--diff", **order)
    assert check.returncode == 0, check.stdout
    assert "gpu[01-02]: would change: own account, factory password gone, NTP, IPMI off, certificate of the CA" in flat(
        check.stdout
    )
    assert "+gpu01 ipmi: off" in check.stdout
    assert site.writes() == []
    made = site.play("bmc_commission", "-vvvv", **order)
    assert made.returncode == 0, made.stdout
    assert "2 BMCs: 2 commissioned" in made.stdout
    assert "changed=1" in made.stdout
    for node in ("gpu01", "gpu02"):
        assert site.saved(node)[1] not in made.stdout
        assert site.recorded[node]["bmc_fingerprint"] == site.bmcs[node].state()["fingerprint"]
    assert "PRIVATE KEY" not in made.stdout
    assert site.bmcs["gpu03"].state()["log"] == []
    site.forget()
    again = site.play("bmc_commission", **order)
    assert again.returncode == 0, again.stdout
    assert "changed=0" in again.stdout
    assert site.writes() == []
    discovered = site.play("bmc_discover", "--limit", "gpu01,gpu02")
    assert discovered.returncode == 0, discovered.stdout
    assert "2 BMCs: 2 found" in discovered.stdout
    report = site.report("bmc_commission")
    assert report["counts"] == {"commissioned": 2}
    assert report["machines"]["gpu01"]["steps"]["certificate"] == "same"
    files = "".join(path.read_text() for path in site.reports.iterdir())
    assert "canary" not in files
    assert site.saved("gpu01")[1] not in files


def test_findings_fail_the_run_and_the_other_nodes_are_commissioned(make: Made) -> None:
    site = make("gpu01", "gpu02", has_ntp=False)
    site.bmcs["gpu02"].faults(serial="OTHER", echo_secrets=True)
    done = site.play("bmc_commission", "-vvvv", bmc_nodes="gpu[01-02]", bmc_ntp="10.0.0.1")
    assert done.returncode == 2
    text = flat(done.stdout)
    assert "2 BMCs: 2 failed" in text
    assert "the BMC shows no NTP servers" in text
    assert "another machine answers" in text
    assert site.bmcs["gpu02"].writes() == []
    assert ElementTree.parse(site.reports / "bmc_commission.xml").getroot().get("failures") == "2"
    assert site.report("bmc_commission")["machines"]["gpu01"]["state"] == "failed: ntp"


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ({}, "bmc_nodes is missing; allowed: names of nodes"),
        ({"bmc_nodes": "all"}, "bmc_nodes: 'all' is not allowed"),
        ({"bmc_nodes": "gpu01", "bmc_ca_key": "make"}, "the cluster file names no CA"),
    ],
)
def test_mistakes_end_the_run_before_a_bmc_is_contacted(order: dict[str, str], says: str, make: Made) -> None:
    site = make()
    done = site.play("bmc_commission", **order)
    assert done.returncode == 2
    assert says in flat(done.stdout)
    assert site.bmcs["gpu01"].state()["log"] == []
