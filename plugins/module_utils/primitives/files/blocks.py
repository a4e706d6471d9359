# SPDX-License-Identifier: GPL-3.0-or-later
"""Write and remove a manifest's block, marked lines inside a file that another owner has, such as a package's PAM file."""

from __future__ import annotations

import re


def placed(text: bytes, manifest: str, block: bytes, after: str) -> bytes:
    r"""Return a file with the block: at its present place, else after the last line that matches, else at the end.

    >>> placed(b"a\nb\n", "demo", b"x\n", "^a")
    b'a\n# bedplate demo: begin\nx\n# bedplate demo: end\nb\n'
    """
    lines = text.splitlines(keepends=True)
    first, last = _marks(manifest)
    own = [first + b"\n", *block.splitlines(keepends=True)]
    if not own[-1].endswith(b"\n"):
        own[-1] += b"\n"
    own.append(last + b"\n")
    found = _where(lines, manifest)
    if found:
        start, end = found
    else:
        start = end = _after(lines, after)
        if start and not lines[start - 1].endswith(b"\n"):
            lines[start - 1] += b"\n"
    return b"".join([*lines[:start], *own, *lines[end:]])


def without_block(text: bytes, manifest: str) -> bytes:
    r"""Return a file without the block.

    >>> without_block(b"a\n# bedplate demo: begin\nx\n# bedplate demo: end\nb\n", "demo")
    b'a\nb\n'
    """
    lines = text.splitlines(keepends=True)
    found = _where(lines, manifest)
    return b"".join([*lines[: found[0]], *lines[found[1] :]]) if found else text


def has_block(text: bytes, manifest: str) -> bool:
    """Return whether a file has the block of a manifest, with both of its marks."""
    lines = text.splitlines(keepends=True)
    return _where(lines, manifest) is not None and _marks(manifest)[1] in [line.strip() for line in lines]


def _marks(manifest: str) -> tuple[bytes, bytes]:
    return f"# bedplate {manifest}: begin".encode(), f"# bedplate {manifest}: end".encode()


def _where(lines: list[bytes], manifest: str) -> tuple[int, int] | None:
    bare = [line.strip() for line in lines]
    first, last = _marks(manifest)
    if first not in bare:
        return None
    start = bare.index(first)
    # If somebody removed the end mark, only the begin mark is certainly ours.
    return start, bare.index(last, start) + 1 if last in bare[start:] else start + 1


def _after(lines: list[bytes], pattern: str) -> int:
    if pattern:
        for number in range(len(lines), 0, -1):
            if re.search(pattern, lines[number - 1].decode("utf-8", "surrogateescape")):
                return number
    return len(lines)
