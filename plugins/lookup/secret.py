# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Lookup bedplate.cluster.secret."""

from __future__ import annotations

DOCUMENTATION = r"""
name: secret
author: The bedplate authors (!UNKNOWN)
version_added: 0.1.0
short_description: A secret of the cluster, as text
description:
  - Returns a secret of the cluster from the control node, for use inside a template. The variable C(bedplate_secrets) gives it,
    or the secrets directory, where it is made when it does not exist yet and C(bedplate_secrets_make) is not false.
  - In check mode no secret is made; a placeholder replaces it, the same every time.
  - A template with a secret needs C(sensitive) in M(bedplate.cluster.files), so that its content is shown nowhere.
  - A secret that is a whole file is better written with C(secret) in M(bedplate.cluster.files), the only way for bytes, and
    the only lookup that refuses to replace the secrets of a running cluster after the directory was lost.
options:
  _terms:
    description: Names of secrets.
    type: list
    elements: str
    required: true
  length:
    description: Number of characters of a new password.
    type: int
    default: 32
  directory:
    description:
      - Where the secrets are. Unless set, a directory with the name of the cluster in C(~/.local/state/bedplate/),
        or in C(bedplate/) below E(XDG_STATE_HOME).
    type: str
    vars:
      - name: bedplate_secrets_dir
"""

EXAMPLES = r"""
- name: Write the configuration of slurmdbd
  bedplate.cluster.files:
    manifest: slurmdbd
    files:
      - path: /etc/slurm/slurmdbd.conf
        content: "StoragePass={{ lookup('bedplate.cluster.secret', 'slurm_database_password') }}\n"
        sensitive: true
        owner: slurm
        group: slurm
# => StoragePass=pT0c6Rm5b2q4dWJ9yXn1kVZs8uLg3aHf
"""

RETURN = r"""
_raw:
  description: The secrets, in the order of the names.
  type: list
  elements: str
"""

from typing import Any

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase

from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import secrets_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretError


class LookupModule(LookupBase):  # type: ignore[misc]
    """The lookup."""

    def run(self, terms: list[Any], variables: dict[str, Any] | None = None, **kwargs: Any) -> list[str]:
        """Return the secrets."""
        variables = variables or {}
        self.set_options(var_options=variables, direct=kwargs)
        create = not self._templar.template(variables.get("ansible_check_mode", False))
        try:
            found = secrets_of(variables, self._templar, self._loader, self.get_option("directory"))
            return [found.text(str(term), self.get_option("length"), create) for term in terms]
        except SecretError as error:
            raise AnsibleLookupError(f"bedplate.cluster.secret: {error}") from error
