# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role gpu_driver brings to a node: the stack that the resolver found, as packages, files and units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.gpu_software_drift import mismatched_options

from ...common.deploy_arguments import arguments
from .. import stack_table
from . import mig_part
from .part_plan import GpuSoftware, deploy, expected

PART = "driver"
BLACKLIST = "/etc/modprobe.d/bedplate-gpu-driver.conf"
MODULES = "/etc/modules-load.d/bedplate-gpu-driver.conf"
# In memory: a reboot is what takes it away.
REBOOT = "/run/bedplate/reboot-wanted/gpu_driver"
_PERSISTENCED = "nvidia-persistenced"
_INITRAMFS = {
    "deb": ["/usr/sbin/update-initramfs", "-u", "-k", "all"],
    "rpm": ["/usr/bin/dracut", "--force", "--regenerate-all"],
}
_NO_NOUVEAU = "# nouveau would take the GPUs first.\nblacklist nouveau\noptions nouveau modeset=0\n"


def deployment(wanted: GpuSoftware) -> dict[str, Any]:
    """Return what to bring to a node: `prepare` before the kernel module is proven, all else after it; `ask` is what to read."""
    stack = wanted.stack
    told = deploy(wanted, PART)
    # DCGM's is of the role dcgm.
    expect = expected(wanted, PART, "gpu_driver")
    splits = mig_part.has_split(wanted.profile)
    services = list(dict.fromkeys(one for one in stack.services if one != stack_table.default().dcgm.service))
    origins = [*wanted.origins(PART), *wanted.kernels()]
    early = {"path": BLACKLIST, "content": _NO_NOUVEAU}
    build, proof = _build(wanted), _proof(wanted)
    # nouveau is kept out before a package makes an initramfs.
    first = {"manager": wanted.manager, "sources": [*origins, early], "packages": build}
    return {
        "driver": stack.driver,
        "module": stack.module,
        "prepare": arguments(first, "gpu_driver"),
        "pins": wanted.pins(PART, never=stack_table.default().metapackages),
        "build": build,
        # Of a kernel that nobody states. The proof brings those of the kernel that boots, which only the node knows.
        "headers": list(stack.kernel_follows[:1]) if stack.dkms and not wanted.file.kernel else [],
        "ask": {"query": False, "early_file": BLACKLIST, "users": True, **({"proof": proof} if proof else {})},
        "proof": proof,
        "files": _files(wanted),
        "services": services,
        "mig": splits,
        "initramfs": _INITRAMFS[stack.family],
        "expected": {
            **expect,
            "pinned": {**expect["pinned"], **_kernels(wanted)},
            "none": wanted.no_kernels,
            "blacklisted": ["nouveau"],
            "units": [*([mig_part.UNIT] if splits else []), *(f"{name}.service" for name in services)],
            "mig": [list(one) for one in wanted.profile.gpus.mig] if wanted.profile.gpus else [],
            "whole": mig_part.is_whole(wanted.profile),
            "module": {"file": stack.module_file, "version": stack.driver, "kernel": wanted.file.kernel},
            "driver": {
                "version": stack.driver,
                "flavour": stack.module,
                "options": dict(wanted.file.module_options),
                "kernel": wanted.file.kernel,
            },
            "signed": bool(stack.dkms),
        },
        **told,
        "packages": [*told["packages"], *_kernel(wanted)],
        # A kernel that came by itself would boot without this driver.
        "follow": [*told["follow"], *(stack.kernel_follows if wanted.manager == "apt" else ())],
    }


def _files(wanted: GpuSoftware) -> list[dict[str, str]]:
    stack, files = wanted.stack, []
    if stack.modules_load:
        files.append({"path": MODULES, "content": "".join(f"{name}\n" for name in stack.modules_load)})
    if wanted.file.module_options:
        options = " ".join(f"{name}={value}" for name, value in wanted.file.module_options)
        files.append({"path": stack.options_file, "content": f"options {stack.options_module} {options}\n"})
    if stack.persistence_user:
        # Ubuntu's own unit turns persistence off, and ends with the last program that uses a GPU.
        command = f"/usr/bin/nvidia-persistenced --user {stack.persistence_user} --persistence-mode --verbose"
        text = f"[Unit]\nStopWhenUnneeded=false\n\n[Service]\nExecStart=\nExecStart={command}\n\n[Install]\nWantedBy=multi-user.target\n"
        files.append({"path": f"/etc/systemd/system/{_PERSISTENCED}.service.d/bedplate.conf", "content": text})
    return [*files, *mig_part.files(wanted.profile)]


def state(deployed: Mapping[str, Any], gpu: Mapping[str, Any]) -> dict[str, Any]:
    """Return what depends on what the machine runs: `units`, and two reasons, each "" where there is none.

    `reboot`: why it has to be rebooted. `refusal`: why this driver is not to be installed now. `gpu` is what
    bedplate.cluster.gpu_facts returns.
    """
    loaded = gpu["driver"]["version"]
    flavour = gpu["driver"]["flavour"]
    reasons = []
    if gpu["gpus"]:
        if loaded is None:
            reasons.append(f"driver {deployed['driver']} is installed and not loaded")
        elif (loaded, flavour) != (deployed["driver"], deployed["module"]):
            reasons.append(
                f"driver {deployed['driver']} ({deployed['module']}) is installed, and {loaded} ({flavour}) runs"
            )
        else:
            reasons += _of_options(deployed, gpu)
        if gpu["nouveau"]:
            reasons.append("nouveau is loaded")
        kernel = deployed["expected"]["driver"]["kernel"]
        if kernel and gpu["running_kernel"] not in (None, kernel):
            reasons.append(f"kernel {kernel} is stated, and {gpu['running_kernel']} runs")
    return {"units": _units(deployed, loaded), "reboot": ", and ".join(reasons), "refusal": _refusal(deployed, gpu)}


def _of_options(deployed: Mapping[str, Any], gpu: Mapping[str, Any]) -> list[str]:
    """Return which options of the loaded module are not as the file wants them."""
    astray = mismatched_options(deployed["expected"]["driver"]["options"], gpu["driver"]["parameters"])
    return [f"module option {name} is to be {value}, and {found} is in force" for name, value, found in astray]


def _refusal(deployed: Mapping[str, Any], gpu: Mapping[str, Any]) -> str:
    loaded, wanted = gpu["driver"]["version"], deployed["driver"]
    on_disk = {one["version"] for one in gpu["driver"]["libraries"]}
    if loaded in (None, wanted) or wanted in on_disk or not gpu.get("in_use"):
        return ""
    return (
        f"driver {loaded} runs here, and its libraries would be replaced by those of {wanted}: until the reboot every CUDA program that "
        f"starts fails. No package of the driver was touched. In use: {'; '.join(gpu['in_use'])}. Drain the node, let its jobs end, stop "
        "slurmd and containers, and run this again; or accept it with `-e gpu_driver_replace_in_use=true`"
    )


def _units(deployed: Mapping[str, Any], loaded: str | None) -> list[dict[str, Any]]:
    """Return the driver's services: at every boot; now as well, where this driver runs, for another one's would fail."""
    units: list[dict[str, Any]] = [{"name": f"{name}.service", "enabled": True} for name in deployed["services"]]
    if loaded == deployed["driver"]:
        drop_ins = [entry["path"] for entry in deployed["files"]]
        for unit in units:
            unit["state"] = "started"
            # Where its package has started it before, it runs as that wants it.
            if own := [path for path in drop_ins if path.startswith(f"/etc/systemd/system/{unit['name']}.d/")]:
                unit["restart_after"] = own
    # First: persistenced and DCGM would hold the GPUs.
    return [*([mig_part.unit(loaded == deployed["driver"])] if deployed["mig"] else []), *units]


def firmware_decides(deployed: Mapping[str, Any], gpu: Mapping[str, Any]) -> bool:
    """Return whether the firmware has a say in which modules are loaded, or may have: then a reboot may be of no use."""
    return bool(deployed["proof"]) and gpu.get("secure_boot", "none") not in ("none", "disabled")


def reboot_files(reason: str) -> list[dict[str, str]]:
    """Return the note on the machine that it has to be rebooted and why, as entries of bedplate.cluster.files."""
    return [{"path": REBOOT, "content": f"{reason}\n"}] if reason else []


def _build(wanted: GpuSoftware) -> list[str]:
    """Return what compiles the module. On systems of apt the proof brings the headers, so that DKMS compiles nothing else with them."""
    if not wanted.stack.dkms:
        return []
    headers = wanted.stack.kernel_follows[:1] if wanted.manager == "dnf" else ()
    return ["dkms", *_versioned(wanted, headers)]


def _kernel(wanted: GpuSoftware) -> list[str]:
    """Return the kernel that is stated, which comes with its driver: one that came before the proof would boot, proven or not."""
    if not wanted.stack.dkms or not wanted.file.kernel:
        return []
    named = {one.name for one in wanted.packages(PART)}
    return _versioned(wanted, [name for name in sorted(wanted.stack.kernel_packages) if name not in named])


def _versioned(wanted: GpuSoftware, names: Iterable[str]) -> list[str]:
    # rpm has every kernel under the same name.
    versions = dict(wanted.stack.pinned) if wanted.manager == "dnf" else {}
    return [f"{name}={versions[name]}" if name in versions else name for name in names]


def _kernels(wanted: GpuSoftware) -> dict[str, str]:
    """Return name -> version of what is to be held so that no other kernel comes by itself."""
    if wanted.manager == "apt" or not wanted.file.kernel:
        return dict.fromkeys(wanted.no_kernels or wanted.stack.kernel_follows, "*")
    return {name: one for name, one in wanted.stack.pinned if name in wanted.stack.kernel_packages}


def _proof(wanted: GpuSoftware) -> dict[str, str]:
    stack = wanted.stack
    if not stack.dkms:
        return {}
    package = next(one for one in stack.packages if one.part == "kernel" and "-dkms" in one.name)
    proof = {
        "manager": wanted.manager,
        "package": package.name,
        "version": package.version,
        "name": stack.dkms,
        "module_version": stack.driver,
    }
    return {**proof, "kernel": wanted.file.kernel} if wanted.file.kernel else proof
