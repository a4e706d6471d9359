# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide packages, files and units of the driver: the values of roles/gpu_driver/parts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.gpu_software_drift import mismatched_options

from ...cluster import Cluster
from ...parts.decision import Decision, Step
from .. import package_sources, stack_table
from . import cuda_part, mig_part, nvlink_part
from .part_plan import GpuSoftware, expected, packages

PART = "driver"
_EARLY = "/etc/modprobe.d/bedplate-gpu-driver.conf"
_PERSISTENCED = "nvidia-persistenced"
_PERSISTENCED_DROP_IN = "/etc/systemd/system/nvidia-persistenced.service.d/bedplate.conf"
_MODULES_UNIT = "bedplate-gpu-modules.service"
_SETTINGS_UNIT = "bedplate-gpu-settings.service"
_SETTINGS_NOTE = "gpu_settings"
_EPEL = (
    "dkms is in EPEL, and packages that it may need are in CRB. Rocky and Alma: `dnf install dnf-plugins-core`, `dnf config-manager "
    "--set-enabled crb`, `dnf install epel-release`. RHEL: `subscription-manager repos --enable codeready-builder-for-rhel-{major}-$(arch)"
    "-rpms`, `dnf install https://dl.fedoraproject.org/pub/epel/epel-release-latest-{major}.noarch.rpm`. Or add these packages to a "
    "repository of the site that the nodes read"
)
_INITRAMFS = {
    "deb": ["/usr/sbin/update-initramfs", "-u", "-k", "all"],
    "rpm": ["/usr/bin/dracut", "--force", "--regenerate-all"],
}


def decide(
    wanted: GpuSoftware,
    cluster: Cluster,
    host: str,
    choices: Mapping[str, Any],
    reported: Mapping[str, Any] | None = None,
) -> Decision:
    """Return the decision for a host.

    `choices` are the role's variables by what is behind `gpu_driver_`; `reported` is the result of the task that ran the
    step gpu_facts there, if it did.
    """
    proof = _proof(wanted)
    asked = {"query": False, "early_file": _EARLY, "users": True, **({"proof": proof} if proof else {})}
    steps = {"gpu_facts": [Step("bedplate.cluster.gpu_facts", asked)]}
    if switches := nvlink_part.nvswitches(wanted.stack):
        steps["gpu_platform"] = [Step("bedplate.cluster.gpu_platform", switches)]
    gpu = ((reported or {}).get("steps") or {}).get("gpu_facts", {}).get("gpu")
    judged = judge(wanted, gpu) if gpu else None
    if judged and gpu:
        steps.update(_steps(wanted, judged, gpu, choices))
    steps.update(_settings(wanted, host, gpu or {}))
    imex = nvlink_part.node_list(wanted.stack, cluster, host)
    driver = {
        **package_sources.none(),
        **_packages(wanted),
        **wanted.pins(PART, never=stack_table.default().metapackages),
        **_files(wanted),
        "replaces": list(wanted.stack.others),
        "driver": wanted.stack.driver,
        "lock_names": wanted.lock_names,
        "imex_nodes": imex,
        "services": _services(wanted, bool(imex)),
        # Where Secure Boot may keep the module out, bedplate.cluster.secure_boot writes the note, if a reboot is of use.
        "reboot_reasons": [judged.reboot] if judged and judged.reboot and not judged.firmware_decides else [],
    }
    refusal = judged.refusal if judged and not choices["replace_in_use"] else ""
    return Decision(
        {"prepare": _prepare(wanted), "driver": driver},
        {"gpu_driver": _expected(wanted, cluster, host)},
        steps,
        refusal,
    )


def _settings(wanted: GpuSoftware, host: str, reported: Mapping[str, Any]) -> dict[str, list[Step]]:
    """Return the step that applies settings which waited for a job, or removes the note of settings that left the cluster file."""
    settings = dict(wanted.profile.gpus.settings) if wanted.profile.gpus else {}
    if not settings and _SETTINGS_NOTE not in (reported.get("reboot_notes") or ()):
        return {}
    arguments = {"settings": settings, "driver": wanted.stack.driver, "machine": host}
    return {"gpu_settings": [Step("bedplate.cluster.gpu_settings", arguments)]}


def _prepare(wanted: GpuSoftware) -> dict[str, Any]:
    sources = {**package_sources.none(), **wanted.origins(PART), **wanted.kernels()}
    return {
        "manager": wanted.manager,
        "obstacle": wanted.obstacle,
        "foreign_sources": wanted.foreign_sources,
        "packages": _build(wanted),
        "available": _available(wanted),
        **sources,
    }


def _available(wanted: GpuSoftware) -> dict[str, Any] | None:
    """Return the packages that EL has only with an optional repository, and how to enable it; None where nothing is compiled."""
    if wanted.manager != "dnf" or not wanted.stack.sources:
        return None
    major = wanted.file.os.rpartition("-")[2]
    return {
        "packages": ["dkms"],
        # At its owner's address NVIDIA's repository has no dkms: reading its lists twice would find nothing.
        "addresses": [
            one.url for one in wanted.repositories if wanted.file.mirror or one.name in dict(wanted.file.urls)
        ],
        "advice": _EPEL.format(major=major),
    }


def _packages(wanted: GpuSoftware) -> dict[str, Any]:
    found = packages(wanted, PART)
    # A kernel that came by itself would boot without this driver.
    kernels = wanted.stack.kernel_follows if wanted.manager == "apt" else ()
    return {**found, "packages": [*found["packages"], *_kernel(wanted)], "follow": [*found["follow"], *kernels]}


def _files(wanted: GpuSoftware) -> dict[str, list[Any]]:
    stack, profile = wanted.stack, wanted.profile
    options = " ".join(f"{name}={value}" for name, value in wanted.module_options.items())
    return {
        "modules_load": ["".join(f"{name}\n" for name in stack.modules_load)] if stack.modules_load else [],
        "module_options": [{"module": stack.options_module, "options": options}] if options else [],
        # Ubuntu's own unit turns persistence off, and ends with the last program that uses a GPU.
        "persistence_users": [stack.persistence_user] if stack.persistence_user else [],
        "mig_layouts": [{"gpus": profile.gpus.mig}] if profile.gpus and profile.gpus.mig else [],
        "gpu_settings": [dict(profile.gpus.settings)] if profile.gpus and profile.gpus.settings else [],
    }


def _services(wanted: GpuSoftware, has_node_list: bool) -> list[dict[str, Any]]:
    """Return the driver's services, each with the files of this part after which it restarts."""
    own = {_PERSISTENCED: [_PERSISTENCED_DROP_IN] if wanted.stack.persistence_user else []}
    # It reads its list at its start alone.
    own[nvlink_part.IMEX] = [wanted.stack.nodes_file] if has_node_list else []
    return [{"name": name, "restart_after": own.get(name, [])} for name in _service_names(wanted)]


def _service_names(wanted: GpuSoftware) -> list[str]:
    # DCGM's is of the role dcgm.
    return list(dict.fromkeys(one for one in wanted.stack.services if one != stack_table.default().dcgm.service))


def _expected(wanted: GpuSoftware, cluster: Cluster, host: str) -> dict[str, Any]:
    stack, found, services = wanted.stack, expected(wanted, PART, "gpu_driver"), _service_names(wanted)
    return {
        **found,
        "pinned": {**found["pinned"], **_kernels(wanted)},
        "none": wanted.no_kernels,
        "blacklisted": ["nouveau"],
        "units": [
            *([_MODULES_UNIT] if stack.modules_load else []),
            *(["bedplate-mig.service"] if mig_part.has_split(wanted.profile) else []),
            *(f"{name}.service" for name in services),
            *([_SETTINGS_UNIT] if wanted.profile.gpus and wanted.profile.gpus.settings else []),
        ],
        "gpu_settings": dict(wanted.profile.gpus.settings) if wanted.profile.gpus else {},
        "mig": [list(one) for one in wanted.profile.gpus.mig] if wanted.profile.gpus else [],
        "whole": mig_part.is_whole(wanted.profile),
        "module": {"file": stack.module_file, "version": stack.driver, "kernel": wanted.file.kernel},
        "driver": {
            "version": stack.driver,
            "flavour": stack.module,
            "options": dict(wanted.module_options),
            "kernel": wanted.file.kernel,
        },
        "signed": bool(stack.sources),
        "nvlink": nvlink_part.expected(stack, cluster, host, wanted.module_options),
        "nvswitches": nvlink_part.nvswitches(stack),
        "gpudirect": cuda_part.gpudirect(wanted),
    }


def _steps(
    wanted: GpuSoftware, judged: DriverState, reported: Mapping[str, Any], choices: Mapping[str, Any]
) -> dict[str, list[Step]]:
    """Return what this host needs before and after the driver's packages are installed."""
    steps: dict[str, list[Step]] = {}
    # Those on disk tell whether one is older than the file, in whichever run that was written.
    if reported.get("initramfs_before"):
        command = _INITRAMFS[wanted.stack.family]
        steps["initramfs"] = [Step("ansible.builtin.command", {"argv": command, "removes": command[0]})]
    # A kernel that is stated comes with the driver, after this: whatever is the newest boots at the next power cycle.
    if reported.get("unproven"):
        steps["dkms_proof"] = [Step("bedplate.cluster.dkms_proof", {**_proof(wanted), "compile": choices["prove"]})]
    if judged.firmware_decides:
        module = {"file": wanted.stack.module_file, "kernel": wanted.file.kernel}
        told = {"state": reported.get("secure_boot") or "", "reboot": judged.reboot, **module}
        steps["secure_boot"] = [Step("bedplate.cluster.secure_boot", told)]
    return steps


@dataclass(frozen=True)
class DriverState:
    """Effect of the driver that runs on a node on the driver of the cluster file; texts are "" without a reason.

    `reboot`: why the node must be rebooted. `refusal`: why the driver must not be installed now. `firmware_decides`: Secure Boot has, or
    may have, a say in which modules are loaded, so a reboot may be of no use.
    """

    reboot: str
    refusal: str
    firmware_decides: bool


def judge(wanted: GpuSoftware, gpu: Mapping[str, Any]) -> DriverState:
    """Derive the effect from the facts of bedplate.cluster.gpu_facts."""
    stack = wanted.stack
    loaded, flavour = gpu["driver"]["version"], gpu["driver"]["flavour"]
    reasons = []
    if gpu["gpus"]:
        if loaded is None:
            reasons.append(f"driver {stack.driver} is installed and not loaded")
        elif (loaded, flavour) != (stack.driver, stack.module):
            reasons.append(f"driver {stack.driver} ({stack.module}) is installed, and {loaded} ({flavour}) runs")
        else:
            reasons += _of_options(dict(wanted.module_options), gpu)
        if gpu["nouveau"]:
            reasons.append("nouveau is loaded")
        kernel = wanted.file.kernel
        if kernel and gpu["running_kernel"] not in (None, kernel):
            reasons.append(f"kernel {kernel} is stated, and {gpu['running_kernel']} runs")
    decides = bool(stack.sources) and gpu.get("secure_boot", "none") not in ("none", "disabled")
    return DriverState(", and ".join(reasons), _refusal(stack.driver, gpu), decides)


def _of_options(options: Mapping[str, Any], gpu: Mapping[str, Any]) -> list[str]:
    """Return the options of the loaded module that differ from the file."""
    astray = mismatched_options(options, gpu["driver"]["parameters"])
    return [f"module option {name}: expected {value}, found {found}" for name, value, found in astray]


def _refusal(wanted: str, gpu: Mapping[str, Any]) -> str:
    loaded = gpu["driver"]["version"]
    on_disk = {one["version"] for one in gpu["driver"]["libraries"]}
    if loaded in (None, wanted) or wanted in on_disk or not gpu.get("in_use"):
        return ""
    return (
        f"driver {loaded} runs here, and the libraries of {wanted} would replace its own: until the reboot every CUDA program that "
        f"starts fails. No package of the driver was touched. In use: {'; '.join(gpu['in_use'])}. Drain the node, let its jobs end, stop "
        "slurmd and containers, and run this again; or accept it with `-e gpu_driver_replace_in_use=true`"
    )


def build_packages(wanted: GpuSoftware) -> list[str]:
    """Return the packages without a pinned version, which a mirror must have too: compilers for the module, headers, a kernel."""
    # The proof installs headers of the kernel that boots, which only the node knows; these are of a kernel that nobody states.
    headers = wanted.stack.kernel_follows[:1] if wanted.stack.sources and not wanted.file.kernel else ()
    unversioned = [one for one in _kernel(wanted) if "=" not in one]
    return list(dict.fromkeys([*_build(wanted), *headers, *unversioned]))


def _build(wanted: GpuSoftware) -> list[str]:
    """Return the packages that compile the module. With apt the proof installs the headers, so that DKMS compiles no other module."""
    if not wanted.stack.sources:
        return []
    headers = wanted.stack.kernel_follows[:1] if wanted.manager == "dnf" else ()
    return ["dkms", *wanted.stack.build, *_versioned(wanted, headers)]


def _kernel(wanted: GpuSoftware) -> list[str]:
    """Return the stated kernel, which is installed with its driver: a kernel before the proof would boot, proven or not."""
    if not wanted.stack.sources or not wanted.file.kernel:
        return []
    named = {one.name for one in wanted.packages(PART)}
    return _versioned(wanted, [name for name in sorted(wanted.stack.kernel_packages) if name not in named])


def _versioned(wanted: GpuSoftware, names: Iterable[str]) -> list[str]:
    # rpm has every kernel under the same name.
    versions = dict(wanted.stack.pinned) if wanted.manager == "dnf" else {}
    return [f"{name}={versions[name]}" if name in versions else name for name in names]


def _kernels(wanted: GpuSoftware) -> dict[str, str]:
    """Return name -> version of the held packages, so that no other kernel is installed unattended."""
    if wanted.manager == "apt" or not wanted.file.kernel:
        return dict.fromkeys(wanted.no_kernels or wanted.stack.kernel_follows, "*")
    return {name: one for name, one in wanted.stack.pinned if name in wanted.stack.kernel_packages}


def _proof(wanted: GpuSoftware) -> dict[str, Any]:
    stack = wanted.stack
    if not stack.sources:
        return {}
    # Ubuntu has the sources in another package than DKMS's settings for them.
    packages = {one.name: one.version for one in stack.packages if one.name in stack.sources}
    proof: dict[str, Any] = {"manager": wanted.manager, "packages": packages, "module_version": stack.driver}
    if further := [{"name": one.dkms, "packages": dict(one.sources)} for one in stack.gpudirect if one.dkms]:
        proof["further"] = further
    return {**proof, "kernel": wanted.file.kernel} if wanted.file.kernel else proof
