#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Steps of a restore of Slurm on one host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_restore
short_description: Steps of a restore of Slurm on one host
version_added: 0.2.0
description:
  - Used by C(playbooks/restore.yml), which orders the steps over all hosts.
  - The action plugin of this name adds O(session), which it reads from the backup with the private key on the control node.
  - A member of the backup is decrypted with its session key and goes straight into its place. Nothing in plain is written to a disk.
options:
  step:
    description:
      - V(node) reads which jobs have a step on this machine, and the digest of its munge key.
      - V(look) reads what a restore would replace on a database host or a controller.
      - V(database), V(configuration) and V(state) restore a member of the backup.
      - V(finished) records that the restore has ended.
      - V(jobs) waits until slurmctld has heard O(nodes), two minutes at most, and reads its list of jobs.
    type: str
    choices: [node, look, database, configuration, state, finished, jobs]
    required: true
  backup: {description: "Digest of the backup. A step that was done from it is not repeated.", type: str, default: ''}
  file: {description: The file of the backup on this host., type: path, default: ''}
  host: {description: The host whose members are restored., type: str, default: ''}
  member: {description: "Digest of the member and the rows of its tables, from the manifest.", type: dict, default: {}}
  session: {description: Session key of the member. The action plugin sets it., type: str, default: ''}
  cluster: {description: Name of the cluster., type: str, default: ''}
  database: {description: "Name of the database, empty for none.", type: str, default: ''}
  state: {description: "StateSaveLocation, empty for none.", type: str, default: ''}
  user: {description: SlurmUser., type: str, default: slurm}
  nodes: {description: Nodes to wait for in V(jobs)., type: str, default: ''}
  next_job: {description: The least id of the next job., type: int, default: 0}
  seconds: {description: How long a step may take., type: int, default: 7200}
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: "It reads, and restores nothing."}
"""

EXAMPLES = r"""
- name: Read the jobs of the node
  bedplate.cluster.slurm_restore: {step: node}
  register: look
# => jobs: [4711, 4712], munge: 0f4c...
"""

RETURN = r"""
jobs:
  description: Ids of jobs with a step on this machine, or slurmctld's running jobs.
  type: list
  elements: int
  returned: with V(node) and V(jobs)
munge: {description: "SHA-256 of the munge key, empty without one.", type: str, returned: with V(node)}
look: {description: What was found., type: dict, returned: with V(look)}
silent: {description: Nodes that slurmctld has not heard., type: list, elements: str, returned: with V(jobs)}
restored: {description: "What was restored, with counts.", type: dict, returned: with V(database) and V(state)}
files: {description: Files that changed., type: list, elements: str, returned: with V(configuration)}
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup import (
    container,
    host_state,
    job_list,
    put_back,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.container import ContainerError
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.job_list import JobsError
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.manifest import (
    DATABASE,
    FILES,
    STATE,
    SUFFIX,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.backup.put_back import (
    BEGUN,
    Marks,
    Member,
    RestoreError,
)

Result = dict[str, Any]


@contextmanager
def _member(module: AnsibleModule, name: str) -> Iterator[Member]:
    """Unpack the encrypted members of the host beside the backup, and return one."""
    params = module.params
    path = Path(params["file"])
    folder = Path(tempfile.mkdtemp(prefix=".work-", dir=path.parent))
    try:
        found = container.unpack(path, folder, [params["host"]])
        encrypted = found[params["host"]][name + SUFFIX]
        yield Member(encrypted, params["session"], params["member"]["sha256"], params["seconds"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _node(_module: AnsibleModule) -> Result:
    return {"changed": False, "jobs": host_state.node_jobs(), "munge": host_state.key_digest()}


def _look(module: AnsibleModule) -> Result:
    params = module.params
    look: Result = put_back.recorded()
    if params["state"]:
        look["controller"] = host_state.controller_facts(Path(params["state"]), params["user"])
    if params["database"]:
        look["database"] = host_state.database_facts(params["database"], params["cluster"])
    return {"changed": False, "look": look}


def _once(module: AnsibleModule, restore: Callable[[AnsibleModule], Result]) -> Result:
    marks = Marks(module.params["backup"])
    if marks.has(module.params["step"]):
        return {"changed": False, "restored": {}}
    if module.check_mode:
        return {"changed": True, "restored": {}}
    found = restore(module)
    marks.set(module.params["step"])
    return {"changed": True, "restored": found}


def _database(module: AnsibleModule) -> Result:
    Marks(module.params["backup"]).set(BEGUN)
    with _member(module, DATABASE) as member:
        rows = put_back.restore_database(member, module.params["database"], module.params["member"]["rows"])
    return {"tables": len(rows), "rows": sum(rows.values())}


def _state(module: AnsibleModule) -> Result:
    params = module.params
    with _member(module, STATE) as member:
        found: Result = put_back.restore_state(member, Path(params["state"]), params["user"], params["next_job"])
    return found


def _configuration(module: AnsibleModule) -> Result:
    with _member(module, FILES) as member:
        return {"files": put_back.restore_configuration(member)}


def _finished(_module: AnsibleModule) -> Result:
    return {}


def _jobs(module: AnsibleModule) -> Result:
    silent = host_state.wait_for_nodes(module.params["nodes"]) if module.params["nodes"] else []
    return {"changed": False, "jobs": list(job_list.read(int(time.time()) + 1).running), "silent": silent}


_READ: dict[str, Callable[[AnsibleModule], Result]] = {"node": _node, "look": _look, "jobs": _jobs}
_CHANGE: dict[str, Callable[[AnsibleModule], Result]] = {
    "database": _database,
    "configuration": _configuration,
    "state": _state,
    "finished": _finished,
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "step": {"type": "str", "choices": [*_READ, *_CHANGE], "required": True},
            "backup": {"type": "str", "default": ""},
            "file": {"type": "path", "default": ""},
            "host": {"type": "str", "default": ""},
            "member": {"type": "dict", "default": {}},
            "session": {"type": "str", "default": "", "no_log": True},
            "cluster": {"type": "str", "default": ""},
            "database": {"type": "str", "default": ""},
            "state": {"type": "str", "default": ""},
            "user": {"type": "str", "default": "slurm"},
            "nodes": {"type": "str", "default": ""},
            "next_job": {"type": "int", "default": 0},
            "seconds": {"type": "int", "default": 7200},
        },
        supports_check_mode=True,
    )
    step = module.params["step"]
    try:
        module.exit_json(**(_READ[step](module) if step in _READ else _once(module, _CHANGE[step])))
    except (RestoreError, ContainerError, JobsError, OSError, KeyError) as error:
        module.fail_json(msg=f"{step}: {error}")


if __name__ == "__main__":
    main()
