#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compare keys of Slurm by fingerprints, switch to a staged key, and prove that machines have one munge key."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_key
short_description: Compare a key of Slurm with another one, and replace it by the staged one
version_added: 0.2.0
description:
  - Reports salted fingerprints of the key at O(path) and of the staged key beside it, C(<path>.next). No key is in the result.
  - >-
    With O(state=switched) replaces the key by the staged one. It stops O(unit) at O(pause_at) by SIGSTOP, replaces the key at
    O(switch_at), and starts the unit again, so that all machines change their key at once, and clients of munge wait.
  - With O(state=proved) decodes the munge credentials of other machines, and returns one of this machine.
options:
  path:
    description: The key.
    type: path
    required: true
  state:
    description: V(switched) replaces the key, V(proved) decodes credentials. Left out, the module only reports.
    type: str
    choices: [switched, proved]
  salt:
    description: The salt of the fingerprints. Left out, a new one.
    type: str
  staged:
    description: The fingerprint that the staged key must have. Needed with O(state=switched).
    type: str
  time:
    description: The time of the control node, in seconds since 1970, for RV(behind).
    type: float
  unit:
    description: The daemon that stops for the switch. Left out, no daemon stops or starts.
    type: str
  pause_at:
    description: When O(unit) stops, in seconds since 1970. Needed with O(unit).
    type: float
  switch_at:
    description: When the key is replaced, in seconds since 1970. Needed with O(unit).
    type: float
  credentials:
    description: With O(state=proved), the credentials of other machines.
    type: dict
    default: {}
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
clock: {description: "The time of this machine, in seconds since 1970.", type: float, returned: success}
behind: {description: "For how many seconds the clock is behind O(time), 0 without it.", type: float, returned: success}
silent: {description: For how many seconds the daemon did not answer., type: float, returned: with O(state=switched)}
credential: {description: A munge credential of this machine that root alone can decode., type: str, returned: with O(state=proved)}
refused:
  description: "Machines whose credentials this machine cannot decode, with the error of C(unmunge)."
  type: dict
  returned: with O(state=proved)
"""

import secrets
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import run
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import STATE_DIRECTORY
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.key_files import KeyFiles, KeyTurnError
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.munge_proof import credential, refused
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.keys.switch_key import (
    Clock,
    switch_at,
    switch_now,
)


def switched(module: AnsibleModule, files: KeyFiles, salt: str) -> dict[str, Any]:
    """Replace the key, unless it is the new one already."""
    params = module.params

    def is_pending() -> bool:
        return files.is_pending(params["staged"], salt)

    if not is_pending():
        return {"changed": False, "silent": 0.0}
    if module.check_mode:
        return {"changed": True, "silent": 0.0}
    if not params["unit"]:
        switch_now(files, is_pending)
        return {"changed": True, "silent": 0.0}
    silent = switch_at(files, params["unit"], params["pause_at"], params["switch_at"], is_pending, run, Clock())
    return {"changed": True, "silent": round(silent, 2)}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["switched", "proved"]},
            "salt": {"type": "str", "no_log": False},
            "staged": {"type": "str", "no_log": False},
            "time": {"type": "float"},
            "unit": {"type": "str"},
            "pause_at": {"type": "float"},
            "switch_at": {"type": "float"},
            # A credential of a user without rights, for root alone; it is hidden all the same.
            "credentials": {"type": "dict", "default": {}, "no_log": True},
            "state_directory": {"type": "path", "default": STATE_DIRECTORY},
        },
        required_if=[("state", "switched", ["salt", "staged"])],
        required_by={"unit": ["pause_at", "switch_at"]},
        supports_check_mode=True,
    )
    params = module.params
    files = KeyFiles(Path(params["path"]), Path(params["state_directory"]))
    salt, now = params["salt"] or secrets.token_hex(8), time.time()
    result: dict[str, Any] = {"changed": False}
    try:
        if params["state"] == "switched":
            result = switched(module, files, salt)
        if params["state"] == "proved":
            result["refused"] = refused(params["credentials"])
            result["credential"] = credential()
        result.update(files.prints(salt), salt=salt, clock=now, behind=round((params["time"] or now) - now, 2))
    except KeyTurnError as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
