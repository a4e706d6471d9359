"""The partition table that goes on the disk: one that sfdisk has not grown as it says is not written."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from tests.kit.provision.machine import LIB, MIB

SFDISK = "/usr/sbin/sfdisk"
BYTES = 48 * MIB
# Sectors: the root partition of the image begins at 2 MiB.
ROOT, GROWN = 4096, BYTES // 512 - 4096 - 2048
ANSWER = f"PARTITION=2 START={ROOT} LENGTH={GROWN}"


def shell(folder: Path, code: str) -> tuple[int, str, bool]:
    """Write the table after some code. Return exit status, output, and whether the disk is as it was."""
    disk = folder / "disk"
    with disk.open("wb") as stream:
        stream.truncate(BYTES)
    disk.write_bytes(b"old" * (BYTES // 3))
    before = hashlib.sha256(disk.read_bytes()).digest()
    parts = " ".join(f'. "{LIB}/{name}.sh";' for name in ("tools", "proofs", "table"))
    begin = (
        f'set -u; RUN="{folder}" DISK="{disk}" BYTES={BYTES} order_root_start={ROOT * 512}; '
        f'refuse() {{ echo "REFUSED: $*"; exit 1; }}; {parts} '
    )
    done = subprocess.run(["/bin/dash", "-c", f"{begin}{code}; write_table"], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr, hashlib.sha256(disk.read_bytes()).digest() == before


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """The first MiB of an image whose last partition is the root."""
    return first(tmp_path, "start=1MiB, size=1MiB\nstart=2MiB, size=20MiB\n")


def first(folder: Path, partitions: str) -> Path:
    """Write the first MiB of an image."""
    raw = folder / "raw"
    with raw.open("wb") as stream:
        stream.truncate(24 * MIB)
    words = [SFDISK, "--quiet", str(raw)]
    subprocess.run(words, input=f"label: gpt\n{partitions}", text=True, check=True, capture_output=True)
    (folder / "first").write_bytes(raw.read_bytes()[:MIB])
    return folder


def test_a_table_is_written_at_both_ends(image: Path) -> None:
    code, text, same = shell(image, ":")
    assert (code, text, same) == (0, "", False)
    verified = subprocess.run([SFDISK, "--verify", str(image / "disk")], capture_output=True, text=True, check=True)
    assert "No errors" in verified.stdout
    assert (image / "disk").read_bytes()[MIB:-MIB] == (b"old" * (BYTES // 3))[MIB : BYTES - MIB]


def test_a_root_that_is_not_the_last_partition(tmp_path: Path) -> None:
    found = shell(first(tmp_path, "start=2MiB, size=4MiB\nstart=8MiB, size=4MiB\n"), ":")
    assert (found[0], found[2]) == (1, True)
    assert "begins at sector 16384, which is not the order's root_start" in found[1]


@pytest.mark.parametrize(
    "after",
    [
        f"PARTITION=1 START={ROOT} LENGTH={GROWN}",
        f"PARTITION=2 START={ROOT + 2048} LENGTH={GROWN - 2048}",
        f"PARTITION=2 START={ROOT} LENGTH={GROWN - 2049}",
        f"PARTITION=2 START={ROOT} LENGTH={GROWN + 2048}",
        f"PARTITION=2 START={ROOT} LENGTH={GROWN}; return 1",
    ],
)
def test_a_partition_that_has_not_grown_to_the_end(image: Path, after: str) -> None:
    first_time = f"calls=$((calls + 1)); [ $calls = 1 ] && PARTITION=2 START={ROOT} LENGTH=40960 && return"
    lies = f"calls=0; tool_last_partition() {{ {first_time}; {after}; }}"
    code, text, same = shell(image, lies)
    assert (code, text, same) == (1, "REFUSED: sfdisk did not grow partition 2\n", True)


def test_what_is_accepted_after_the_growth(image: Path) -> None:
    assert shell(image, f"tool_last_partition() {{ {ANSWER}; }}")[0] == 0


@pytest.mark.parametrize("empty", ["0", "END"])
def test_an_end_of_the_table_that_is_empty(image: Path, empty: str) -> None:
    place = 0 if empty == "0" else BYTES // MIB - 1
    wipe = f'dd if=/dev/zero of="$RUN/table" bs={MIB} count=1 seek={place} conv=notrunc status=none'
    grow = 'printf ",+\\n" | sfdisk --quiet --no-reread --no-tell-kernel --force -N 2 "$1" >/dev/null 2>&1'
    code, text, same = shell(image, f"tool_grow() {{ {grow}; {wipe}; }}; tool_last_partition() {{ {ANSWER}; }}")
    assert (code, f"the partition table is empty at byte {place * MIB}" in text) == (1, True), text
    assert same or empty == "0"
