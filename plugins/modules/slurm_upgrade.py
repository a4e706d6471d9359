#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Steps of an upgrade of Slurm on one host."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_upgrade
short_description: Steps of an upgrade of Slurm on one host
version_added: 0.2.0
description:
  - Used by C(playbooks/upgrade_slurm.yml), which orders the steps over all hosts.
  - The action plugin of this name adds O(requested) to V(look), V(fetch) and V(installed), from the cluster file and the variables of the
    role slurm.
options:
  step:
    description:
      - V(look) reads what is installed, what apt would change, space, and the marks of an earlier call. It changes nothing, except that
        apt reads its lists again if they lack the release, outside of check mode.
      - V(begin) makes the folder of the upgrade, and sets aside an older one unless O(resume).
      - V(fetch) downloads the new packages, and with C(is_core) of O(requested) keeps the old ones in the folder.
      - V(installed) fails if a package of Slurm has another release than that of the cluster file.
      - V(mark) keeps the files of the old release once, and records O(mark).
      - V(stop) stops the O(units) that run. Before it stops slurmd, it lets systemd start it again before SlurmdTimeout is over, also if
        the playbook has ended by then. V(registered) removes that timer.
      - V(serve) starts O(unit) and waits until it answers; fails with the end of its log if it does not.
      - V(registered) waits until slurmctld has heard the slurmd of this host in the new release, and fails if that took longer than
        SlurmdTimeout since O(since).
      - V(back) stops the daemons and restores the packages and files of the old release, if the mark C(installing) is set.
      - V(aside) renames the folder after the way back.
    type: str
    choices: [look, begin, fetch, installed, mark, stop, serve, registered, back, aside]
    required: true
  requested: {description: The packages and data of the host. The action plugin sets it., type: dict, default: {}}
  folder: {description: Where the folders of upgrades are., type: path, default: /var/lib/bedplate/slurm-upgrade}
  old: {description: "The release before, such as 24.11.", type: str, default: ''}
  new: {description: "The release after, such as 26.05.", type: str, default: ''}
  resume: {description: Whether the upgrade of an earlier call is continued., type: bool, default: false}
  mark: {description: The mark., type: str, choices: [installing, started, served, finished]}
  units: {description: Units of systemd., type: list, elements: str, default: []}
  unit: {description: The unit to start., type: str, choices: [slurmdbd.service, slurmctld.service]}
  name: {description: The name of this host in slurm.conf., type: str, default: ''}
  slurm_conf: {description: "The text of the slurm.conf with which C(sacctmgr) finds slurmdbd. Left out, that of the host.", type: str}
  log: {description: "The log file of the daemon; its end is reported when it does not start.", type: path}
  seconds: {description: How long to wait at most., type: int, default: 7200}
  since: {description: "When slurmd was stopped, in seconds since 1970.", type: float, default: 0}
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode:
    support: partial
    description: Only V(look) runs.
    details: V(look) runs, and the other steps do nothing.
"""

EXAMPLES = r"""
- name: Start slurmdbd and wait for its conversion
  bedplate.cluster.slurm_upgrade: {step: serve, unit: slurmdbd.service, seconds: 7200}
  register: served
# => up: true, seconds: 4.2
"""

RETURN = r"""
look: {description: What was found., type: dict, returned: with V(look)}
stopped: {description: Units that were stopped., type: list, elements: str, returned: with V(stop)}
at: {description: "When they were stopped, in seconds since 1970.", type: float, returned: with V(stop)}
up: {description: Whether the daemon answers., type: bool, returned: with V(serve)}
seconds: {description: How long the step took., type: float, returned: with V(serve) and V(registered)}
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import few
from ansible_collections.bedplate.cluster.plugins.module_utils.common.versions import matches, without_epoch
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages import dpkg
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.fetched import (
    Fetch,
    FetchError,
    entries,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.saved.kept_files import KeptError
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.saved.upgrade_folder import (
    FINISHED,
    INSTALLING,
    SERVED,
    STARTED,
    UpgradeFolder,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.upgrade import daemon_start, slurmd_again
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.upgrade.daemon_start import DaemonStart, Question
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.upgrade.host_look import HostLook, Requested
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.upgrade.node_registration import (
    Registration,
    RegistrationError,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.upgrade.way_back import BackError, WayBack


class ServeError(Exception):
    """A daemon does not answer; the text is complete."""


_FAILURES = (ServeError, FetchError, KeptError, BackError, RegistrationError, OSError, ValueError)
Result = dict[str, Any]


def _requested(module: AnsibleModule) -> Requested:
    given = module.params["requested"]
    return Requested(**{**given, "preferences": tuple(given["preferences"])})


def _folder(module: AnsibleModule) -> UpgradeFolder:
    return UpgradeFolder(Path(module.params["folder"]), module.params["old"], module.params["new"])


def _look(module: AnsibleModule) -> Result:
    return {
        "changed": False,
        "look": HostLook(_requested(module), Path(module.params["folder"]), not module.check_mode).facts(),
    }


def _begin(module: AnsibleModule) -> Result:
    folder = _folder(module)
    if not module.params["resume"] and folder.path.exists() and folder.marks():
        folder.set_aside()
    return {"changed": folder.make()}


def _fetch(module: AnsibleModule) -> Result:
    wanted = _requested(module)
    look = HostLook(wanted, Path(module.params["folder"])).facts()
    if look["problems"]:
        raise ValueError("; ".join(look["problems"]))
    way = WayBack(_folder(module))
    kept = wanted.is_core and way.prepare(_to_be_had(look))
    if wanted.is_core and not any(matches(without_epoch(one), wanted.version) for one in look["installed"].values()):
        kept = way.renew_files() or kept
    if look["changes"]:
        fetch = Fetch(entries(wanted.packages, look["installed"], wanted.version), *wanted.preferences)
        fetch.download()
    return {"changed": bool(kept or look["download"])}


def _to_be_had(look: Result) -> dict[str, str]:
    """Return the old packages that can be had: the operator accepts to lose the others."""
    missing = {one.partition("=")[0] for one in look["old_missing"]}
    return {name: one for name, one in look["old"].items() if name not in missing}


def _installed(module: AnsibleModule) -> Result:
    wanted = _requested(module)
    versions = dpkg.installed_versions(wanted.release)
    wrong = [
        f"{name} {one}" for name, one in sorted(versions.items()) if not matches(without_epoch(one), wanted.version)
    ]
    if wrong or not versions:
        raise ValueError(f"packages of another release than {wanted.version}: {few(wrong) or 'no Slurm is installed'}")
    return {"changed": False}


def _mark(module: AnsibleModule) -> Result:
    folder = _folder(module)
    folder.make()
    kept = module.params["mark"] == INSTALLING and WayBack(folder).keep_files()
    # Each start counts: a copy that was made after the last one is of the old release.
    is_start = module.params["mark"] == STARTED
    return {"changed": folder.mark(module.params["mark"], again=is_start) or kept}


def _stop(module: AnsibleModule) -> Result:
    units = module.params["units"]
    if slurmd_again.SLURMD in units and daemon_start.running([slurmd_again.SLURMD]):
        slurmd_again.prepare(Registration("slurmd", "").timeout())
    stopped = daemon_start.stop(units)
    return {"changed": bool(stopped), "stopped": stopped, "at": time.time()}


def _serve(module: AnsibleModule) -> Result:
    params = module.params
    environment = None
    if params["slurm_conf"] is not None:
        conf = Path(module.tmpdir) / "slurm.conf"
        conf.write_text(params["slurm_conf"], encoding="utf-8")
        environment = {"SLURM_CONF": str(conf)}
    if params["unit"] == "slurmdbd.service":
        question = Question(["sacctmgr", "--noheader", "--parsable2", "show", "cluster"], "", environment)
    else:
        question = Question(["scontrol", "ping"], rf"\) at {params['name']} is UP")
    start = DaemonStart(params["unit"], question)
    if start.is_up():
        return {"changed": False, "up": True, "seconds": 0.0}
    served = start.serve(params["seconds"], Path(params["log"]) if params["log"] else None)
    if not served.up:
        raise ServeError(f"{served.why}. The end of its log:\n{served.log}")
    return {"changed": True, "up": True, "seconds": served.seconds}


def _registered(module: AnsibleModule) -> Result:
    params = module.params
    seconds = Registration(params["name"], params["new"]).wait(params["since"], params["seconds"])
    slurmd_again.cancel()
    return {"changed": False, "seconds": seconds}


def _back(module: AnsibleModule) -> Result:
    way = WayBack(_folder(module))
    if not way.is_needed():
        return {"changed": False}
    daemon_start.stop(["slurmctld.service", "slurmdbd.service"])
    way.go()
    return {"changed": True}


def _aside(module: AnsibleModule) -> Result:
    folder = _folder(module)
    if not folder.path.exists():
        return {"changed": False}
    folder.set_aside()
    return {"changed": True}


_STEPS: dict[str, Callable[[AnsibleModule], Result]] = {
    "look": _look,
    "begin": _begin,
    "fetch": _fetch,
    "installed": _installed,
    "mark": _mark,
    "stop": _stop,
    "serve": _serve,
    "registered": _registered,
    "back": _back,
    "aside": _aside,
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "step": {"type": "str", "choices": list(_STEPS), "required": True},
            "requested": {"type": "dict", "default": {}},
            "folder": {"type": "path", "default": "/var/lib/bedplate/slurm-upgrade"},
            "old": {"type": "str", "default": ""},
            "new": {"type": "str", "default": ""},
            "resume": {"type": "bool", "default": False},
            "mark": {"type": "str", "choices": [INSTALLING, STARTED, SERVED, FINISHED]},
            "units": {"type": "list", "elements": "str", "default": []},
            "unit": {"type": "str", "choices": ["slurmdbd.service", "slurmctld.service"]},
            "name": {"type": "str", "default": ""},
            "slurm_conf": {"type": "str"},
            "log": {"type": "path"},
            "seconds": {"type": "int", "default": 7200},
            "since": {"type": "float", "default": 0},
        },
        required_if=[("step", "mark", ["mark"]), ("step", "serve", ["unit"])],
        supports_check_mode=True,
    )
    if module.check_mode and module.params["step"] != "look":
        module.exit_json(changed=False, skipped=True)
    try:
        module.exit_json(**_STEPS[module.params["step"]](module))
    except _FAILURES as error:
        module.fail_json(msg=f"{module.params['step']}: {error}")


if __name__ == "__main__":
    main()
