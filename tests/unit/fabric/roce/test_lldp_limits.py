"""Speed and frames of RoCE links where LLDP reports them; where it is silent nothing is claimed."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery_output import LldpSettings
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.lldp import gbits_of, reports
from tests.unit.fabric.lldp_answers import Answers
from tests.unit.fabric.messages import check_messages
from tests.unit.fabric.roce.test_roce_names import answers, compared, fabric, same

CUMULUS = same("Cumulus Linux version 5.9.1", lambda cage, _: f"swp{cage + 1}")
MAU = {
    100: "100GbaseSR4 - 100GBASE-R PCS/PMA over 4 lane multimode fiber",
    400: "400GbaseDR4 - 400GBASE-R PCS/PMA over 4-lane single-mode fiber PMD",
}


def ports(found: Answers, box: str) -> list[dict[str, Any]]:
    """Return what each interface of a device reports of the port at the other end."""
    return [told["port"] for one in found[box]["lldp"]["interface"] for told in one.values()]


def runs_at(port: dict[str, Any], gbits: int) -> None:
    port["auto-negotiation"] = {"supported": True, "enabled": True, "current": MAU[gbits]}


def findings(found: Answers, **options: Any) -> list[Finding]:
    return compared(fabric(), found, **options).findings


def test_link_below_the_planned_speed_is_slow():
    found = answers(fabric(), CUMULUS)
    for port in ports(found, "gpu3"):
        runs_at(port, 400)
    runs_at(ports(found, "gpu5")[0], 100)
    (finding,) = findings(found)
    assert (finding.kind, finding.expected, finding.found[:4]) == ("slow", "400G", "100G")
    assert ("gpu5 ens1f0np0", 1) in finding.ports
    check_messages("lldp: a slow link", [finding])


def test_speed_that_nearly_all_links_have_is_one_finding():
    found = answers(fabric(), CUMULUS)
    for box in found:
        for port in ports(found, box):
            runs_at(port, 100)
    (finding,) = findings(found)
    assert (finding.kind, finding.where) == ("slow", "fabric")


@pytest.mark.parametrize("current", ["unknown", "AUI - No internal MAU, view from AUI", "", "full duplex mode"])
def test_unknown_speed_is_no_claim(current: str):
    found = answers(fabric(), CUMULUS)
    for port in ports(found, "gpu3"):
        port["auto-negotiation"] = {"supported": True, "enabled": True, "current": current}
    assert findings(found) == []


@pytest.mark.parametrize(
    ("mau", "gbits"),
    [("25GbaseSR - 25GBASE-R", 25), ("10GigBaseLR - R fiber", 10), ("2p5GigT - 2.5GBASE-T", 2.5), ("1000BaseTFD - UTP", 1),
     ("100BaseTXFD - 2 pair", 0.1), ("10Broad36 - Broadband DTE MAU", 0), ("", 0)],
)  # fmt: skip
def test_speed_of_a_mau_type(mau: str, gbits: float):
    assert gbits_of(mau) == gbits


def test_frames_below_the_sites_mtu_are_one_finding_a_switch():
    found = answers(fabric(), CUMULUS)
    for box in ("gpu0", "gpu1"):
        for port in ports(found, box):
            port["mfs"] = "1518"
    (finding,) = findings(found)
    assert (finding.kind, finding.where, finding.ports) == ("mtu", "rack a0, leaf-a0", (("leaf-a0", 0),))
    assert all(f"swp{number}" in finding.found for number in (1, 2, 3, 4))
    check_messages("lldp: small frames", [finding])


@pytest.mark.parametrize(("mtu", "kinds"), [(0, ["mtu"]), (4200, []), (9000, ["mtu"])])
def test_site_states_its_mtu(mtu: int, kinds: list[str]):
    found = answers(fabric(), CUMULUS)
    ports(found, "gpu0")[0]["mfs"] = "4222"
    assert [one.kind for one in findings(found, settings=LldpSettings(mtu=mtu))] == kinds


@pytest.mark.parametrize(
    ("leaf", "spine", "kinds"), [("9216", "9416", ["mtu"]), ("9216", "9236", []), ("9216", "", [])]
)
def test_frames_of_the_ends_of_a_cable(leaf: str, spine: str, kinds: list[str]):
    found = answers(fabric(), CUMULUS)
    for box in ("leaf-a0", "sp1"):
        for port in ports(found, box):
            port.pop("mfs", None)
    upper = [one for one in found["leaf-a0"]["lldp"]["interface"] for told in one.values() if "sp1" in told["chassis"]]
    (told,) = upper[0].values()
    if spine:
        told["port"]["mfs"] = spine
    lower = [
        one
        for one in found["sp1"]["lldp"]["interface"]
        for one_told in one.values()
        if "leaf-a0" in one_told["chassis"]
    ]
    (back,) = lower[0].values()
    back["port"]["mfs"] = leaf
    assert [one.kind for one in findings(found)] == kinds
    if kinds:
        check_messages("lldp: frames of two sizes", findings(found))


def test_silence_is_no_claim():
    found = answers(fabric(), CUMULUS)
    for box in found:
        for port in ports(found, box):
            port.pop("mfs", None)
    assert findings(found) == []


def test_forms_of_what_lldpctl_prints():
    plain = {
        "id": {"type": "ifname", "value": "swp1"},
        "descr": "x",
        "mfs": "9216",
        "auto-negotiation": {"current": MAU[400]},
    }
    listed = {"id": [{"type": "ifname", "value": "swp1"}], "descr": [{"value": "x"}], "mfs": [{"value": "9216"}],
              "auto-negotiation": [{"enabled": True, "current": [{"value": MAU[400]}]}]}  # fmt: skip
    chassis = {"id": {"type": "mac", "value": "9c:05:91:00:ab:01"}, "descr": "Cumulus Linux",
               "capability": [{"type": "Bridge", "enabled": False}, {"type": "Router", "enabled": True}]}  # fmt: skip
    for port in (plain, listed):
        (one,) = reports({"lldp": {"interface": {"eth0": {"chassis": {"leaf1": chassis}, "port": port}}}})
        assert (one.frame, one.gbits, one.system, one.is_bridge) == (9216, 400, "Cumulus Linux", True)
