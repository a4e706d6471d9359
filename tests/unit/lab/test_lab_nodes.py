from __future__ import annotations

import io
import ipaddress
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab import host, machines, nodes
from lab.machines import Machine, Plan
from lab.paths import ROOT
from lab.podman import LABEL
from lab.shell import LabError
from tests.kit import sentences

SENTENCES = Path(__file__).parent / "sentences.txt"

PLAN = Plan(
    ipaddress.IPv4Network("10.99.7.0/24"),
    (Machine("ctl1", "10.99.7.10"), Machine("gpu01", "10.99.7.11", 2), Machine("gpu02", "10.99.7.12", 2)),
)


def test_create_boots_every_machine_of_the_plan(podman: Any) -> None:
    assert nodes.create(podman, "lab", PLAN)
    assert sorted(podman.boxes) == ["bedplate-lab-ctl1", "bedplate-lab-gpu01", "bedplate-lab-gpu02"]
    assert {box["State"] for box in podman.boxes.values()} == {"running"}


def test_create_again_touches_nothing(podman: Any) -> None:
    nodes.create(podman, "lab", PLAN)
    podman.asked.clear()
    assert not nodes.create(podman, "lab", PLAN)
    assert [podman.count(verb) for verb in ("create", "start", "rm", "cp")] == [0, 0, 0, 0]


def test_create_starts_a_stopped_node_instead_of_making_it_again(podman: Any) -> None:
    nodes.create(podman, "lab", PLAN)
    podman.boxes["bedplate-lab-gpu01"]["State"] = "exited"
    podman.asked.clear()
    assert nodes.create(podman, "lab", PLAN)
    assert (podman.count("create"), podman.count("start")) == (0, 1)


@pytest.mark.parametrize(
    ("machines", "remade"),
    [
        pytest.param(PLAN.machines[:2], 0, id="node left the cluster file"),
        pytest.param((*PLAN.machines[:2], replace(PLAN.machines[2], gpus=8)), 1, id="other number of GPUs"),
        pytest.param((*PLAN.machines[:2], replace(PLAN.machines[2], address="10.99.7.99")), 1, id="other address"),
    ],
)
def test_create_follows_the_cluster_file(podman: Any, machines: tuple[Machine, ...], remade: int) -> None:
    nodes.create(podman, "lab", PLAN)
    podman.asked.clear()
    assert nodes.create(podman, "lab", replace(PLAN, machines=machines))
    assert (podman.count("rm"), podman.count("create")) == (1, remade)
    assert len(podman.boxes) == len(machines)


def test_scenarios_and_lab_do_not_touch_each_other(podman: Any) -> None:
    nodes.create(podman, "lab", PLAN)
    nodes.create(podman, "molecule-slurm", PLAN)
    assert nodes.destroy(podman, "molecule-slurm")
    assert sorted(podman.boxes) == ["bedplate-lab-ctl1", "bedplate-lab-gpu01", "bedplate-lab-gpu02"]


def test_destroy_leaves_no_trace_and_may_be_repeated(podman: Any, tmp_path: Any) -> None:
    nodes.create(podman, "lab", PLAN)
    assert nodes.destroy(podman, "lab")
    assert (podman.boxes, podman.nets, (tmp_path / "lab").exists()) == ({}, {}, False)
    assert not nodes.destroy(podman, "lab")


def test_another_checkouts_lab_is_refused_by_name_of_its_folder(podman: Any, tmp_path: Any) -> None:
    nodes.create(podman, "lab", PLAN)
    for box in podman.boxes.values():
        box["Labels"][f"{LABEL}.checkout"] = str(tmp_path)
    with pytest.raises(LabError, match=rf"lab.*: {tmp_path}") as caught:
        nodes.create(podman, "lab", PLAN)
    sentences.check(SENTENCES, "a lab of another checkout", [str(caught.value).replace(str(tmp_path), "/checkout")])
    assert nodes.labs_here(podman) == ["lab"]  # its state folder is here


def test_a_network_that_overlaps_a_route_is_refused(podman: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "clash", lambda *_: "10.99.0.0/16 dev eth0")
    with pytest.raises(LabError, match=r"10\.99\.7\.0/24 .*: 10\.99\.0\.0/16 dev eth0") as caught:
        nodes.create(podman, "lab", PLAN)
    sentences.check(SENTENCES, "a network that overlaps a route", [caught.value])
    assert podman.boxes == {}


def test_moving_a_running_lab_to_another_network_is_refused(podman: Any) -> None:
    nodes.create(podman, "lab", PLAN)
    with pytest.raises(LabError, match="make lab-down"):
        nodes.create(podman, "lab", replace(PLAN, subnet=ipaddress.IPv4Network("10.98.0.0/16")))


def test_every_container_can_be_found_again(podman: Any) -> None:
    nodes.create(podman, "lab", PLAN)
    found = {container.machine: container for container in podman.containers("lab")}
    assert found["gpu01"].running
    assert found["gpu01"].spec == nodes.spec(PLAN.machines[1])
    assert found["gpu01"].checkout == str(ROOT)


def options(podman: Any, name: str) -> tuple[str, ...]:
    return next(args for args in podman.asked if args[0] == "create" and name in args)


def test_each_machine_boots_its_release_and_sees_what_its_stack_needs(podman: Any, tmp_path: Any) -> None:
    (tmp_path / "bookworm").mkdir()
    (tmp_path / "bookworm/dkms_1_all.deb").touch()
    shared = str(tmp_path / "public")
    first = Machine("ctl1", "10.99.7.10", shared=shared, serves=True)
    second = Machine("gpu01", "10.99.7.11", 2, "bookworm", True, shared)
    nodes.create(podman, "lab", replace(PLAN, machines=(first, second)))
    assert "image:trixie" in options(podman, "bedplate-lab-ctl1")
    assert "image:bookworm" in options(podman, "bedplate-lab-gpu01")
    mounts = {arg for arg in options(podman, "bedplate-lab-gpu01") if arg.startswith("--volume")}
    assert mounts == {f"--volume={shared}:/srv/vendor:ro", f"--volume={tmp_path}/bookworm:/srv/debian:ro"}
    brought = {}
    for name, data in podman.brought.items():
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            brought[name] = {one.name: one.linkname for one in archive.getmembers()}
    unit = "etc/systemd/system/lab-vendor.service"
    wanted = "etc/systemd/system/multi-user.target.wants/lab-vendor.service"
    assert brought["bedplate-lab-ctl1"][wanted] == f"/{unit}"
    assert unit in brought["bedplate-lab-ctl1"]
    assert unit not in brought["bedplate-lab-gpu01"]
    assert brought["bedplate-lab-gpu01"]["var/cache/apt/archives/dkms_1_all.deb"] == "/srv/debian/dkms_1_all.deb"


def test_controllers_that_share_a_state_directory_see_the_same_folder_and_may_write(
    podman: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned = []
    monkeypatch.setattr("os.chown", lambda path, uid, gid: owned.append((path, uid, gid)))
    two = tuple(Machine(f"ctl{number}", f"10.99.7.{number}", state="/srv/state") for number in (8, 9))
    nodes.create(podman, "lab", replace(PLAN, machines=(*two, PLAN.machines[1])))
    folder = nodes.state_of("lab") / nodes.STATE_FOLDER
    for machine in two:
        assert f"--volume={folder}:/srv/state" in options(podman, f"bedplate-lab-{machine.name}")
    assert not [arg for arg in options(podman, "bedplate-lab-gpu01") if arg.startswith("--volume")]
    assert set(owned) == {(folder, nodes.SLURM_UID, nodes.SLURM_UID)}
    assert nodes.spec(two[0]) != nodes.spec(replace(two[0], state=""))


def test_only_controllers_of_several_share_their_state() -> None:
    plan = machines.read(ROOT / "molecule/slurm_two")
    assert {one.name: one.state for one in plan.machines} == {
        "ctl1": "/srv/slurm/state",
        "ctl2": "/srv/slurm/state",
        "cpu01": "",
        "db1": "",
    }
    assert not any(one.state for one in machines.read(ROOT / "molecule/slurm").machines)


def test_a_machine_of_which_nothing_of_this_is_asked_stays_what_it_was(podman: Any) -> None:
    """Its digest is that of labs which run already: none of them is made again."""
    assert nodes.spec(PLAN.machines[1]) == "d773101eae5c"
    others = [{"release": "bookworm"}, {"compiles": True}, {"shared": "/a"}, {"shared": "/a", "serves": True}]
    assert len({nodes.spec(replace(PLAN.machines[1], **other)) for other in [{}, *others]}) == 5  # type: ignore[arg-type]
    nodes.create(podman, "lab", PLAN)
    assert not [arg for arg in options(podman, "bedplate-lab-gpu01") if arg.startswith("--volume")]
