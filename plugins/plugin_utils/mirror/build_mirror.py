# SPDX-License-Identifier: GPL-3.0-or-later
"""From systems and their origins to a list of artifacts, and to a mirror that has them all."""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command

from . import artifacts, downloads, signed_repository, signing
from .apt_root import AptRoot, config_of
from .downloads import Download
from .mirror_model import (
    File,
    Key,
    Listing,
    MirrorError,
    MirrorOrigin,
    MirrorPackage,
    MirrorReport,
    MirrorSystem,
    PackageSet,
)
from .signed_repository import IndexEntry, SignedRepository
from .signing import Signer

_TOOLS = {"apt-get": "apt", "apt-cache": "apt", "apt-config": "apt", "gpg": "gnupg", "gpgconf": "gnupg"}
JSON, CSV, KEY = "artifacts.json", "artifacts.csv", "key.asc"


@dataclass(frozen=True)
class Order:
    """The order for a run. `cache` is for apt's lists, `prune` to remove what the list does not have, `check` to change nothing."""

    cluster: str
    directory: Path
    cache: Path
    systems: tuple[MirrorSystem, ...]
    files: tuple[File, ...] = ()
    list_only: bool = False
    prune: bool = False
    check: bool = False


def check_tools() -> None:
    """Refuse a machine without apt and gpg before anything is done."""
    packages = {package for tool, package in _TOOLS.items() if not command.find(tool)}
    if not Path(downloads.HELPER).exists():
        packages.add("apt")
    if packages:
        raise MirrorError(
            [
                f"this machine lacks what makes a mirror: apt-get install {' '.join(sorted(packages))} (a Debian or Ubuntu that "
                "reaches the origins; a container will do)"
            ]
        )


def resolve(order: Order) -> list[Listing]:
    """Return the needs of each system, resolved with its origins now; MirrorError: all mistakes, over all systems."""
    found, mistakes = [], []
    for system in order.systems:
        try:
            found.append(_listing(order, system))
        except MirrorError as error:
            mistakes += error.mistakes
    if mistakes:
        raise MirrorError(mistakes)
    return found


def _listing(order: Order, system: MirrorSystem) -> Listing:
    merged: dict[tuple[str, str, str], MirrorPackage] = {}
    keys: set[Key] = set()
    mistakes: list[str] = []
    for origins in dict.fromkeys(one.origins for one in system.sets):
        try:
            root = AptRoot(_root_of(order, system.name, origins), system, origins)
            root.prepare()
            keys |= {signing.key_of(origin.name, root.key_file(origin)) for origin in origins}
            root.update()
        except MirrorError as error:
            mistakes += error.mistakes
            continue
        for one in system.sets:
            if one.origins == origins:
                mistakes += _merge(merged, root, one)
    if mistakes:
        raise MirrorError(mistakes)
    ordered = sorted(keys, key=lambda key: (key.origin, key.sha256))
    return Listing(system, tuple(merged[identity] for identity in sorted(merged)), tuple(ordered))


def _root_of(order: Order, system: str, origins: tuple[MirrorOrigin, ...]) -> Path:
    return order.cache / system / hashlib.sha256(repr(origins).encode()).hexdigest()[:12]


def _merge(merged: dict[tuple[str, str, str], MirrorPackage], root: AptRoot, one: PackageSet) -> list[str]:
    """Add the packages of a set; return its mistakes."""
    try:
        found = root.packages(one)
    except MirrorError as error:
        return error.mistakes
    mistakes = []
    for package in found:
        known = merged.setdefault(package.identity, package)
        if known.sha256 != package.sha256:
            mistakes.append(
                f"{root.system.name}: {' '.join(package.identity)} is one file at {known.url} and another at {package.url}; a mirror "
                "can have only one of them. Let the profiles of this system have one source"
            )
        merged[package.identity] = _both(known, package)
    return mistakes


def _both(one: MirrorPackage, other: MirrorPackage) -> MirrorPackage:
    parts = tuple(sorted({*one.parts, *other.parts}))
    return MirrorPackage(**{**vars(one), "parts": parts, "asked": one.asked or other.asked})


class Mirror:
    """The mirror's directory, and its changes for a list."""

    def __init__(self, order: Order, listings: Sequence[Listing], signer: Signer | None) -> None:
        """`signer` is missing if no key exists yet and this run makes none: in check mode, and for a list alone."""
        self.order = order
        self.listings = listings
        self.signer = signer
        self.report = MirrorReport(fingerprint=signer.fingerprint if signer else "")
        self.list = artifacts.listed(order.cluster, listings, order.files)
        self.report.listed = len(self.list["packages"])
        self.report.listed_bytes = self.list["bytes"]

    def apply(self) -> MirrorReport:
        """Fetch what is missing, then publish; in check mode only say what that would be."""
        if not self.order.list_only:
            self._mirror()
        self._write_lists()
        self.report.changed = bool(
            self.report.changed or self.report.fetched or self.report.published or self.report.removed
        )
        return self.report

    def _mirror(self) -> None:
        wanted = {listing.system.name: self._entries(listing) for listing in self.listings}
        self._fetch()
        for listing in self.listings:
            name = listing.system.name
            place = self._repository(listing.system)
            current = self.signer is not None and place.is_current(wanted[name], self.signer)
            if not current:
                self.report.published.append(name)
                if self.signer is not None and not self.order.check:
                    self._write_key()
                    place.publish(wanted[name], self.signer)
            self._prune(place, wanted[name])
        if self.signer is not None:
            self._write_key()

    def _repository(self, system: MirrorSystem) -> SignedRepository:
        return SignedRepository(self.order.directory / system.name, system.name, system.architecture)

    def _entries(self, listing: Listing) -> list[IndexEntry]:
        """Return the new index: the list, and the earlier entries unless they are pruned."""
        entries = {package.identity: signed_repository.entry_of(package) for package in listing.packages}
        if self.order.prune or self.signer is None:
            return list(entries.values())
        base = self.order.directory / listing.system.name
        older = [one for one in self._repository(listing.system).published(self.signer) if one.identity not in entries]
        spoilt = {
            job.target for job in downloads.absent(Download("", base / one.file, one.sha256, one.size) for one in older)
        }
        for one in older:
            if base / one.file in spoilt:
                self.report.warnings.append(f"{listing.system.name}: {one.called} of an earlier list is missing in the pool, or changed; "
                                            "it leaves the index")  # fmt: skip
            else:
                entries[one.identity] = one
                self.report.kept.append(f"{listing.system.name}: {one.called}")
        return list(entries.values())

    def _fetch(self) -> None:
        missing = downloads.absent(self._jobs())
        self.report.fetched = sorted({job.url for job in missing})
        self.report.fetched_bytes = downloads.size_of(missing)
        if self.order.check or not missing:
            return
        system = self.listings[0].system
        config = config_of(_root_of(self.order, system.name, system.sets[0].origins))
        downloads.fetch_all(missing, self.order.directory, config, "the index is as it was")

    def _jobs(self) -> Iterator[Download]:
        for listing in self.listings:
            for package in listing.packages:
                target = self.order.directory / listing.system.name / package.file
                yield Download(package.url, target, package.sha256, package.size)
        for file in self.order.files:
            yield Download(file.url, self.order.directory / "files" / file.name, file.sha256)

    def _prune(self, place: SignedRepository, entries: Sequence[IndexEntry]) -> None:
        if not self.order.prune:
            return
        for path in place.surplus(entries):
            self.report.removed.append(f"{place.system}: {path.name}")
            if not self.order.check:
                path.unlink()

    def _write_key(self) -> None:
        if self.signer is None:
            raise AssertionError("a mirror that is written has a signer")
        self._apply(KEY, self.signer.public)

    def _write_lists(self) -> None:
        self._apply(JSON, artifacts.as_json(self.list))
        self._apply(CSV, artifacts.as_csv(self.list))

    def _apply(self, name: str, text: str) -> None:
        path = self.order.directory / name
        data = text.encode()
        if path.is_file() and path.read_bytes() == data:
            return
        self.report.changed = True
        if not self.order.check:
            signed_repository.write(path, data)


@contextmanager
def alone(cache: Path) -> Iterator[None]:
    """Keep a second run out of the same lists."""
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (cache / "lock").open("w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise MirrorError(
                [f"another run is making this mirror now (it holds {cache / 'lock'}); wait until it has ended"]
            ) from None
        yield


def make(order: Order, signer: Callable[[], Signer | None]) -> tuple[MirrorReport, dict[str, Any]]:
    """List and mirror; return the report and the list. `signer` is called only after all systems have been resolved."""
    check_tools()
    with alone(order.cache):
        listings = resolve(order)
        mirror = Mirror(order, listings, signer())
        return mirror.apply(), mirror.list
