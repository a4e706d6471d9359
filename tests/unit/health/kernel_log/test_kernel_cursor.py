# SPDX-License-Identifier: GPL-3.0-or-later
"""An agent that restarts reads each record once, and knows which records it lost."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.facts.node_facts import KernelEvent
from ansible_collections.bedplate.cluster.plugins.module_utils.health.kernel_log import kernel_cursor, record_source
from ansible_collections.bedplate.cluster.plugins.module_utils.health.kernel_log.kernel_cursor import (
    MOST_RECORDS,
    NEVER,
    KernelLog,
    LogState,
    load,
    save,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.health.kernel_log.kernel_records import record_line
from ansible_collections.bedplate.cluster.plugins.module_utils.health.kernel_log.record_source import (
    KmsgDevice,
    KmsgFile,
    open_source,
)

BOOT = "5f2c1a90-0000-4000-8000-000000000001"
OTHER_BOOT = "5f2c1a90-0000-4000-8000-000000000002"


def xid(number: int, code: int = 79) -> bytes:
    return record_line(number, number / 10, f"NVRM: Xid (PCI:0000:3b:00): {code}, text")


def plain(number: int) -> bytes:
    return record_line(number, number / 10, "usb 1-1: new device")


class Chunks:
    """A source that returns chunks, and raises the errors among them."""

    def __init__(self, *chunks: bytes | OSError) -> None:
        self.chunks = list(chunks)

    def read(self) -> bytes:
        if not self.chunks:
            return b""
        found = self.chunks.pop(0)
        if isinstance(found, OSError):
            raise found
        return found

    def close(self) -> None:
        pass


def seen(events: Iterable[KernelEvent]) -> list[tuple[str, int]]:
    return [(event.kind, event.sequence) for event in events]


def reasons(events: Iterable[KernelEvent]) -> list[tuple[str, str, str]]:
    return [
        (event.details["reason"], event.details["first"], event.details["count"])
        for event in events
        if event.kind == "gap"
    ]


class TestReading:
    def test_records_become_events_once(self) -> None:
        log = KernelLog(Chunks(plain(0), xid(1), plain(2)))
        batch = log.read()
        assert (seen(batch.events), batch.records, batch.more) == ([("xid", 1)], 3, False)
        assert log.read().events == ()
        assert log.sequence == 2

    def test_a_restart_reads_only_new_records(self, tmp_path: Path) -> None:
        path, cursor = tmp_path / "kmsg", tmp_path / "cursor"
        path.write_bytes(plain(0) + xid(1))
        log = KernelLog(open_source(path), load(cursor, BOOT).sequence)
        first = log.read()
        assert seen(first.events) == [("xid", 1)]
        save(cursor, log.state(BOOT, 1000.0, first.events))
        with path.open("ab") as stream:
            stream.write(xid(2, 95))
        state = load(cursor, BOOT)
        assert state == LogState(BOOT, 1, 1000.0, first.events)
        again = KernelLog(open_source(path), state.sequence, lost=state.lost)
        assert seen(again.read().events) == [("xid", 2)]

    def test_a_restart_without_new_records_reads_nothing(self) -> None:
        log = KernelLog(Chunks(plain(0), xid(1)), 1)
        assert log.read().events == ()
        assert log.sequence == 1

    def test_a_jump_is_a_gap(self) -> None:
        batch = KernelLog(Chunks(plain(0), xid(8))).read()
        assert seen(batch.events) == [("gap", 8), ("xid", 8)]
        assert reasons(batch.events) == [("jump", "1", "7")]

    def test_a_jump_over_a_restart_is_a_gap(self) -> None:
        assert reasons(KernelLog(Chunks(plain(9)), 4).read().events) == [("jump", "5", "4")]

    def test_overwritten_records_are_a_gap(self) -> None:
        log = KernelLog(Chunks(plain(0), BrokenPipeError(errno.EPIPE, "overwritten"), xid(5)))
        batch = log.read()
        assert reasons(batch.events) == [("overrun", "1", "4")]
        assert seen(batch.events) == [("gap", 5), ("xid", 5)]

    def test_records_before_the_first_read_of_a_boot_are_another_gap(self) -> None:
        assert reasons(KernelLog(Chunks(plain(700))).read().events) == [("start", "0", "700")]

    def test_a_source_that_only_overruns_ends(self) -> None:
        log = KernelLog(Chunks(*[BrokenPipeError(errno.EPIPE, "overwritten")] * 40, xid(3)))
        assert log.read().events == ()
        assert log.read().events == ()
        assert reasons(log.read().events) == [("overrun", "0", "3")]

    @pytest.mark.parametrize("chunk", [b"garbage\n", b"4,1,x,-;NVRM: Xid (PCI:0000:3b:00): 79, x\n", b"\xff\0\n"])
    def test_a_malformed_chunk_is_a_gap(self, chunk: bytes) -> None:
        batch = KernelLog(Chunks(plain(0), chunk, xid(2)), clock=lambda: 1e9).read()
        assert "malformed" in [event.details.get("reason") for event in batch.events]
        assert seen(batch.events)[-1] == ("xid", 2)
        assert batch.events[0].details["time"] == "1000000000"

    def test_a_number_that_is_too_high_loses_no_later_record(self) -> None:
        batch = KernelLog(Chunks(plain(0), record_line(10**15, 1, "text"), xid(1), xid(2, 95))).read()
        assert seen(batch.events) == [("gap", 10**15), ("gap", 1), ("xid", 1), ("xid", 2)]

    def test_a_cursor_behind_the_end_of_the_log_is_a_gap(self) -> None:
        source = Chunks(plain(0), plain(1))
        log = KernelLog(source, 500)
        assert reasons(log.read().events) == [("no cursor", "2", "0")]
        source.chunks.append(xid(2))
        assert seen(log.read().events) == [("xid", 2)]

    def test_an_error_of_the_source_is_reported(self) -> None:
        with pytest.raises(OSError, match="broken"):
            KernelLog(Chunks(OSError(errno.EIO, "broken"))).read()


class TestFlood:
    def test_a_read_is_bounded_in_records(self) -> None:
        block = b"".join(xid(number, 45) for number in range(12_000))
        log = KernelLog(Chunks(block))
        batches = [log.read() for _ in range(3)]
        assert [(one.records, one.more) for one in batches] == [
            (MOST_RECORDS, True),
            (MOST_RECORDS, True),
            (2000, False),
        ]
        assert [event.sequence for one in batches for event in one.events] == list(range(12_000))

    def test_a_read_is_bounded_in_time(self) -> None:
        times = iter(range(100))
        log = KernelLog(Chunks(*(plain(number) for number in range(50))), monotonic=lambda: float(next(times)))
        batch = log.read(seconds=9.5)
        assert (batch.records, batch.more) == (10, True)

    def test_ten_thousand_lines_a_second_are_read_in_less(self, tmp_path: Path) -> None:
        """Ten seconds of the flood, as long lines, in less CPU time than they took to arrive and in bounded memory."""
        path = tmp_path / "kmsg"
        with path.open("wb") as stream:
            stream.writelines(
                record_line(
                    number,
                    number / 1e4,
                    f"NVRM: Xid (PCI:0000:3b:00): 45, pid=7, name=python3, Ch {number:08x}" + "x" * 300,
                )
                for number in range(100_000)
            )
        log = KernelLog(open_source(path))
        before = time.process_time()
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        records, more = 0, True
        while more:
            batch = log.read()
            records, more = records + batch.records, batch.more
        assert records == 100_000
        assert time.process_time() - before < 10
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 64 * 1024


class TestSources:
    def test_a_device_is_read_until_it_would_block(self) -> None:
        reader, writer = os.pipe2(os.O_NONBLOCK)
        os.write(writer, xid(0))
        source = KmsgDevice(reader)
        assert source.read() == xid(0)
        assert source.read() == b""
        assert source.fileno() == reader
        source.close()
        os.close(writer)

    def test_epipe_of_a_device_is_an_overrun(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def read(_descriptor: int, _size: int) -> bytes:
            raise OSError(errno.EPIPE, "overwritten")

        monkeypatch.setattr(record_source.os, "read", read)
        with pytest.raises(BrokenPipeError):
            KmsgDevice(0).read()

    def test_a_line_that_is_written_in_two_parts_is_read_whole(self, tmp_path: Path) -> None:
        path = tmp_path / "kmsg"
        path.write_bytes(plain(0) + xid(1)[:20])
        log = KernelLog(open_source(path))
        assert log.read().events == ()
        with path.open("ab") as stream:
            stream.write(xid(1)[20:])
        assert seen(log.read().events) == [("xid", 1)]

    def test_a_file_that_is_written_again_is_read_from_its_beginning(self, tmp_path: Path) -> None:
        path = tmp_path / "kmsg"
        path.write_bytes(plain(0) + plain(1) + plain(2))
        log = KernelLog(open_source(path))
        log.read()
        path.write_bytes(xid(3))
        assert seen(log.read().events) == [("xid", 3)]

    def test_a_file_that_is_missing_is_an_error_at_first_and_silence_later(self, tmp_path: Path) -> None:
        path = tmp_path / "kmsg"
        with pytest.raises(FileNotFoundError):
            open_source(path)
        assert KmsgFile(path).read() == b""

    def test_a_file_without_line_breaks_is_bounded(self, tmp_path: Path) -> None:
        path = tmp_path / "kmsg"
        path.write_bytes(b"x" * 3_000_000)
        source = KmsgFile(path)
        log = KernelLog(source)
        assert reasons(log.read().events)[0][0] == "malformed"
        assert len(source.rest) < 2_000_000

    def test_properties_in_two_blocks_are_no_gap(self) -> None:
        assert KernelLog(Chunks(plain(0), b" DEVICE=+pci:0000:41:00.0\n", plain(1))).read().events == ()


class TestSavedState:
    EVENTS = KernelLog(Chunks(xid(0), xid(1, 64))).read().events

    def test_a_missing_file_is_a_first_start(self, tmp_path: Path) -> None:
        assert load(tmp_path / "cursor", BOOT) == LogState(BOOT)

    def test_another_boot_begins_at_its_first_record(self, tmp_path: Path) -> None:
        path = tmp_path / "cursor"
        save(path, LogState(BOOT, 500, 1_790_000_000.0, self.EVENTS))
        state = load(path, OTHER_BOOT)
        assert (state.boot, state.sequence, state.lost) == (OTHER_BOOT, NEVER, False)
        assert [event.details["boot"] for event in state.events] == [BOOT, BOOT]
        assert [event.details["time"] for event in state.events] == ["1790000000", "1790000000"]
        assert seen(KernelLog(Chunks(plain(0), xid(1)), state.sequence).read().events) == [("xid", 1)]

    def test_events_keep_their_boot_over_two_boots(self, tmp_path: Path) -> None:
        path = tmp_path / "cursor"
        save(path, LogState(BOOT, 500, 1_790_000_000.0, self.EVENTS))
        save(path, load(path, OTHER_BOOT))
        assert [event.details["boot"] for event in load(path, "third").events] == [BOOT, BOOT]

    @pytest.mark.parametrize("cut", [0, 1, 20, 100, -3])
    def test_a_torn_file_is_a_known_loss(self, tmp_path: Path, cut: int) -> None:
        path = tmp_path / "cursor"
        save(path, LogState(BOOT, 500, 1.0, self.EVENTS))
        path.write_bytes(path.read_bytes()[:cut])
        state = load(path, BOOT)
        assert state == LogState(BOOT, lost=True)
        log = KernelLog(Chunks(plain(0), xid(1)), state.sequence, lost=state.lost)
        events = log.read().events
        assert seen(events) == [("gap", 0), ("xid", 1)]
        assert reasons(events)[0][0] == "no cursor"

    @pytest.mark.parametrize(
        "change",
        [
            {"version": 2},
            {"boot": None},
            {"sequence": "x"},
            {"sequence": -7},
            {"sequence": None},
            {"boot_time": []},
            {"events": [1]},
            {"events": [{"kind": "xid"}]},
            {"events": None},
        ],
        ids=str,
    )
    def test_a_wrong_file_is_a_known_loss(self, tmp_path: Path, change: dict[str, object]) -> None:
        path = tmp_path / "cursor"
        save(path, LogState(BOOT, 500, 1.0, self.EVENTS))
        path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **change}), encoding="utf-8")
        assert load(path, BOOT) == LogState(BOOT, lost=True)

    @pytest.mark.parametrize("data", [b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'{"version": 1}', b"1e999"])
    def test_any_bytes_are_a_known_loss(self, tmp_path: Path, data: bytes) -> None:
        path = tmp_path / "cursor"
        path.write_bytes(data)
        assert load(path, BOOT) == LogState(BOOT, lost=True)

    def test_a_directory_is_a_known_loss(self, tmp_path: Path) -> None:
        assert load(tmp_path, BOOT) == LogState(BOOT, lost=True)

    def test_a_full_disk_leaves_the_old_state(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        path = tmp_path / "cursor"
        save(path, LogState(BOOT, 1))

        def full(*_arguments: object, **_options: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(kernel_cursor, "atomic_write", full)
        with pytest.raises(OSError, match="No space"):
            save(path, LogState(BOOT, 2))
        assert load(path, BOOT) == LogState(BOOT, 1)

    def test_sigkill_leaves_the_old_or_the_new_state(self, tmp_path: Path) -> None:
        path = tmp_path / "cursor"
        save(path, LogState(BOOT, 0, 1.0, self.EVENTS))
        program = (
            "import sys; from pathlib import Path\n"
            f"from {kernel_cursor.__name__} import LogState, load, save\n"
            "path = Path(sys.argv[1]); state = load(path, sys.argv[2]); number = state.sequence\n"
            "print('started', flush=True)\n"
            "while True:\n"
            "    number += 1\n"
            "    save(path, LogState(state.boot, number, 1.0, state.events * 400))\n"
        )
        last = 0
        for delay in (0.0, 0.05, 0.11):
            with subprocess.Popen(
                [sys.executable, "-c", program, str(path), BOOT],
                stdout=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            ) as process:
                assert process.stdout
                process.stdout.readline()
                time.sleep(delay)
                process.send_signal(signal.SIGKILL)
            state = load(path, BOOT)
            assert not state.lost
            assert state.sequence >= last
            assert {event.text for event in state.events} == {event.text for event in self.EVENTS}
            last = state.sequence
            save(path, LogState(BOOT, last, 1.0, self.EVENTS))


def test_event_of_a_boot_without_a_time_has_none() -> None:
    saved = LogState(OTHER_BOOT, 5, 0.0, (KernelEvent("xid", 94, "0000:3b:00.0", "text", 5, 500.0, {}),))
    (found,) = kernel_cursor.from_data(kernel_cursor.to_data(saved), BOOT).events
    assert found.details == {"boot": OTHER_BOOT}
