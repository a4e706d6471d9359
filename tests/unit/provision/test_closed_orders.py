# SPDX-License-Identifier: GPL-3.0-or-later
"""Orders that have ended, steps out of their order, and files of nodes: what is refused also where a kill has left a file."""

from __future__ import annotations

import fcntl
import json
import shutil
import threading
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.provision import orders
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.orders import Orders
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.progress import (
    KNOWN,
    PLANNED,
    REFUSED,
    NodeStates,
    Progress,
    ProgressError,
    progress_of,
)

from .test_orders import NONCE, OTHER, VALUES, arm, facts, refused


@pytest.fixture
def kept(tmp_path: Path) -> Orders:
    return Orders(tmp_path / "state", clock=lambda: 1_800_000_000.0)


def test_a_second_release_leaves_the_next_order_of_the_node_open(kept: Orders) -> None:
    old, _folder = arm(kept)
    kept.release(old.id)
    new, _folder = arm(kept)
    kept.release(old.id)
    assert kept.open_order("gpu001") == new.id
    assert refused(lambda: arm(kept)) == 409


def test_a_release_that_was_killed_before_the_node_was_free(kept: Orders) -> None:
    order, _folder = arm(kept)
    kept.release(order.id)
    (kept.folder / "nodes/gpu001").write_text(order.id)
    assert kept.open_order("gpu001") == ""
    arm(kept)


def test_an_order_id_is_never_a_path(kept: Orders) -> None:
    order, folder = arm(kept)
    shutil.copytree(folder, kept.folder / "copy")
    assert refused(lambda: kept.authorize("../copy", order.token)) == 403


def test_the_seed_is_gone_once_it_was_sent(kept: Orders) -> None:
    order, folder = arm(kept)
    kept.claim(folder, facts(order), "")
    kept.take_seed(folder, NONCE)
    assert not (folder / "seed.tar").exists()
    # A kill between the two files.
    (folder / "seed.tar").write_bytes(b"seed")
    assert refused(lambda: kept.take_seed(folder, NONCE)) == 409


@pytest.mark.parametrize(("ended", "status"), [("released", 403), ("report", 409)])
def test_an_order_that_ends_while_it_is_claimed(
    kept: Orders, monkeypatch: pytest.MonkeyPatch, ended: str, status: int
) -> None:
    order, folder = arm(kept)
    real = orders.write_new

    def late(path: Path, data: bytes, mode: int) -> bool:
        (folder / ended).write_text(json.dumps({"result": "refused", "at": 1}))
        return real(path, data, mode)

    monkeypatch.setattr(orders, "write_new", late)
    assert refused(lambda: kept.claim(folder, facts(order), "")) == status


def test_an_order_that_never_existed_is_not_released(kept: Orders) -> None:
    assert refused(lambda: kept.release("0" * 32)) == 404
    assert not (kept.folder / "orders" / ("0" * 32)).exists()


@pytest.mark.parametrize(("ended", "status"), [("released", 403), ("report", 409)])
def test_an_order_that_has_ended_sends_no_seed(kept: Orders, ended: str, status: int) -> None:
    order, folder = arm(kept)
    kept.claim(folder, facts(order), "")
    (folder / ended).write_text(json.dumps({"result": "refused", "at": 1}))
    assert refused(lambda: kept.take_seed(folder, NONCE)) == status
    assert refused(lambda: kept.claim(folder, facts(order), "")) == status
    assert (folder / "seed.tar").exists()


def test_reports_that_are_not_possible(kept: Orders) -> None:
    order, folder = arm(kept)
    assert refused(lambda: kept.report(folder, "done", "", NONCE)) == 400
    kept.claim(folder, facts(order), "")
    assert refused(lambda: kept.report(folder, "written", "", NONCE)) == 409
    assert refused(lambda: kept.report(folder, "refused", "", OTHER)) == 409
    assert kept.state(order.id)["state"] == "claimed"
    kept.release(order.id)
    assert refused(lambda: kept.report(folder, "refused", "", NONCE)) == 403
    assert kept.state(order.id)["result"] == ""


def test_a_reason_is_cut(kept: Orders) -> None:
    order, folder = arm(kept)
    kept.report(folder, "refused", "x" * 3000, "")
    assert kept.state(order.id)["reason"] == "x" * 2000


def test_a_claim_is_repeated_after_the_window(tmp_path: Path) -> None:
    now = [1_800_000_000.0]
    kept = Orders(tmp_path / "state", clock=lambda: now[0])
    order = kept.arm(VALUES, b"seed", 60).order
    folder = kept.authorize(order.id, order.token)
    answer = kept.claim(folder, facts(order), "")
    now[0] += 61
    assert kept.claim(folder, facts(order), "") == answer
    assert refused(lambda: kept.claim(folder, facts(order, nonce=OTHER), "")) == 409


def test_an_order_is_armed_after_the_other_process(kept: Orders) -> None:
    thread = threading.Thread(target=lambda: arm(kept))
    with (kept.folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        thread.start()
        thread.join(0.3)
        assert kept.open_order("gpu001") == ""
    thread.join()
    assert kept.open_order("gpu001")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"node": "gpu002"}',
        '{"node": "gpu001", "state": "gone"}',
        '{"node": "gpu001", "state": 1}',
        '{"node": "gpu001", "until": "x"}',
        '{"node": "gpu001", "more": "x"}',
    ],
)
def test_a_file_that_is_not_the_progress_of_its_node(tmp_path: Path, text: str) -> None:
    files = NodeStates(tmp_path)
    (tmp_path / "gpu001.json").write_text(text)
    with pytest.raises(ProgressError, match="Find out what the machine does"):
        files.read("gpu001")
    assert str(tmp_path / "gpu001.json") in files.write([Progress("gpu001")], "me")["gpu001"]
    assert (tmp_path / "gpu001.json").read_text() == text


def test_a_node_of_another_run_is_not_written_until_it_is_free(tmp_path: Path) -> None:
    now = [100.0]
    files = NodeStates(tmp_path, clock=lambda: now[0])
    assert files.write([Progress("gpu001", holder="other", until=200)], "other") == {}
    assert (tmp_path / "gpu001.json").stat().st_mode & 0o777 == 0o600
    assert set(files.write([Progress("gpu001", holder="me")], "me")) == {"gpu001"}
    assert files.read("gpu001") == Progress("gpu001", holder="other", until=200)
    assert files.write([Progress("gpu001", holder="me", until=200)], "me", gone=["other"]) == {}
    now[0] = 200
    assert files.write([Progress("gpu001", holder="third")], "third") == {}


def test_a_refused_node_has_reached_nothing() -> None:
    assert not Progress("gpu001", REFUSED).has_reached(PLANNED)
    assert Progress("gpu001", KNOWN).has_reached(PLANNED)


@pytest.mark.parametrize("data", [{}, {"node": ""}, {"state": KNOWN}, {"node": "gpu001", "more": "x"}])
def test_progress_needs_a_node_and_has_no_unknown_keys(data: dict[str, str]) -> None:
    with pytest.raises(ProgressError, match="unknown keys"):
        progress_of(data)
