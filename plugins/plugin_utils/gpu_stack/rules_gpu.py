# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about a GPU model and the versions of its software, one function per rule as in rules.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from . import driver_versions
from .rules import Rule, RuleViolation
from .stack_request import Case


def gpu_too_old_version(case: Case) -> Iterator[RuleViolation]:
    """Early versions of a branch do not drive a later model."""
    for model in case.models:
        if not (case.driver and model.least) or case.driver.branch < model.lowest:
            continue
        if driver_versions.numbers(case.driver.version) < driver_versions.numbers(model.least):
            text = f"{model.name} needs driver {model.least} or later; {case.driver.version} does not drive it."
            yield RuleViolation("gpu-version", text)


def cuda_of_generation(case: Case) -> Iterator[RuleViolation]:
    """A toolkit compiles for the architectures that it knows: neither for later nor for dropped ones."""
    request = case.request
    for model in case.models:
        generation = model.generation
        fits = tuple(one for one in request.cuda if not _why_not(one, generation.cuda_least, generation.cuda_last))
        for asked in request.cuda:
            why = _why_not(asked, generation.cuda_least, generation.cuda_last)
            if why:
                text = f"CUDA {asked} does not compile for {model.name} ({generation.name}): {why}."
                yield RuleViolation("cuda-gpu", text, replace(request, cuda=fits))


def _why_not(cuda: str, least: str, last: int) -> str:
    """Return why a toolkit is not for a generation; "" if it is, and for a word without a version."""
    version = driver_versions.numbers(cuda)
    if not version or not cuda[0].isdigit():
        return ""
    if least and version < driver_versions.numbers(least):
        return f"CUDA knows it from {least} on"
    return f"CUDA {last} is the last that knows it" if last and version[0] > last else ""


RULES: tuple[Rule, ...] = (gpu_too_old_version, cuda_of_generation)
