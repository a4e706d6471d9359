# SPDX-License-Identifier: GPL-3.0-or-later
"""Circles in a directed graph: links that wait for each other, as credit loops are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def find_loop(edges: Sequence[Iterable[int]]) -> list[int]:
    """Return the nodes of one circle, each before the one it waits for, from the smallest on; [] without a circle.

    >>> find_loop([[1], [2], [0, 3], []]), find_loop([[1], []])
    ([0, 1, 2], [])
    """
    done = [False] * len(edges)
    for start in range(len(edges)):
        if not done[start]:
            circle = _search(start, edges, done)
            if circle:
                first = circle.index(min(circle))
                return circle[first:] + circle[:first]
    return []


def _search(start: int, edges: Sequence[Iterable[int]], done: list[bool]) -> list[int]:
    """Search depth first, without recursion: ways of a large fabric are deeper than Python's stack."""
    path, on_path = [start], {start: 0}
    waiting = [iter(sorted(edges[start]))]
    while waiting:
        following = next(waiting[-1], None)
        if following is None:
            waiting.pop()
            last = path.pop()
            del on_path[last]
            done[last] = True
        elif following in on_path:
            return path[on_path[following] :]
        elif not done[following]:
            on_path[following] = len(path)
            path.append(following)
            waiting.append(iter(sorted(edges[following])))
    return []
