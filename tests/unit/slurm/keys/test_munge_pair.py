# SPDX-License-Identifier: GPL-3.0-or-later
"""One socket for two munged: who makes and who reads a credential, as which user, and that no client notices a change."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.pair_socket import PairSocket, is_live
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.pair_worker import NEW, OLD
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common import shipped
from tests.unit.slurm.keys.munged_pair import NOBODY, MungedPair, made, read, until

pytestmark = [pytest.mark.daemons, pytest.mark.tools("munged", "munge", "unmunge")]
GOOD = "0 0"
_RUN = """
import sys
sys.path.append({library!r})
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.munge_pair import main
sys.exit(main(["help"]))
"""


@pytest.fixture
def pair():
    with MungedPair() as found:
        found.start()
        yield found


def test_credentials_of_both_keys_are_read(pair: MungedPair):
    for made_at in (pair.own, pair.next, pair.known):
        assert read(pair.known, made(made_at)) == GOOD


def test_the_file_says_which_key_makes_credentials(pair: MungedPair):
    assert read(pair.own, made(pair.known)) == GOOD
    pair.encode_with(NEW)
    assert read(pair.next, made(pair.known)) == GOOD
    assert read(pair.known, made(pair.own)) == GOOD
    pair.encode_with("something")
    assert read(pair.own, made(pair.known)) == GOOD
    pair.encode_with(NEW)
    assert read(pair.next, made(pair.known)) == GOOD
    (pair.top / "encodes").unlink()
    assert read(pair.own, made(pair.known)) == GOOD


@pytest.mark.parametrize("encodes", [OLD, NEW])
def test_a_client_is_who_the_kernel_says(pair: MungedPair, encodes: str):
    pair.encode_with(encodes)
    uid = NOBODY.pw_uid
    assert read(pair.known, made(pair.known, user=uid)) == f"{uid} {uid}"
    for made_at in (pair.own, pair.next):
        private = made(made_at, f"--restrict-uid={uid}")
        assert read(pair.known, private, user=uid) == GOOD
        for_root = made(made_at, "--restrict-uid=0")
        assert "Unauthorized credential" in read(pair.known, for_root, user=uid)
        # The worker that served another user is root again.
        assert read(pair.known, for_root) == GOOD


def test_a_credential_is_read_once(pair: MungedPair):
    for made_at in (pair.own, pair.next):
        credential = made(made_at)
        assert read(pair.known, credential) == GOOD
        assert read(pair.known, credential) == "error 17"


def test_a_credential_of_a_third_key_is_invalid(pair: MungedPair):
    pair.start_munged("third", pair.top / "third.socket")
    assert "Invalid credential" in read(pair.known, made(pair.top / "third.socket"))


def test_garbage_and_silence_are_not_answered(pair: MungedPair):
    with socket.socket(socket.AF_UNIX) as client, socket.socket(socket.AF_UNIX) as silent:
        for one in (client, silent):
            one.settimeout(5)
            one.connect(str(pair.known))
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with suppress(ConnectionResetError):
            assert client.recv(10) == b""
        began = time.monotonic()
        assert silent.recv(10) == b""
        assert 1 < time.monotonic() - began < 3
    assert read(pair.known, made(pair.known)) == GOOD


def failures(pair: MungedPair, disturb: Callable[[], object]) -> list[str]:
    """Return what clients report that make and read credentials all the time while something is done."""
    found: list[str] = []
    done = threading.Event()

    def client() -> None:
        while not done.is_set():
            try:
                if (status := read(pair.known, made(pair.known))) != GOOD:
                    found.append(status)
            except AssertionError as error:
                found.append(str(error))

    threads = [threading.Thread(target=client) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        disturb()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    return found


def test_no_client_notices_that_the_program_starts_and_ends(pair: MungedPair):
    def disturb() -> None:
        for _ in range(5):
            assert pair.stop() == 0
            assert not pair.own.exists()
            pair.start()

    assert failures(pair, disturb) == []


LOSSY = """
import os
kill, signalled = os.kill, set()
def lossy(process, number):
    if process in signalled:
        kill(process, number)
    signalled.add(process)
os.kill = lossy
"""


def test_a_worker_that_misses_a_signal_ends_with_the_next_one(pair: MungedPair):
    """Python drops a signal that a process gets while it is being forked; the program waited for such a worker for ever."""
    assert pair.stop() == 0
    pair.start(before=LOSSY)
    assert pair.stop() == 0


def test_no_client_notices_the_other_key(pair: MungedPair):
    def disturb() -> None:
        for name in (NEW, OLD) * 10:
            pair.encode_with(name)
            time.sleep(0.05)

    assert failures(pair, disturb) == []


def test_no_client_notices_that_munge_starts_again_with_the_new_key(pair: MungedPair):
    pair.encode_with(NEW)

    def disturb() -> None:
        time.sleep(0.2)
        # As the drop-in of the turn has it: munged leaves the usual path to the program.
        pair.stop_munged(OLD)
        (pair.top / "old.key").write_bytes((pair.top / "new.key").read_bytes())
        pair.start_munged(OLD, pair.own)
        time.sleep(0.2)
        assert pair.stop() == 0

    # munged removes the path when it ends, for as long as the program needs to see that.
    assert [line for line in failures(pair, disturb) if "No such file" not in line] == []
    assert not pair.own.exists()
    assert read(pair.known, made(pair.next)) == GOOD


def test_a_client_waits_for_the_munged_that_makes_credentials(pair: MungedPair):
    pair.encode_with(NEW)
    pair.stop_munged(NEW)
    later = threading.Timer(0.7, pair.start_munged, (NEW, pair.next))
    later.start()
    assert read(pair.known, made(pair.known)) == GOOD
    later.join()


def test_without_one_munged_nothing_is_called_invalid(pair: MungedPair):
    of_new = made(pair.next)
    pair.stop_munged(NEW)
    assert read(pair.known, made(pair.own)) == GOOD
    assert "incomplete message" in read(pair.known, of_new)


def test_a_munged_that_binds_the_usual_path_is_kept(pair: MungedPair):
    pair.stop_munged(OLD)
    pair.start_munged(OLD, pair.known)
    until(pair.serves)
    assert read(pair.known, made(pair.own)) == GOOD
    assert read(pair.own, made(pair.known)) == GOOD


def test_a_program_that_was_killed_starts_again(pair: MungedPair):
    pair.kill()
    until(lambda: not is_live(pair.known))
    pair.start()
    assert read(pair.own, made(pair.known)) == GOOD


def test_after_a_kill_clients_are_led_to_munged(pair: MungedPair):
    pair.kill()
    assert PairSocket(pair.known, pair.top / "pair/pair.socket").put_back()
    assert read(pair.known, made(pair.known)) == GOOD
    assert not pair.own.exists()


def test_nothing_is_put_back_where_munged_has_its_place(pair: MungedPair):
    pair.stop()
    inode = pair.known.stat().st_ino
    assert PairSocket(pair.known, pair.top / "pair/pair.socket").put_back(0)
    assert pair.known.stat().st_ino == inode


def test_a_worker_that_dies_is_replaced(pair: MungedPair):
    workers = subprocess.run(
        ["pgrep", "-P", str(pair.process)], capture_output=True, text=True, check=True
    ).stdout.split()
    subprocess.run(["kill", "-KILL", *workers], check=True)
    assert read(pair.known, made(pair.known)) == GOOD


def test_the_program_runs_without_ansible(tmp_path: Path):
    for entry in shipped.entries("slurm.keys.munge_pair"):
        path = tmp_path / entry["path"][1:]
        path.parent.mkdir(parents=True, exist_ok=True)
        if "content" in entry:
            path.write_text(entry["content"])
    done = subprocess.run(
        ["/usr/bin/python3", "-I", "-c", _RUN.format(library=str(tmp_path / "usr/local/lib/bedplate/slurm"))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "allowed: none, or put_back" in done.stderr
