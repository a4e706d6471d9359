#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Record which run works on the nodes, so that a second one beside it is refused."""

from __future__ import annotations

DOCUMENTATION = r"""
module: run_record
short_description: Record which run works on the nodes, so that a second one beside it is refused
version_added: 0.2.0
description:
  - Keeps C(/var/lib/bedplate/<kind>.json) on a controller. Fails if another run holds it.
  - A run that was killed leaves the record. It can be taken over by a run that names it in O(dead), and by any run when its time is over.
  - An unfinished run leaves its name, which the next run takes, so that it owns the nodes that are drained already.
options:
  kind:
    description: What the run does.
    type: str
    required: true
  state:
    description: V(taken) takes or renews the record, V(released) releases it. Left out, the module only reports.
    type: str
    choices: [taken, released]
  run:
    description: The name of a new run. Needed with O(state=taken).
    type: str
  holder:
    description: The process that works on the run. Needed with O(state).
    type: str
  dead:
    description: A holder that is known to be gone.
    type: str
    default: ''
  seconds:
    description: With O(state=taken), until when the record is held at the latest, from now.
    type: int
    default: 3600
  finished:
    description: With O(state=released), whether nothing of the run is left. Its name is forgotten then.
    type: bool
    default: false
  state_directory:
    description: Where bedplate keeps its records.
    type: path
    default: /var/lib/bedplate
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: "It reports and predicts, and fails if another run holds the record."}
"""

EXAMPLES = r"""
- name: Begin a roll
  bedplate.cluster.run_record: {kind: roll, state: taken, run: 3f2a9c1b, holder: "ci:4711:88213"}
"""

RETURN = r"""
run: {description: "The run of the record, empty without one.", type: str, returned: success}
holder: {description: "The holder that works on it, empty without one.", type: str, returned: success}
held: {description: Whether a holder works on it now., type: bool, returned: success}
until: {description: "Until when at the latest, in UTC.", type: str, returned: success}
"""

from datetime import datetime, timezone
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import (
    STATE_DIRECTORY,
    NodeFilesError,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.nodes.run_record import (
    RecordError,
    RunFile,
    RunRecord,
)

_NONE = RunRecord("")


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "kind": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["taken", "released"]},
            "run": {"type": "str"},
            "holder": {"type": "str"},
            "dead": {"type": "str", "default": ""},
            "seconds": {"type": "int", "default": 3600},
            "finished": {"type": "bool", "default": False},
            "state_directory": {"type": "path", "default": STATE_DIRECTORY},
        },
        required_if=[("state", "taken", ["run", "holder"]), ("state", "released", ["holder"])],
        supports_check_mode=True,
    )
    params, now = module.params, datetime.now(timezone.utc)
    file = RunFile(Path(params["state_directory"]), params["kind"], module.check_mode)
    try:
        changed = False
        if params["state"] == "taken":
            before = file.read()
            taken = file.take(params["run"], params["holder"], params["seconds"], now, params["dead"])
            changed = before is None or before.holder != taken.holder
        elif params["state"] == "released":
            changed = file.release(params["holder"], params["finished"])
        record = file.read() or _NONE
    except (RecordError, NodeFilesError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(
        changed=changed, run=record.run, holder=record.holder, held=record.is_held(now), until=record.until
    )


if __name__ == "__main__":
    main()
