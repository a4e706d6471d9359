#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Set Slurm's accounting objects to the desired state."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_accounts
short_description: Accounts, users and QOS in Slurm's accounting database
version_added: 0.1.0
description:
  - Adds and changes the named QOS, accounts and users with C(sacctmgr). Removes accounts and users only with O(remove), and QOS never;
    history hangs on these objects.
  - With any O(accounts), other accounts of Slurm are returned as RV(unlisted), with a warning.
  - Reads the state with two calls, and makes no further call when nothing differs.
  - C(sacctmgr) stores names of accounts and QOS in small letters, and names of users too unless slurmdbd.conf has
    C(PreserveCaseUser). So capitals make no difference here, neither in names nor in values.
  - In check mode on a host without Slurm, or whose slurmdbd does not answer, all desired objects are predicted as changes.
options:
  cluster:
    description: The ClusterName whose associations are meant.
    type: str
    required: true
  qos:
    description: QOS by name, each a mapping of options as C(sacctmgr modify qos set) takes them, in the form C(sacctmgr list) shows.
    type: dict
    default: {}
  accounts:
    description: >-
      Accounts by name, parents before children, each with C(description), C(organization), C(parent), C(users) (a list),
      C(qos) (a list) and C(default_qos).
    type: dict
    default: {}
  remove:
    description: >-
      Remove accounts and users that are not in O(accounts), if it has any. An account or user with jobs, waiting ones too, stays,
      and so does an account above one. C(root) always does.
    type: bool
    default: false
  slurm_conf:
    description:
      - The text of the slurm.conf with which C(sacctmgr) finds slurmdbd. Left out, that of the host.
      - For a host without a slurm.conf, or with a changing one.
    type: str
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: "Reads, and returns the calls it would make."}
"""

EXAMPLES = r"""
- name: One account with two users
  bedplate.cluster.slurm_accounts:
    cluster: lab
    qos: {normal: {Priority: 10}}
    accounts: {research: {users: [alice, bob], default_qos: normal}}
  register: slurm_accounts
# => slurm_accounts.calls: ["modify qos normal set Priority=10", "add account research cluster=lab parent=root ...", ...]
# => slurm_accounts.read: true
"""

RETURN = r"""
read: {description: "Whether the database was read; if not, RV(calls) are for an empty one.", type: bool, returned: always}
calls:
  description: The sacctmgr calls made, or in check mode the ones to make. When one fails, those made before it.
  type: list
  elements: str
  returned: always
  sample: ["add user bob cluster=lab account=research"]
unlisted:
  description: Accounts, and users of accounts, that Slurm has and O(accounts) lacks; with O(remove) before the removal.
  type: list
  elements: dict
  returned: success
  contains:
    account: {description: The account., type: str, sample: research}
    user: {description: The user; empty where the account itself is meant., type: str, sample: bob}
    has_jobs: {description: Whether jobs of it wait or run., type: bool, sample: false}
msg: {description: "Why the database was not read, or the error.", type: str, returned: when not read or failed}
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.accounting.accounts_plan import (
    DesiredAccounts,
    ListedAccounts,
    calls,
    found,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.accounting.unlisted_accounts import (
    SQUEUE,
    Unlisted,
    jobs,
    removals,
    unlisted,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.live.slurm_commands import drop_login_variables

_DEADLINE = 60


class SacctmgrError(Exception):
    """A call of sacctmgr that failed, with its message and what to do next."""


def _sacctmgr(module: AnsibleModule, *arguments: str) -> str:
    outcome = command.run(["sacctmgr", *arguments], _DEADLINE, environment=_environment(module))
    # sacctmgr says "Nothing modified" with rc 1 when the database already agrees.
    if outcome.code != 0 and "othing modified" not in outcome.stdout + outcome.stderr:
        raise SacctmgrError(
            f"sacctmgr {' '.join(arguments)}: {outcome.error_line.rstrip('.')}. Look at `systemctl status "
            "slurmdbd` and `journalctl -u slurmdbd` on the database host."
        )
    return outcome.stdout


def _environment(module: AnsibleModule) -> dict[str, str]:
    """Return what has sacctmgr read the slurm.conf of the task."""
    text = module.params["slurm_conf"]
    if text is None:
        return {}
    conf = Path(module.tmpdir) / "slurm.conf"
    if not conf.exists():
        conf.write_text(text, encoding="utf-8")
    return {"SLURM_CONF": str(conf)}


def _ask_state(module: AnsibleModule, wanted: DesiredAccounts) -> ListedAccounts:
    options = wanted.qos_options()
    qos = _sacctmgr(module, "--parsable2", "list", "qos", "format=" + ",".join(["Name", *options]))
    fields = "format=Account,User,ParentName,QOS,DefaultQOS"
    cluster = f"cluster={module.params['cluster']}"
    return found(qos, _sacctmgr(module, "--parsable2", "list", "associations", cluster, fields), options)


def _ask_unlisted(module: AnsibleModule, wanted: DesiredAccounts, state: ListedAccounts) -> list[Unlisted]:
    """Return the objects that the database lacks; Slurm's jobs are only read if it lacks some."""
    found = unlisted(wanted, state)
    if not found:
        return []
    outcome = command.run(SQUEUE, _DEADLINE)
    if outcome.code != 0:
        if module.params["remove"]:
            raise SacctmgrError(
                f"squeue: {outcome.error_line}. Without it bedplate does not know whose jobs wait or run. "
                "See that slurmctld answers, then run again."
            )
        return found
    return unlisted(wanted, state, jobs(outcome.stdout))


def _warn(module: AnsibleModule, found: list[Unlisted]) -> None:
    """Name the accounts and users that keep their access."""
    stay = [one for one in found if one.has_jobs or not module.params["remove"]]
    if not stay:
        return
    what = (
        "kept, because they have jobs"
        if module.params["remove"]
        else "slurm_accounts_remove=true removes those without jobs"
    )
    module.warn(
        f"in Slurm and not in slurm.accounts of the cluster file, so they keep their access: {', '.join(map(str, stay))}; {what}"
    )


def _predict(module: AnsibleModule, wanted: DesiredAccounts, why: str) -> None:
    """Leave check mode with the changes that an empty database needs."""
    todo = [" ".join(call) for call in calls(module.params["cluster"], wanted, ListedAccounts())]
    module.exit_json(changed=bool(todo), read=False, calls=todo, msg=f"not read: {why}")


def _run(module: AnsibleModule, wanted: DesiredAccounts) -> None:
    done: list[str] = []
    read = False
    others: list[Unlisted] = []
    try:
        state = _ask_state(module, wanted)
        todo = calls(module.params["cluster"], wanted, state)
        read = True
        others = _ask_unlisted(module, wanted, state)
        if module.params["remove"]:
            todo += removals(module.params["cluster"], wanted, others)
        for call in todo:
            if not module.check_mode:
                _sacctmgr(module, "--immediate", *call)
            done.append(" ".join(call))
    except SacctmgrError as error:
        if module.check_mode:
            # A first run may have stopped half-way: what it would still do is no failure of a forecast.
            module.warn(
                f"the accounting database was not read, so all accounts, users and QOS count as changes. {error}"
            )
            _predict(module, wanted, str(error))
        module.fail_json(msg=str(error), changed=bool(done), read=read, calls=done)
    _warn(module, others)
    module.exit_json(changed=bool(done), read=True, calls=done, unlisted=[asdict(one) for one in others])


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "qos": {"type": "dict", "default": {}},
            "accounts": {"type": "dict", "default": {}},
            "remove": {"type": "bool", "default": False},
            "slurm_conf": {"type": "str"},
        },
        supports_check_mode=True,
    )
    drop_login_variables()
    wanted = DesiredAccounts(module.params["qos"], module.params["accounts"])
    nothing: dict[str, Any] = {"changed": False, "read": False, "calls": []}
    if problems := wanted.problems():
        module.fail_json(msg="\n".join(problems), **nothing)
    if not module.get_bin_path("sacctmgr"):
        if module.check_mode:
            _predict(module, wanted, "Slurm is not installed yet")
        module.fail_json(msg="sacctmgr is not installed on this host: run playbooks/scheduler.yml first", **nothing)
    _run(module, wanted)


if __name__ == "__main__":
    main()
