# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve a request to the one set of GPU packages that a node installs and keeps, or to a refusal with a working alternative."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from datetime import date

from . import driver_versions, request_mistakes, rules, rules_gpu, rules_gpudirect, rules_machine, stack_table
from .rules import RuleViolation
from .stack_model import UNCOUPLED, NvSwitches, PackageNames, StackTable, unique
from .stack_request import Case, Request

__all__ = ["Refusal", "Request", "Stack", "StackError", "StackPackage", "resolve"]

_PERSISTENCE = "nvidia-persistenced"
# A version that is not in the table: whatever the distribution has.
_ANY = "*"
# As the cluster file has them: a version without quotes is a number for YAML.
_KEYS = {"toolkit": "container_toolkit"}
_IN_QUOTES = ("driver", "cuda", "dcgm", "toolkit", "nccl")
# Mistakes hide others: so many are mended one after the other before a plain combination is proposed.
_STEPS = 12


@dataclass(frozen=True)
class StackPackage:
    """A package of the one install transaction. `version` is exact, or a pattern that ends with *."""

    name: str
    version: str
    part: str


@dataclass(frozen=True)
class DirectModule:
    """A kernel module of GPUDirect: what modprobe loads, its name in /sys/module, its device or "", and DKMS's name or "".

    `sources` is (name, version) of the package with what DKMS compiles.
    """

    module: str
    loaded: str
    device: str
    dkms: str = ""
    sources: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Stack:
    """Packages of a node. `pinned` is (name, version) of everything that must never be another version.

    `stream` is the dnf module stream to enable, `remove` are packages to remove first.
    """

    driver: str
    module: str
    packages: tuple[StackPackage, ...]
    pinned: tuple[tuple[str, str], ...]
    services: tuple[str, ...]
    modules_load: tuple[str, ...]
    # Of `packages`: those with the sources of the kernel module.
    sources: tuple[str, ...]
    # What compiles them beside DKMS.
    build: tuple[str, ...]
    module_file: str
    options_file: str
    options_module: str
    # deb or rpm.
    family: str = "deb"
    # Of the CPU, as model.ARCHITECTURES has it.
    architecture: str = "x86_64"
    # The file that lists the nodes of an NVLink domain; "": there is none.
    nodes_file: str = ""
    # hgx, nvl72 or pcie, and the NVSwitches that a node must show on the PCI bus; None: which it shows is not known.
    platform: str = ""
    nvswitches: NvSwitches | None = None
    # Whom nvidia-persistenced runs as where its own unit keeps no persistence; "": it does.
    persistence_user: str = ""
    # Those of `pinned` that are the distribution's own, whatever the source of the driver.
    kernel_packages: tuple[str, ...] = ()
    # What would bring another kernel by itself: the name of the newest kernel's headers, then patterns.
    kernel_follows: tuple[str, ...] = ()
    # Patterns of what comes with CUDA, in versions that are not in the table.
    components: tuple[str, ...] = ()
    # Of those, the versions of a lock.
    component_versions: tuple[tuple[str, str], ...] = ()
    # Names, and patterns of them, of the driver's packages of other branches and sources.
    others: tuple[str, ...] = ()
    stream: str = ""
    remove: tuple[str, ...] = ()
    gpudirect: tuple[DirectModule, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """One mistake. `instead` is the nearest combination without any, which resolves; itself if the table lacks one."""

    rule: str
    text: str
    instead: Request


class StackError(ValueError):
    """A request that cannot be met, with all its mistakes."""

    def __init__(self, refusals: list[Refusal]) -> None:
        super().__init__("\n".join(f"{one.rule}: {one.text}" for one in refusals))
        self.refusals = refusals


def resolve(request: Request, table: StackTable | None = None) -> Stack:
    """Return the set of packages, files and units for this request.

    StackError: what cannot be installed together, all of it at once, each with a combination that works.
    """
    known = table or stack_table.default()
    problems = _problems(request, known)
    if problems:
        instead = _instead(request, known)
        works = _advice(request, instead)
        raise StackError([Refusal(one.rule, f"{one.text} {works}".strip(), instead or request) for one in problems])
    return _stack(Case(request, known))


def _problems(request: Request, table: StackTable) -> list[RuleViolation]:
    case = Case(request, table)
    every = (*request_mistakes.RULES, *rules.RULES, *rules_gpu.RULES, *rules_machine.RULES, *rules_gpudirect.RULES)
    return [problem for rule in every for problem in rule(case)]


def _instead(request: Request, table: StackTable) -> Request | None:
    """Fix one mistake after the other, which uncovers the hidden ones. None: no combination of the table works."""
    mended = request
    for _unused in range(_STEPS):
        problems = _problems(mended, table)
        if not problems:
            return _lasting(request, mended, table)
        mended = problems[0].fix or _other_driver(mended, table)
    plain = _other_driver(Request(mended.os, mended.source, mended.driver, mended.gpus[:1]), table)
    return None if _problems(plain, table) else _lasting(request, plain, table)


def today() -> date:
    """Return the day on which branches of the driver are judged."""
    return date.today()


def _lasting(request: Request, instead: Request, table: StackTable) -> Request:
    """Return a combination that works, with a branch that still gets security updates if one works and `request` did not name this one."""
    if driver_versions.numbers(instead.driver)[:1] == driver_versions.numbers(request.driver)[:1]:
        return instead
    ended = {str(row.branch) for row in table.branches if row.ends < f"{today():%Y-%m}"}
    if instead.driver.split(".")[0] not in ended:
        return instead
    others = (one for one in _drivers(instead, table) if one.driver.split(".")[0] not in ended)
    return next((one for one in others if not _problems(one, table)), instead)


def _other_driver(request: Request, table: StackTable) -> Request:
    """Return the request with the source and driver that leave the fewest mistakes, the nearest of those."""
    candidates = list(_drivers(request, table))
    return min(candidates, key=lambda one: len(_problems(one, table)), default=request)


def _drivers(request: Request, table: StackTable) -> Iterator[Request]:
    """Yield the request with other drivers, the nearest first: the same source before others, later before earlier."""
    offered = table.sources(request.os)
    wish = driver_versions.numbers(request.driver)[:1]
    for source in sorted(offered, key=lambda one: (one != request.source, one != "nvidia")):
        drivers = table.drivers_of(request.os, source, Case(request, table).architecture)
        branches = unique(str(one.branch) for one in drivers)
        if wish:
            branches.sort(key=lambda one: (int(one) < wish[0], abs(int(one) - wish[0])))
        for driver in unique([request.driver, *branches] if source != request.source else branches):
            for module in unique([request.module, ""]):
                yield replace(request, source=source, driver=driver, module=module)


def _advice(request: Request, instead: Request | None) -> str:
    """Return what to change of a request so that it works; never other hardware, and "" if nothing else would help."""
    if instead is None:
        return "Nothing in the table works for this."
    changes = _difference(request, instead)
    if not changes:
        return ""
    return f"This works: {changes}." if instead.gpus == request.gpus else f"Then this works: {changes}."


def _difference(request: Request, instead: Request) -> str:
    """Say what to change of a request to get the other one, without its GPUs."""
    said = []
    for field in (one for one in fields(Request) if one.name != "gpus"):
        before, after = getattr(request, field.name), getattr(instead, field.name)
        if before != after:
            name = _KEYS.get(field.name, field.name)
            said.append(f"{name}: {_as_yaml(field.name, after)}" if after else f"{name} left out")
    return "; ".join(said)


def _as_yaml(field: str, value: object) -> str:
    """Return a value as the cluster file takes it, to be pasted."""
    if isinstance(value, tuple):
        return f"[{', '.join(_as_yaml(field, one) for one in value)}]"
    return json.dumps(value) if field in _IN_QUOTES else str(value)


def _stack(case: Case) -> Stack:
    names, driver = case.names, case.driver
    if names is None or driver is None:  # no rule refused, so both are there
        raise AssertionError(f"{case.request}: no rule refused it, and the table has no driver for it")
    flavour = case.flavour
    packages = tuple(_with_further(case, names, tuple(_packages(case, names))))
    stream = case.system.stream.get(flavour, "").format(branch=driver.branch) if case.system else ""
    services = [_PERSISTENCE, *case.fabric.services]
    if case.request.dcgm:
        services.append(case.table.dcgm.service)
    return Stack(
        driver=driver.version,
        module=flavour,
        packages=packages,
        pinned=_pinned(case, names, packages),
        services=tuple(services),
        modules_load=case.fabric.modules_load,
        sources=tuple(_fill(case, name) for name in names.sources[flavour]),
        build=names.build.get(flavour, ()),
        module_file=names.module_file[flavour],
        options_file=names.options_file[flavour],
        options_module=names.options_module[flavour],
        family=case.system.family if case.system else "deb",
        architecture=case.architecture,
        nodes_file=case.fabric.nodes_file,
        platform=case.platform,
        nvswitches=_nvswitches(case),
        persistence_user=names.persistence_user,
        kernel_packages=_kernel_packages(case),
        kernel_follows=tuple(_fill(case, name) for name in case.system.kernel_follows) if case.system else (),
        components=_components(case),
        others=_others(case),
        stream=stream,
        remove=(case.table.dcgm.forbidden,) if case.request.dcgm else (),
        gpudirect=tuple(_direct_modules(case, names)),
    )


def _nvswitches(case: Case) -> NvSwitches | None:
    """Return the NVSwitches of all boards of a node; 0 for cards, None if the PCI bus does not show them."""
    if case.platform == "pcie":
        return NvSwitches(count=0)
    platform = case.table.platforms.get(case.platform)
    if platform is None or not case.models:
        return None
    return platform.switches_of(case.models[0].generation.name, case.request.gpu_count)


def _version(case: Case, epoch: str) -> str:
    """Return the version of the packages that are coupled with the driver."""
    driver = case.driver
    if driver is None:
        raise AssertionError("the case has a driver")
    return driver.packages or f"{epoch}{driver.version}-*"


def _fill(case: Case, text: str) -> str:
    driver, kernel = case.driver, case.request.kernel
    if driver is None:
        raise AssertionError("the case has a driver")
    short = driver_versions.without_architecture(kernel)
    arch = case.packages_arch
    return text.format(branch=driver.branch, version=driver.version, kernel=kernel, kernel_version=short, arch=arch)


def _packages(case: Case, names: PackageNames) -> Iterator[StackPackage]:
    driver, request, table = case.driver, case.request, case.table
    if driver is None:
        raise AssertionError("the case has a driver")
    coupled = _version(case, names.epoch)
    absent = names.absent.get(case.architecture, ())
    for part, group in (("kernel", names.kernel[case.flavour]), ("driver", names.driver)):
        for name in group:
            if name not in absent:
                yield StackPackage(_fill(case, name), coupled, part)
    for part in case.fabric.parts:
        for name in names.fabric[part]:
            # The fabric's rpms have no epoch, as the driver's have.
            yield StackPackage(_fill(case, name), _ANY if part in UNCOUPLED else _version(case, ""), "fabric")
    for name in names.support:
        yield StackPackage(name, driver.own[name], "support")
    yield from _headers(case)
    offer = table.cuda_of(request.os, request.source)
    for asked in request.cuda:
        for name, version in offer.versions[asked].items() if offer else ():
            yield StackPackage(name, version, "cuda")
    if request.nccl:
        family = case.system.family if case.system else "deb"
        for name in table.nccl.packages[family]:
            yield StackPackage(name, table.nccl.versions[case.nccl][case.cuda_major], "cuda")
    for text in request.gpudirect:
        yield from _direct_packages(case, text)
    if request.toolkit:
        for name in table.toolkit.packages:
            yield StackPackage(name, table.toolkit.version.format(version=request.toolkit), "toolkit")
    if request.dcgm:
        for name in (*table.dcgm.packages, *(table.dcgm.proprietary if request.dcgm_proprietary else ())):
            full = name.format(cuda=case.dcgm_cuda)
            yield StackPackage(full, table.dcgm.version.format(version=case.dcgm[0]), "dcgm")


def _direct_packages(case: Case, text: str) -> list[StackPackage]:
    """Return the packages of a module of GPUDirect, which are installed with CUDA's: after the driver, against which they are built."""
    name, _sign, version = text.partition("=")
    row = case.gpudirect(name)
    if row is None:
        raise AssertionError(f"{name}: no rule refused it, and the table does not have it")
    chosen = version or (row.versions[-1] if row.versions else "")
    full = chosen if "-" in chosen or chosen.endswith("*") else f"{chosen}-*"
    # Without a version in the table it is in no repository of the source.
    part = "cuda" if row.versions else "gpudirect"
    return [StackPackage(one, full, part) for one in row.packages.get(case.system.family if case.system else "deb", ())]


def _direct_modules(case: Case, names: PackageNames) -> Iterator[DirectModule]:
    driver = names.module_file[case.flavour].removesuffix(".ko")
    for text in case.request.gpudirect:
        row = case.gpudirect(text.partition("=")[0])
        if row:
            sources = tuple((one.name, one.version) for one in _direct_packages(case, text)[:1])
            yield DirectModule(row.module.format(driver=driver), row.loaded, row.device, row.dkms, sources)


def _with_further(case: Case, names: PackageNames, packages: tuple[StackPackage, ...]) -> Iterator[StackPackage]:
    """Yield the packages of a set and the site's further packages; a package of the driver gets its version."""
    yield from packages
    there = {one.name for one in packages}
    for text in case.request.packages:
        name, _sign, version = text.partition("=")
        if name not in there:
            coupled = _version(case, names.epoch) if name in case.coupled else _ANY
            yield StackPackage(name, version or coupled, "site")


def _components(case: Case) -> tuple[str, ...]:
    offer = case.table.cuda_of(case.request.os, case.request.source)
    dashed = [version.replace(".", "-") for version in case.request.cuda]
    return tuple(unique(one.format(cuda=cuda) for cuda in dashed for one in (offer.components if offer else ())))


def _others(case: Case) -> tuple[str, ...]:
    """Return the driver's package names in other branches, and in other sources if the name has a branch.

    Without one a name may be a package that the system has for itself.
    """
    found: list[str] = []
    for row in case.table.names:
        if case.request.os not in row.systems:
            continue
        fabric = (names for part, names in row.fabric.items() if part not in UNCOUPLED)
        for name in (one for group in (*row.kernel.values(), row.driver, row.coupled, *fabric) for one in group):
            pattern = name.format(branch="[0-9]*", version="*", kernel="*")
            if row.source == case.request.source or pattern != name:
                found.append(pattern)
    return tuple(unique(found))


def _headers(case: Case) -> Iterator[StackPackage]:
    system, kernel = case.system, case.request.kernel
    if system and kernel:
        for name, version in system.headers:
            known = _fill(case, version) or system.kernels.get(kernel, _ANY)
            yield StackPackage(_fill(case, name), known, "support")
        # Without a stated kernel the distribution's own packages of the newest one bring these.
        for name in system.modules_extra if case.fabric.modules_load else ():
            yield StackPackage(_fill(case, name), system.kernels.get(kernel, _ANY), "support")


def _pinned(case: Case, names: PackageNames, packages: tuple[StackPackage, ...]) -> tuple[tuple[str, str], ...]:
    """Pin the installed packages, and their possible dependencies and later packages: no other version is allowed."""
    system, kernel = case.system, case.request.kernel
    pins = {one.name: one.version for one in packages if one.version != _ANY}
    for name in names.coupled:
        pins.setdefault(_fill(case, name), _version(case, names.epoch))
    if system and kernel:
        version = (
            driver_versions.without_architecture(kernel) if system.family == "rpm" else system.kernels.get(kernel, "")
        )
        pins.update({_fill(case, name): version for name in system.kernel_pins if version})
    return tuple(pins.items())


def _kernel_packages(case: Case) -> tuple[str, ...]:
    system = case.system
    if system is None or not case.request.kernel:
        return ()
    return tuple(unique(_fill(case, name) for name in (*(row[0] for row in system.headers), *system.kernel_pins)))
