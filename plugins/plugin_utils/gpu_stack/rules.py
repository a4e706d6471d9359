# SPDX-License-Identifier: GPL-3.0-or-later
"""Combinations that cannot be installed, one function per rule: each names both sides and the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import matches_any

from . import driver_versions
from .stack_model import Model, unique
from .stack_request import Case, Request

# Which platforms a board may stand for: a model of HGX boards is sold as a PCIe card as well.
_STANDS_FOR = {"hgx": ("hgx", "pcie"), "nvl72": ("nvl72",), "pcie": ("pcie",)}


@dataclass(frozen=True)
class RuleViolation:
    """One rule that refuses. `fix` is the corrected request; None: another driver or source corrects it."""

    rule: str
    text: str
    fix: Request | None = None


Rule = Callable[[Case], Iterator[RuleViolation]]


def gpu_too_old_branch(case: Case) -> Iterator[RuleViolation]:
    """Each model has a lowest driver branch, which Debian's own drivers may not reach at all."""
    if case.driver is None:
        return
    request, branch = case.request, case.driver.branch
    for model in case.models:
        if branch >= model.lowest:
            continue
        need = f"{model.name} needs driver branch {model.lowest} or later; {case.driver.version} is branch {branch}"
        if all(one.branch < model.lowest for one in case.drivers):
            has = ", ".join(unique(str(one.branch) for one in case.drivers))
            yield RuleViolation("distribution-too-old", f"{need}, and {request.source} on {request.os} has only {has}.")
        else:
            yield RuleViolation("gpu-branch", f"{need}.")


def gpu_dropped(case: Case) -> Iterator[RuleViolation]:
    """Later branches have dropped old models."""
    for model in case.models:
        if case.driver and 0 < model.highest < case.driver.branch:
            text = f"{model.name} is served up to driver branch {model.highest}; {case.driver.version} is later."
            yield RuleViolation("gpu-dropped", text)


def mixed_node(case: Case) -> Iterator[RuleViolation]:
    """One node has one kernel module and one driver: its GPUs must agree on them, and on a platform."""
    first = case.models[0].name if case.models else ""
    alone = replace(case.request, gpus=(first,))
    names = " and ".join(unique(model.name for model in case.models))
    lowest = max((model.lowest for model in case.models), default=0)
    highest = min((model.highest for model in case.models if model.highest), default=lowest)
    if case.models and not case.wanted:
        sides = "; ".join(f"{one.name} takes {' or '.join(one.generation.flavours)}" for one in case.models)
        text = f"{names} in one node need different kernel modules: {sides}."
        yield RuleViolation("mixed-node", f"{text} A node loads one; put the models on separate nodes.", alone)
    elif highest < lowest:
        text = f"{names} in one node have no driver branch in common: {lowest} or later, and {highest} at most. Put the models on "
        text += "separate nodes."
        yield RuleViolation("mixed-node", text, alone)
    elif len(case.boards) > 1 and not all(case.request.platform in _STANDS_FOR[one.board] for one in case.models):
        text = f"{names} in one node are of different platforms: {', '.join(case.boards)}."
        yield RuleViolation("mixed-node", f"{text} Put the models on separate nodes.", alone)
    elif len({one.architecture for one in case.models}) > 1:
        sides = "; ".join(f"{one.name} comes with {one.architecture}" for one in case.models)
        text = f"{names} in one node have different CPUs: {sides}. Put the models on separate nodes."
        yield RuleViolation("mixed-node", text, alone)


def flavour_of_generation(case: Case) -> Iterator[RuleViolation]:
    """Grace Hopper and Blackwell take the open kernel module only, Volta and older the proprietary one only."""
    for model in case.models:
        takes = model.generation.flavours
        if case.request.module in ("open", "proprietary") and case.request.module not in takes and case.wanted:
            text = f"module {case.request.module} does not drive {model.name}: generation {model.generation.name} takes"
            yield RuleViolation(
                "flavour", f"{text} the {takes[0]} kernel module only.", replace(case.request, module="")
            )


def flavour_of_source(case: Case) -> Iterator[RuleViolation]:
    """A source may lack a flavour of a version, as Debian 12 lacks the open one of its security update."""
    driver, request = case.driver, case.request
    if driver is None or (request.module and request.module not in case.wanted):
        return
    needed = (request.module,) if request.module else case.wanted
    if not needed or any(one in driver.flavours for one in needed):
        return
    why = driver.lacks.get(needed[0], "it is not built for that")
    text = f"{request.source} on {request.os} has driver {driver.version} without the {needed[0]} kernel module: {why}."
    relaxed = replace(request, module="") if any(one in driver.flavours for one in case.wanted) else None
    yield RuleViolation("flavour-source", text, relaxed)


def platform_of_model(case: Case) -> Iterator[RuleViolation]:
    """The fabric manager runs with NVSwitches only, IMEX on NVL72 only."""
    asked, request = case.request.platform, case.request
    for model in case.models:
        if asked in _STANDS_FOR and asked not in (*_STANDS_FOR[model.board], *model.also):
            rule = "nvswitch" if asked == "hgx" else "platform"
            text = f"platform {asked} does not exist with {model.name}, which sits on {model.board}: {_reason(model)}."
            yield RuleViolation(rule, text, replace(request, platform=""))
            return
    least = case.table.platforms["hgx"].least_gpus
    if asked == "hgx" and 0 < request.gpu_count < least:
        text = f"platform hgx has NVSwitches from {least} GPUs on; this node has {request.gpu_count}."
        yield RuleViolation(
            "nvswitch", f"{text} A fabric manager without NVSwitches fails.", replace(request, platform="pcie")
        )


def _reason(model: Model) -> str:
    return {
        "hgx": "no IMEX domain spans it",
        "nvl72": "its NVSwitches are in the switch trays, where the fabric manager runs",
        "pcie": "there is no NVSwitch for a fabric manager",
    }[model.board]


def fabric_of_source(case: Case) -> Iterator[RuleViolation]:
    """Debian packages no part of the fabric, Canonical no NVLink subnet manager."""
    if case.names is None:
        return
    lacking = [part for part in case.fabric.parts if part not in case.names.fabric]
    if not lacking:
        return
    rule = "nvlsm" if lacking != list(case.fabric.parts) and "nvlsm" in lacking else "fabric-source"
    where, needs = f"{case.request.source} on {case.request.os}", ", ".join(case.fabric.parts)
    gpus = " and ".join(case.request.gpus)
    yield RuleViolation(
        rule, f"{gpus} on platform {case.platform} need {needs}; {where} does not have {', '.join(lacking)}."
    )


def fabric_of_driver(case: Case) -> Iterator[RuleViolation]:
    """Kernel module, user space, fabric manager and IMEX are of exactly one version."""
    if case.driver is None:
        return
    for part in case.fabric.parts:
        if part in case.driver.lacks:
            text = f"{part} must be of exactly the driver's version {case.driver.version}, and"
            where = f"{case.request.source} on {case.request.os}"
            yield RuleViolation("coupled", f"{text} {where} lacks it: {case.driver.lacks[part]}.")


def cuda_of_driver(case: Case) -> Iterator[RuleViolation]:
    """A CUDA toolkit runs from a driver branch on."""
    for asked in case.request.cuda:
        least = case.table.cuda_least.get(asked.split(".")[0], 0)
        if case.driver and case.driver.branch < least:
            text = f"CUDA {asked} needs driver branch {least} or later; {case.driver.version} is branch {case.driver.branch}"
            yield RuleViolation("cuda-driver", f"{text}: programs would fail with cudaErrorInsufficientDriver (35).")


def cuda_metapackage(case: Case) -> Iterator[RuleViolation]:
    """CUDA's metapackages install their own driver over the pinned one."""
    for asked in case.request.cuda:
        if matches_any(asked, case.table.metapackages):
            rest = tuple(one for one in case.request.cuda if one != asked)
            text = f"CUDA {asked!r} is a package that installs a driver, and ignores the pinned version."
            fix = replace(case.request, cuda=rest)
            yield RuleViolation("cuda-metapackage", f"{text} Name the toolkit by its version, such as 12.4.", fix)


def cuda_of_source(case: Case) -> Iterator[RuleViolation]:
    """A distribution has its one CUDA toolkit, if any."""
    if case.driver is None:
        return
    offer = case.table.cuda_of(case.request.os, case.request.source)
    has = list(offer.versions) if offer else []
    elsewhere = {version for one in case.table.cuda if case.request.os in one.systems for version in one.versions}
    for asked in case.request.cuda:
        if asked in elsewhere and asked not in has:
            where = f"{case.request.source} on {case.request.os}"
            yield RuleViolation("cuda-source", f"CUDA {asked} is not in {where}, which has {', '.join(has) or 'none'}.")


def dcgm_of_source(case: Case) -> Iterator[RuleViolation]:
    """DCGM is in the repository that has NVIDIA's driver, too; the container toolkit has a separate one."""
    request, dcgm = case.request, case.table.dcgm
    if request.dcgm and case.driver and request.source != dcgm.source:
        where = f"{request.source} on {request.os}"
        text = f"DCGM {request.dcgm} is not in {where}: no distribution packages it, source {dcgm.source} does."
        yield RuleViolation("dcgm-source", f"{text} Sources of NVIDIA's driver are not mixed on a node.")


def dcgm_variant(case: Case) -> Iterator[RuleViolation]:
    """DCGM's packages are chosen by the CUDA major of the driver, not of the toolkit; CUDA 13 has no Volta."""
    asked = case.dcgm[1]
    if not asked or case.driver is None:
        return
    major = case.dcgm_cuda
    if asked != major:
        gpus = " and ".join(case.request.gpus)
        text = f"driver {case.driver.version} with {gpus} needs DCGM for CUDA {major}, and not for CUDA {asked}"
        fix = replace(case.request, dcgm=case.request.dcgm.split("-")[0])
        yield RuleViolation("dcgm-variant", f"{text}: its diagnostics would find no plugins.", fix)


def dcgm_before(case: Case) -> Iterator[RuleViolation]:
    """DCGM conflicts with the DCGM before it, of another package name, and the exporter needs the new one."""
    if case.dcgm_is_old:
        dcgm = case.table.dcgm
        text = f"DCGM {case.request.dcgm} is package {dcgm.forbidden}, with which every package of DCGM {dcgm.major}"
        fix = replace(case.request, dcgm=dcgm.major)
        yield RuleViolation("dcgm-3", f"{text} conflicts, and dcgm-exporter needs DCGM {dcgm.major}.", fix)


def nccl_of_source(case: Case) -> Iterator[RuleViolation]:
    """NCCL of a stated version is in NVIDIA's repository; a distribution's is a part of its toolkit."""
    request, nccl = case.request, case.table.nccl
    if request.nccl and case.driver and (request.source != nccl.source or request.os not in nccl.systems):
        text = f"NCCL {request.nccl} is not in {request.source} on {request.os}; source {nccl.source} has it."
        own = "If a distribution has NCCL, it is a part of the toolkit of `cuda`."
        yield RuleViolation("nccl-source", f"{text} {own}", replace(request, nccl=""))


def nccl_variant(case: Case) -> Iterator[RuleViolation]:
    """NCCL is built with one CUDA, and a program that has another one's runtime cannot load it."""
    built, major = case.table.nccl.versions.get(case.nccl, {}), case.cuda_major
    if not case.nccl or not major or major in built:
        return
    whose = f"CUDA {case.request.cuda[0]}" if case.request.cuda else f"the driver's CUDA {major}"
    fits = [one for one, majors in case.table.nccl.versions.items() if major in majors]
    fix = replace(case.request, nccl=max(fits, key=driver_versions.numbers, default=""))
    known = ", ".join(built.values())
    yield RuleViolation("nccl-cuda", f"NCCL {case.nccl} is not known as built with {whose}, only as {known}.", fix)


def kernel_compiles(case: Case) -> Iterator[RuleViolation]:
    """A driver may not compile on a later kernel: both are pinned together."""
    driver, kernel = case.driver, case.request.kernel
    for row in case.table.breaks:
        if not driver or not kernel or driver.version != row.version or case.request.os not in row.systems:
            continue
        if driver_versions.kernel(kernel) >= driver_versions.kernel(row.fails):
            text = f"driver {driver.version} does not compile on kernel {kernel}: from {row.fails} on {row.why}."
            yield RuleViolation("kernel", f"{text} It does compile on {row.works}.")


RULES: tuple[Rule, ...] = (
    mixed_node,
    platform_of_model,
    flavour_of_generation,
    flavour_of_source,
    gpu_too_old_branch,
    gpu_dropped,
    fabric_of_source,
    fabric_of_driver,
    kernel_compiles,
    cuda_metapackage,
    cuda_of_driver,
    cuda_of_source,
    dcgm_before,
    dcgm_variant,
    dcgm_of_source,
    nccl_of_source,
    nccl_variant,
)
