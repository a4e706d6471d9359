# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter hostlist_expand."""

from __future__ import annotations

DOCUMENTATION = r"""
name: hostlist_expand
author: The bedplate authors
version_added: 0.1.0
short_description: Expand a Slurm hostlist into names
description:
  - Returns the names of a hostlist in the order in which C(scontrol show hostnames) of Slurm 23.11 and later prints
    them; the last bracket counts fastest.
  - A number is padded with zeros to the width of the low bound of its range. A duplicate name is returned twice.
  - Unlike Slurm, it refuses unbalanced brackets, and blanks, signs and ranges without an upper bound in brackets;
    Slurm makes up a name there.
positional: _input
options:
  _input:
    description: Hostlist. Words are separated by commas or blanks.
    type: str
    required: true
seealso:
  - plugin: bedplate.cluster.hostlist_fold
    plugin_type: filter
"""

EXAMPLES = r"""
- name: A range keeps its zeros
  ansible.builtin.debug:
    msg: "{{ 'gpu[08-11,20]' | bedplate.cluster.hostlist_expand }}"
  # => ["gpu08", "gpu09", "gpu10", "gpu11", "gpu20"]

- name: Several brackets and a suffix
  ansible.builtin.debug:
    msg: "{{ 'r[0-1]n[0-1]-ib0' | bedplate.cluster.hostlist_expand }}"
  # => ["r0n0-ib0", "r0n1-ib0", "r1n0-ib0", "r1n1-ib0"]
"""

RETURN = r"""
_value:
  description: The names.
  type: list
  elements: str
  sample: [gpu08, gpu09, gpu10, gpu11]
"""

from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.bedplate.cluster.plugins.module_utils.common.hostlist import HostlistError, expand


def hostlist_expand(text: Any) -> list[str]:
    """Return the names of a hostlist."""
    if not isinstance(text, str):
        raise AnsibleFilterError(f"hostlist_expand: {text!r} is {type(text).__name__}; allowed: a hostlist, as text")
    try:
        return expand(text)
    except HostlistError as error:
        raise AnsibleFilterError(f"hostlist_expand: {error}") from error


class FilterModule:
    """Filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filter by its name."""
        return {"hostlist_expand": hostlist_expand}
