# SPDX-License-Identifier: GPL-3.0-or-later
"""Words of a request that the table lacks, each with the nearest known ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import matches_any, nearest

from . import driver_versions
from .rules import Rule, RuleViolation
from .stack_model import BOARDS, FLAVOURS, unique
from .stack_request import Case

_STREAM = re.compile(r"(?P<branch>[0-9]{3}|latest|open)(-(open|dkms|open-dkms))?\Z")
_EPOCH = re.compile(r"[0-9]+:(?P<version>.*)\Z")
_INSIDE = re.compile(r"(?<![0-9.])[0-9]{3}(?![0-9])")


def nearest_entry(word: str, known: Iterable[str]) -> str:
    """Return the known word that is most like this one: by number where both are versions, by letters otherwise."""
    names = list(known)
    numbers = driver_versions.numbers(word)
    if re.match(r"[0-9]+(\.[0-9]+)*\Z", word) and all(re.match(r"[0-9.]+\Z", one) for one in names):
        same = [one for one in names if driver_versions.numbers(one)[:1] == numbers[:1]]
        return min(
            same or names,
            key=lambda one: [abs(a - b) for a, b in zip(driver_versions.numbers(one), numbers, strict=False)],
        )
    return nearest(word.lower(), names, cutoff=0.0) or names[0]


def _unknown(what: str, word: str, known: Iterable[str]) -> str:
    names = list(known)
    return f"{what} {word!r} is not in the table; nearest: {nearest_entry(word, names)}; known: {', '.join(names)}."


def unknown_system(case: Case) -> Iterator[RuleViolation]:
    """The operating system is one of the table."""
    if case.system is None:
        known, request = list(case.table.systems), case.request
        fix = replace(request, os=nearest_entry(request.os, known))
        yield RuleViolation("unknown-os", _unknown("operating system", request.os, known), fix)


def unknown_source(case: Case) -> Iterator[RuleViolation]:
    """The source has drivers for this system."""
    request, known = case.request, case.table.sources(case.request.os) or case.table.sources()
    if request.source not in case.table.sources():
        fix = replace(request, source=nearest_entry(request.source, known))
        yield RuleViolation("unknown-source", _unknown("source", request.source, known), fix)
    elif case.system and request.source not in known:
        text = f"source {request.source} has no drivers for {request.os}; there are {' and '.join(known)}."
        yield RuleViolation("source-os", text, None)


def unknown_models(case: Case) -> Iterator[RuleViolation]:
    """Every GPU model is in the table, and the request has at least one."""
    request, known = case.request, list(case.table.models)
    if not request.gpus:
        text = f"no GPU model is named; known: {', '.join(known)}."
        yield RuleViolation("no-gpu", text, replace(request, gpus=("h100",) if "h100" in known else (known[0],)))
    for name in unique(request.gpus):
        if name not in case.table.models:
            # To find further mistakes; no other hardware is proposed to the reader.
            gpus = tuple(nearest_entry(name, known) if one == name else one for one in request.gpus)
            text = f"GPU model {name!r} is not in the table; known: {', '.join(known)}. If it is one of them under a name of the site's "
            text += "own, state that with gpu_stack.model."
            yield RuleViolation("unknown-model", text, replace(request, gpus=gpus))


def unknown_choices(case: Case) -> Iterator[RuleViolation]:
    """Platform and module are words of the table."""
    request = case.request
    if request.platform and request.platform not in BOARDS:
        text = _unknown("platform", request.platform, BOARDS)
        yield RuleViolation("unknown-platform", text, replace(request, platform=""))
    if request.module and request.module not in FLAVOURS:
        text = _unknown("module", request.module, FLAVOURS)
        yield RuleViolation("unknown-module", text, replace(request, module=""))
    if request.gpu_count < 0:
        yield RuleViolation("gpu-count", f"gpu_count {request.gpu_count} is below 0.", replace(request, gpu_count=0))
    if request.kernel and not request.kernel[0].isdigit():
        text = f"kernel {request.kernel!r} is not a kernel release; name one as uname -r shows it."
        yield RuleViolation("unknown-kernel", text, replace(request, kernel=""))


def driver_name(case: Case) -> Iterator[RuleViolation]:
    """A driver is named by branch or version: not by an epoch, a module stream or a package, which follow from it."""
    request = case.request
    word = request.driver
    if driver_versions.is_branch(word) or driver_versions.is_exact(word):
        return
    epoch, stream, inside = _EPOCH.match(word), _STREAM.match(word), _INSIDE.search(word)
    latest = str(max((one.branch for one in case.drivers), default=max(one.branch for one in case.table.drivers)))
    if epoch:
        text = f"driver {word!r} has an epoch, which follows from the package: rpm's have one on EL, their fabric manager none."
        yield RuleViolation("epoch", text, replace(request, driver=epoch["version"].split("-")[0]))
    elif stream:
        branch = latest if stream["branch"] in ("latest", "open") else stream["branch"]
        yield RuleViolation("module-stream", _stream(case, word, branch), replace(request, driver=branch))
    elif inside:
        text = f"driver {word!r} looks like a package name; names follow from source and branch: {_named(case, inside[0])}."
        yield RuleViolation("package-name", text, replace(request, driver=inside[0]))
    else:
        text = f"driver {word!r} is neither a branch, such as 580, nor a whole version."
        yield RuleViolation("unknown-driver", text, replace(request, driver=latest))


def _stream(case: Case, word: str, branch: str) -> str:
    system = case.system
    text = f"driver {word!r} is a module stream's name"
    if system is None or system.family != "rpm":
        return f"{text}, which only dnf of EL 9 has; name the branch: {branch}."
    if not system.stream:
        return f"{text}, but {system.name} has no module streams: the versions are locked; name the branch: {branch}."
    return f"{text}; on {system.name} it follows from branch and module: {system.stream['open'].format(branch=branch)}."


def _named(case: Case, branch: str) -> str:
    names = case.table.names_of(case.request.os, case.request.source, int(branch))
    if names is None:
        return f"the branch here is {branch}"
    package = next(iter(names.kernel.values()))[0].format(branch=branch, version="")
    return f"{case.request.source}'s kernel module of {branch} on {case.request.os} is {package}"


def unknown_driver(case: Case) -> Iterator[RuleViolation]:
    """The table has the driver for this source on this system."""
    request = case.request
    proper = driver_versions.is_branch(request.driver) or driver_versions.is_exact(request.driver)
    if not proper or case.driver or not case.drivers or case.driver_of_others:
        return
    known = ", ".join(one.version for one in case.drivers)
    text = f"driver {request.driver} is unknown for {request.source} on {request.os}, which has {known}"
    others = [one for one in case.table.drivers if request.driver in (one.version, str(one.branch))]
    there = unique(one.source for one in others if request.os in one.systems)
    fix = replace(request, source=there[0]) if there else None
    yield RuleViolation("unknown-driver", f"{text}; {' and '.join(there)} has it." if there else f"{text}.", fix)


def unknown_extras(case: Case) -> Iterator[RuleViolation]:
    """CUDA, DCGM, container toolkit and NCCL are of versions that the table knows."""
    request, table = case.request, case.table
    offers = [one for one in table.cuda if request.os in one.systems] or list(table.cuda)
    known = sorted({version for one in offers for version in one.versions}, key=driver_versions.numbers)
    for asked in request.cuda:
        if asked not in known and not matches_any(asked, table.metapackages):
            cuda = tuple(unique(nearest_entry(asked, known) if one == asked else one for one in request.cuda))
            yield RuleViolation("unknown-cuda", _unknown("CUDA", asked, known), replace(request, cuda=cuda))
    if request.dcgm and not case.dcgm[0] and not case.dcgm_is_old:
        fix = replace(request, dcgm=nearest_entry(request.dcgm.split("-")[0], table.dcgm.versions))
        yield RuleViolation(
            "unknown-dcgm", _unknown("DCGM", request.dcgm, [table.dcgm.major, *table.dcgm.versions]), fix
        )
    if request.toolkit and request.toolkit not in table.toolkit.versions:
        text = _unknown("container toolkit", request.toolkit, table.toolkit.versions)
        fix = replace(request, toolkit=nearest_entry(request.toolkit, table.toolkit.versions))
        yield RuleViolation("unknown-toolkit", text, fix)
    if request.nccl and not case.nccl:
        fix = replace(request, nccl=nearest_entry(request.nccl, list(table.nccl.versions)))
        yield RuleViolation("unknown-nccl", _unknown("NCCL", request.nccl, list(table.nccl.versions)), fix)


def further_packages(case: Case) -> Iterator[RuleViolation]:
    """Each further package is named once, depends on no driver of any version, and is of no other version of the driver."""
    request = case.request
    named: set[str] = set()
    for number, one in enumerate(request.packages):
        name, _sign, version = one.partition("=")
        others = (*request.packages[:number], *request.packages[number + 1 :])
        if name in named:
            text = f"package {name} is named twice: {', '.join(other for other in request.packages if other.partition('=')[0] == name)}."
            yield RuleViolation("package-twice", text, replace(request, packages=others))
        elif matches_any(name, case.table.metapackages):
            text = f"package {name} depends on a driver of any version, so no node may have it."
            yield RuleViolation("package-with-driver", text, replace(request, packages=others))
        elif version and name in case.coupled:
            text = f"package {name} is of the driver's version; name it without a version."
            yield RuleViolation("package-version", text, replace(request, packages=others))
        elif own := case.renamed_for_driver(name):
            text = (
                f"package {name} is of another driver branch than {request.driver}, and apt or dnf would refuse both."
            )
            fixed = (*request.packages[:number], own, *request.packages[number + 1 :])
            yield RuleViolation("package-of-other-branch", text, replace(request, packages=fixed))
        named.add(name)


RULES: tuple[Rule, ...] = (
    unknown_system,
    unknown_source,
    unknown_models,
    unknown_choices,
    driver_name,
    unknown_driver,
    unknown_extras,
    further_packages,
)
