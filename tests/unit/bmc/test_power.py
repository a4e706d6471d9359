# SPDX-License-Identifier: GPL-3.0-or-later
"""Power of named nodes: what Slurm refuses, what the machine refuses, and what is sent."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.drain_reasons import written
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.node_states import parse
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.node_work import report
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc import power_guard, power_run
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_accounts import Accounts
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.bmc_targets import Reach, Target
from ansible_collections.bedplate.cluster.plugins.plugin_utils.bmc.power_run import PowerOrder, PowerResult
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.machine_record import Machine
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Account, Limits
from tests.kit.bmc.simulation import Simulated, Simulation

QUICK = Limits(answer_s=5, attempts=2, first_delay_s=0.05, poll_s=0.02, settle_s=1, power_s=2)


def of_slurm(state: str, jobs: str = "") -> dict[str, Any]:
    """Return what the module bedplate.cluster.slurm_node reports of gpu01, from what scontrol and squeue print."""
    snapshot = parse(f"NodeName=gpu01 State={state}", jobs, "")
    return report(["gpu01"], snapshot.nodes)["gpu01"].facts()


@pytest.mark.parametrize(
    ("state", "jobs", "says"),
    [
        ("IDLE+DRAIN Reason=fan is loud [ann@2026-11-28T10:00:00]", "", ""),
        (f"IDLE+DRAIN Reason={written('roll', '3f2a9c1b', 'driver')} [root@2026-11-28T10:00:00]", "", "(roll)"),
        (
            f"IDLE+DRAIN Reason={written('provision', '3f2a9c1b', 'image')} [root@2026-11-28T10:00:00]",
            "",
            "(provision)",
        ),
        ("DOWN+DRAIN Reason=fan [ann@2026-11-28T10:00:00]", "", ""),
        ("IDLE", "", "not drained"),
        ("DOWN Reason=fan [ann@2026-11-28T10:00:00]", "", "not drained"),
        ("DOWN*", "", "not drained"),
        ("IDLE+DRAIN Reason=Kill task failed [root@2026-11-28T10:00:00]", "", "drained by Slurm itself"),
        ("ALLOCATED", "12|RUNNING|gpu01|1:00:00", "job 12 on it"),
        ("MIXED+DRAIN Reason=fan [ann@2026-11-28T10:00:00]", "12|RUNNING|gpu01|1:00:00", "job 12 on it"),
        ("IDLE+DRAIN Reason=fan [ann@2026-11-28T10:00:00]", "12|SUSPENDED|gpu01|1:00:00", "job 12 on it"),
        ("MIXED*+DRAIN Reason=fan [ann@2026-11-28T10:00:00]", "", "has not released it"),
        ("IDLE+DRAIN+COMPLETING Reason=fan [ann@2026-11-28T10:00:00]", "", "has not released it"),
        (f"IDLE+DRAIN+REBOOT_REQUESTED Reason={written('roll', 'a1', 'x')} [root@2026-11-28T10:00:00]", "", "(roll)"),
    ],
)
def test_slurm_decides_whether_the_power_may_end(state: str, jobs: str, says: str) -> None:
    found = power_guard.refusal(of_slurm(state, jobs))
    assert says in found
    assert bool(found) == bool(says)


def test_a_node_that_slurm_does_not_have_is_allowed_and_one_without_a_result_is_not() -> None:
    unknown = report(["gpu09"], {})["gpu09"].facts()
    assert power_guard.refusals(["gpu09"], {"gpu09": unknown}) == []
    assert power_guard.refusals(["gpu08", "gpu09"], {"gpu09": unknown}) == ["gpu08: Slurm reported nothing. Run again."]


def test_equal_refusals_are_one_line() -> None:
    idle = of_slurm("IDLE")
    (line,) = power_guard.refusals(["gpu01", "gpu02"], {"gpu01": idle, "gpu02": idle})
    assert line.startswith("gpu[01-02]: IDLE: not drained")


def test_a_silent_slurm_refuses_nodes_that_are_not_named_twice() -> None:
    (line,) = power_guard.without_slurm(["gpu01", "gpu02"], "gpu01", "no route.")
    assert line.startswith("gpu02: Slurm does not answer, so jobs may use them: no route. If")
    assert power_guard.without_slurm(["gpu01", "gpu02"], "gpu[01-02]", "no route") == []
    assert "unbalanced" in power_guard.without_slurm(["gpu01"], "gpu[", "no route")[0]


def powered(
    bmc: Simulated, wanted: str, *, serial: str = "SN1", check: bool = False, graceful: float = 0
) -> PowerResult:
    recorded = Machine(serial=serial, bmc_fingerprint=bmc.fingerprint)
    target = Target("gpu01", bmc.address, recorded=recorded)
    accounts = Accounts({"gpu01": Account("root", "factory-canary")}, {})
    order = PowerOrder(wanted, graceful, check)
    return power_run.run({"gpu01": target}, accounts, Reach(bmc.port, limits=QUICK), order)["gpu01"]


@pytest.mark.parametrize(("wanted", "before", "after"), [("on", "Off", "On"), ("off", "On", "Off")])
def test_a_state_is_reached_once_and_a_second_run_only_reads(
    wanted: str, before: str, after: str, simulation: Simulation
) -> None:
    bmc = simulation.add(serial="SN1", power=before)
    predicted = powered(bmc, wanted, check=True)
    assert predicted.change is not None
    assert predicted.change.changed
    assert (bmc.writes(), bmc.state()["power"]) == ([], before)
    done = powered(bmc, wanted)
    assert done.change is not None
    assert (done.change.changed, bmc.state()["power"], len(bmc.writes())) == (True, after, 1)
    bmc.forget_log()
    again = powered(bmc, wanted)
    assert again.change is not None
    assert (again.change.changed, bmc.writes()) == (False, [])


def test_a_cycle_ends_with_a_machine_that_is_on_and_is_refused_for_one_that_is_off(simulation: Simulation) -> None:
    bmc = simulation.add(serial="SN1")
    assert powered(bmc, "cycle").change is not None
    assert bmc.state()["power"] == "On"
    assert len(bmc.writes()) == 2
    off = simulation.add(serial="SN1", power="Off")
    error = powered(off, "cycle").error
    assert error is not None
    assert "the machine is off, so there is no power to cycle. Use -e power=on." in str(error)
    assert off.writes() == []


def test_the_operating_system_shuts_down_first(simulation: Simulation) -> None:
    bmc = simulation.add(serial="SN1")
    assert powered(bmc, "off", graceful=2).change is not None
    assert (bmc.state()["power"], len(bmc.writes())) == ("Off", 1)
    deaf = simulation.add(serial="SN1", faults={"ignores_graceful": True})
    assert powered(deaf, "off", graceful=0.1).change is not None
    assert (deaf.state()["power"], len(deaf.writes())) == ("Off", 2)


@pytest.mark.parametrize("serial", ["", "SN2"])
def test_another_machine_or_one_without_a_record_is_never_commanded(serial: str, simulation: Simulation) -> None:
    bmc = simulation.add(serial="SN1")
    for wanted in ("on", "off", "cycle"):
        error = powered(bmc, wanted, serial=serial).error
        assert error is not None
        assert error.kind == power_run.NOT_ALLOWED
        assert "SN1" in str(error)
        assert "bmc_discover.yml" in str(error)
    assert bmc.writes() == []


def test_a_bmc_without_a_recorded_certificate_receives_no_request(simulation: Simulation) -> None:
    bmc = simulation.add(serial="SN1")
    target = Target("gpu01", bmc.address, recorded=Machine(serial="SN1"))
    accounts = Accounts({"gpu01": Account("root", "factory-canary")}, {})
    result = power_run.run({"gpu01": target}, accounts, Reach(bmc.port, limits=QUICK), PowerOrder("off"))["gpu01"]
    assert f"its SHA-256 is {bmc.fingerprint}" in str(result.error)
    assert bmc.state()["log"] == []


def test_an_accepted_reset_that_has_no_effect_is_an_error(simulation: Simulation) -> None:
    bmc = simulation.add(serial="SN1", faults={"not_taken": ["power"]})
    error = powered(bmc, "off").error
    assert error is not None
    assert error.kind == "not-taken"
    assert "expected PowerState Off, found PowerState On" in str(error)


def test_the_summary_folds_nodes_with_one_outcome(simulation: Simulation) -> None:
    bmc = simulation.add(serial="SN1", power="Off")
    done = powered(bmc, "on")
    order = PowerOrder("on")
    results = {"gpu01": done, "gpu02": done, "gpu03": powered(bmc, "on"), "gpu04": powered(bmc, "on", serial="SN2")}
    text = power_run.summary(results, order).splitlines()
    assert text[:2] == ["gpu[01-02]: changed from off to on", "gpu03: is on"]
    assert text[2].startswith("gpu04: ")
    assert f"another machine answers at {bmc.address}" in text[2]
    assert power_run.states(results, order, after=False) == "gpu01: off\ngpu02: off\n"
    assert power_run.states(results, order, after=True) == "gpu01: on\ngpu02: on\n"


def test_ipmi_has_the_same_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, bool]] = []

    def set_power(bmc: Any, wanted: str, *, read_only: bool = False) -> Any:
        calls.append((wanted, read_only))
        return power_run.Change(changed=True, expected=wanted, before="on", path="chassis power")

    monkeypatch.setattr(power_run.ipmi, "set_power", set_power)
    monkeypatch.setattr(power_run.ipmi, "read_power", lambda bmc: "off")
    targets = {"gpu01": Target("gpu01", "127.3.0.1", "ipmi")}
    accounts = Accounts({"gpu01": Account("root", "factory-canary")}, {})
    found = power_run.run(targets, accounts, Reach(), PowerOrder("off", read_only=True))["gpu01"]
    assert (found.error, calls) == (None, [("off", True)])
    found = power_run.run(targets, accounts, Reach(), PowerOrder("cycle"))["gpu01"]
    assert "no power to cycle" in str(found.error)
    assert calls == [("off", True)]
