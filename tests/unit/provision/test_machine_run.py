"""Orders from step to step, over simulated BMCs and the real order server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision import bmc_steps
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.desk import DeskError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.machine_run import job_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision.next_step import Bounds
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.machine_reading import read_machine
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.media import eject_media
from tests.unit.provision.world import World

pytestmark = pytest.mark.tools("xorriso")


def secrets_in(folder: Path, world: World) -> list[Path]:
    """Return files with a password of a BMC, a token of a session, a private key, or the path of a medium."""
    texts = (b"canary", b"PRIVATE KEY", b"/media/")
    own = (world.host.folder / "orders", world.host.folder / "certificates")
    # A machine knows its own.
    own += tuple(world.folder.glob("*.secrets"))
    return [
        path
        for path in folder.rglob("*")
        if path.is_file()
        and not any(one in (path, *path.parents) for one in own)
        and any(text in path.read_bytes() for text in texts)
    ]


@pytest.mark.parametrize("method", ["media", "http", "pxe"])
def test_a_machine_that_is_off_becomes_known_and_a_second_run_sends_nothing(method: str, world: World) -> None:
    node = world.machine(method=method)
    run = world.run(node)
    assert (world.state(node), run.stopped) == ("known", {})
    assert world.events(node)[0] == {"media": "boot Cd", "http": "boot UefiHttp", "pxe": "boot Pxe"}[method]
    assert len(world.events(node, "write")) == 1
    assert world.is_clean(node)
    assert world.bmcs[node].state()["power"] == "On"
    assert world.bmcs[node].state()["sessions"] == 0
    world.bmcs[node].forget_log()
    again = world.run(node)
    assert again.progress[node].state == "known"
    assert world.bmcs[node].state()["log"] == []
    assert secrets_in(world.folder.parent, world) == []
    assert not any("canary" in line or "/media/" in line for line in world.said)


def test_a_settings_object_and_no_reset_time(world: World) -> None:
    node = world.machine(settings_elsewhere=True, reset_time=False, media_at="system")
    assert world.run(node).progress[node].state == "known"
    assert world.is_clean(node)


def test_the_medium_is_read_back_before_the_reset_and_removed_before_power_on(world: World) -> None:
    node = world.machine()
    world.run(node)
    writes = [one.split()[1].rpartition("/")[2] for one in world.bmcs[node].writes()]
    assert writes == [
        "VirtualMedia.InsertMedia",
        "1",
        "ComputerSystem.Reset",
        "VirtualMedia.EjectMedia",
        "ComputerSystem.Reset",
    ]


def test_data_without_the_word_is_refused_and_with_it_installed(world: World) -> None:
    node = world.machine(data=True)
    world.run(node)
    assert world.state(node) == "refused"
    assert "wipe was not confirmed" in str(world.states(node)[node])
    assert world.events(node, "write") == []
    assert world.is_clean(node)
    assert world.bmcs[node].state()["power"] == "Off"
    world.run(node, wipe=[node])
    assert world.state(node) == "known"
    assert len(world.events(node, "write")) == 1
    # A known node is installed again only by a new word.
    world.run(node)
    assert len(world.events(node, "write")) == 1
    world.run(node, wipe=[node])
    assert len(world.events(node, "write")) == 2


def test_a_machine_that_is_on_needs_the_word(world: World) -> None:
    node = world.machine(power="On")
    run = world.run(node)
    assert "the machine is on" in run.stopped[node]
    assert world.bmcs[node].writes() == []
    world.run(node, wipe=[node])
    assert world.state(node) == "known"


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


def test_a_busy_bmc_delays_only(world: World) -> None:
    node = world.machine(faults={"busy": 3})
    assert world.run(node).progress[node].state == "known"


def test_a_medium_that_stays_after_the_eject_leaves_the_machine_off(world: World) -> None:
    node = world.machine(faults={"not_taken": ["eject"]})
    run = world.run(node)
    assert (run.progress[node].state, world.bmcs[node].state()["power"]) == ("off", "Off")
    assert "accepted and not taken" in run.stopped[node]
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


SYSTEM = "/redfish/v1/Systems/1"


def step(world: World, node: str, do: Callable[..., object], url: str = "") -> str:
    """Do a step at the BMC of a node, and return its error."""
    job = replace(job_of(world.wanted(node)), url=url)
    return world.fleet().each({node: job}, do)[node].error


@pytest.mark.parametrize(("enabled", "target"), [("Disabled", "Cd"), ("Once", "Pxe"), ("Once", "Hdd")])
def test_a_machine_that_would_boot_something_else_is_not_reset(enabled: str, target: str, world: World) -> None:
    node = world.machine()
    boot = {"BootSourceOverrideEnabled": enabled, "BootSourceOverrideTarget": target}
    assert not step(world, node, lambda client, job: client.patch(SYSTEM, {"Boot": boot}))
    job = job_of(world.wanted(node))
    assert world.fleet().each({node: job}, bmc_steps.start)[node].value is False
    assert [one for one in world.bmcs[node].writes() if "Reset" in one] == []


def test_a_machine_that_was_turned_on_too_early_keeps_what_it_boots_from(world: World) -> None:
    node = world.machine(power="On", behaviour="none")
    assert "was turned on before its medium was removed" in step(world, node, bmc_steps.release)
    assert world.bmcs[node].writes() == []


@pytest.mark.parametrize(("left", "says"), [("medium", "a medium is inserted again"), ("override", "boot override")])
def test_a_machine_with_a_medium_or_an_override_is_not_turned_on(left: str, says: str, world: World) -> None:
    node = world.machine()
    assert not step(world, node, bmc_steps.arm, "https://127.0.0.1:1/media/x.iso")
    if left == "medium":
        boot = {"Boot": {"BootSourceOverrideEnabled": "Disabled"}}
        assert not step(world, node, lambda client, job: client.patch(SYSTEM, boot))
    else:
        assert not step(
            world,
            node,
            lambda client, job: eject_media(client, read_machine(client, serial=job.target.recorded.serial)),
        )
    assert says in step(world, node, bmc_steps.turn_on)
    assert world.bmcs[node].state()["power"] == "Off"


def test_an_order_that_cannot_be_closed_leaves_the_machine_off(world: World) -> None:
    node = world.machine()

    def call(name: str, arguments: Mapping[str, Any]) -> Any:
        if name == "provision_orders" and arguments.get("release") and world.state(node) == "off":
            return {"failed_nodes": dict.fromkeys(arguments["release"], "disk full")}
        return world.host.call(name, arguments)

    assert world.run(node, call=call).stopped[node] == "disk full"
    assert (world.state(node), world.bmcs[node].state()["power"]) == ("off", "Off")


def test_a_node_that_another_run_took_is_not_reset(world: World) -> None:
    node = world.machine()

    def call(name: str, arguments: Mapping[str, Any]) -> Any:
        if name == "provision_states" and any(row["state"] == "started" for row in arguments.get("write", ())):
            return {"held": {node: "another run works on it: x"}}
        return world.host.call(name, arguments)

    assert world.run(node, call=call).stopped[node] == "another run works on it: x"
    assert [one for one in world.bmcs[node].writes() if "Reset" in one] == []


def test_a_provision_host_that_stays_silent_ends_the_run(world: World) -> None:
    node, looks = world.machine(), [0]

    def call(name: str, arguments: Mapping[str, Any]) -> Any:
        looks[0] += name == "provision_states" and "write" not in arguments
        if looks[0] > 40:
            raise AssertionError("the run does not end")
        return {"unreachable": True, "msg": "no route"} if looks[0] > 2 else world.host.call(name, arguments)

    with pytest.raises(DeskError, match="no route"):
        world.run(node, call=call)
    assert world.bmcs[node].writes() == []


def test_another_run_works_on_the_node(world: World) -> None:
    node = world.machine()
    desk = world.desk()
    plan = world.plan({node: world.wanted(node)}, desk)
    desk.write(plan.work.values(), desk.look([]).now)
    other = world.desk()
    other.settings.__dict__["holder"] = "elsewhere:1:2:3:4"
    refused = other.write(plan.work.values(), desk.look([]).now)
    assert "another run works on it" in refused[node]
    assert world.plan({node: world.wanted(node)}, other).refused[node].startswith("another run works on it")


def test_a_damaged_file_of_a_node_is_never_no_progress(world: World) -> None:
    node = world.machine()
    path = world.host.folder / "states" / f"{node}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"node": "')
    run = world.run(node)
    assert str(path) in run.stopped[node]
    assert world.bmcs[node].writes() == []


@pytest.mark.parametrize(("power_at_once", "most"), [(2, 2), (0, 5)])
def test_machines_get_power_in_waves(
    power_at_once: int, most: int, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [world.machine() for _number in range(5)]
    seen: dict[str, list[int]] = {"start": [], "turn_on": []}
    for name, counts in seen.items():
        monkeypatch.setattr(bmc_steps, name, counted(getattr(bmc_steps, name), counts))
    run = world.run(*nodes, power_at_once=power_at_once)
    assert {run.progress[node].state for node in nodes} == {"known"}
    assert max(seen["start"]) == most
    assert max(seen["turn_on"]) <= most


def counted(step: Callable[..., Any], counts: list[int]) -> Callable[..., Any]:
    """Return a step that notes how many of it run at the same time, for half a second at least."""
    guard, running = threading.Lock(), 0

    def run(*arguments: Any) -> Any:
        nonlocal running
        with guard:
            running += 1
            counts.append(running)
        try:
            time.sleep(0.5)
            return step(*arguments)
        finally:
            with guard:
                running -= 1

    return run
