# SPDX-License-Identifier: GPL-3.0-or-later
"""Convert between Slurm hostlists (``n[08-11,20]``) and lists of names.

Accepts what ``scontrol show hostnames`` of Slurm 23.11 and later accepts (older versions allow no text after the last bracket). It is
stricter where Slurm guesses: it refuses unbalanced brackets, blanks, signs and open ranges in brackets, from which Slurm would invent a
name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import product, zip_longest
from typing import Any

# Slurm's own limit for one range, and for the names from all brackets except the last (hostlist.c).
MAX_RANGE = 65536
# Our own limit: a slip such as r[0-9999]n[0-9999] must be an error and must not exhaust the memory.
MAX_NAMES = 1 << 20

# Slurm counts in 64 bits; longer digit strings (serial numbers) are ordinary text.
_DIGITS = 18
_NUMBER = re.compile(r"([0-9]+)")
_LAST_NUMBER = re.compile(r"(.*[^0-9]|)([0-9]{1,18})([^0-9]*)\Z", re.DOTALL)
_RESERVED = re.compile(r"[\[\], \t\n]")
_WORD = re.compile(r"(?:[^\[\], \t\n]+|\[[^\[\]]*\])+")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?\Z")
_SEPARATORS = ", \t\n"
_ALLOWED = "allowed: names and ranges such as n[01-04,7] or r[0-1]n[0-3]"

NaturalKey = tuple[Any, ...]  # text and (number, digits) alternate, so keys are always comparable
# A row holds the numbers of a name, already folded from some column on; its value is the first name and the number of names.
_Row = tuple[str, ...]
_Table = dict[_Row, tuple[str, int]]
_Cell = tuple[int, int, str]  # value, width, digits


class HostlistError(ValueError):
    """Report a hostlist that cannot be read, or a name that cannot be written in one."""

    def __init__(self, message: str, text: str, position: int) -> None:
        """Describe the mistake; `position` counts from 0."""
        start = max(0, position - 40)  # of ten thousand names, show only those around the mistake
        excerpt = ("..." if start else "") + text[start : position + 40] + ("..." if text[position + 40 :] else "")
        super().__init__(f"{message}, at character {position + 1} of hostlist {excerpt!r}; {_ALLOWED}")
        self.text = text
        self.position = position


def expand(text: str) -> list[str]:
    """Return the names of a hostlist in Slurm's order; duplicates are kept."""
    names: list[str] = []
    position, end = 0, len(text)
    while position < end:
        if text[position] in _SEPARATORS:
            position += 1
            continue
        match = _WORD.match(text, position)
        stop = match.end() if match else position
        if not match or (stop < end and text[stop] not in _SEPARATORS):
            raise HostlistError(f"unbalanced {text[stop]!r}", text, stop)
        word = text[position:stop]
        names.extend(_expand_word(text, position, stop) if "[" in word else (word,))
        position = stop
    return names


def _expand_word(text: str, start: int, stop: int) -> list[str]:
    """Return the names of one word, text[start:stop]; its brackets are balanced."""
    literals: list[str] = []
    brackets: list[list[str]] = []
    count = 1
    while (bracket := text.find("[", start, stop)) >= 0:
        close = text.index("]", bracket)
        literals.append(text[start:bracket])
        brackets.append(_expand_bracket(text, bracket + 1, close, last="[" not in text[close:stop]))
        count *= len(brackets[-1])
        if count > MAX_NAMES:
            raise HostlistError(f"one word expands to more than {MAX_NAMES} names", text, bracket)
        start = close + 1
    suffix = text[start:stop]
    # Slurm's order, which is used to pair names with addresses: the last bracket counts fastest, then the first, the second...
    names = []
    for numbers in product(*reversed(brackets[:-1])):
        prefix = "".join(map(str.__add__, literals, reversed(numbers))) + literals[-1]
        names.extend([prefix + number + suffix for number in brackets[-1]])
    return names


def _expand_bracket(text: str, start: int, stop: int, last: bool) -> list[str]:
    """Return the numbers of one bracket, text[start:stop], padded to the width of each range's lower bound."""
    numbers: list[str] = []
    for part in text[start:stop].split(","):
        match = _RANGE.match(part)
        if not match:
            what = f"{part!r} is neither a number nor a range low-high" if part else "a number is missing"
            raise HostlistError(f"{what} in the brackets", text, start)
        low, high = match.group(1), match.group(2) or match.group(1)
        if len(low) > _DIGITS or len(high) > _DIGITS:
            raise HostlistError(f"{part!r}: a number in brackets has at most {_DIGITS} digits", text, start)
        first, final, width = int(low), int(high), len(low)
        if first > final:
            raise HostlistError(f"{part!r} descends; write {high}-{low}", text, start)
        if final - first >= MAX_RANGE:
            raise HostlistError(f"{part!r} expands to more than {MAX_RANGE} names", text, start)
        numbers.extend(str(number).zfill(width) for number in range(first, final + 1))
        if not last and len(numbers) > MAX_RANGE:
            raise HostlistError(f"the brackets before the last one expand to more than {MAX_RANGE} names", text, start)
        start += len(part) + 1
    return numbers


def natural_key(name: str) -> NaturalKey:
    """Return a sort key that puts n2 before n10, and n1 before n01."""
    parts: list[Any] = _NUMBER.split(name)
    for index in range(1, len(parts), 2):
        parts[index] = (int(parts[index]), len(parts[index]))
    return tuple(parts)


def fold(names: Iterable[str], suffixes: bool = True) -> str:
    """Return the shortest plain hostlist of the names, in natural order and without duplicates.

    All numbers are folded if the result is exact: ``r[0-1]n[0-2]``. Slurm before 23.11 cannot read text after the last bracket: with
    ``suffixes=False`` none is written, so that ``n[0-1]-ib0`` becomes ``n[0-1]-ib[0]`` and ``n0x,n1x`` stays unchanged.
    """
    unique = dict.fromkeys(names)
    _check_names(unique)
    words: list[tuple[NaturalKey, str]] = []
    # Fold the last number first and separately: it is most of the work.
    by_shape: dict[tuple[str, str], list[str]] = {}
    for name in unique:
        match = _LAST_NUMBER.match(name)
        if match and (suffixes or not match[3]):
            by_shape.setdefault((match[1], match[3]), []).append(match[2])
        else:
            words.append((natural_key(name), name))
    tables: dict[tuple[str, ...], _Table] = {}
    for (prefix, suffix), numbers in by_shape.items():
        parts = _split(prefix)
        table = tables.setdefault((*parts[::2], suffix), {})
        for text, first, count in _fold_numbers([(int(digits), len(digits), digits) for digits in numbers], MAX_RANGE):
            table[(*parts[1::2], text)] = (prefix + first + suffix, count)
    for literals, table in tables.items():
        for row, (first, _count) in _fold_columns(table, len(literals) - 3).items():
            if not suffixes and "[" in "".join(row[:-1]) and "[" not in row[-1]:
                row = (*row[:-1], f"[{row[-1]}]")
            words.append((natural_key(first), _join(literals, row)))
    return ",".join(word for _key, word in sorted(words))


def _check_names(names: Iterable[str]) -> None:
    """Refuse names that a hostlist cannot contain."""
    for name in names:
        bad = _RESERVED.search(name)
        if bad or not name:
            what = f"{bad.group()!r} cannot be part of a name" if bad else "a name is empty"
            raise HostlistError(what, name, bad.start() if bad else 0)


def _split(name: str) -> list[str]:
    """Split a name into text, number, text, number, ..., text."""
    parts = _NUMBER.split(name)
    for index in range(len(parts) - 2, 0, -2):
        if len(parts[index]) > _DIGITS:
            parts[index - 1 : index + 2] = ["".join(parts[index - 1 : index + 2])]
    return parts


def _fold_columns(table: _Table, column: int) -> _Table:
    """Fold one number after the other, from `column` to the first, among rows that are equal in all other columns."""
    if column < 0 or len(table) < 2:
        return table
    merge: dict[tuple[_Row, int], dict[_Cell, str]] = {}
    for row, (first, count) in table.items():
        cell = (int(row[column]), len(row[column]), row[column])
        merge.setdefault(((*row[:column], *row[column + 1 :]), count), {})[cell] = first
    merged: _Table = {}
    for (rest, count), cells in merge.items():
        by_digits = {digits: first for (_value, _width, digits), first in cells.items()}
        for text, lowest, how_many in _fold_numbers(list(cells), max(1, MAX_RANGE // count)):
            merged[(*rest[:column], text, *rest[column:])] = (by_digits[lowest], how_many * count)
    return _fold_columns(merged, column - 1)


def _fold_numbers(cells: list[_Cell], most: int) -> Iterator[tuple[str, str, int]]:
    """Fold numbers into texts of at most `most` numbers each. Yield each with its lowest number and its count."""
    cells.sort()
    for start in range(0, len(cells), most):
        chunk = cells[start : start + most]
        yield _ranges(chunk) if len(chunk) > 1 else chunk[0][2], chunk[0][2], len(chunk)


def _ranges(cells: list[_Cell]) -> str:
    """Write sorted numbers as [08-11,20]."""
    runs: list[list[str]] = []
    opened: dict[tuple[int, int], list[str]] = {}  # (next number, width of the low bound) -> the run it continues
    for value, width, digits in cells:
        run = opened.pop((value, width), None)
        if run is None and width > 1 and digits[0] != "0":
            # 10 continues both 9 and 09; a number with a leading zero continues only numbers of its own width.
            for lower in range(width - 1, 0, -1):
                run = opened.pop((value, lower), None)
                if run is not None:
                    width = lower
                    break
        if run is None:
            run = [digits, digits]
            runs.append(run)
        run[1] = digits
        opened[value + 1, width] = run
    return "[" + ",".join(low if low == high else f"{low}-{high}" for low, high in runs) + "]"


def _join(literals: tuple[str, ...], numbers: _Row) -> str:
    """Join literals and numbers; literals are one more than numbers."""
    return "".join(literal + number for literal, number in zip_longest(literals, numbers, fillvalue=""))
