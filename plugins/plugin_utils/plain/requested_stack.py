# SPDX-License-Identifier: GPL-3.0-or-later
"""Lay the GPU software that variables of a host request over that of its profile, by the rules of the cluster file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..cluster import GpuStack, Profile
from ..cluster.gpu_stack_checks import with_stack
from ..cluster.schema.fields import Field, Path, walk
from ..cluster.schema.gpu_sections import PROFILE_GPU_STACK
from .plain_inventory import PlainInventoryError, VariableMistakes

VARIABLES = {
    "gpu_driver_version": "driver",
    "cuda_versions": "cuda",
    "cuda_nccl_version": "nccl",
    "dcgm_version": "dcgm",
    "container_runtime_toolkit_version": "container_toolkit",
}
"""Variable -> key of `gpu_stack` in a cluster file."""
STACK = "gpu_driver_stack"
"""The variable with any of these keys; the variables above take precedence over it."""
_SECTION = Field("GPU software of a host", "section", fields=PROFILE_GPU_STACK)


def requested_profile(profile: Profile, settings: Mapping[str, Any], file: str, host: str) -> Profile:
    """Return the profile of a host with the GPU software that its variables request.

    `settings`: value of each variable that is set, one of VARIABLES or STACK. `file`: key files are relative to its directory.
    PlainInventoryError has all mistakes.
    """
    stack = settings.get(STACK)
    path: Path = ("profiles", profile.name, "gpu_stack")
    names: dict[Path, str] = {
        ("profiles", profile.name): f"host {host}: bedplate_hardware",
        path: f"host {host}: {STACK}",
    }
    own: Any = dict(stack) if isinstance(stack, Mapping) else stack
    for variable, key in VARIABLES.items():
        if variable in settings:
            own = {**(own or {}), key: settings[variable]}
            names[*path, key] = f"host {host}: {variable}"
    mistakes = VariableMistakes({"profiles": {profile.name: {"gpu_stack": own}}}, names)
    checked = walk(own, _SECTION, path, mistakes)
    found = profile
    if profile.gpus is None:
        mistakes.add(
            path, "this host has no GPUs. Set `gpus` of bedplate_hardware, or of its profile in the cluster file."
        )
    elif checked is not None:
        found = with_stack(profile, checked, _section(profile.gpu_stack), file, mistakes)
    if mistakes.found:
        # The place names the host; its profile may be one that nobody has written.
        raise PlainInventoryError("\n".join(mistakes.texts()).replace(f": profile {profile.name}: ", ": "))
    return found


def _section(stack: GpuStack | None) -> dict[str, Any] | None:
    """Return GPU software as the section of a cluster file."""
    if stack is None:
        return None
    mirror = (
        {"url": stack.mirror.url, "key": stack.mirror.key, "fingerprint": list(stack.mirror.fingerprints)}
        if stack.mirror
        else None
    )
    return {
        "os": stack.os,
        "source": stack.source,
        "driver": stack.driver,
        "module": stack.module,
        "platform": stack.platform,
        "model": stack.model,
        "kernel": stack.kernel,
        "cuda": list(stack.cuda),
        "container_toolkit": stack.toolkit,
        "dcgm": stack.dcgm,
        "nccl": stack.nccl,
        "module_options": dict(stack.module_options),
        "mirror": mirror,
        "urls": dict(stack.urls),
        "keys": dict(stack.keys),
        "fingerprints": {name: list(found) for name, found in stack.fingerprints},
        "dcgm_proprietary": stack.dcgm_proprietary,
        "packages": list(stack.packages),
        "gpudirect": list(stack.gpudirect),
        "foreign_sources": stack.foreign_sources,
    }
