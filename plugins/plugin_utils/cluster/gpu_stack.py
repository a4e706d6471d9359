# SPDX-License-Identifier: GPL-3.0-or-later
"""The GPU nodes' software as the file wants it, and whether there is such a set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.stack import Request, Stack, StackError, resolve

from .fields import Mistakes
from .model import GpuStack, Profile


def gpu_stack_of(
    data: Mapping[str, Any] | None, profiles: Mapping[str, Profile], mistakes: Mistakes
) -> GpuStack | None:
    """Return the section; a set that cannot be for the GPUs of a profile is a mistake."""
    if data is None:
        return None
    wanted = GpuStack(
        data["os"] or "", data["source"] or "", data["driver"] or "", data["module"] or "", data["kernel"] or ""
    )
    if not (wanted.os and wanted.source and wanted.driver):
        return wanted  # which are mistakes already
    for name, profile in profiles.items():
        if profile.gpus:
            try:
                stack_of(wanted, profile)
            except StackError as error:
                for refusal in error.refusals:
                    mistakes.add(("gpu_stack",), f"profile {name}: {refusal.text} [{refusal.rule}]")
    return wanted


def stack_of(wanted: GpuStack, profile: Profile) -> Stack:
    """Return packages and versions for the nodes of a profile with GPUs; StackError says why there are none."""
    if profile.gpus is None:
        raise ValueError(f"profile {profile.name} has no GPUs")
    return resolve(
        Request(
            os=wanted.os,
            source=wanted.source,
            driver=wanted.driver,
            gpus=(profile.gpus.model,),
            gpu_count=profile.gpus.count,
            module=wanted.module,
            kernel=wanted.kernel,
        )
    )
