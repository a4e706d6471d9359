#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Deploy packages, files and units of a part of a role on a machine: the half that runs on the machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: deploy
short_description: Deploy packages, files and systemd units of a part of a role on a machine in one task
version_added: 0.1.0
description:
  - First the repositories and packages, then the files, then the units, so that nothing runs before its files are there.
  - If no package is installed, it is one connection to the machine and one module for any number of items; each
    repository is a module more, and one for what reads them. Packages are compared with dpkg's or rpm's records; only when one is
    missing there is the list left to M(ansible.builtin.apt) or M(ansible.builtin.dnf), as one transaction.
  - All mistakes in the arguments are one error, and no connection is made. O(repositories) are checked by their own module.
  - A unit whose C(restart_after) names a file that was written is restarted, in whichever run it was written, so also
    when a run ended between files and units. Handlers are Ansible's, which runs none for a task that failed.
options:
  manager:
    description:
      - The package manager. The other one is never called.
      - With V(dnf), which is dnf 4, versions are in rpm's form, C(epoch:version-release); a version without an epoch matches any. An entry
        of O(packages) with a version is upgraded or downgraded to it, with the signature of every package checked as its
        repository says. Packages are kept there by lines for dnf's versionlock among O(sources), as a block of
        C(/etc/dnf/plugins/versionlock.list); its plugin is installed first where that file is missing. C(dnf versionlock list) shows
        them. O(hold) and O(repositories) are apt's alone.
    type: str
    choices: [apt, dnf]
    default: apt
  manifest:
    description: As O(bedplate.cluster.files#module:manifest). Without it no file is looked at.
    type: str
  state:
    description:
      - With V(absent) the work of earlier tasks with this O(manifest) is undone, in the opposite order. First O(units) get
        the state that this task names, such as stopped and not enabled, while their files still exist; then files, sources, holds and
        locks go as if their lists were empty. Packages stay, as do O(repositories).
      - If this manifest has nothing on record, the task changes nothing, not even units, which may belong to another program.
      - Needs O(manifest), and takes neither packages nor files.
    type: str
    choices: [present, absent]
    default: present
  sources:
    description:
      - Files that the package manager reads, such as repositories, their keys and preferences, or that a package needs before it, as
        O(bedplate.cluster.files#module:files). They are written before packages are looked at. Needs O(manifest).
      - Each costs less than an entry of O(repositories), which runs a separate module.
    type: list
    elements: dict
    default: []
  foreign_sources:
    description:
      - What to do with package sources that this collection did not write and that are in the way of O(sources). With apt such a source
        names the same URI and suite with another C(Signed-By), or with an option such as C(trusted), so apt would refuse every command.
        With dnf it has the same C(baseurl) under another id. They are searched before anything is written.
      - What is set aside is on record in C(foreign_sources.json) of O(state_directory), and restored when the source that took its place
        is removed. If apt or dnf refuses the new O(sources), the old state of all of them is restored.
    type: dict
    default: {}
    suboptions:
      policy:
        description: >-
          V(vendor) sets aside files whose name is in C(vendor) and which have nothing else in them, and refuses any other. V(refuse) fails
          with file and line. V(take_over) sets all of them aside; entries of a file with others in it are switched off there.
        type: str
        choices: [vendor, refuse, take_over]
        default: vendor
      vendor:
        description: Names of files that the owner of a repository installs, as patterns of a shell.
        type: list
        elements: str
        default: []
      alone:
        description: Whether every enabled source of others is in the way of O(sources).
        type: bool
        default: false
  packages:
    description:
      - Packages as M(ansible.builtin.apt) takes them. An installed package is not upgraded, unless a version is named.
      - With O(manager=dnf) as C(name) or C(name=version), where a version may end with C(*).
    type: list
    elements: str
    default: []
  hold:
    description:
      - Names of packages that only this task may change, as with C(apt-mark hold). They are upgraded or downgraded to the version in
        O(packages). Packages that this manifest once held and no longer names are released.
      - Needs O(manifest).
    type: list
    elements: str
    default: []
  replaces:
    description:
      - Packages, as patterns of a shell, that the named O(packages) take the place of. Packages among them that O(manifest) holds from
        an earlier run are released and removed with the installation, and held again when it fails. dnf replaces packages by itself.
    type: list
    elements: str
    default: []
  follow:
    description:
      - Packages that match O(packages) and are dependencies of them or of others, as C(name=version), or as C(name) for any
        version. C(name) may be a pattern as in a shell, V(*-12-9) for one. Installed packages of this list are changed to this version,
        and held as O(hold) are, also if this very task installed them; packages that are not installed stay so.
      - With O(manager=dnf) packages without a version are locked at the installed version, and released while O(packages) change to
        other versions; O(sources) must lock packages with a version.
    type: list
    elements: str
    default: []
  only:
    description:
      - What this task deploys. V(packages) are O(repositories), O(sources), O(packages), O(hold) and O(follow), V(files) are O(files),
        V(services) are O(units) with their drop-ins. Everything else stays as it is, also what left a list.
      - O(fixed) is checked in any case. With O(take_back) or O(state=absent), V(files) and V(services) go together.
    type: list
    elements: str
    choices: [packages, files, services]
    default: [packages, files, services]
  predicted:
    description:
      - Files and units that earlier tasks of a run in check mode will have changed. They count as changed already.
        M(bedplate.cluster.part) sets it, since parts of a role may share a file. Outside of check mode it has no effect.
    type: dict
    default: {}
    suboptions:
      files: {description: Paths., type: list, elements: str, default: []}
      packages: {description: Packages that this task will install before its files., type: list, elements: str, default: []}
      units: {description: Names of units., type: list, elements: str, default: []}
  fixed:
    description:
      - Packages that this task installs, and never changes to another version. If one of them is installed in another version,
        the task fails before anything changes, in check mode too. Epochs are not compared.
    type: dict
    suboptions:
      packages: {description: 'Names, or patterns of names as in a shell.', type: list, elements: str, required: true}
      version: {description: 'The version, which may end with C(*).', type: str, required: true}
      advice: {description: What to do about another version., type: str, default: ''}
  conflicts:
    description:
      - Packages that O(packages) would replace, and that may be in use. If one of them is installed, the task fails before anything
        changes, in check mode too.
    type: dict
    suboptions:
      packages: {description: 'Names, or patterns of names as in a shell.', type: list, elements: str, required: true}
      expected: {description: 'The packages that belong here, for the message.', type: str, default: ''}
      advice: {description: What to do about them., type: str, default: ''}
  obstacle:
    description:
      - A file whose existence stops the task before anything changes, in check mode too.
    type: dict
    suboptions:
      path: {description: The path of the file., type: path, required: true}
      advice: {description: 'Why it stops the task, and what to do.', type: str, default: ''}
  available:
    description:
      - Packages of O(packages) that a system has only if one of its optional repositories is enabled. If one is neither installed nor in
        an enabled repository, or needs a package that no repository has, the task fails before anything changes, in check mode too.
      - Only with O(manager=dnf).
    type: dict
    suboptions:
      packages: {description: Names., type: list, elements: str, required: true}
      addresses:
        description: Addresses of repositories of O(sources), which may have the packages too.
        type: list
        elements: str
        default: []
      advice: {description: 'Which repository has them, and how to enable it.', type: str, default: ''}
  accounts:
    description:
      - System users with stated numbers, each with a group of the same name, that packages and files need and no package makes. Missing
        ones are made before the packages, without a home and a shell; V(packages) of O(only) does that.
      - A user or group that has another number here, or a number that belongs to another name, is refused before anything
        changes, in check mode too. Users of every source count, such as LDAP. A user that leaves the list stays.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: Name of user and group., type: str, required: true}
      uid: {description: Number of the user., type: int, required: true}
      gid: {description: Number of the group., type: int, required: true}
      place: {description: 'Where the numbers are stated, for messages.', type: str, default: ''}
  start_installed:
    description:
      - Whether packages may start their daemons when they are installed. V(false) if daemons need their files first;
        O(units) starts them. Packages of rpm start none.
    type: bool
    default: true
  files:
    description: As O(bedplate.cluster.files#module:files), with their own C(notify).
    type: list
    elements: dict
    default: []
  units:
    description: As O(bedplate.cluster.units#module:units).
    type: list
    elements: dict
    default: []
  payload:
    description: The rendered files. The action plugin sets it.
    type: str
  sources_payload:
    description: The rendered O(sources). The action plugin sets it.
    type: str
extends_documentation_fragment: [bedplate.cluster.deployment, bedplate.cluster.deployment.part]
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode:
    support: full
    description: Predicts a run, also on a machine that lacks the packages. The content of a repository that
      is not configured yet cannot be predicted, and RV(unchecked) lists it; neither can a restart for a new version of a program.
  diff_mode: {support: full, description: The diffs of packages and files and of the state of the units.}
"""

EXAMPLES = r"""
- name: Deploy the node daemon
  bedplate.cluster.deploy:
    manifest: slurm_compute
    packages: [slurmd, munge]
    start_installed: false
    files:
      - {path: /etc/munge/munge.key, secret: munge_key, owner: munge, group: munge, mode: "0400"}
      - {path: /etc/default/slurmd, content: "SLURMD_OPTIONS=--conf-server ctl1\n"}
    units:
      - {name: munge.service, enabled: true, state: started, restart_after: [/etc/munge/munge.key]}
      - {name: slurmd.service, enabled: true, state: started, restart_after: [/etc/default/slurmd]}
# => installed: [slurmd], changed_files: [/etc/default/slurmd], changes: ["slurmd.service: enabled, started"]
"""

RETURN = r"""
installed: {description: "Packages that were missing, or installed for others only.", type: list, elements: str, returned: success}
accounts: {description: Users that were made., type: list, elements: str, returned: success}
changed_files: {description: Files and drop-ins that were written or changed owner or mode., type: list, elements: str, returned: success}
removed: {description: Files and drop-ins that were removed., type: list, elements: str, returned: success}
left_alone:
  description: With O(take_back), the paths that were changed after a run was killed and are not restored, each with what was found.
  type: dict
  returned: failure
kept: {description: "Paths that left the manifest and stay, each with the reason.", type: dict, returned: success}
changes: {description: 'What was done to each unit and hold, or in check mode will be.', type: list, elements: str, returned: success}
actions: {description: "Calls of systemctl, one a line.", type: list, elements: str, returned: success}
notes: {description: 'What needed nothing, and why; what check mode could not see yet.', type: list, elements: str, returned: success}
unchecked: {description: What check mode could not check yet., type: list, elements: str, returned: success}
notify: {description: The handlers of the files that changed., type: list, elements: str, returned: success}
"""

import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives import accounts
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_plan import DesiredFile
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.file_writer import (
    Keep,
    Scratch,
    apply,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import (
    STATE_DIRECTORY,
    NodeFilesError,
    load,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.payload import unpack
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.journal import settle
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.lock import changed_since, one_at_a_time
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.deployed_packages import (
    DeployedPackages,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.dnf_check import DnfCheck
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.dpkg import (
    Held,
    Holds,
    HoldsError,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.foreign_sources import (
    POLICIES,
    VENDOR,
    ForeignSources,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.rpm import RpmError
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.source_change import SourceChange
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.transaction import Transaction
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.systemd import Systemd, UnitsError
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.unit_plan import read_units

_PHASES = ["packages", "files", "services"]


class _PartError(Exception):
    """A part failed after files were written; the result shows them."""

    def __init__(self, text: str, files: dict[str, Any]) -> None:
        super().__init__(text)
        self.files = files


_FAILURES = (NodeFilesError, UnitsError, HoldsError, RpmError, accounts.AccountsError, _PartError)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "manager": {"type": "str", "choices": ["apt", "dnf"], "default": "apt"},
            "manifest": {"type": "str"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "repositories": {"type": "list", "elements": "dict", "default": []},
            "packages": {"type": "list", "elements": "str", "default": []},
            "hold": {"type": "list", "elements": "str", "default": []},
            "follow": {"type": "list", "elements": "str", "default": []},
            "replaces": {"type": "list", "elements": "str", "default": []},
            "only": {"type": "list", "elements": "str", "choices": _PHASES, "default": _PHASES},
            "fixed": {
                "type": "dict",
                "options": {
                    "packages": {"type": "list", "elements": "str", "required": True},
                    "version": {"type": "str", "required": True},
                    "advice": {"type": "str", "default": ""},
                },
            },
            "conflicts": {
                "type": "dict",
                "options": {
                    "packages": {"type": "list", "elements": "str", "required": True},
                    "expected": {"type": "str", "default": ""},
                    "advice": {"type": "str", "default": ""},
                },
            },
            "obstacle": {
                "type": "dict",
                "options": {
                    "path": {"type": "path", "required": True},
                    "advice": {"type": "str", "default": ""},
                },
            },
            "available": {
                "type": "dict",
                "options": {
                    "packages": {"type": "list", "elements": "str", "required": True},
                    "addresses": {"type": "list", "elements": "str", "default": []},
                    "advice": {"type": "str", "default": ""},
                },
            },
            "accounts": {
                "type": "list",
                "elements": "dict",
                "default": [],
                "options": {
                    "name": {"type": "str", "required": True},
                    "uid": {"type": "int", "required": True},
                    "gid": {"type": "int", "required": True},
                    "place": {"type": "str", "default": ""},
                },
            },
            "start_installed": {"type": "bool", "default": True},
            "files": {"type": "list", "elements": "dict", "default": []},
            "units": {"type": "list", "elements": "dict", "default": []},
            "touched": {"type": "list", "elements": "str", "default": []},
            "prune": {"type": "bool", "default": True},
            "keep_below": {"type": "list", "elements": "str", "default": []},
            "take_back": {"type": "bool", "default": False},
            "unchanged": {"type": "dict", "default": {}},
            "predicted": {
                "type": "dict",
                "default": {},
                "options": {
                    name: {"type": "list", "elements": "str", "default": []} for name in ("files", "packages", "units")
                },
            },
            "state_directory": {"type": "path", "default": STATE_DIRECTORY},
            "sources": {"type": "list", "elements": "dict", "default": []},
            "foreign_sources": {
                "type": "dict",
                "default": {},
                "options": {
                    "policy": {"type": "str", "choices": list(POLICIES), "default": VENDOR},
                    "vendor": {"type": "list", "elements": "str", "default": []},
                    "alone": {"type": "bool", "default": False},
                },
            },
            "payload": {"type": "str", "no_log": True},
            "sources_payload": {"type": "str", "no_log": True},
        },
        supports_check_mode=True,
    )
    if module.params["payload"] is None:
        module.fail_json(
            msg="bedplate.cluster.deploy works as a task only, since the files are rendered on the control node"
        )
    try:
        module.exit_json(**_run(module))
    except _FAILURES as error:
        module.fail_json(msg=str(error), **getattr(error, "files", {}))


def _run(module: AnsibleModule) -> dict[str, Any]:
    """Return the result of the module, or the work that the action plugin passes to apt or dnf before it calls again."""
    if module.params["state"] == "absent":
        return _take_away(module)
    _refuse_obstacle(module)
    _refuse_conflicts(module)
    _refuse_other_versions(module)
    _refuse_unavailable(module)
    made = _accounts(module)
    read: dict[str, Any] = _sources(module) if _chosen(module, "packages") else {"changed": False}
    if made:
        read.update(changed=True, accounts=made, diff=[*read.get("diff", []), _accounts_diff(made)])
    if _chosen(module, "packages") and (left := _packages(module).to_install()):
        # Another version of the packages may need others of these.
        _lock(module, [])
        return {**read, **left}
    done = _apply(module)
    for key in ("changed_files", "removed", "notify", "changes", *(["diff"] if module._diff else [])):
        done[key] = [*read.get(key, []), *done[key]]
    done["kept"] = {**read.get("kept", {}), **done["kept"]}
    return {**done, "accounts": made, "changed": done["changed"] or read["changed"]}


def _chosen(module: AnsibleModule, phase: str) -> bool:
    """Return whether this task deploys packages, files or services."""
    return phase in module.params["only"]


def _refuse_obstacle(module: AnsibleModule) -> None:
    """Fail where a file exists that stops this task. OSError: the path cannot be looked up, so whether it exists is unknown."""
    obstacle = module.params["obstacle"]
    if not obstacle:
        return
    try:
        os.lstat(obstacle["path"])
    except (FileNotFoundError, NotADirectoryError):
        return
    module.fail_json(msg=f"{obstacle['path']} exists. {obstacle['advice']} Nothing was changed on this machine.")


def _refuse_conflicts(module: AnsibleModule) -> None:
    """Fail where a package is installed that O(packages) would replace."""
    conflicts = module.params["conflicts"]
    if conflicts and module.params["manager"] == "apt" and not _packages(module).has_apt():
        allowed = f" ({conflicts['expected']})" if conflicts["expected"] else ""
        module.fail_json(msg=f"manager: apt{allowed}: this machine has no dpkg. {conflicts['advice']}")
    if conflicts and (found := _packages(module).installed(conflicts["packages"])):
        allowed = f"; allowed: {conflicts['expected']}" if conflicts["expected"] else ""
        module.fail_json(
            msg=f"installed: {', '.join(found)}{allowed}. {conflicts['advice']}".strip(), conflicting=found
        )


def _accounts(module: AnsibleModule) -> list[str]:
    """Return the users that this run makes, or in check mode would make. Fail where one cannot be made."""
    wanted, names = accounts.read(module.params["accounts"]), accounts.Names()
    if refused := accounts.refused(wanted, names):
        module.fail_json(msg="\n".join(refused))
    if not _chosen(module, "packages"):
        return []
    missing = accounts.missing(wanted, names)
    if not module.check_mode:
        accounts.make(missing, names)
    return [one.name for one in missing]


def _accounts_diff(names: Sequence[str]) -> dict[str, str]:
    return {
        "before_header": "users",
        "after_header": "users",
        "before": "",
        "after": "".join(f"{name}\n" for name in names),
    }


def _refuse_other_versions(module: AnsibleModule) -> None:
    """Fail where a package whose version is fixed is installed in another one."""
    fixed = module.params["fixed"]
    if not fixed:
        return
    found = _packages(module).other_versions(fixed["packages"], fixed["version"])
    if found:
        told = ", ".join(f"{name} {version}" for name, version in sorted(found.items()))
        module.fail_json(msg=f"installed: {told}; allowed: {fixed['version']}. {fixed['advice']}".strip(), others=found)


def _refuse_unavailable(module: AnsibleModule) -> None:
    """Fail where a package can neither be found here nor in a repository."""
    wanted = module.params["available"]
    if not wanted or module.params["manager"] != "dnf" or not _chosen(module, "packages"):
        return
    there = _packages(module).installed(wanted["packages"])
    needed = [name for name in wanted["packages"] if name not in there]
    if lacking := DnfCheck().lacking(needed, wanted["addresses"]):
        module.fail_json(msg=f"{'; '.join(lacking)}. Nothing was changed. {wanted['advice']}".strip(), lacking=lacking)


def _packages(module: AnsibleModule) -> DeployedPackages:
    names = ("manager", "manifest", "packages", "hold", "follow", "replaces")
    directory = Path(module.params["state_directory"])
    return DeployedPackages(
        **{name: module.params[name] for name in names}, state_directory=directory, check=module.check_mode
    )


def _sources(module: AnsibleModule) -> dict[str, Any]:
    """Write the files that the package manager reads."""
    payload = module.params["sources_payload"]
    if payload is None:
        return {"changed": False}
    wanted = unpack(payload)
    if first := _packages(module).before_sources(wanted):
        module.exit_json(changed=False, first=first)
    read = _source_change(module).apply(wanted, module.params["foreign_sources"])
    for text in read.pop("problems"):
        module.warn(text)
    return read


def _source_change(module: AnsibleModule) -> SourceChange:
    directory, manifest = Path(module.params["state_directory"]), module.params["manifest"]
    foreign = ForeignSources(directory, module.check_mode)
    return SourceChange(
        manifest,
        directory,
        foreign,
        module._diff,
        lambda wanted, keep: _written(module, f"{manifest}.sources", wanted, keep=keep),
    )


def _apply(module: AnsibleModule) -> dict[str, Any]:
    """Deploy files and units, one run after the other, if the files that the caller has read still exist."""
    directory, manifest = Path(module.params["state_directory"]), module.params["manifest"]
    with one_at_a_time(directory, manifest) if manifest and not module.check_mode else nullcontext():
        if found := changed_since(module.params["unchanged"]):
            them = "it" if len(found) == 1 else "them"
            text = f"{', '.join(found)} changed after this run compared {them} with the cluster file: another run, or a person."
            module.fail_json(msg=f"{text} Nothing is written. Look at the change, and run again.", **_nothing())
        return _brought(module, directory)


def _brought(module: AnsibleModule, directory: Path) -> dict[str, Any]:
    """Return the result of files and units; with `take_back`, a failure leaves what was before."""
    transaction = _transaction(module, directory)
    try:
        files = _files(module, transaction.keep if transaction else None)
        if files["unchecked"]:
            module.warn(f"check mode could not check yet: {'; '.join(sorted(set(files['unchecked'])))}")
        packages = _chosen(module, "packages")
        held = _held(module, files) if packages else Held([], [])
        locked = _lock(module, module.params["follow"]) if packages else _nothing()
        units = _units(module, directory, files, transaction)
        if not module.check_mode:
            _settle(module, directory, transaction)
    except (*_FAILURES, OSError) as error:
        if transaction and not module.check_mode:
            text = transaction.take_back(str(error))
            module.fail_json(msg=text, left_alone=transaction.left_alone, **_nothing())
        raise
    return _joined(module, [files, locked, units], held)


def _settle(module: AnsibleModule, directory: Path, transaction: Transaction | None) -> None:
    """Remove from the journal what this run has proved, also what a killed run wrote; without `prune` its own files alone."""
    manifest = module.params["manifest"]
    if not manifest or not _chosen(module, "files"):
        return
    paths = None if module.params["prune"] else [entry.path for entry in unpack(module.params["payload"])]
    if transaction:
        transaction.commit(paths)
    else:
        settle(directory, manifest, paths)


def _transaction(module: AnsibleModule, directory: Path) -> Transaction | None:
    """Return the change that can be undone, if the task sets `take_back`."""
    if not module.params["take_back"] or not _chosen(module, "files"):
        return None
    units = read_units(module.params["units"])[0]
    return Transaction(directory, module.params["manifest"], units, lambda: Systemd(check=False, diff=False))


def _joined(module: AnsibleModule, parts: Sequence[dict[str, Any]], held: Held) -> dict[str, Any]:
    """Return the result of all parts, units last; a finding that stops no part is a warning."""
    for text in [text for part in parts for text in part.pop("problems")]:
        module.warn(text)
    result = {key: value for part in parts for key, value in part.items()}
    result["changed"] = any(part["changed"] for part in parts) or bool(held.changes)
    result["changes"] = [*held.changes, *parts[-1]["changes"]]
    result["kept"] = {path: why for part in parts for path, why in part.get("kept", {}).items()}
    for key in ("changed_files", "removed", "unchecked", "notify", *(["diff"] if module._diff else [])):
        result[key] = [one for part in parts for one in part.get(key, [])]
    return result


def _take_away(module: AnsibleModule) -> dict[str, Any]:
    """Apply the units, then remove the files on record of the manifest. In this order: a unit without its file stays enabled."""
    directory, manifest = Path(module.params["state_directory"]), module.params["manifest"]
    names = [manifest, f"{manifest}.sources", f"{manifest}.follow"]
    owners = {owner for record in load(directory).values() for owner in record.manifests}
    if not owners & set(names) and not Holds(directory).of(manifest):
        notes = [f"{manifest} has nothing on record here"]
        return _joined(module, [{**_nothing(), "changes": [], "actions": [], "notes": notes}], Held([], []))
    units = _units(module, directory, _nothing())
    files = [_written(module, name, []) for name in names]
    restored = _source_change(module).restore([path for one in files for path in one["removed"]])
    # Holds last: until then the next run finds something on record.
    held = _held(module, _nothing())
    if not module.check_mode:
        settle(directory, manifest, None)
    return restored.added_to(_joined(module, [*files, units], held))


def _files(module: AnsibleModule, keep: Keep | None) -> dict[str, Any]:
    manifest = module.params["manifest"]
    if not manifest or not _chosen(module, "files"):
        return _nothing()
    options = {name: module.params[name] for name in ("prune", "keep_below")}
    return _written(module, manifest, unpack(module.params["payload"]), keep=keep, **options)


def _nothing() -> dict[str, Any]:
    none: dict[str, Any] = {key: [] for key in ("changed_files", "removed", "unchecked", "notify", "problems", "diff")}
    return {**none, "changed": False, "kept": {}}


def _written(module: AnsibleModule, manifest: str, wanted: list[DesiredFile], **options: Any) -> dict[str, Any]:
    directory, check, diff = Path(module.params["state_directory"]), module.check_mode, module._diff
    predicted = module.params["predicted"].get("files", [])
    return apply(manifest, wanted, directory, check, diff, Scratch(module), predicted=predicted, **options)


def _held(module: AnsibleModule, files: dict[str, Any]) -> Held:
    try:
        return _packages(module).apply_holds()
    except HoldsError as error:
        raise _PartError(str(error), files) from error


def _lock(module: AnsibleModule, followers: list[str]) -> dict[str, Any]:
    """Lock the following packages with dnf; with apt a hold does that."""
    block = _packages(module).locks(followers, module.params["predicted"].get("packages") or [])
    return _nothing() if block is None else _written(module, f"{module.params['manifest']}.follow", block)


def _units(
    module: AnsibleModule, directory: Path, files: dict[str, Any], transaction: Transaction | None = None
) -> dict[str, Any]:
    units, mistakes = read_units(module.params["units"] if _chosen(module, "services") else [])
    touched = [*module.params["touched"], *files["changed_files"]]
    keep = transaction.keep if transaction else None
    systemd = Systemd(module.check_mode, module._diff, touched=touched, keep=keep, predicted=module.params["predicted"])
    try:
        if mistakes:  # of which the action plugin has told before anything was sent
            raise UnitsError("\n".join(mistakes))
        return systemd.apply(units, directory)
    except (NodeFilesError, UnitsError) as error:
        raise _PartError(str(error), files) from error


if __name__ == "__main__":
    main()
