# SPDX-License-Identifier: GPL-3.0-or-later
"""Driver versions, branches and kernel releases: read and compared, of whichever distribution."""

from __future__ import annotations

import re

_DRIVER = re.compile(r"[0-9]{3,4}\.[0-9]+(\.[0-9]+)?\Z")
_BRANCH = re.compile(r"[0-9]{3,4}\Z")
_NUMBERS = re.compile(r"[0-9]+")
_ARCHITECTURE = re.compile(r"[-.](amd64|x86_64|arm64|aarch64)(?![a-z0-9_])")
# What ends the part of a kernel release that is compared: a distribution's name (+deb13), a flavour (-amd64), a dist tag.
_KERNEL_END = re.compile(r"[+~]|-(?![0-9])|\.el[0-9]")


def is_branch(word: str) -> bool:
    """Return whether this names a driver branch, such as 580."""
    return bool(_BRANCH.match(word))


def is_exact(word: str) -> bool:
    """Return whether this is a whole driver version, such as branch, number and number with dots between."""
    return bool(_DRIVER.match(word))


def numbers(version: str) -> tuple[int, ...]:
    """Return a dotted version as what sorts right.

    >>> numbers("1.65.06") < numbers("1.126.09")
    True
    """
    return tuple(int(part) for part in _NUMBERS.findall(version))


def branch(version: str) -> int:
    """Return the branch of a version or of a branch: its first number. ValueError: the text has no number."""
    if not (is_branch(version) or is_exact(version)):
        raise ValueError(
            f"{version!r} is neither a driver branch such as 580 nor a whole driver version, such as 580.x.y"
        )
    return int(version.split(".")[0])


def kernel(release: str) -> tuple[int, ...]:
    """Return a kernel release as what sorts right, without flavour and architecture.

    >>> kernel("6.1.0-56-amd64")
    (6, 1, 0, 56)
    >>> kernel("6.12.107+deb13-amd64") > kernel("6.1.0-56-amd64")
    True
    """
    end = _KERNEL_END.search(release)
    return numbers(release[: end.start()] if end else release)


def architecture(release: str) -> str:
    """Return the architecture that a kernel release names, "" where it names none, as Ubuntu's.

    >>> [architecture(one) for one in ("6.12.107+deb13-arm64-16k", "5.14.0-503.el9.x86_64", "6.8.0-90-generic")]
    ['arm64', 'x86_64', '']
    """
    found = _ARCHITECTURE.search(release)
    return {"amd64": "x86_64", "aarch64": "arm64"}.get(found[1], found[1]) if found else ""


def without_architecture(release: str) -> str:
    """Return the release of a kernel as rpm writes the version of its packages: 5.14.0-503.el9 of 5.14.0-503.el9.x86_64."""
    return re.sub(r"\.(x86_64|aarch64)\Z", "", release)
