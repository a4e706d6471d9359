# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lookup bedplate.cluster.plain_inventory."""

from __future__ import annotations

DOCUMENTATION = r"""
name: plain_inventory
author: The bedplate authors (!UNKNOWN)
version_added: 0.2.0
short_description: The cluster of an inventory without a cluster file
description:
  - Returns groups and variables of all machines that run Slurm, as data that filters take in place of the path of a cluster file.
  - Hosts of the groups C(slurm_controllers), C(slurm_database), C(slurm_login), C(slurm_rest), C(subnet_managers) and
    C(compute_nodes) are read.
options: {}
"""

EXAMPLES = r"""
- name: Show the configuration that the controllers get
  ansible.builtin.debug:
    msg: "{{ lookup('bedplate.cluster.plain_inventory') | bedplate.cluster.slurm_files }}"
"""

RETURN = r"""
_raw:
  description: One mapping.
  type: list
  elements: dict
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ansible_collections.bedplate.cluster.plugins.plugin_utils.plain.host_cluster import plain_inventory
from ansible_collections.bedplate.cluster.plugins.plugin_utils.plain.plain_inventory import (
    PlainInventoryError,
    to_data,
)


class LookupModule(LookupBase):  # type: ignore[misc]
    """The lookup."""

    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **options: Any) -> list[Any]:
        """Return the inventory as data."""
        if terms:
            raise AnsibleLookupError(f"plain_inventory: takes no terms, not {terms!r}")
        self.set_options(var_options=variables, direct=options)
        try:
            return [to_data(plain_inventory("slurm", variables or {}, self._templar.template))]
        except PlainInventoryError as error:
            raise AnsibleLookupError(f"plain_inventory: {error}") from None
