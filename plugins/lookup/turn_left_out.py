# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lookup bedplate.cluster.turn_left_out."""

from __future__ import annotations

DOCUMENTATION = r"""
name: turn_left_out
author: The bedplate authors (!UNKNOWN)
version_added: 0.2.0
short_description: Machines that the last turn of Slurm's keys left out
description:
  - Returns the machines that playbooks/turn_keys.yml did not reach, once the new key is the cluster's, or the turn was given up. The
    next ordinary run there installs the key of the cluster, and removes what the turn has staged.
  - It reads C(turn_keys.json) in the secrets directory. Without the directory or the file the list is empty.
options: {}
"""

EXAMPLES = r"""
- name: Show the machines that still have the old key
  ansible.builtin.debug:
    msg: "{{ query('bedplate.cluster.turn_left_out') }}"
"""

RETURN = r"""
_raw:
  description: One list of names.
  type: list
  elements: list
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import secrets_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.turn_keys.turn_record import TurnFile, TurnRecordError


class LookupModule(LookupBase):  # type: ignore[misc]
    """The lookup."""

    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **options: Any) -> list[Any]:
        """Return one list: a lookup with a list of one element would return a text."""
        if terms or options:
            raise AnsibleLookupError(f"turn_left_out: takes no terms and no options, not {terms or options!r}")
        try:
            directory = secrets_of(variables or {}, self._templar, self._loader).store.directory
        except SecretError:
            # A site that gives all secrets may have no directory.
            return [[]]
        try:
            return [TurnFile(directory).left_out()]
        except TurnRecordError as error:
            raise AnsibleLookupError(str(error)) from None
