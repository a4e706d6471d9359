# SPDX-License-Identifier: GPL-3.0-or-later
"""A run that is killed before each of its writes, to a BMC or to the disk, is continued by the next run."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.commission.own_secrets import OwnSecrets
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines import record_changes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.client import Client
from tests.kit.bmc.simulation import Simulation
from tests.unit.commission.commissioned_site import CommissionedSite, errors
from tests.unit.commission.test_commission import is_done

KILLED = 9
POINTS = (
    "prepare", "POST Accounts", "promote", "forget pending", "PATCH Accounts/1", "PATCH NetworkProtocol", "PATCH NetworkProtocol",
    "POST GenerateCSR", "note_issued", "POST ReplaceCertificate", "record", "forget_issued", "end",
)  # fmt: skip
SHAPES: dict[str, dict[str, Any]] = {
    "standard": {},
    "restarts": {"certificate_restarts": True, "password_ends": "all"},
}


def instrumented(at: Callable[[str], None]) -> Iterator[tuple[Any, str, Any]]:
    """Yield owner, name and replacement of each function that writes; `at` is called before the write."""
    send, update = Client._send, record_changes.update

    def sent(self: Client, method: str, path: str, *arguments: Any, **named: Any) -> Any:
        if method != "GET" and "/Sessions" not in path:
            tail = path.partition("AccountService/")[2] or path.rpartition("/")[2]
            at(f"{method} {tail.rpartition('.')[2]}")
        return send(self, method, path, *arguments, **named)

    def updated(*arguments: Any, write: bool) -> Any:
        if write:
            at("record")
        return update(*arguments, write=write)

    yield Client, "_send", sent
    yield record_changes, "update", updated
    for name in ("prepare", "promote", "note_issued", "forget_issued"):
        yield OwnSecrets, name, before(name, getattr(OwnSecrets, name), at)
    yield OwnSecrets, "_forget", before("forget pending", OwnSecrets._forget, at)


def before(name: str, function: Callable[..., Any], at: Callable[[str], None]) -> Callable[..., Any]:
    def called(*arguments: Any) -> Any:
        at(name)
        return function(*arguments)

    return called


def killed_before(site: CommissionedSite, number: int) -> None:
    """Run the commissioning in a process of its own, which ends at once before its write of this number, or after the last."""
    child = os.fork()
    if child:
        _pid, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == KILLED
        return
    try:
        left = count()

        def at(name: str) -> None:
            turn = next(left)
            if turn == number:
                os._exit(KILLED if name == POINTS[number] else 3)

        for owner, name, replacement in list(instrumented(at)):
            setattr(owner, name, replacement)
        site.run()
        at("end")
    finally:
        os._exit(4)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "number", range(len(POINTS)), ids=lambda number: f"{number}-{POINTS[number].replace(' ', '-')}"
)
def test_a_killed_run_is_continued(number: int, shape: str, tmp_path: Path, simulation: Simulation) -> None:
    site = CommissionedSite(tmp_path, simulation, ("gpu01",), **SHAPES[shape])
    killed_before(site, number)
    # The sessions of the killed run expire.
    site.bmcs["gpu01"].change(sessions={})
    found = site.run_one()
    assert errors(found) == []
    is_done(site)


def test_no_write_is_without_a_test(tmp_path: Path, simulation: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    site = CommissionedSite(tmp_path, simulation, ("gpu01",))
    seen: list[str] = []
    for owner, name, replacement in list(instrumented(seen.append)):
        monkeypatch.setattr(owner, name, replacement)
    site.run()
    assert (*seen, "end") == POINTS
