# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about a node's CPU and kernel and its GPU software, one function per rule as in rules.py."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from . import driver_versions
from .rules import Rule, RuleViolation
from .stack_request import Case, Request

# What only kernels of one distribution have in their release. A kernel that a site builds may have none of them.
_KERNEL_NAMES = (
    ("rpm", re.compile(r"\.el(?P<release>[0-9]+)"), "Enterprise Linux", ".el{version}"),
    ("debian", re.compile(r"\+deb[0-9]|-(amd64|arm64|arm64-16k)\Z"), "Debian", "-{arch}"),
    ("ubuntu", re.compile(r"-(generic|lowlatency|nvidia)(-64k)?\Z"), "Ubuntu", "-generic"),
)


def architecture_of_source(case: Case) -> Iterator[RuleViolation]:
    """A source may have fewer drivers for an architecture than for the usual one."""
    other = case.driver_of_others
    if other is not None:
        where = f"{case.request.source} on {case.request.os}"
        has = ", ".join(one.version for one in case.drivers) or "none"
        text = f"{_cpu(case)}, for which {where} does not have driver {case.request.driver}; it has {has}."
        yield RuleViolation("architecture", text)


def architecture_of_cuda(case: Case) -> Iterator[RuleViolation]:
    """A source may have fewer CUDA toolkits for an architecture than for the usual one."""
    request, table = case.request, case.table
    least = table.least(request.os, request.source, case.architecture, "cuda")
    offer = table.cuda_of(request.os, request.source)
    there = [one for one in (offer.versions if offer else ()) if driver_versions.numbers(one)[0] >= least]
    lacking = [one for one in request.cuda if offer and one in offer.versions and one not in there]
    for asked in lacking:
        where = f"{request.source} on {request.os}"
        text = f"{_cpu(case)}, for which {where} does not have CUDA {asked}; it has {', '.join(there) or 'none'}."
        kept = [one for one in request.cuda if one not in lacking] or there[:1]
        yield RuleViolation("architecture-cuda", text, replace(request, cuda=tuple(kept)))


def kernel_of_architecture(case: Case) -> Iterator[RuleViolation]:
    """A kernel's release may name its architecture, which is the CPU's."""
    kernel, system = case.request.kernel, case.system
    named = driver_versions.architecture(kernel)
    if system is None or not case.models or named in ("", case.architecture):
        return
    other = kernel.replace(case.table.architectures[named][system.family], case.packages_arch)
    known = other != kernel and (other in system.kernels or system.family == "rpm")
    fix = replace(case.request, kernel=other if known else "")
    yield RuleViolation("kernel-architecture", f"kernel {kernel} is for {named}; {_cpu(case)}.", fix)


def kernel_of_packages(case: Case) -> Iterator[RuleViolation]:
    """A kernel is of the node's distribution; on EL one of another kind, such as that with pages of 64 KiB, has packages of other names."""
    kernel, system = case.request.kernel, case.system
    if system is not None and (other := _of_another_system(case, kernel)):
        fix = replace(case.request, kernel="")
        text = f"kernel {kernel} is of {other}, and the nodes have {system.name}, whose kernels have {_kernel_mark(case)} in their names; "
        yield RuleViolation("kernel-kind", f"{text}name one as uname -r shows it.", fix)
        return
    release, plus, kind = kernel.partition("+")
    if system is not None and system.family == "rpm" and plus:
        text = f"kernel {kernel} is in packages kernel-{kind}-*, and on {system.name} only {system.kernel_pins[0]}"
        yield RuleViolation(
            "kernel-kind", f"{text} and its like are in the table.", replace(case.request, kernel=release)
        )


def _of_another_system(case: Case, kernel: str) -> str:
    """Return the other distribution that a kernel's release names, "" for none."""
    own, version = _distribution(case)
    for name, pattern, title, _mark in _KERNEL_NAMES:
        found = pattern.search(kernel)
        if found and name != own:
            return title
        if found and name == "rpm" and found["release"] != version:
            return f"{title} {found['release']}"
    return ""


def _kernel_mark(case: Case) -> str:
    """Return what the kernels of the node's distribution have in their names."""
    own, version = _distribution(case)
    mark = next(mark for name, _pattern, _title, mark in _KERNEL_NAMES if name == own)
    return mark.format(version=version, arch=case.packages_arch)


def _distribution(case: Case) -> tuple[str, str]:
    """Return which of `_KERNEL_NAMES` the node's kernels are, and the distribution's version."""
    own, _dash, version = case.request.os.partition("-")
    return "rpm" if case.system and case.system.family == "rpm" else own, version


def kernel_of_fabric(case: Case) -> Iterator[RuleViolation]:
    """NVLink 5 is managed through InfiniBand's modules, which older kernels have without what that takes."""
    system, request = case.system, case.request
    if system is None:
        return
    least = case.fabric.least_kernel.get(system.family, "")
    kernel = request.kernel or system.series
    if not least or driver_versions.kernel(kernel) >= driver_versions.kernel(least):
        return
    gpus = " and ".join(case.request.gpus)
    text = f"{gpus} on platform {case.platform} need kernel {least} or later for {', '.join(case.fabric.modules_load)}"
    if request.kernel:
        has = f"kernel {request.kernel} is stated."
    else:
        has = f"{system.name} has {system.series}. Set `kernel`, if its nodes run a later one, as uname -r shows it."
    yield RuleViolation("kernel-fabric", f"{text}; {has}", _newer(case, least))


def _newer(case: Case, least: str) -> Request | None:
    """Return the request on the nearest system that has such a kernel: on this one, if it does."""
    request, lowest = case.request, driver_versions.kernel(least)
    table, own = case.table, case.request.os.split("-")[0]
    fits = [
        name
        for name, system in table.systems.items()
        if driver_versions.kernel(system.series) >= lowest and table.drivers_of(name, request.source, case.architecture)
    ]
    nearest = min(fits, key=lambda name: (name != request.os, not name.startswith(own)), default="")
    return replace(request, os=nearest, kernel="") if nearest else None


def _cpu(case: Case) -> str:
    gpus = " and ".join(dict.fromkeys(model.name for model in case.models))
    return f"{gpus} {'come' if ' and ' in gpus else 'comes'} with an {case.architecture} CPU"


RULES: tuple[Rule, ...] = (
    architecture_of_source,
    architecture_of_cuda,
    kernel_of_architecture,
    kernel_of_packages,
    kernel_of_fabric,
)
