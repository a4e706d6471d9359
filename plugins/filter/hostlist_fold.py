# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter hostlist_fold."""

from __future__ import annotations

DOCUMENTATION = r"""
name: hostlist_fold
author: The bedplate authors
version_added: 0.1.0
short_description: Fold names into a Slurm hostlist
description:
  - Returns a hostlist that expands to exactly the given names, in natural order (C(n2) before C(n10)). A name given
    twice is written once.
  - Every number folds where the result is exact. Numbers of different width stay apart.
positional: _input
options:
  _input:
    description: Names. None may be empty or hold a bracket, a comma or a blank.
    type: list
    elements: str
    required: true
  suffixes:
    description:
      - Whether text may follow the last bracket, as in C(n[0-1]-ib0).
      - Slurm before 23.11 does not read that. Set V(false) for it. Names that end in a letter then stay unfolded.
    type: bool
    default: true
seealso:
  - plugin: bedplate.cluster.hostlist_expand
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Widths stay apart
  ansible.builtin.debug:
    msg: "{{ ['n7', 'n10', 'n08', 'n7'] | bedplate.cluster.hostlist_fold }}"
  # => "n[7,08,10]"

- name: Two numbers
  ansible.builtin.debug:
    msg: "{{ ['r0n0', 'r0n1', 'r1n0', 'r1n1'] | bedplate.cluster.hostlist_fold }}"
  # => "r[0-1]n[0-1]"

- name: For Slurm 22.05 and 23.02
  ansible.builtin.debug:
    msg: "{{ ['n0-ib0', 'n1-ib0'] | bedplate.cluster.hostlist_fold(suffixes=false) }}"
  # => "n[0-1]-ib[0]"
"""

RETURN = r"""
_value:
  description: The hostlist.
  type: str
  sample: gpu[08-11,20]
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import HostlistError, fold


def hostlist_fold(names: Any, suffixes: bool = True) -> str:
    """Return the hostlist of the names."""
    if isinstance(names, (str, bytes, dict)) or not hasattr(names, "__iter__"):
        raise AnsibleFilterError(f"hostlist_fold: {names!r} is {type(names).__name__}; allowed: a list of names")
    items = list(names)
    for item in items:
        if not isinstance(item, str):
            raise AnsibleFilterError(f"hostlist_fold: {item!r} is {type(item).__name__}; allowed: names, as text")
    try:
        return fold(items, suffixes=suffixes)
    except HostlistError as error:
        raise AnsibleFilterError(f"hostlist_fold: {error}") from error


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"hostlist_fold": hostlist_fold}
