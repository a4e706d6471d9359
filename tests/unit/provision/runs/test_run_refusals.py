# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines, BMCs, installers and Slurm that end the order of their node, and no other."""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision import machine_run
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.next_step import Bounds
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover.host_keys import HostKeyError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover.ssh_target import SshError
from tests.unit.provision.world import FakeSsh, World

pytestmark = pytest.mark.tools("xorriso")
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"faults": {"serial": "SN-OTHER"}}, "SN-OTHER"),
    ({"nics": ["02:00:00:00:0f:01"]}, "boot MAC"),
    ({"faults": {"broken": ["EthernetInterfaces"]}}, "boot MAC"),
    ({"faults": {"broken": ["/Systems/1"]}}, "HTTP 500"),
    ({"targets": ["None", "Pxe"]}, "no boot target Cd"),
    ({"password": "another-canary"}, "HTTP 401"),
]


@pytest.mark.parametrize(("spec", "says"), REFUSED)
def test_a_machine_that_is_not_the_declared_one_receives_no_write(
    spec: dict[str, Any], says: str, world: World
) -> None:
    node = world.machine()
    good = world.machine()
    facts = dict(spec)
    if faults := facts.pop("faults", None):
        world.bmcs[node].faults(**faults)
    if facts:
        world.bmcs[node].change(**facts)
    run = world.run(node, good)
    assert says in run.stopped[node]
    assert world.bmcs[node].writes() == []
    assert world.state(node) == "planned"
    assert world.state(good) == "known"


@pytest.mark.parametrize(
    ("faults", "says"),
    [({"not_taken": ["media"]}, "medium"), ({"not_taken": ["boot"]}, "override"), ({"not_taken": ["power"]}, "reset")],
)
def test_an_accepted_write_that_is_not_taken_closes_the_order(faults: dict[str, Any], says: str, world: World) -> None:
    node, good = world.machine(faults=faults), world.machine()
    run = world.run(node, good)
    assert run.progress[node].state == "refused"
    assert says in run.progress[node].reason
    assert "/media/" not in run.progress[node].reason
    assert world.events(node) == []
    assert world.is_clean(node)
    assert world.state(good) == "known"
    world.bmcs[node].faults()
    assert world.run(node).progress[node].state == "known"


def test_a_bmc_without_a_way_to_insert_media(world: World) -> None:
    node = world.machine(insert="none")
    run = world.run(node)
    assert "HTTP 405" in run.progress[node].reason
    assert (world.state(node), world.events(node), world.media_of(node)) == ("refused", [], [])


def test_a_medium_that_stays_after_the_eject_leaves_the_machine_off(world: World) -> None:
    node = world.machine(faults={"not_taken": ["eject"]})
    run = world.run(node)
    assert (run.progress[node].state, world.bmcs[node].state()["power"]) == ("off", "Off")
    assert "accepted and not taken" in run.stopped[node]
    # The next run, or a person, finds the reason on the provision host.
    assert world.states(node)[node].reason == run.stopped[node]  # type: ignore[union-attr]
    # Its window is closed all the same.
    assert world.media_of(node) == []
    assert not world.desk().look([node]).nodes[node].open
    world.bmcs[node].faults()
    assert world.run(node).progress[node].state == "known"
    assert len(world.events(node, "write")) == 1


def test_no_claim_within_the_window(world: World) -> None:
    node = world.machine("no-claim")
    run = world.run(node, window=1)
    assert "closed before the installer claimed it" in run.progress[node].reason
    assert (world.state(node), world.is_clean(node)) == ("refused", True)


def test_no_report_and_no_power_off(world: World) -> None:
    hangs, stays = world.machine("hang"), world.machine("stays-on")
    run = world.run(hangs, stays, bounds=Bounds(1.0, 0.5, 1, 0.05))
    assert "half written" in run.progress[hangs].reason
    assert world.is_clean(hangs)
    assert run.progress[stays].state == "written"
    assert "does not power off" in run.stopped[stays]
    world.bmcs[stays].change(power="Off")
    assert world.run(stays).progress[stays].state == "known"
    assert len(world.events(stays, "write")) == 1


def test_a_system_that_does_not_answer_stays_on_and_is_never_installed_by_itself(world: World) -> None:
    node = world.machine()
    (world.folder / f"{node}.deaf").touch()
    run = world.run(node, bounds=Bounds(20, 1, 0.3, 0.05))
    assert (run.progress[node].state, world.bmcs[node].state()["power"]) == ("on", "On")
    assert "does not answer by SSH" in run.stopped[node]
    (world.folder / f"{node}.deaf").unlink()
    world.bmcs[node].forget_log()
    assert world.run(node).progress[node].state == "known"
    assert world.bmcs[node].writes() == []
    assert len(world.events(node, "write")) == 1


def test_the_installer_on_another_machine_is_refused_by_the_server(world: World) -> None:
    node = world.machine()
    wanted = world.wanted(node)
    # The BMC shows the declared NIC, and the installer finds another one.
    world.change(node, mac="02:00:00:00:0e:98")
    desk = world.desk(window=1)
    run = world.machine_run({node: wanted}, desk)
    run.run(world.plan({node: wanted}, desk).work)
    assert world.events(node, "claim") == ["claim 403"]
    assert world.events(node, "write") == []
    assert run.progress[node].state == "refused"
    assert world.is_clean(node)


def test_slurm_refuses_nodes_before_and_after_their_order(world: World) -> None:
    fresh, armed = world.machine(), world.machine()
    world.killed(armed, state="armed", before=False)
    run = world.run(fresh, armed, refused={fresh: "job 7 on it", armed: "job 8 on it"})
    assert (world.state(fresh), world.bmcs[fresh].writes()) == ("planned", [])
    assert run.stopped[fresh] == "job 7 on it"
    assert (world.state(armed), run.progress[armed].reason) == ("refused", "job 8 on it")
    assert world.is_clean(armed)
    assert world.events(armed) == []


def test_a_host_key_that_cannot_be_made_ends_the_order_of_its_node_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, good = world.machine(), world.machine()
    make = machine_run.make_host_key

    def broken(name: str) -> tuple[str, str]:
        if name == node:
            raise HostKeyError("ssh-keygen: no entropy")
        return make(name)

    monkeypatch.setattr(machine_run, "make_host_key", broken)
    run = world.run(node, good)
    assert (run.progress[node].state, run.progress[node].reason) == ("refused", "ssh-keygen: no entropy")
    assert (world.bmcs[node].writes(), world.state(good)) == ([], "known")


def test_a_host_key_that_cannot_be_kept_leaves_the_machine_off(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    node, good = world.machine(), world.machine()
    remember = FakeSsh.remember

    def full(self: FakeSsh, name: str, key: str) -> None:
        if name == node:
            raise SshError("known_hosts: no space left")
        remember(self, name, key)

    monkeypatch.setattr(FakeSsh, "remember", full)
    run = world.run(node, good)
    assert run.stopped == {node: "known_hosts: no space left"}
    assert (world.state(node), world.bmcs[node].state()["power"]) == ("released", "Off")
    assert world.state(good) == "known"
    monkeypatch.setattr(FakeSsh, "remember", remember)
    assert world.run(node).progress[node].state == "known"
    assert len(world.events(node, "write")) == 1
