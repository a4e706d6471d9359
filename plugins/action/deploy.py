# SPDX-License-Identifier: GPL-3.0-or-later
"""Deploy packages, files and units of a part of a role on a machine: see `ansible-doc bedplate.cluster.deploy`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.module_utils.parsing.convert_bool import boolean

from ansible_collections.bedplate.cluster.plugins.action.files import ActionModule as Files
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives import accounts
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.payload import pack
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages import rpm
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.dpkg import name_of, versions_of
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.unit_plan import read_units
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.file_entries import mistakes

_PHASES = ("packages", "files", "services")
_WAIT = 300  # seconds for another apt or dnf to end
_LISTS_AGE = 86400  # seconds after which apt's lists are read again
# Lists of the task -> type of their entries; those of files and sources are checked as files.
_LISTS: dict[str, type | None] = {
    "accounts": Mapping,
    "repositories": Mapping,
    "sources": None,
    "packages": str,
    "follow": str,
    "replaces": str,
    "files": None,
    "units": Mapping,
    "touched": str,
    "hold": str,
    "keep_below": str,
}
# Lists that the module takes as they are.
_PASSED_ON = ("accounts", "units", "touched", "hold", "follow", "replaces", "keep_below")


class ActionModule(Files):
    """Install missing packages with apt or dnf, then deploy files and units with one module."""

    _VALID_ARGS = frozenset(
        (
            "available",
            "conflicts",
            "fixed",
            "foreign_sources",
            "manager",
            "manifest",
            "obstacle",
            "only",
            "predicted",
            "prune",
            "start_installed",
            "state",
            "state_directory",
            "take_back",
            "unchanged",
            *_LISTS,
        )
    )
    _module = "bedplate.cluster.deploy"

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the task on one host."""
        super(Files, self).run(tmp, task_vars)
        self._task_vars = task_vars or {}
        self._steps: list[dict[str, Any]] = []
        # Null is no list: it may be a variable that nobody has set, and would take every file away.
        wanted = {key: self._task.args.get(key, []) for key in _LISTS}
        listed = [str(name) for name in self._task.notify or []]
        self._refuse("wrong arguments", _mistakes(self._task.args, wanted, listed))
        told = self._told(wanted["files"], self._task_vars)
        told["manager"] = self._task.args.get("manager", "apt")
        told.update({key: wanted[key] for key in _PASSED_ON})
        told.update(
            {
                key: self._task.args[key]
                for key in (
                    "available",
                    "conflicts",
                    "fixed",
                    "foreign_sources",
                    "obstacle",
                    "only",
                    "predicted",
                    "prune",
                    "take_back",
                    "unchanged",
                )
                if key in self._task.args
            }
        )
        if "packages" not in self._task.args.get("only", _PHASES):
            wanted.update(repositories=[], packages=[])
        elif "sources" in self._task.args:
            told["sources_payload"] = pack(self._wanted(wanted["sources"], self._task_vars))
        if self._task.args.get("state") == "absent":
            result = self._do(self._module, told, state="absent")
        else:
            result = self._deploy(told, wanted["repositories"], wanted["packages"])
        self._narrow(result, listed)
        return result

    def _deploy(self, told: dict[str, Any], repositories: list[Any], packages: list[str]) -> dict[str, Any]:
        news = self._add(repositories) if repositories else False
        manager = self._task.args.get("manager", "apt")
        if self._failed():
            return self._result()
        asked = self._ask(told, packages)
        if self._failed():
            return self._result()
        others, replaced = asked.pop("astray", []), asked.pop("replaced", [])
        lacking = [*asked.pop("missing", []), *asked.pop("passing", []), *others]
        if not (lacking or replaced):
            return self._result()
        packages = [*packages, *others]
        told.pop("sources_payload", None)
        if self._task.check_mode:
            told["predicted"] = {**told.get("predicted", {}), "packages": lacking}
        outdated, unknown = asked.pop("outdated"), asked.pop("unknown")
        if self._task.check_mode and (news or asked.get("changed") or self._awaits_sources()):
            # It offers nothing yet, so nobody could tell anything of its packages.
            done = self._untold(told, f"the files that {manager} reads do not exist yet", lacking)
        elif self._task.check_mode and unknown:
            done = self._untold(told, f"{manager}'s lists, which a run reads again, do not have all versions", unknown)
        else:
            done = self._with(told, packages, lacking, outdated, replaced)
        if not done.get("failed"):
            # The last call of the module found these as they are to be.
            for key in ("accounts", "changed_files", "removed", "changes"):
                done[key] = [*asked.get(key, []), *done.get(key, [])]
        return done

    def _awaits_sources(self) -> bool:
        """Return whether an earlier task of a run in check mode only predicted a file that the package manager reads."""
        coming = self._task.args.get("predicted", {}).get("files", ())
        return any(entry["path"] in coming for entry in self._task.args.get("sources", ()))

    def _ask(self, told: dict[str, Any], packages: list[str]) -> dict[str, Any]:
        """Write the files that the package manager reads, and return the missing packages."""
        asked = self._do(self._module, told, packages=packages)
        if not asked.get("first"):
            return asked
        # They bring the file into which the sources put their lines.
        self._install(asked["first"], fresh=False)
        return self._do(self._module, told, packages=packages) if not self._failed() else {}

    def _with(
        self, told: dict[str, Any], packages: list[str], lacking: list[str], outdated: bool, replaced: list[str]
    ) -> dict[str, Any]:
        """Install packages with apt, remove the replaced ones, then deploy the rest."""
        if replaced:
            self._replace(packages, replaced, outdated)
        else:
            self._install(packages, outdated)
        if self._failed():
            return self._result()
        # What is there already apt marks as wanted for itself, and does not call that a change.
        self._steps[-1]["changed"] = True
        self._do(self._module, told)
        return {**self._result(), "installed": lacking}

    def _untold(self, told: dict[str, Any], why: str, packages: list[str]) -> dict[str, Any]:
        """Predict the rest if check mode cannot predict the packages."""
        self._do(self._module, told)
        text = f"{why}, so no prediction for {', '.join(packages)}"
        result = self._result(warnings=[f"check mode could not check yet: {text}"])
        return {**result, "changed": True, "unchecked": [*result.get("unchecked", []), text]}

    def _add(self, repositories: list[Any]) -> bool:
        """Add the repositories, and return whether there is a new one."""
        reader = self._do("ansible.builtin.apt", _apt(["python3-debian"], fresh=False))
        if self._failed():
            return False
        if self._task.check_mode and reader.get("changed"):
            return True  # without what reads them none can be compared
        news = False
        for repository in repositories:
            news |= bool(self._do("ansible.builtin.deb822_repository", dict(repository)).get("changed"))
            if self._failed():
                return False
        return news

    def _install(self, packages: list[str], fresh: bool) -> None:
        if self._task.args.get("manager") == "dnf":
            self._do("ansible.builtin.dnf", _dnf(packages))
            return
        arguments = _apt(packages, fresh)
        if self._task.args.get("hold"):
            # Their versions are stated, and a hold is for everybody else.
            arguments.update(allow_change_held_packages=True, allow_downgrade=True)
        if not boolean(self._task.args.get("start_installed", True)):
            arguments["policy_rc_d"] = 101
        done = self._do("ansible.builtin.apt", arguments)
        if "Failed to update apt cache" in str(done.get("msg", "")):
            # python-apt often does not say why, and apt itself does.
            said = self._execute_module(
                module_name="ansible.builtin.command",
                module_args={"argv": ["apt-get", "--quiet", "update"]},
                task_vars=self._task_vars,
            )
            done["msg"] = f"{done['msg']}\n{said.get('stderr') or said.get('msg') or ''}".strip()

        if done.get("failed") and (stated := [one for one in packages if "=" in one]):
            done["msg"] = f"{done.get('msg', '')}\n{self._offered(stated)}".strip()

    def _replace(self, packages: list[str], replaced: list[str], fresh: bool) -> None:
        """Install packages in place of held ones, which apt cannot remove; after a failure they are held again."""
        if self._task.check_mode:
            # M(ansible.builtin.apt) would fail here: it sees the holds that a run releases.
            self._simulate(packages, replaced)
            return
        self._command(["apt-mark", "unhold", *replaced])
        if not self._failed():
            self._install(packages, fresh)
        if self._failed():
            failure = self._steps.pop()
            self._command(["apt-mark", "hold", *replaced])
            self._steps.append(failure)
            return
        # Most are gone with that: the others conflict with nothing, and would stay in the way of the next branch.
        self._do("ansible.builtin.apt", {"name": replaced, "state": "absent", "lock_timeout": _WAIT})

    def _simulate(self, packages: list[str], replaced: list[str]) -> None:
        """Predict one transaction of apt: install packages, remove the replaced ones."""
        options = ["--simulate", "--quiet", "--yes", "--no-install-recommends"]
        allowed = ["--allow-downgrades", "--allow-change-held-packages"]
        self._task.check_mode = False  # The command changes nothing, and would not run otherwise.
        try:
            self._command(["apt-get", *options, *allowed, "install", *packages, *(f"{one}-" for one in replaced)])
        finally:
            self._task.check_mode = True
        if not self._failed():
            self._steps[-1]["changed"] = True

    def _command(self, argv: list[str]) -> None:
        """Run a command as a step of the task; its failure says what the command said."""
        done = self._do("ansible.builtin.command", {"argv": argv})
        if done.get("failed"):
            said = done.get("stderr") or done.get("stdout") or done.get("msg")
            done["msg"] = f"{' '.join(argv)} failed: {said}"

    def _offered(self, stated: list[str]) -> str:
        """Return what apt's lists have of packages whose version is stated: apt names the first that it lacks, and no version."""
        said = self._execute_module(
            module_name="ansible.builtin.command",
            module_args={"argv": ["apt-cache", "madison", *sorted({name_of(one) for one in stated})]},
            task_vars=self._task_vars,
        )
        has = versions_of(str(said.get("stdout", "")), [name_of(one) for one in stated])
        lines = [
            f"{one}: the repositories of this machine have {', '.join(has[name_of(one)]) or 'none'}" for one in stated
        ]
        return "\n".join(lines)

    def _do(self, module: str, arguments: dict[str, Any], **more: Any) -> dict[str, Any]:
        # Of the same type: that of ours keeps the payload out of Ansible's debug output.
        told = type(arguments)({**arguments, **more})
        done: dict[str, Any] = self._execute_module(module_name=module, module_args=told, task_vars=self._task_vars)
        self._steps.append(done)
        return done

    def _failed(self) -> bool:
        return bool(self._steps and (self._steps[-1].get("failed") or self._steps[-1].get("unreachable")))

    def _result(self, warnings: Sequence[str] = ()) -> dict[str, Any]:
        """Return one result of all steps: that of the last one, with what the others changed and said."""
        result = {"installed": [], **self._steps[-1]}
        result["changed"] = any(step.get("changed") for step in self._steps)
        for key in ("diff", "warnings", "deprecations"):
            told = [each for step in self._steps for each in _listed(step.get(key))]
            if told:
                result[key] = told
        if warnings:
            result["warnings"] = [*result.get("warnings", []), *warnings]
        return result


def _apt(packages: list[str], fresh: bool) -> dict[str, Any]:
    """Return apt's arguments; `fresh` has it read its lists first, which it does in any case when they are old."""
    age = {"update_cache": True} if fresh else {"cache_valid_time": _LISTS_AGE}
    return {"name": packages, "install_recommends": False, "lock_timeout": _WAIT, **age}


def _dnf(packages: list[str]) -> dict[str, Any]:
    """Return dnf's arguments. A pinned version is installed as an upgrade or a downgrade, and replaces the packages it conflicts with."""
    stated = any("=" in one for one in packages)
    return {
        "name": rpm.specs(packages),
        "allow_downgrade": stated,
        "allowerasing": stated,
        "disable_gpg_check": False,
        "install_weak_deps": False,
        "lock_timeout": _WAIT,
    }


def _listed(diff: Any) -> list[Any]:
    return list(diff) if isinstance(diff, list) else [diff] if diff else []


def _mistakes(arguments: Mapping[str, Any], wanted: Mapping[str, Any], listed: Sequence[str]) -> list[str]:
    """Return everything that is wrong with the arguments of a task."""
    manifest = arguments.get("manifest")
    needs = manifest is not None or wanted["files"] != [] or wanted["sources"] != []
    found = mistakes(manifest, wanted["files"], listed) if needs else []
    if wanted["sources"] != []:
        found += [
            text.replace("files", "sources", 1)
            for text in mistakes(manifest, wanted["sources"], listed)
            if text.startswith("files")
        ]
    for key, kind in _LISTS.items():
        if kind is None:
            continue
        if isinstance(wanted[key], (str, Mapping)) or not isinstance(wanted[key], Sequence):
            found.append(f"{key}: {wanted[key]!r}; allowed: a list")
            continue
        odd = [entry for entry in wanted[key] if not isinstance(entry, kind) or not entry]
        found += [f"{key}: {entry!r}; allowed: {'text' if kind is str else 'a mapping'}" for entry in odd]
        if key == "units" and not odd:
            found += read_units(wanted[key])[1]
        if key == "accounts" and not odd:
            found += accounts.mistakes(wanted[key])
    if (wanted["hold"] or wanted["follow"]) and manifest is None:
        found.append("hold: needs a manifest, which records the role that holds them")
    if wanted["replaces"] and manifest is None:
        found.append("replaces: needs a manifest, which records the packages that the role held before")
    found += _of_only(arguments)
    found += _of_state(arguments.get("state", "present"), manifest, wanted)
    found += _of_manager(arguments.get("manager", "apt"), wanted)
    for key in ("prune", "start_installed", "take_back"):
        found += _of_switch(key, arguments.get(key, False), manifest)
    return found


def _of_only(arguments: Mapping[str, Any]) -> list[str]:
    """Return the mistakes in `only`."""
    only = arguments.get("only", list(_PHASES))
    if isinstance(only, str) or not isinstance(only, Sequence) or not only or not set(only) <= set(_PHASES):
        return [f"only: {only!r}; allowed: a list of {', '.join(_PHASES)}"]
    if set(only) == set(_PHASES) or ("files" in only) == ("services" in only):
        return [] if arguments.get("state") != "absent" or "files" in only else ["only: packages has nothing to remove"]
    one_change = [key for key in ("take_back", "state") if arguments.get(key) not in (None, False, "present")]
    return [f"only: with {key}, files and services go together" for key in one_change]


def _of_switch(key: str, value: Any, manifest: Any) -> list[str]:
    """Return the mistake in an argument that must be true or false; empty when it is either."""
    try:
        is_on = boolean(value)
    except TypeError:
        return [f"{key}: {value!r}; allowed: true, false"]
    if key == "take_back" and is_on and manifest is None:
        return ["take_back: needs a manifest, which records the role whose files are restored"]
    return []


def _of_state(state: Any, manifest: Any, wanted: Mapping[str, Any]) -> list[str]:
    """Return the arguments that a state excludes."""
    if state not in ("present", "absent"):
        return [f"state: {state!r}; allowed: present, absent"]
    if state == "present":
        return []
    found = [f"{key}: not with state: absent, which removes them" for key in _LISTS if key != "units" and wanted[key]]
    return [
        *found,
        *([] if manifest else ["state: absent needs a manifest, which lists the files and units to remove"]),
    ]


def _of_manager(manager: Any, wanted: Mapping[str, Any]) -> list[str]:
    """Return the arguments that a package manager excludes."""
    if manager not in ("apt", "dnf"):
        return [f"manager: {manager!r}; allowed: apt, dnf"]
    if manager == "apt":
        return []
    told = {
        "hold": f"dnf holds by lines in {rpm.LOCKS}; put them there by sources",
        "repositories": "are apt's; write a file of /etc/yum.repos.d by sources",
    }
    return [f"{key}: {text}" for key, text in told.items() if wanted[key]]
