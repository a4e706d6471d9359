"""Each program of the installer goes wrong, always or at one call: the disk is unchanged, or it never boots, or it is complete."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.kit.provision import faulty
from tests.kit.provision.machine import MIB, Machine, programs
from tests.kit.provision.small_image import ROOT_START, noise

EVERY = int(os.environ.get("BEDPLATE_EVERY_CALL", "53"))
"""Of the calls of a run, each one of so many is tested; 1 tests all."""


KILLS = int(os.environ.get("BEDPLATE_KILLS", "12"))


def _fill(node: Machine) -> None:
    """Put a disk with data into the machine: what an order to wipe destroys must not be destroyed by a fault before its claim."""
    subprocess.run(
        ["/usr/sbin/sfdisk", "-q", str(node.disk)],
        input="label: gpt\nsize=8MiB\n",
        text=True,
        check=True,
        capture_output=True,
    )


def judge(site, node: Machine, order, before: str, ended, old: bytes = b"") -> str:
    """Return what the disk is: unchanged, erased or complete. Anything else fails.

    With `old`, the content before the power went, it may also be `begun`: one table erased and all else as it was; or complete but for the
    last write.
    """
    data = node.disk.read_bytes()
    reached = site.server.orders.state(order.id)["at"]
    if node.digest() == before:
        assert site.state(order) in ("armed", "claimed", "refused")
        return "unchanged"
    assert "claim" in reached, f"the disk was written before the claim\n{ended.console}"
    if data[:MIB] == bytes(MIB) and data[-MIB:] == bytes(MIB):
        assert site.state(order) != "written"
        return "erased"
    if old and data[MIB:-MIB] == old[MIB:-MIB]:
        return "begun"
    place = f"{node.disk}?offset={ROOT_START}"
    if old and data[:MIB] == bytes(MIB):
        # The power went between the last two writes: firmware that reads the second table boots a complete disk.
        with node.disk.open("r+b") as stream:
            stream.write((node.root / "run/table").read_bytes()[:MIB])
    assert (
        "No errors"
        in subprocess.run(["/usr/sbin/sfdisk", "--verify", str(node.disk)], capture_output=True, text=True).stdout
    ), ended.console
    assert subprocess.run(["/usr/sbin/e2fsck", "-fn", place], capture_output=True).returncode == 0, ended.console
    wanted = {path: file.data for path, file in site.files().items()}
    for path, data in {**wanted, "/noise": noise()}.items():
        found = subprocess.run(["/usr/sbin/debugfs", "-R", f"cat {path}", place], capture_output=True).stdout
        assert found == data, f"{path}\n{ended.console}"
    return "complete"


@pytest.mark.parametrize("fault", [*faulty.FAULTS, faulty.ABSENT])
@pytest.mark.parametrize("name", programs())
def test_a_program_that_always_goes_wrong(site, node: Machine, name: str, fault: str) -> None:
    _fill(node)
    before = node.digest()
    faulty.always(node, name, fault)
    order = site.arm_for(node, wipe="yes")
    ended = node.install()
    found = judge(site, node, order, before, ended)
    if (name == "poweroff" and fault != faulty.ABSENT) or (name == "sleep" and fault.startswith("prints")):
        # The kernel switches off then: scripts/bedplate. A sleep of no time is no fault.
        assert found == "complete"
    else:
        assert found == "unchanged", ended.console
        assert ended.code == 1
        assert site.state(order) in ("armed", "refused")


def test_each_call(site, tmp_path: Path) -> None:
    """A program that works until one call. The state of the disk is judged after that, and each call must have an effect."""
    node = Machine(tmp_path / "counted")
    calls = faulty.at_call(node, 0, "fails")
    order = site.arm_for(node)
    assert node.install().code == 0
    names = calls.read_text().split()
    site.server.orders.release(order.id)
    assert set(names) == set(programs()), "a program is in the list, and was not called"
    results: dict[str, int] = {}
    kinds = list(faulty.FAULTS)
    for number in range(1, len(names) + 1):
        for kind, fault in enumerate(kinds):
            if (number * len(kinds) + kind) % EVERY:
                continue
            node = Machine(tmp_path / f"{number}-{kind}")
            _fill(node)
            faulty.at_call(node, number, fault)
            before = node.digest()
            order = site.arm_for(node, wipe="yes")
            ended = node.install()
            try:
                found = judge(site, node, order, before, ended)
            except AssertionError as error:
                raise AssertionError(f"call {number} of {len(names)} ({names[number - 1]} {fault}): {error}") from None
            assert found == "complete" or ended.code == 1
            results[found] = results.get(found, 0) + 1
            site.server.orders.release(order.id)
            for disk in (node.disk, node.other):
                disk.unlink()
    print(len(names), results)
    assert {"unchanged", "erased"} <= set(results)


def test_the_power_goes_at_any_time(site, tmp_path: Path) -> None:
    """No signal handler, no report: the disk has its old content, or no table, or is complete. A new order installs it then."""
    node = Machine(tmp_path / "whole")
    order = site.arm_for(node)
    started = time.monotonic()
    ended = node.install()
    whole = time.monotonic() - started
    assert ended.code == 0
    site.server.orders.release(order.id)
    results: dict[str, int] = {}
    for number in range(KILLS):
        node = Machine(tmp_path / str(number))
        _fill(node)
        before, old = node.digest(), node.disk.read_bytes()
        order = site.arm_for(node, wipe="yes")
        node.lose_power(whole * (number + 0.5) / KILLS)
        found = judge(site, node, order, before, ended, old)
        results[found] = results.get(found, 0) + 1
        site.server.orders.release(order.id)
    order = site.arm_for(node, wipe="yes")
    node.boot("99999999-2222-3333-4444-555555555555")
    assert node.install().code == 0
    assert site.state(order) == "written"
    print(results)
    assert {"unchanged", "erased"} <= set(results)
