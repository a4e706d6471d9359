"""Orders in files: one open order per node, one claim, one seed, and a server that is killed at any point."""

from __future__ import annotations

import json
import stat
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.provision import orders as module
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.order_text import (
    Order,
    OrderError,
    check,
    parse,
    render,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.orders import Orders, RefusedError

HASH = "0123456789abcdef" * 4
VALUES = {
    "node": "gpu001", "serial": "SN1", "mac": "52:54:00:be:d9:01", "disk": "D1", "wipe": "no", "server": "https://10.0.0.1:8443",
    "image": "https://10.0.0.1:8443/images/x.img.zst", "image_sha256": HASH, "raw_sha256": HASH, "raw_bytes": str(24 << 20),
    "root_start": str(2 << 20), "address": "10.20.9.1/22", "gateway": "none", "host_key": "seed",
}  # fmt: skip
NONCE, OTHER = "a" * 36, "b" * 36


@pytest.fixture
def kept(tmp_path: Path) -> Orders:
    return Orders(tmp_path / "state", clock=lambda: 1_800_000_000.0)


def facts(order: Order, nonce: str = NONCE, **other: str) -> dict[str, str]:
    return {"serial": order.serial, "mac": order.mac, "disk": order.disk, "nonce": nonce, **other}


def arm(kept: Orders, **other: str) -> tuple[Order, Path]:
    order = kept.arm({**VALUES, **other}, b"seed", 60).order
    return order, kept.authorize(order.id, order.token)


def refused(call: Callable[[], object]) -> int:
    with pytest.raises(RefusedError) as caught:
        call()
    return caught.value.status


def test_a_whole_installation(kept: Orders) -> None:
    order, folder = arm(kept)
    states = [kept.state(order.id)["state"]]
    assert kept.claim(folder, facts(order), "10.20.9.1") == f"claimed {order.id} {NONCE}\n"
    states.append(kept.state(order.id)["state"])
    assert kept.take_seed(folder, NONCE) == b"seed"
    states.append(kept.state(order.id)["state"])
    assert kept.report(folder, "written", "", NONCE) == f"reported {order.id} written\n"
    states.append(kept.state(order.id)["state"])
    kept.release(order.id)
    kept.release(order.id)
    assert [*states, kept.state(order.id)["state"]] == ["armed", "claimed", "seeded", "written", "released"]


def test_a_node_has_one_open_order(kept: Orders) -> None:
    order, _folder = arm(kept)
    assert refused(lambda: arm(kept)) == 409
    arm(kept, node="gpu002")
    kept.release(order.id)
    arm(kept)


def test_only_the_hash_of_the_token_is_kept_and_nobody_else_may_read(kept: Orders) -> None:
    order, _folder = arm(kept)
    for path in kept.folder.rglob("*"):
        if path.is_file() and path.name != "lock":
            assert order.token.encode() not in path.read_bytes()
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        elif path.is_dir():
            assert stat.S_IMODE(path.stat().st_mode) == 0o700


@pytest.mark.parametrize("order_id", ["0" * 32, "../../etc", ""])
def test_an_unknown_order_is_answered_as_a_wrong_token(kept: Orders, order_id: str) -> None:
    order, _folder = arm(kept)
    assert refused(lambda: kept.authorize(order_id, order.token)) == 403
    assert refused(lambda: kept.authorize(order.id, "")) == 403
    assert refused(lambda: kept.authorize(order.id, order.token[:-1])) == 403


def test_a_claim_is_refused(kept: Orders) -> None:
    order, folder = arm(kept)
    for key in ("serial", "mac", "disk"):
        assert refused(lambda key=key: kept.claim(folder, facts(order, **{key: "x"}), "")) == 403
    assert refused(lambda: kept.claim(folder, facts(order, nonce=""), "")) == 400
    assert refused(lambda: kept.take_seed(folder, NONCE)) == 409
    assert refused(lambda: kept.report(folder, "written", "", NONCE)) == 409
    kept.claim(folder, facts(order), "")
    # Sent again after a lost answer.
    kept.claim(folder, facts(order), "")
    assert refused(lambda: kept.claim(folder, facts(order, nonce=OTHER), "")) == 409
    assert refused(lambda: kept.take_seed(folder, OTHER)) == 409
    kept.take_seed(folder, NONCE)
    assert refused(lambda: kept.take_seed(folder, NONCE)) == 409
    assert refused(lambda: kept.report(folder, "refused", "impostor", OTHER)) == 409


OWN_KEY = f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'x' * 43}"


def test_the_host_key_that_a_machine_has_made(kept: Orders) -> None:
    order, folder = arm(kept, host_key="machine")
    assert refused(lambda: kept.claim(folder, facts(order), "10.20.9.2")) == 403
    kept.claim(folder, facts(order), "10.20.9.1")
    kept.take_seed(folder, NONCE)
    for wrong in ("", "ssh-rsa AAAA", f"{OWN_KEY} comment", OWN_KEY[:-1]):
        assert refused(lambda wrong=wrong: kept.report(folder, "written", "", NONCE, wrong)) == 400
    kept.report(folder, "written", "", NONCE, OWN_KEY)
    kept.report(folder, "written", "", NONCE, OWN_KEY)
    assert refused(lambda: kept.report(folder, "written", "", NONCE, OWN_KEY.replace("x", "y"))) == 409
    assert kept.state(order.id)["host_key"] == OWN_KEY


def test_a_host_key_beside_that_of_the_seed(kept: Orders) -> None:
    order, folder = arm(kept)
    kept.claim(folder, facts(order), "10.20.9.2")
    kept.take_seed(folder, NONCE)
    assert refused(lambda: kept.report(folder, "written", "", NONCE, OWN_KEY)) == 400
    kept.report(folder, "written", "", NONCE)
    assert kept.state(order.id)["host_key"] == ""


def test_a_refusal_closes_the_order(kept: Orders) -> None:
    order, folder = arm(kept)
    kept.report(folder, "refused", "holds:\x1b[31m ext4", "")
    kept.report(folder, "refused", "holds:\x1b[31m ext4", "")
    assert kept.state(order.id)["reason"] == "holds: [31m ext4"
    assert refused(lambda: kept.claim(folder, facts(order), "")) == 409
    assert refused(lambda: kept.report(folder, "refused", "other", "")) == 409
    assert not (folder / "claim").exists()
    assert not (folder / "seed.tar").exists()


@pytest.mark.parametrize(("now", "allowed"), [(-1.0, False), (0.0, True), (59.9, True), (60.0, False)])
def test_the_window(tmp_path: Path, now: float, allowed: bool) -> None:
    clock = [1_800_000_000.0]
    kept = Orders(tmp_path, clock=lambda: clock[0])
    order, folder = arm(kept)
    clock[0] += now
    if allowed:
        kept.claim(folder, facts(order), "")
    else:
        assert refused(lambda: kept.claim(folder, facts(order), "")) == 403
        assert kept.state(order.id)["state"] == "expired"


def test_of_many_claims_at_once_one_wins(kept: Orders) -> None:
    order, folder = arm(kept)
    ended: list[int] = []

    def claim(nonce: str) -> None:
        try:
            kept.claim(folder, facts(order, nonce=nonce), "")
        except RefusedError as error:
            ended.append(error.status)
        else:
            ended.append(200)

    threads = [threading.Thread(target=claim, args=(f"{number:036x}",)) for number in range(32)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(ended) == [200] + [409] * 31


class Killed(BaseException):
    """The process ends here."""


def _kill_at(monkeypatch: pytest.MonkeyPatch, number: int) -> list[int]:
    """Count the steps that change files, and end before or after the one with this number."""
    steps = [0]

    def wrap(function: Callable[..., object]) -> Callable[..., object]:
        def step(*args: object, **words: object) -> object:
            for side in (0, 1):
                steps[0] += 1
                if steps[0] == number:
                    raise Killed
                if side == 0:
                    result = function(*args, **words)
            return result

        return step

    for name in ("write_new", "atomic_write", "sync_directory"):
        monkeypatch.setattr(module, name, wrap(getattr(module, name)))
    for name in ("rename", "unlink", "mkdir"):
        monkeypatch.setattr(Path, name, wrap(getattr(Path, name)))
    return steps


def _run(folder: Path, done: dict[str, object]) -> None:
    """Arm, claim, fetch, report, release: as far as it gets; `done` holds what was answered."""
    kept = Orders(folder, clock=lambda: 1_800_000_000.0)
    order = kept.arm(VALUES, b"seed", 60).order
    done["order"] = order
    path = kept.authorize(order.id, order.token)
    done["claim"] = kept.claim(path, facts(order), "")
    done["seed"] = kept.take_seed(path, NONCE)
    done["report"] = kept.report(path, "written", "", NONCE)
    kept.release(order.id)
    done["release"] = True


def test_a_kill_at_each_step(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        steps = _kill_at(patch, 0)
        _run(tmp_path / "whole", {})
    for number in range(1, steps[0] + 1):
        _killed_at(tmp_path / str(number), number)


def _killed_at(folder: Path, number: int) -> None:
    done: dict[str, object] = {}
    with pytest.MonkeyPatch.context() as patch:
        _kill_at(patch, number)
        with pytest.raises(Killed):
            _run(folder, done)
    kept = Orders(folder, clock=lambda: 1_800_000_000.0)
    # What was answered is kept; what was not may have happened, and never happens twice.
    order = done.get("order")
    if not order:
        # An order whose text nobody has: it can be released, and the node is free.
        if left := kept.open_order("gpu001"):
            kept.release(left)
        kept.arm(VALUES, b"seed", 60)
        assert not list((folder / "orders").glob(".*"))
        return
    assert isinstance(order, Order)
    path = kept.authorize(order.id, order.token)
    state = kept.state(order.id)["state"]
    if "claim" in done:
        assert refused(lambda: kept.claim(path, facts(order, nonce=OTHER), "")) in (403, 409)
    if "seed" in done:
        assert refused(lambda: kept.take_seed(path, NONCE)) in (403, 409)
    if "report" in done:
        assert state in ("written", "released")
    if state != "released":
        assert refused(lambda: kept.arm(VALUES, b"seed", 60)) == 409
    kept.release(order.id)
    assert kept.state(order.id)["state"] == "released"
    assert not (path / "seed.tar").exists()
    kept.arm(VALUES, b"seed", 60)


def test_the_text_of_an_order(kept: Orders) -> None:
    order, _folder = arm(kept)
    assert parse(render(order)) == order


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("serial", "To Be Filled By O.E.M."), ("serial", ""), ("serial", "a'b"), ("disk", "x\ny"), ("wipe", "maybe"), ("server", "http://x:1"),
        ("mac", "52:54:00:BE:D9:01"), ("raw_bytes", "1048577"), ("root_start", "1000001"), ("gateway", "x"), ("more", "x"), ("node", "a/b"),
        ("image", "https://x/$(y)"), ("disk", " x"), ("host_key", "x"),
        ("disk", "Not Specified"), ("gateway", "none\n"), ("wipe", "YES"), ("server", "http://10.0.0.1:8443"),
        ("image", "http://10.0.0.1/x"),
    ],
)  # fmt: skip
def test_a_value_that_an_order_cannot_have(kept: Orders, key: str, value: str) -> None:
    with pytest.raises(OrderError) as caught:
        kept.arm({**VALUES, key: value}, b"seed", 60)
    assert str(caught.value).startswith(f"{key}: ")
    assert kept.open_order("gpu001") == ""


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("id", "../x"), ("id", "A" * 32), ("node", ".."), ("node", "-x"), ("mac", "52:54:00:be:d9"), ("issued", "0"), ("issued", "now"),
        ("address", "10.20.9.1"), ("address", "10.20.9.1/22;x"), ("gateway", ""), ("raw_bytes", "0"), ("raw_bytes", str((24 << 20) + 512)),
        ("root_start", "0"), ("root_start", str((2 << 20) + 512)), ("image_sha256", "A" * 64), ("raw_sha256", "0" * 63),
        ("seed_sha256", ""), ("token", "0" * 65), ("serial", "None"), ("disk", "unknown"), ("disk", None), ("wipe", True),
    ],
)  # fmt: skip
def test_the_text_of_an_order_has_no_other_value(kept: Orders, key: str, value: object) -> None:
    with pytest.raises(OrderError) as caught:
        check({**arm(kept)[0].__dict__, key: value})
    assert str(caught.value).startswith(f"{key}: ")


def test_an_order_that_was_changed_is_not_rendered(kept: Orders) -> None:
    with pytest.raises(OrderError, match=r"^wipe: "):
        render(replace(arm(kept)[0], wipe="yes\nwipe=no"))


@pytest.mark.parametrize("text", ["", "bedplate_order=1\n", "bedplate_order=1\nend=1\n", "x=1\n" * 3])
def test_a_text_that_is_not_an_order(text: str) -> None:
    with pytest.raises(OrderError):
        parse(text)


def test_a_text_that_was_cut_or_has_a_key_twice(kept: Orders) -> None:
    lines = render(arm(kept)[0]).splitlines()
    other = ["bedplate_order=2", *lines[1:]]
    for wrong in (other, lines[:-1], [*lines[:-1], f"end={len(lines)}"], [*lines[:-1], lines[1], f"end={len(lines)}"]):
        with pytest.raises(OrderError):
            parse("\n".join([*wrong, ""]))


def test_an_error_never_has_the_token(kept: Orders) -> None:
    order, _folder = arm(kept)
    with pytest.raises(OrderError) as caught:
        check({**json.loads(json.dumps(order.__dict__)), "token": "secret"})
    assert "secret" not in str(caught.value)
