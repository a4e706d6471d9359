# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Slurm's files and plans from the cluster file; documented one by one in the .yml files beside this one."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.utils.display import Display

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import from_json
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.slurm_topology import TopologyError
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.templates import TemplateError
from ansible_collections.bedplate.cluster.plugins.module_utils.hostlist import HostlistError, expand, fold
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.node_hardware import by_node
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.retain import Retained, merged
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster
from ansible_collections.bedplate.cluster.plugins.plugin_utils.filter_input import brought, cluster_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.once import once_a_run
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import (
    packages,
    refusal,
    render,
    script_guard,
    scripts,
    state_guard,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.topology import of_cluster

# In the result of a task that has not run to its end on a host.
_NOT_DONE = ("failed", "unreachable", "skipped")
InUse = Mapping[str, Any] | Iterable[Mapping[str, Any]] | None


def _kept(in_use: InUse, name: str) -> Retained:
    """Return what stays for jobs, of one answer of slurm_in_use or of several; None is a preview, without a cluster that runs."""
    if in_use is None:
        return Retained()
    answers = [in_use] if isinstance(in_use, Mapping) else list(in_use)
    for answer in answers:
        if answer.get("failed"):  # without its lines, this controller's files would take its jobs away
            raise AnsibleFilterError(f"{name}: a controller cannot say what its jobs need: {answer.get('msg')}")
    # A task that was skipped leaves an answer, too, that says nothing of Slurm.
    silent = sum(answer.get("configured") is None and not answer.get("slurm") for answer in answers)
    if (silent or not answers) and not any(answer.get("configured") or answer.get("slurm") for answer in answers):
        raise AnsibleFilterError(
            f"{name}: {silent} of {len(answers)} controllers were not asked what their jobs need, and no other has a slurm.conf: they may "
            "keep lines for jobs that this run would drop. Run playbooks/scheduler.yml from its beginning (without --start-at-task) "
            "and with all controllers (without --limit)."
        )
    return merged(answers)


def slurm_files(path: object, in_use: InUse = None, topology: str = "") -> dict[str, str]:
    """Return the files of a controller; `topology` is the text of a topology.conf that replaces the plan's."""
    kept, cluster = _kept(in_use, "slurm_files"), cluster_of(path, "slurm_files")
    try:
        return render.slurm_files(cluster, kept.slurm, kept.gres, topology)
    except (TemplateError, TopologyError) as error:
        raise AnsibleFilterError(f"slurm_files: {error}") from None


def slurm_daemons(path: object, in_use: InUse = None) -> dict[str, str]:
    """Return the environment files of the daemons."""
    cluster, kept = cluster_of(path, "slurm_daemons"), list(_kept(in_use, "slurm_daemons").slurm)
    # The same for every node, and before Slurm 23.11 made of the lines of all nodes.
    key = hashlib.sha256(repr((cluster.stamp, kept)).encode()).hexdigest()
    text = once_a_run(f"slurm-daemons-{key}", lambda: json.dumps(render.daemon_files(cluster, kept)).encode())
    files: dict[str, str] = json.loads(text)
    return files


def slurm_expected(path: object, topology: str = "", in_use: Mapping[str, Any] | None = None) -> dict[str, object]:
    """Return what slurmctld should report; `topology` as for `slurm_files`; `in_use` is an answer that was asked to read back."""
    cluster = cluster_of(path, "slurm_expected")
    kept = [group for group in (in_use or {}).get("changing", ()) if group["waits"]]
    try:
        return render.expected(cluster, topology, kept)
    except (TemplateError, TopologyError, HostlistError) as error:
        raise AnsibleFilterError(f"slurm_expected: {error}") from None


def slurm_wanted(
    path: object,
    unasked: bool = False,
    counted: str | None = None,
    read_back: bool = False,
    fence: bool = False,
    run: str = "",
) -> dict[str, object]:
    """Return the arguments of the module slurm_in_use."""
    given = {} if counted is None else {"counted": str(counted)}
    modes = {"fence": fence, "unasked": unasked, "read_back": read_back, "run": str(run)}
    return {**render.wanted(cluster_of(path, "slurm_wanted")), **given, **modes}


@functools.lru_cache(maxsize=8)
def _names(hostlist: str) -> tuple[str, ...]:
    return tuple(expand(hostlist))


def _asked(hostvars: Mapping[str, Mapping[str, Any]], controllers: Iterable[str], key: str) -> list[str]:
    """Return the nodes that the answers of slurm_in_use name under a key."""
    answers = [hostvars[name].get("__slurm_in_use") or {} for name in controllers if name in hostvars]
    return list(dict.fromkeys(name for answer in answers for name in _names(str(answer.get(key) or ""))))


def slurm_to_count(hostvars: Mapping[str, Mapping[str, Any]], controllers: Iterable[str]) -> list[str]:
    """Return the nodes that must be asked for their hardware or their jobs before a controller changes."""
    return _asked(hostvars, controllers, "count")


def slurm_node_hardware(
    path: object, host: str, hostvars: Mapping[str, Mapping[str, Any]], controllers: Iterable[str]
) -> dict[str, object]:
    """Return the arguments of the module slurm_node_hardware."""
    cluster = cluster_of(path, "slurm_node_hardware")
    names = list(controllers)
    new = set(_asked(hostvars, names, "new"))
    first = bool(_without_jobs(hostvars, names))
    return {**render.node_hardware(cluster, host), "first_start": first, "fail": host in new}


def _without_jobs(hostvars: Mapping[str, Mapping[str, Any]], controllers: Iterable[str]) -> dict[str, bool]:
    """Return the controllers that would start without jobs -> whether they have a slurm.conf; none where one that was asked has jobs."""
    answers = {
        name: answer
        for name, answer in _answers(hostvars, controllers, "__slurm_in_use").items()
        if answer.get("configured") is not None
    }
    if any(answer.get("has_state", answer["configured"]) for answer in answers.values()):
        return {}
    return {name: bool(answer["configured"]) for name, answer in answers.items()}


def _counts(
    hostvars: Mapping[str, Mapping[str, Any]], controllers: Iterable[str]
) -> list[tuple[str, Mapping[str, Any]]]:
    names = slurm_to_count(hostvars, controllers)
    return [(name, hostvars[name].get("__slurm_hardware") or {}) for name in names if name in hostvars]


def slurm_counted(hostvars: Mapping[str, Mapping[str, Any]], controllers: Iterable[str]) -> str:
    """Return the nodes that have what their lines will say, as a hostlist."""
    counts = _counts(hostvars, list(controllers))
    return fold(name for name, count in counts if count.get("counted") and not count.get("findings"))


def slurm_refusal(hostvars: Mapping[str, Mapping[str, Any]], controllers: Iterable[str]) -> str:
    """Return what nodes in force lack of what their lines would say, and what other controllers would lose; empty when nothing."""
    hosts = list(controllers)
    new = set(_asked(hostvars, hosts, "new"))
    counts = _counts(hostvars, hosts)
    # Nodes in force are asked for their jobs alone where these are lost: slurm_in_use refuses a change of their hardware.
    changed = [] if any(_without_jobs(hostvars, hosts).values()) else [row for row in counts if row[0] not in new]
    found = [one.on(name) for name, count in changed for one in from_json(count.get("findings") or ())]
    if any(boolean(hostvars[name].get("slurm_compute_new_controllers", False)) for name in hosts if name in hostvars):
        return by_node(found)
    others = [one.on(name) for name, count in counts for one in from_json(count.get("others") or ())]
    return "\n".join(text for text in (by_node(found + others), _unasked(hostvars, hosts, counts)) if text)


def _unasked(
    hostvars: Mapping[str, Mapping[str, Any]], controllers: list[str], counts: list[tuple[str, Mapping[str, Any]]]
) -> str:
    """Return why controllers without jobs may not start: of nodes that did not answer, nobody knows whether jobs run there.

    Before a first start one node that answers is enough, unless its own controllers do not answer: they know the jobs of all nodes. Where
    the wanted controllers have lost the jobs, each node speaks for itself.
    """
    first = [
        name
        for name, answer in _answers(hostvars, controllers, "__slurm_in_use").items()
        if answer.get("configured") is False
    ]
    missing = [name for name, count in counts if "counted" not in count]
    lost = [name for name, is_configured in _without_jobs(hostvars, controllers).items() if is_configured]
    if lost and missing:
        return (
            f"{', '.join(lost)}: slurmctld does not answer and StateSaveLocation has no job_state, so it would start without jobs and end "
            f"those that run; and these nodes were not asked in this run whether they run jobs: {fold(missing)}. "
            "Mount StateSaveLocation, or copy all of it from a backup, owned by SlurmUser, and run again. "
            "Or run playbooks/scheduler.yml from its beginning, with these nodes up and without --limit. "
            "Or, if no node runs a job, add -e slurm_compute_new_controllers=true."
        )
    is_known = len(missing) < len(counts) and not any(count.get("silent") for _, count in counts)
    if not first or len(first) < len(controllers) or not missing or is_known:
        return ""
    return (
        f"{', '.join(first)} has no slurm.conf yet, and these nodes were not asked in this run whether they run jobs of another "
        f"controller: {fold(missing)}. Run playbooks/scheduler.yml from its beginning, with these nodes up and without --limit. Or, if no "
        "node runs a job, add -e slurm_compute_new_controllers=true."
    )


def _answers(
    hostvars: Mapping[str, Mapping[str, Any]], controllers: Iterable[str], variable: str
) -> dict[str, Mapping[str, Any]]:
    """Return what a variable has of each controller that was asked."""
    return {name: hostvars[name].get(variable) or {} for name in controllers if name in hostvars}


def slurm_state_marks(hostvars: Mapping[str, Mapping[str, Any]], controllers: Iterable[str]) -> dict[str, str]:
    """Return the marks that the controllers have left in StateSaveLocation."""
    names = list(controllers)
    return state_guard.marks(names, _answers(hostvars, names, "__slurm_state_left"))


def slurm_state_refusal(hostvars: Mapping[str, Mapping[str, Any]], controllers: Iterable[str]) -> str:
    """Return why the controllers must not start on their StateSaveLocation, or nothing."""
    names = list(controllers)
    left, seen = (_answers(hostvars, names, f"__slurm_state_{step}") for step in ("left", "seen"))
    return state_guard.refuse(names, left, seen)


def slurm_changed_files(files: Mapping[str, str], in_use: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the files that a controller does not have so yet; slurm.conf as well where slurmctld does not run it as it is."""
    answers = [answer for answer in in_use if isinstance(answer.get("files"), Mapping)]
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    changed = {name for answer in answers for name, digest in digests.items() if answer["files"].get(name) != digest}
    unread = {"slurm.conf"} if any(answer.get("loaded") is False for answer in answers) else set()
    return sorted(changed | unread)


def slurm_controllers_outside(hostvars: Mapping[str, Mapping[str, Any]], controllers: Iterable[str]) -> list[str]:
    """Return the controllers whose slurmctld is up and which were not asked in this run."""
    answers = _answers(hostvars, names := list(controllers), "__slurm_in_use")
    up = {name for answer in answers.values() for name in answer.get("up") or ()}
    return [name for name in names if name in up and "up" not in answers.get(name, {})]


def slurm_controllers_written(hostvars: Mapping[str, Mapping[str, Any]], controllers: Iterable[str]) -> bool:
    """Return whether this run has written the files of every controller, so that none has an older slurm.conf."""
    names = list(controllers)
    answers = {
        **_answers(hostvars, names[:1], "__slurm_primary_written"),
        **_answers(hostvars, names[1:], "__slurm_standby_written"),
    }
    written = [answers.get(name) for name in names]
    return bool(names) and all(one and not any(one.get(key) for key in _NOT_DONE) for one in written)


def slurm_parts(path: object, host: str) -> list[str]:
    """Return the parts of Slurm on a host."""
    return render.parts(cluster_of(path, "slurm_parts"), host)


def slurm_topology(path: object, text: str, file: str) -> str:
    """Return the text of a topology.conf for the nodes of the cluster file; warn of nodes that only one of the two has."""
    cluster = cluster_of(path, "slurm_topology")
    try:
        told, strangers, missing = of_cluster(text, [node.name for node in cluster.nodes])
    except HostlistError as error:
        raise AnsibleFilterError(f"slurm_topology: {file}: {error}") from None
    found = [f"nodes that are not in the cluster file and are left out: {fold(strangers)}"] if strangers else []
    found += [f"no place for nodes of the cluster file: {fold(missing)}"] if missing else []
    if found:
        Display().warning(
            f"{file} (slurm_controller_topology) has {'; '.join(found)}. Write it anew with playbooks/fabric_topology.yml, or edit it."
        )
    return told


def slurm_packages(path: object, names: Sequence[str], version: str = "") -> dict[str, Any]:
    """Return what deploy takes of packages."""
    return brought(path, "slurm_packages", lambda cluster: packages.deployment(cluster, names, version))


def slurm_refused_lines(message: object, path: object, files: Mapping[str, str]) -> str:
    """Return what slurmctld said of refused files, with the lines that it names."""
    return refusal.explain(str(message), files, cluster_of(path, "slurm_refused_lines").path)


def slurm_scripts(path: object, host: str) -> list[dict[str, str]]:
    """Return the scripts of a host as entries of bedplate.cluster.files."""
    return scripts.files(cluster_of(path, "slurm_scripts"), host)


def slurm_script_paths(path: object, host: str) -> list[dict[str, Any]]:
    """Return the scripts that a host must have without bedplate's doing."""
    return scripts.expected(cluster_of(path, "slurm_script_paths"), host)


def slurm_file_entries(files: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the files of a controller as entries of bedplate.cluster.files."""
    return [{"path": f"/etc/slurm/{name}", "content": text} for name, text in files.items()]


def slurm_unproven(
    path: object, hostvars: Mapping[str, Mapping[str, Any]], in_force: Mapping[str, str] | None = None
) -> str:
    """Return why options that name scripts must not come into force, or nothing.

    A host where the installation failed has proved nothing. Without `in_force`, hosts that were not asked are no reason.
    """
    cluster = cluster_of(path, "slurm_unproven")
    names = script_guard.hosts(cluster)
    checked, written = (_answers(hostvars, names, f"__slurm_{step}") for step in ("script_check", "scripts_written"))
    answers = {name: one for name, one in checked.items() if not written[name].get("failed")}
    return script_guard.refuse(cluster, answers, in_force)


def _plain(name: str, function: Callable[[Cluster], object]) -> Callable[[object], object]:
    return lambda path: function(cluster_of(path, name))


class FilterModule:
    """The filters."""

    def filters(self) -> dict[str, Callable[..., object]]:
        """Return filter name -> function."""
        return {
            "slurm_files": slurm_files,
            "slurm_topology": slurm_topology,
            "slurm_wanted": slurm_wanted,
            "slurm_packages": slurm_packages,
            "slurm_parts": slurm_parts,
            "slurm_refused_lines": slurm_refused_lines,
            "slurm_file_entries": slurm_file_entries,
            "slurm_script_options": _plain("slurm_script_options", scripts.stated),
            "slurm_scripts": slurm_scripts,
            "slurm_script_paths": slurm_script_paths,
            "slurm_unproven": slurm_unproven,
            "slurmdbd_conf": _plain("slurmdbd_conf", render.slurmdbd_conf),
            "slurm_daemons": slurm_daemons,
            "slurm_accounts": _plain("slurm_accounts", render.accounts),
            "slurm_expected": slurm_expected,
            "slurm_to_count": slurm_to_count,
            "slurm_node_hardware": slurm_node_hardware,
            "slurm_counted": slurm_counted,
            "slurm_refusal": slurm_refusal,
            "slurm_state_marks": slurm_state_marks,
            "slurm_state_refusal": slurm_state_refusal,
            "slurm_changed_files": slurm_changed_files,
            "slurm_controllers_outside": slurm_controllers_outside,
            "slurm_controllers_written": slurm_controllers_written,
        }
