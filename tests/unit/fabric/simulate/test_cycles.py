"""Circles in a directed graph."""

from __future__ import annotations

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.cycles import find_loop


def test_loops():
    assert find_loop([]) == []
    assert find_loop([[1, 2], [3], [3], []]) == []
    assert find_loop([[1], [2], [1]]) == [1, 2]
    assert find_loop([[0]]) == [0]
    # Deeper than Python's stack.
    assert find_loop([[n + 1] for n in range(5000)] + [[]]) == []
    assert len(find_loop([[n + 1] for n in range(4999)] + [[0]])) == 5000
