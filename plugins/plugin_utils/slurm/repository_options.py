# SPDX-License-Identifier: GPL-3.0-or-later
"""Check `slurm_repository`, the options of a repository for apt or dnf, before any machine is touched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import yaml
from ansible.modules import deb822_repository, yum_repository

from ansible_collections.bedplate.cluster.plugins.module_utils.common.text import did_you_mean

from ..common.role_interfaces import spec_mistakes

_NAME = "slurm_repository"
_NEEDED = {"apt": ("name", "uris", "suites"), "dnf": ("name", "baseurl", "gpgkey")}
_MODULES = {"apt": deb822_repository, "dnf": yum_repository}
# Of Ansible's files, which both modules have from a fragment of their documentation.
_OF_FILES = ("attributes", "group", "mode", "owner", "selevel", "serole", "setype", "seuser", "unsafe_writes")
_OF_SPEC = ("type", "elements", "choices")
_NO = ("false", "no", "0")


def mistakes(manager: str, options: Mapping[str, Any]) -> list[str]:
    """Return all mistakes in the options of a repository for `apt` or `dnf`; none without options."""
    return [*_missing(manager, options), *_wrong(manager, options)] if options else []


def _missing(manager: str, options: Mapping[str, Any]) -> Iterator[str]:
    missing = [key for key in _NEEDED[manager] if not options.get(key)]
    if "gpgkey" in missing and str(options.get("gpgcheck", True)).lower() in _NO:
        missing.remove("gpgkey")
    for key in missing:
        allowed = ", ".join(_NEEDED[manager])
        yield f"{_NAME}: {key!r} is missing. Machines have {manager}: set {allowed}, as options of {_module(manager)}."


def _wrong(manager: str, options: Mapping[str, Any]) -> Iterator[str]:
    known = _documented(manager)
    for key, value in options.items():
        if manager == "dnf" and isinstance(value, Mapping):
            yield f"{_NAME}.{key}: is a mapping; allowed: text or a list"
        elif key in known:
            for text in spec_mistakes(f"{_NAME}.{key}", known[key], value):
                yield f"{_NAME}.{key}: {text}"
        # dnf reads more options than Ansible's module has; one of apt's is a repository for other machines.
        elif manager == "apt" or key in _documented("apt"):
            names = sorted(set(known) - set(_OF_FILES))
            hint = did_you_mean(str(key), names) or f" Allowed: options of {_module(manager)}."
            yield f"{_NAME}: key {key!r} is unknown. Machines have {manager}.{hint}"


def _module(manager: str) -> str:
    return f"ansible.builtin.{_MODULES[manager].__name__.rpartition('.')[2]}"


@cache
def _documented(manager: str) -> dict[str, dict[str, Any]]:
    """Return the options of the package manager's module as argument specs."""
    found = yaml.safe_load(_MODULES[manager].DOCUMENTATION)["options"]
    specs = {name: {key: one[key] for key in _OF_SPEC if key in one} for name, one in found.items()}
    if manager == "dnf":
        # A file of yum.repos.d takes a text or a list for each of these.
        specs = {name: {"type": "raw"} if one.get("type") in ("str", "list") else one for name, one in specs.items()}
    return {**{name: {"type": "raw"} for name in _OF_FILES}, **specs}
