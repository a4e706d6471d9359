# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Find mistakes in variables, the fabric's plan and keys of repositories; documented in plugins/modules/role_variables.py."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from ansible import constants
from ansible.errors import (
    AnsibleActionFail,
    AnsibleError,
    AnsibleFileNotFound,
    AnsibleParserError,
    AnsibleTemplateSyntaxError,
    AnsibleUndefinedVariable,
)
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase
from ansible.template import Templar
from ansible.vars.plugins import get_vars_from_inventory_sources, get_vars_from_path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup import backup_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.backup.run_choices import backup_choices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.gpu_stack_checks import version_mistakes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.notices import notices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.package_access import certificate_mistakes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.slurm_packaging import system_mistakes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.cluster_secrets import secrets_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.role_interfaces import (
    NOT_AS_TEXT,
    ROLES,
    has_template,
    hosts_to_read,
    message,
    not_as_text,
    options,
    spec_mistakes,
    summary,
    unknown_variables,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.secrets import SecretError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric import chosen_fabrics, variable_values
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.plan import buildable
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts import reboot_order, snapshot_sources
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.filter_input import cluster_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.host_choice import serial_mistakes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.keys.repository_keys import KeyReport, judged
from ansible_collections.bedplate.cluster.plugins.plugin_utils.plain.host_cluster import (
    OF_FILE,
    beside_file,
    run_cluster,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.plain.plain_inventory import NODES, SERVICES
from ansible_collections.bedplate.cluster.plugins.plugin_utils.provision import provision_variables, run_mistakes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover import recover_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.releases.renamed_names import renamed_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles import (
    misspelt_names,
    plain_mistakes,
    role_mistakes,
    run_secrets,
    site_kinds,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.host_decision import RunHost
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.site_changes import path_mistakes
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.site_host import SiteHost
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.site_templates import (
    TemplateCheck,
    template_mistakes,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roll import roll_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import takeover_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.turn_keys import turn_variables
from ansible_collections.bedplate.cluster.plugins.plugin_utils.upgrade import upgrade_variables

# Without any_unparsed_is_failed Ansible goes on with no hosts, and says that all is well.
_NO_FILE = (
    "no cluster file was read, so there is no machine to work on: the inventory has no *.bedplate.yml, or the warnings above list "
    "its mistakes. In ansible.cfg, [inventory] any_unparsed_is_failed = true ends the command there. An inventory without a cluster "
    f"file needs one of these groups: {', '.join((*SERVICES.values(), NODES))}"
)
_EXTRA_FILES = "_extra_files"
_UNDEFINED = re.compile(r"'(\w+)' is undefined")
# Variables that a host has only while its tasks run.
_LATER = ("ansible_", "hostvars", "values", "item")


class ActionModule(ActionBase):  # type: ignore[misc]
    """The action; it runs on the control node alone and connects to no machine."""

    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Compare the variables of every group and every host with the roles' argument specs."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        variables = task_vars or {}
        plain = "bedplate_cluster_file" not in variables
        if plain and not plain_mistakes.is_plain(variables.get("groups", ())):
            slips = misspelt_names.groups(variables.get("groups", ()))
            return {**result, "changed": False, "failed": True, "msg": "\n".join([_NO_FILE, *slips])}
        specified = options()
        known = {role: set(found) for role, found in specified.items()}
        # The playbook provision.yml and the role provision begin their variables with the same word.
        known["provision"] |= set(provision_variables.VARIABLES)
        prefixes = tuple(f"{role}_" for role in known)
        inventory = self._task.get_variable_manager()._inventory
        places: dict[str, list[str]] = {}
        templated: set[str] = set()
        checker = _Checker(
            {name: option for found in specified.values() for name, option in found.items()}, self._templar.template
        )
        renamed = renamed_variables()
        old_names: dict[str, list[str]] = {}
        run_wide: dict[str, list[str]] = {}
        of_file: dict[str, list[str]] = {}
        others: dict[str, list[str]] = {}
        extra = self._task.get_variable_manager().extra_vars
        files = _Variables(inventory, self._loader, (*prefixes, *renamed, misspelt_names.PREFIX, *run_secrets.RUN_WIDE))
        for place, own in files.own():
            for name, value in own.items():
                if name in run_secrets.RUN_WIDE and place != "group all":
                    run_wide.setdefault(name, []).append(place)
                if name in OF_FILE and value is not None:
                    of_file.setdefault(name, []).append(place)
                if name in plain_mistakes.PLAIN:
                    places.setdefault(name, []).append(place)
                if name in renamed:
                    old_names.setdefault(name, []).append(place)
                elif name.startswith(prefixes):
                    places.setdefault(name, []).append(place)
                    templated |= {name} if has_template(value) else set()
                    checker.look(place, name, value)
                else:
                    others.setdefault(name, []).append(place)
                    checker.look(place, name, value)
        for name in (name for name in extra if not name.startswith(prefixes)):
            others.setdefault(name, []).append("this run")
            checker.look("this run", name, extra[name])
        # What the command line says outranks the inventory, so it is looked at even where the inventory has the name, too.
        named = (*prefixes, *plain_mistakes.PLAIN)
        for name in (name for name in renamed if name in extra or (name in variables and name not in old_names)):
            old_names.setdefault(name, []).append("this run")
        for name in (name for name in variables if name.startswith(named) and name not in renamed):
            if name in extra or name not in places:
                if name in OF_FILE and extra.get(name, variables[name]) is not None:
                    of_file.setdefault(name, []).append("this run")
                places.setdefault(name, []).append("this run")
                templated |= {name} if has_template(extra.get(name, variables[name])) else set()
                checker.look("this run", name, extra.get(name, variables[name]))
        unknown = unknown_variables(places, known)
        mistakes = []
        for name, found in sorted(old_names.items()):
            new = renamed[name].new
            is_set = new in variables or set(found) <= set(places.get(new, ()))
            mistakes.append(f"{summary(found)}: {name} {renamed[name].message(new_is_set=is_set)}")
        mistakes += [f"{summary(places[name])}: {message(name, role, known)}" for name, role in unknown.items()]
        misspelt = misspelt_names.variables(name for name in others if name not in renamed)
        mistakes += [f"{summary(others[name])}: {text}" for name, text in misspelt.items()]
        if plain:
            mistakes += misspelt_names.groups(list(inventory.groups))
            # Otherwise Ansible only warns.
            if constants.HOST_PATTERN_MISMATCH == "error":
                mistakes += plain_mistakes.missing_groups(inventory.groups, self._task.args.get("secrets") or ())
        mistakes += [f"{summary(found)}: {text}" for text, found in checker.mistakes.items()]
        cluster = None if plain else cluster_of(variables["bedplate_cluster_file"], "role_variables")
        described, of_plain = (cluster, []) if cluster else self._plain(variables)
        found, undefined = self._choices(inventory, places, templated, specified, described)
        mistakes += found
        warnings = misspelt_names.tags(variables.get("ansible_run_tags") or (), self._task.tags)
        warnings += [*undefined, *misspelt_names.unread_files(files.of_inventory, inventory.groups, inventory.hosts)]
        mistakes += serial_mistakes(extra)
        mistakes += roll_variables.mistakes({**variables, **extra})
        mistakes += self._of_runs(variables, extra)
        mistakes += self._of_backups(variables, extra)
        if cluster is not None and of_file:
            mistakes += [f"{summary(found)}: {beside_file(name, cluster)}" for name, found in of_file.items()]
        else:
            has_slurm = bool(variables.get("groups", {}).get(SERVICES["controllers"]))
            mistakes += self._requests(inventory, places, cluster, plain and not has_slurm)
        mistakes += [f"{summary(found)}: {run_secrets.misplaced(name)}" for name, found in run_wide.items()]
        if cluster is None:
            cluster = described
            mistakes += of_plain
        else:
            mistakes += self._of_cluster(cluster, variables)
            warnings += notices(cluster)
            refused, unsure = self._of_slurm(cluster)
            mistakes += refused
            warnings += unsure
        reported = {*unknown, *misspelt}
        found = self._of_playbook(variables, extra, None if plain else cluster)
        mistakes += [text for text in found if text.partition(" ")[0] not in reported]
        keys = self._keys(None if plain else cluster)
        mistakes += keys.mistakes
        warnings += keys.notices
        mistakes += self._secrets(inventory, cluster, places)
        found, unsure = self._site_changes(inventory, places, files, cluster)
        mistakes += found
        warnings += unsure
        if warnings:
            result["warnings"] = warnings
        # Ansible shows the message twice; a list of the same lines would be a third time.
        result.update(changed=False, failed=bool(mistakes))
        said = f"{len(mistakes)} mistake{'s' * (len(mistakes) > 1)}, and nothing was touched:"
        result["msg"] = "\n".join([said, *mistakes] if mistakes else []) or (
            f"no variable is misspelt; {len(known)} roles were compared with {len(inventory.hosts)} hosts"
            + "".join(f"; key of repository {text}: as expected" for text in keys.compared)
        )
        return result

    def _of_runs(self, variables: Mapping[str, Any], extra: Mapping[str, Any]) -> list[str]:
        """Return mistakes of the runs that work through Slurm: variables, a limit, and machines that they need."""
        values, groups = {**variables, **extra}, variables.get("groups", {})
        controllers = groups.get(SERVICES["controllers"], ())
        found = takeover_variables.mistakes(values, controllers, self._is_run("takeover"))
        found += recover_variables.mistakes(values)
        found += turn_variables.mistakes(values)
        if self._is_run("turn"):
            found += turn_variables.controller_mistakes(controllers)
        for playbook in ("roll", "recover"):
            if self._is_run(playbook):
                found += roll_variables.controller_mistakes(controllers, playbook)
        if self._is_run("recover"):
            hosts, nodes = variables.get("ansible_play_hosts_all", ()), groups.get(NODES, ())
            managers = groups.get("subnet_managers", ())
            found += recover_variables.run_mistakes(values, variables.get("ansible_limit"), hosts, nodes, managers)
        if self._is_run("upgrade"):
            found += upgrade_variables.mistakes(values)
            found += upgrade_variables.service_mistakes(controllers, groups.get(SERVICES["database"], ()))
        return found

    def _of_playbook(
        self, variables: Mapping[str, Any], extra: Mapping[str, Any], cluster: Cluster | None
    ) -> list[str]:
        """Return mistakes in the variables of a playbook that commands BMCs, if the run is one."""
        playbook = str(self._task.args.get("playbook") or "")
        if playbook not in run_mistakes.PLAYBOOKS:
            return []
        return run_mistakes.mistakes(playbook, variables, extra, self._templar.template, cluster)

    def _is_run(self, name: str) -> bool:
        return bool(boolean(self._task.args.get(name, False)))

    def _of_cluster(self, cluster: Cluster, variables: Mapping[str, Any]) -> list[str]:
        """Return mistakes of the fabric and of certificates."""
        given = self._given(variables)
        found = variable_values.mistakes(given, cluster.path)
        found += chosen_fabrics.mistakes(cluster, given.get(variable_values.NAME))
        found += version_mistakes(cluster)
        found += buildable.fabric_mistakes(cluster, boolean(self._task.args.get("fabric", False)))
        # The playbooks that make and promote a snapshot run without one.
        if self._is_run("roll") or "node_os" in (self._task.args.get("secrets") or ()):
            found += snapshot_sources.mistakes(cluster)
        return found + certificate_mistakes(cluster.package_access)

    def _of_slurm(self, cluster: Cluster) -> tuple[list[str], list[str]]:
        """Return mistakes of Slurm's packages if this run installs Slurm, and warnings if it names no roles, as validate.yml alone."""
        roles = self._task.args.get("secrets") or ()
        found = system_mistakes(cluster) if "slurm" in roles or not roles else []
        return (found, []) if roles else ([], found)

    def _keys(self, cluster: Cluster | None) -> KeyReport:
        """Return the report on the keys of a cluster file's repositories, if this run installs GPU software."""
        is_needed = cluster is not None and boolean(self._task.args.get("gpu", False))
        return judged(cluster) if cluster and is_needed else KeyReport([], [], [])

    def _plain(self, variables: Mapping[str, Any]) -> tuple[Cluster | None, list[str]]:
        """Return the cluster that an inventory without a cluster file describes, and its mistakes."""
        try:
            return run_cluster(variables, self._templar.template), []
        except ValueError as error:
            return None, str(error).splitlines()

    def _requests(
        self, inventory: Any, places: Mapping[str, list[str]], cluster: Cluster | None, plain: bool
    ) -> list[str]:
        """Return mistakes of the software that variables of hosts request, and with `plain` of their hardware."""
        manager = self._task.get_variable_manager()

        def variables(host: Any) -> tuple[Mapping[str, Any], Callable[[Any], Any]]:
            found = manager.get_vars(host=host, include_hostvars=False)
            return found, Templar(self._loader, found).template

        found = plain_mistakes.mistakes(inventory.hosts.values(), places, cluster, variables, plain)
        return [f"{summary(hosts)}: {text}" for text, hosts in found.items()]

    def _secrets(self, inventory: Any, cluster: Cluster | None, places: Mapping[str, list[str]]) -> list[str]:
        """Return mistakes in the secrets of this run, as a machine of the cluster has them: localhost has no inventory_dir."""
        names = inventory.hosts if cluster is None else cluster.machines
        machines = [inventory.hosts[name] for name in names if name in inventory.hosts]
        if not machines:
            return []
        manager = self._task.get_variable_manager()
        variables = manager.get_vars(host=machines[0], include_hostvars=False)
        entries: dict[str, list[Any]] = {}
        deciding = {place for name, where in places.items() if name.endswith(_EXTRA_FILES) for place in where}
        for members in role_mistakes.grouped_by_variables(machines, deciding) if deciding else ():
            own = manager.get_vars(host=members[0], include_hostvars=False)
            for name in (name for name in own if name.endswith(_EXTRA_FILES)):
                with suppress(AnsibleError):
                    found = Templar(self._loader, own).template(own[name])
                    if isinstance(found, list):
                        entries.setdefault(name.removesuffix(_EXTRA_FILES), []).extend(found)
        try:
            secrets = secrets_of(variables, Templar(self._loader, variables), self._loader)
            return run_secrets.mistakes(secrets, cluster, self._task.args.get("secrets") or (), entries)
        except SecretError as error:
            return [str(error)]

    def _choices(
        self,
        inventory: Any,
        places: Mapping[str, list[str]],
        templated: set[str],
        specified: Mapping[str, Mapping[str, Any]],
        cluster: Cluster | None,
    ) -> tuple[list[str], list[str]]:
        """Return mistakes in the machines' variables, and warnings of variables that only a later play may define.

        An inventory without a cluster file may lack the group bedplate.
        """
        manager = self._task.get_variable_manager()
        roles_of_run = self._task.args.get("secrets") or ()
        fails: dict[str, list[str]] = {}
        may_fail: dict[str, list[str]] = {}

        def values(host: Any, role: str) -> Mapping[str, Any] | None:
            variables = manager.get_vars(host=host, include_hostvars=False)
            given, is_known = {}, True
            for key in (key for key in specified[role] if key in variables):
                try:
                    given[key] = Templar(self._loader, variables).template(variables[key])
                except AnsibleError as error:
                    is_known = False  # it may need what only the hosts themselves have
                    text = self._undefined(error, variables) if role_mistakes.runs_on(host, role) else ""
                    if text:
                        undefined = fails if role in roles_of_run else may_fail
                        undefined.setdefault(f"{key}: {text}", []).append(f"host {host.name}")
            result = ArgumentSpecValidator(specified[role]).validate(given) if is_known else None
            if result is None or result.error_messages:
                return None  # which is told already
            return {name.removeprefix(f"{role}_"): value for name, value in result.validated_parameters.items()}

        group = inventory.groups.get("bedplate")
        machines = group.get_hosts() if group else list(inventory.hosts.values())
        found = role_mistakes.mistakes(machines, places, templated, values, self._site_file, cluster)
        mistakes, warnings = (
            [f"{summary(hosts)}: {text}" for text, hosts in texts.items()] for texts in ({**fails, **found}, may_fail)
        )
        return mistakes, warnings

    def _site_changes(
        self, inventory: Any, places: Mapping[str, list[str]], files: _Variables, cluster: Cluster | None
    ) -> tuple[list[str], list[str]]:
        """Return mistakes in a site's extra files, drop-ins and templates, and warnings of templates that only another run renders."""
        changing = site_kinds.changing_places(places)
        if not changing:
            return [], []
        roles_of_run = self._task.args.get("secrets") or role_mistakes.ROLES
        fails: dict[str, list[str]] = {}
        may_fail: dict[str, list[str]] = {}
        hosts = inventory.hosts.values()
        for members in site_kinds.kinds(hosts, changing, files.of_host, files.groups, cluster):
            names = [f"host {host.name}" for host in members]
            host, check = self._site_host(members[0])
            for text in dict.fromkeys(path_mistakes(host)):
                fails.setdefault(text, []).extend(names)
            for role, text in dict.fromkeys(template_mistakes(host, check)):
                (fails if role in roles_of_run else may_fail).setdefault(text, []).extend(names)
        mistakes, warnings = (
            [f"{summary(names)}: {text}" for text, names in texts.items()] for texts in (fails, may_fail)
        )
        return mistakes, warnings

    def _site_host(self, host: Any) -> tuple[SiteHost, Callable[[str], TemplateCheck]]:
        """Return a host with its roles, and what tries its templates for a role."""
        variables = self._task.get_variable_manager().get_vars(play=self._task.get_play(), host=host)
        templar = Templar(self._loader, variables)

        @cache
        def check(role: str) -> TemplateCheck:
            return TemplateCheck(self._task, templar, self._loader, variables, role)

        # Slurm's part of a node needs a user who logs in; only the content of a file depends on it.
        user = str(self._play_context.remote_user or "root")
        run = RunHost(variables, templar.template, lambda *_: "", user)
        return SiteHost(run, [role for role in role_mistakes.ROLES if role_mistakes.runs_on(host, role)]), check

    def _of_backups(self, variables: Mapping[str, Any], extra: Mapping[str, Any]) -> list[str]:
        """Return the mistakes in the variables of a backup or a restore, where its playbook imports this one."""
        controllers = variables.get("groups", {}).get(SERVICES["controllers"], ())
        found: list[str] = []
        if boolean(self._task.args.get("backup", False)):
            of_host = {**variables["hostvars"][controllers[0]], **extra} if controllers else {**variables, **extra}
            recipient = ""
            with suppress(KeyError, ValueError):
                recipient = backup_choices(of_host, self._templar.template)["recipient"]
            found += backup_variables.backup_mistakes({**variables, **extra}, recipient, controllers)
        if boolean(self._task.args.get("restore", False)):
            found += backup_variables.restore_mistakes({**variables, **extra}, controllers)
        return found

    def _undefined(self, error: AnsibleError, variables: Mapping[str, Any]) -> str:
        """Return the mistake in a template that names a variable which no host has, or "". Facts are read later."""
        name = _UNDEFINED.fullmatch(error.message) if isinstance(error, AnsibleUndefinedVariable) else None
        # A variable of this play, such as one of `import_playbook`, is not a host's.
        if name is None or name[1].startswith(_LATER) or name[1] in self._templar.available_variables:
            return ""
        return f"{error.message}.{did_you_mean(name[1], sorted(variables), otherwise=' Set it, or correct its name.')}"

    def _site_file(self, role: str, folder: str, name: str) -> str:
        """Return the text of a template that a site names for a role; of another file "". ValueError: it cannot be read."""
        try:
            search = [str(ROLES / role), *self._task.get_search_path()]
            found = self._loader.path_dwim_relative_stack(search, folder, name)
            if folder == "templates":
                return str(self._loader.get_text_file_contents(found))
        except AnsibleFileNotFound:
            hint = (
                ""
                if Path(name).is_absolute()
                else ". Write a path beside the inventory with {{ inventory_dir }}/ before it"
            )
            raise ValueError(f"{name}: file not found{hint}") from None
        except (AnsibleError, OSError, UnicodeError) as error:
            raise ValueError(f"{name}: cannot be read: {error}") from None
        if not Path(found).is_file():
            raise ValueError(f"{found} is not a file; allowed: one file for each entry")
        return ""

    def _given(self, variables: Mapping[str, Any]) -> dict[str, Any]:
        """Return the variables of the fabric's playbooks, without a variable that only its own play can template."""
        given = {}
        for name in variable_values.NAMES:
            with suppress(AnsibleError):
                given[name] = self._templar.template(variables.get(name))
        return given


class _Checker:
    """Compares values with the argument specs, each different value once."""

    def __init__(self, specified: Mapping[str, Mapping[str, Any]], template: Callable[[Any], Any]) -> None:
        self._specified = specified
        self._template = template
        self._verdicts: dict[tuple[str, str], list[str]] = {}
        self.mistakes: dict[str, list[str]] = {}

    def look(self, place: str, name: str, value: Any) -> None:
        """Note the mistakes of a value."""
        if name not in self._specified and name not in reboot_order.VARIABLES:
            return
        known = (name, repr(value))
        if known not in self._verdicts:
            self._verdicts[known] = list(self._judge(name, value))
        for text in self._verdicts[known]:
            self.mistakes.setdefault(f"{name}: {text}", []).append(place)

    def _judge(self, name: str, value: Any) -> Iterator[str]:
        specified = dict(self._specified.get(name, {}))
        if has_template(value):
            try:
                value = self._template(value)
            except AnsibleTemplateSyntaxError as error:
                yield error.message.removesuffix(".")
                return
            except AnsibleError:
                return  # it needs what only the hosts themselves have
        if name in reboot_order.VARIABLES:
            yield from reboot_order.value_mistakes(name, value)
        elif isinstance(value, str) and specified.get("type") in NOT_AS_TEXT:
            # Ansible would take it for an argument of a module, but in a condition every text is true.
            yield not_as_text(name, value, specified["type"])
        else:
            yield from spec_mistakes(name, specified, value)


class _Variables:
    """The variables of an inventory where they are written, not merged: that costs a millisecond a host."""

    def __init__(self, inventory: Any, loader: Any, prefixes: tuple[str, ...]) -> None:
        self._inventory = inventory
        self._loader = loader
        files = [path for path in inventory._sources if path and ("," not in path or Path(path).exists())]
        self.of_inventory = sorted({Path(path) if Path(path).is_dir() else Path(path).parent for path in files})
        self._directories = [*self.of_inventory, Path(loader.get_basedir())]
        self._to_read = hosts_to_read(self._directories, prefixes)
        # Groups with variables, once `own` is through.
        self.groups: set[str] = set()

    def own(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Return each group and each host with its own variables."""
        for name, group in self._inventory.groups.items():
            found = {**group.vars, **self._from_files(group)}
            if found:
                self.groups.add(name)
            yield f"group {name}", found
        for name, host in self._inventory.hosts.items():
            yield f"host {name}", {**host.vars, **self._from_files(host)} if name in self._to_read else host.vars

    def of_host(self, host: Any) -> Mapping[str, Any]:
        """Return the own variables of a host, of whichever name."""
        return {**host.vars, **self._from_files(host)} if host.name in self._with_files else host.vars

    @cached_property
    def _with_files(self) -> set[str]:
        return hosts_to_read(self._directories, ("",))

    def _from_files(self, entity: Any) -> dict[str, Any]:
        """Return what Ansible reads from group_vars and host_vars, beside the inventory and beside the playbook."""
        try:
            return {
                **get_vars_from_inventory_sources(self._loader, self._inventory._sources, [entity], "task"),
                **get_vars_from_path(self._loader, self._loader.get_basedir(), [entity], "task"),
            }
        except AnsibleParserError as error:
            # The vars plugin drops the file and the line from the parser's error.
            origin = getattr(error.__cause__ or error.__context__, "obj", None)
            path, line = getattr(origin, "path", ""), getattr(origin, "line_num", 1)
            place = f"{path}:{line}: " if path else ""
            raise AnsibleActionFail(f"{place}{error.message} Nothing was touched.") from None
