# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the key files of a cluster file with the fingerprints in it, and with the keys that owners publish."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..cluster import Cluster, GpuStack
from ..cluster.gpu_stack_checks import armored
from ..cluster.schema.fields import Path
from ..cluster.schema.late_mistakes import MistakeCollector
from ..gpu_stack import stack_table
from . import openpgp, vendor_keys
from .vendor_keys import VendorKey

_MIRROR = "mirror"


@dataclass(frozen=True)
class KeyReport:
    """Lines about the keys of a cluster: mistakes end the run, notices are keys that nothing was compared with.

    `compared` are the keys that are as stated or published.
    """

    mistakes: list[str]
    notices: list[str]
    compared: list[str]


@dataclass(frozen=True)
class _KeyFile:
    """A key file that a profile names. `below`: its key below gpu_stack. `vendor`: the owner's key, if the repository is at its owner's."""

    below: Path
    repository: str
    system: str
    path: str
    stated: tuple[str, ...]
    vendor: VendorKey | None
    why_unknown: str

    @property
    def setting(self) -> str:
        """Return the setting of gpu_stack that states a fingerprint, up to the value."""
        return "mirror: {..., fingerprint: " if self.repository == _MIRROR else f"fingerprints: {{{self.repository}: "


def trusted(path: str, stated: Sequence[str]) -> str:
    """Return the armored key of a file. ValueError: no such key, or a key with another fingerprint than the stated ones."""
    text = armored(path)
    if stated and (why := _not_stated(path, _fingerprints(path, text), stated)):
        raise ValueError(why)
    return text


def judged(cluster: Cluster, mirrors: bool = True) -> KeyReport:
    """Read and compare every key file of a cluster's repositories; without `mirrors` no key of a mirror, which may not exist yet.

    Only a run that installs GPU software needs the files, so the cluster file is read without them.
    """
    wrong, unsure = MistakeCollector(cluster.path), MistakeCollector(cluster.path)
    compared: dict[str, None] = {}
    for name, profile in cluster.profiles.items():
        for one in _key_files(profile.gpu_stack) if profile.gpu_stack else ():
            if one.repository == _MIRROR and not mirrors:
                continue
            at: tuple[Path, Path] = ("profiles", name, "gpu_stack", *one.below), ("gpu_stack", *one.below)
            try:
                found = _fingerprints(one.path, armored(one.path))
            except ValueError as error:
                wrong.add(at[0], str(error), at[1])
                continue
            if why := _mistake(one, found):
                wrong.add(at[0], why, at[1])
            elif notice := _notice(one, found):
                unsure.add(at[0], notice, at[1])
            else:
                doubt = "" if one.stated or one.vendor is None or one.vendor.verified else " (not verified)"
                compared[f"{one.repository} {', '.join(map(openpgp.written, found))}{doubt}"] = None
    return KeyReport(wrong.lines(), unsure.lines(), list(compared))


def _key_files(stack: GpuStack) -> Iterator[_KeyFile]:
    stated: Mapping[str, tuple[str, ...]] = dict(stack.fingerprints)
    elsewhere = dict(stack.urls)
    sources = {row.name: row.source for row in stack_table.default().repositories}
    for name, path in stack.keys:
        if sources.get(name) not in ("", None, stack.source):
            continue  # a key for other profiles: no node of this one reads its repository
        known = vendor_keys.key_of(name, stack.os)
        why = (
            f"`urls` names another address than its owner's{', and its owner signs with another key' if known else ''}"
        )
        if name not in elsewhere:
            why = f"no published fingerprint of {name} for {stack.os} is known to bedplate"
        vendor = None if name in elsewhere else known
        if name in elsewhere and known and _is_vendors(path, known):
            vendor = known
        yield _KeyFile(("keys", name), name, stack.os, path, stated.get(name, ()), vendor, why)
    if stack.mirror:
        why = "a mirror has its own key"
        yield _KeyFile(("mirror", "key"), _MIRROR, stack.os, stack.mirror.key, stack.mirror.fingerprints, None, why)


def _is_vendors(path: str, known: VendorKey) -> bool:
    try:
        return all(map(known.fits, _fingerprints(path, armored(path))))
    except ValueError:
        return False


def _mistake(one: _KeyFile, found: Sequence[str]) -> str:
    if one.stated:
        return _not_stated(one.path, found, one.stated)
    others = [each for each in found if one.vendor and not one.vendor.fits(each)]
    if one.vendor is None or not others:
        return ""
    expected = openpgp.written(one.vendor.fingerprint) or f"... {openpgp.written(one.vendor.ends)}"
    return (
        f"{one.path} has the key {_written(others)}. {one.vendor.owner} signs the repository {one.repository} of {one.system} with "
        f"{expected}. Put that key there. If "
        f"{one.vendor.owner} has published a new key, compare it with the publication, and state its fingerprint in gpu_stack: "
        f'`{one.setting}"{others[0]}"}}`.'
    )


def _not_stated(path: str, found: Sequence[str], stated: Sequence[str]) -> str:
    others = [each for each in found if each not in map(openpgp.normalised, stated)]
    if not others:
        return ""
    allowed = _written([openpgp.normalised(each) for each in stated])
    return (
        f"{path} has the key {_written(others)}. The stated fingerprint is {allowed}. Put the right key there, or, if the owner of the "
        "repository has published a new key, its fingerprint into the cluster file."
    )


def _notice(one: _KeyFile, found: Sequence[str]) -> str:
    if one.stated or (one.vendor and one.vendor.fingerprint):
        return ""
    why = f"only its end, {one.vendor.ends}, was compared" if one.vendor else f"it was not compared: {one.why_unknown}"
    return (
        f"{one.path} has the key {_written(found)}; {why}. Compare it with what the owner of the repository publishes, and state it in "
        f'gpu_stack: `{one.setting}"{found[0]}"}}`.'
    )


def _written(fingerprints: Sequence[str]) -> str:
    return ", ".join(map(openpgp.written, fingerprints))


def _fingerprints(path: str, text: str) -> tuple[str, ...]:
    try:
        return _of_text(text)
    except ValueError as error:
        raise ValueError(
            f"{path} cannot be read as an armored key: {error}; `gpg --armor --export` writes such a file"
        ) from None


@lru_cache(maxsize=64)
def _of_text(text: str) -> tuple[str, ...]:
    return openpgp.fingerprints(text)
