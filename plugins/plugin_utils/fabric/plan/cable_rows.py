# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a list of cables: a CSV with the columns a, a_port, b and b_port, or the cabling.csv that is written of a plan."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

from ..core.link_rates import SPEEDS, TRADE_NAMES

NEEDED = ("a", "a_port", "b", "b_port")
# Columns whose cells are kept; cabling.csv calls the devices otherwise.
RATE_COLUMNS = ("speed", "width")
_READ = (*NEEDED, *RATE_COLUMNS, "state", "comment")
_SAME = {"a_device": "a", "b_device": "b"}
# Columns of cabling.csv that follow from the cluster file.
_FOLLOW = (
    *("cable", "kind", "purpose", "plane", "rail", "a_rack", "a_cage", "a_label"),
    *("b_rack", "b_cage", "b_label", "length_m"),
)
LEFT_OUT, _STATES = "leave out", ("", "install", "leave out")
_WIDTH = re.compile(r"(1|2|4|8|12)x\Z")


@dataclass(frozen=True)
class WrittenEnd:
    """An end of a cable as the list writes it: a switch and a port, or `host device`."""

    name: str
    port: str


@dataclass(frozen=True)
class WrittenCable:
    """A row of the list; `line` is its first line."""

    line: int
    a: WrittenEnd
    b: WrittenEnd
    speed: str = ""
    width: str = ""
    left_out: bool = False
    comment: str = ""


@dataclass
class WrittenCables:
    """All rows of a list, and its mistakes as line and text."""

    path: str
    rows: list[WrittenCable] = field(default_factory=list)
    mistakes: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, text: str) -> None:
        """Note a mistake of a line."""
        self.mistakes.append((line, text))

    def lines(self) -> list[str]:
        """Return the mistakes in the order of the file, as `path:line: text`."""
        return [f"{self.path}:{line}: {text}" for line, text in sorted(dict.fromkeys(self.mistakes), key=_by_line)]


def _by_line(mistake: tuple[int, str]) -> int:
    return mistake[0]


def read(path: Path) -> WrittenCables:
    """Return the rows of a file and its mistakes; a file that cannot be read is one mistake of line 1."""
    found = WrittenCables(str(path))
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
    except OSError as error:
        text = "Correct fabric.cables, or remove it and let playbooks/fabric_adopt.yml write the list of the cabled fabric."
        found.add(1, f"cannot be read: {error.strerror}. {text}")
        return found
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        found.add(line, f"byte {content[error.start]:#04x} is not UTF-8. Save the file as CSV in UTF-8.")
        return found
    return parse(text, str(path))


def parse(text: str, path: str) -> WrittenCables:
    """Return the rows of a text and its mistakes; `path` is for the messages."""
    found = WrittenCables(path)
    columns: list[str] = []
    for line, cells in _cells(text, found):
        if not columns:
            columns = _columns(line, cells, found)
            if not columns:
                return found
        elif len(cells) != len(columns):
            found.add(
                line, f"has {len(cells)} cells, and the header has {len(columns)} columns. Write one cell for each."
            )
        else:
            _row(line, dict(zip(columns, cells, strict=True)), found)
    if not found.rows and not found.mistakes:
        found.add(1, f"has no cable. Write the header {','.join(NEEDED)} and a row for each cable.")
    return found


def _cells(text: str, found: WrittenCables) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line and the cells of each row; blank lines and comments are left out."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    while True:
        first = reader.line_num + 1
        try:
            cells = [cell.strip() for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            found.add(first, f"is not CSV: {error}.")
            return
        if any(cells) and not cells[0].startswith("#"):
            yield first, cells


def _columns(line: int, cells: Sequence[str], found: WrittenCables) -> list[str]:
    """Return the names of the columns; [] after a mistake."""
    written = [cell.lower() for cell in cells]
    names = [_SAME.get(name, name) for name in written]
    wrong = []
    if len(names) == 1 and any(sign in names[0] for sign in ";\t"):
        wrong = ["the columns are not separated by commas. Save the file as CSV with commas."]
    elif not set(names) & set(NEEDED):
        wrong = [f"is not a header. Begin the file with the names of the columns, {','.join(NEEDED)}."]
    else:
        absent = [name for name in NEEDED if name not in names]
        known = (*_READ, *_SAME, *_FOLLOW)
        for name in dict.fromkeys(written):
            if name not in known:
                hint = did_you_mean(name, known) or f" Allowed: {', '.join(_READ)}, and the columns of cabling.csv."
                wrong.append(f"column {name!r} is unknown.{hint} Notes are for the column comment.")
        if absent:
            wrong.append(f"the header has no column {', '.join(absent)}. Needed: {','.join(NEEDED)}.")
        if twice := [name for number, name in enumerate(names) if name in names[:number]]:
            wrong.append(f"two columns are {twice[0]}. Keep one.")
    for text in wrong:
        found.add(line, text)
    return [] if wrong else names


def _row(line: int, cells: dict[str, str], found: WrittenCables) -> None:
    """Add a row; the words of its cells are judged here, the ends by who knows the cluster."""
    for key in ("a", "b"):
        if not cells[key]:
            found.add(line, f"{key}: is empty. Name a switch, or a host with its device, such as gpu001 mlx5_0.")
    speed, width, state = cells.get("speed", "").upper(), cells.get("width", "").lower(), cells.get("state", "").lower()
    if speed in TRADE_NAMES:
        lanes, lane_speed = TRADE_NAMES[speed]
        if width not in ("", lanes):
            found.add(line, f"width: {speed} is {lanes} {lane_speed}, and not {width}. Leave the cell empty.")
        width, speed = lanes, lane_speed
    elif speed and speed not in SPEEDS:
        known = (*SPEEDS, *TRADE_NAMES)
        found.add(line, f"speed: {speed!r} is unknown.{did_you_mean(speed, known)} Allowed: {', '.join(known)}.")
    if width and not _WIDTH.match(width):
        found.add(line, f"width: {width!r} is not a width. Allowed: 1x, 2x, 4x, 8x, 12x.")
    if state not in _STATES:
        found.add(line, f"state: {state!r} is unknown. Allowed: {' and '.join(_STATES[1:])}.")
    if cells["a"] and cells["b"]:
        ends = (WrittenEnd(cells["a"], cells["a_port"]), WrittenEnd(cells["b"], cells["b_port"]))
        found.rows.append(WrittenCable(line, *ends, speed, width, state == LEFT_OUT, cells.get("comment", "")))
