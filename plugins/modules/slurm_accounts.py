#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Bring Slurm's accounting objects to the wanted state."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_accounts
short_description: Accounts, users and QOS in Slurm's accounting database
version_added: 0.1.0
description:
  - Adds and changes the named QOS, accounts and users with C(sacctmgr). Removes nothing; history hangs on these objects.
  - Reads the state with two calls, and makes no further call when nothing differs.
  - In check mode on a host without Slurm, all wanted objects are predicted as changes.
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
author: The bedplate authors
attributes:
  check_mode: {support: full, description: Reads, and returns the calls it would make.}
"""

EXAMPLES = r"""
- name: One account with two users
  bedplate.cluster.slurm_accounts:
    cluster: lab
    qos: {normal: {Priority: 10}}
    accounts: {research: {users: [alice, bob], default_qos: normal}}
# => calls: ["modify qos normal set Priority=10", "add account research cluster=lab parent=root ...", ...]
"""

RETURN = r"""
calls: {description: The sacctmgr calls made, or in check mode the ones to make., type: list, elements: str, returned: always}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.accounting import Wanted, calls, found


def _sacctmgr(module: AnsibleModule, *arguments: str) -> str:
    out: str
    rc, out, err = module.run_command(["timeout", "60", "sacctmgr", *arguments])
    # sacctmgr says "Nothing modified" with rc 1 when the database already agrees.
    if rc != 0 and "othing modified" not in out + err:
        module.fail_json(
            msg=f"sacctmgr {' '.join(arguments)}: {(err or out).strip()}. Look at `systemctl status slurmdbd` and "
            "`journalctl -u slurmdbd` on the database host."
        )
    return out


def _ask_state(module: AnsibleModule, wanted: Wanted) -> tuple[str, str]:
    options = ["Name", *dict.fromkeys(key for qos in wanted.qos.values() for key in qos)]
    qos = _sacctmgr(module, "--parsable2", "list", "qos", "format=" + ",".join(options))
    cluster = module.params["cluster"]
    fields = "format=Account,User,ParentName,QOS,DefaultQOS"
    return qos, _sacctmgr(module, "--parsable2", "list", "associations", f"cluster={cluster}", fields)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "cluster": {"type": "str", "required": True},
            "qos": {"type": "dict", "default": {}},
            "accounts": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    wanted = Wanted(module.params["qos"], module.params["accounts"])
    fresh = module.check_mode and not module.get_bin_path("sacctmgr")
    state = found("", "") if fresh else found(*_ask_state(module, wanted))
    todo = calls(module.params["cluster"], wanted, state)
    if not module.check_mode:
        for call in todo:
            _sacctmgr(module, "--immediate", *call)
    module.exit_json(changed=bool(todo), calls=[" ".join(call) for call in todo])


if __name__ == "__main__":
    main()
