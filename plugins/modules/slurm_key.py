#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compare keys of Slurm by fingerprints, replace a key by the staged one, and prove that machines decode credentials of a key."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_key
short_description: Compare a key of Slurm with another one, and replace it by the staged one
version_added: 0.2.0
description:
  - Reports salted fingerprints of the key at O(path) and of the staged key beside it, C(<path>.next). No key is in the result.
  - With O(state=replaced) replaces the key by a copy of the staged one. Its daemons read it when they start again.
  - With O(state=proved) makes a munge credential on this machine, and decodes credentials of other machines.
options:
  path:
    description: The key.
    type: path
    required: true
  state:
    description: V(replaced) replaces the key, V(proved) decodes credentials. Left out, the module only reports.
    type: str
    choices: [replaced, proved]
  salt:
    description: The salt of the fingerprints. Left out, a new one.
    type: str
  staged:
    description: The fingerprint that the staged key must have. Needed with O(state=replaced).
    type: str
  credentials:
    description: With O(state=proved), a name and a credential each.
    type: dict
    default: {}
  made_at:
    description: With O(state=proved), the socket of the munged that makes the credential. Left out, the usual one.
    type: path
  read_at:
    description: With O(state=proved), the socket of the munged that decodes O(credentials). Left out, the usual one.
    type: path
  state_directory:
    description: Where bedplate keeps its records.
    type: path
    default: /var/lib/bedplate
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It reports and predicts.}
"""

EXAMPLES = r"""
- name: Compare the munge key
  bedplate.cluster.slurm_key: {path: /etc/munge/munge.key}
  register: munge_key
# => munge_key: {salt: 1c0ffee0, present: 0f4c..., staged: ''}
"""

RETURN = r"""
salt: {description: The salt of the fingerprints., type: str, returned: success}
present: {description: "The fingerprint of the key, empty without one.", type: str, returned: success}
staged: {description: "The fingerprint of the staged key, empty without one.", type: str, returned: success}
credential: {description: A munge credential of this machine that root alone can decode., type: str, returned: with O(state=proved)}
refused:
  description: "The names of credentials that this machine cannot decode, with the error of C(unmunge)."
  type: dict
  returned: with O(state=proved)
"""

import secrets
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import STATE_DIRECTORY
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.key_files import KeyFiles, KeyTurnError
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.munge_proof import credential, refused


def replaced(module: AnsibleModule, files: KeyFiles, salt: str) -> bool:
    """Replace the key, unless it is the new one already; return whether it was replaced, or would be."""
    expected = module.params["staged"]
    if not files.is_pending(expected, salt) or module.check_mode:
        return files.is_pending(expected, salt)
    with files.locked():
        if is_pending := files.is_pending(expected, salt):
            files.put()
    return is_pending


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["replaced", "proved"]},
            "salt": {"type": "str", "no_log": False},
            "staged": {"type": "str", "no_log": False},
            # A credential of a user without rights, for root alone; it is hidden all the same.
            "credentials": {"type": "dict", "default": {}, "no_log": True},
            "made_at": {"type": "path"},
            "read_at": {"type": "path"},
            "state_directory": {"type": "path", "default": STATE_DIRECTORY},
        },
        required_if=[("state", "replaced", ["salt", "staged"])],
        supports_check_mode=True,
    )
    params = module.params
    files = KeyFiles(Path(params["path"]), Path(params["state_directory"]))
    salt = params["salt"] or secrets.token_hex(8)
    result: dict[str, Any] = {"changed": False}
    try:
        if params["state"] == "replaced":
            result["changed"] = replaced(module, files, salt)
        if params["state"] == "proved":
            result["refused"] = refused(params["credentials"], params["read_at"] or "")
            result["credential"] = credential(params["made_at"] or "")
        result.update(files.prints(salt), salt=salt)
    except KeyTurnError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
