# SPDX-License-Identifier: GPL-3.0-or-later
"""Find sources of apt and dnf that are in the way of ours, before ours are written; set them aside, and put them back.

apt refuses every command while two entries of one repository differ in Signed-By. dnf takes a package from whichever of two sections of one
address it likes, so the other one's `gpgcheck=0` would count.

What is set aside is in ``/var/lib/bedplate/foreign_sources.json``: the whole old content of each file, since a source may have a password
readable by root alone. It is written before the file changes, and left there until the file is back.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ...common import command
from ...common.command import Outcome
from ...common.files import atomic_write
from ..files.file_plan import DesiredFile
from ..files.manifest import NodeFilesError, digest
from ..files.write_problem import write_problem
from . import apt_sources, yum_sources
from .apt_sources import AptSource

VENDOR, REFUSE, TAKE_OVER = "vendor", "refuse", "take_over"
POLICIES = (VENDOR, REFUSE, TAKE_OVER)
RECORD = "foreign_sources.json"
_OS_RELEASE = Path("/etc/os-release")
_OUTSIDE = "which is outside of the snapshot"
# In a warning of apt about a repository whose older lists it keeps.
_UNPROVEN = "error occurred during the signature verification"


@dataclass(frozen=True)
class ForeignSource:
    """An entry that is in the way of a file of ours. `why` says in which respect."""

    path: str
    lines: tuple[int, int]
    place: str
    ours: str
    why: str


@dataclass(frozen=True)
class SetAside:
    """A file that was moved away, or in which entries were switched off.

    `left` is the digest of what remained of it, "" where nothing did. `instead`: files of ours for which it was done.
    """

    content: str
    mode: int
    uid: int
    gid: int
    left: str
    instead: list[str]


@dataclass
class SourceChanges:
    """Changes of files of others: done, or in check mode predicted."""

    changed_files: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    diff: list[dict[str, str]] = field(default_factory=list)
    kept: dict[str, str] = field(default_factory=dict)

    @property
    def changed(self) -> bool:
        """Return whether a file changes."""
        return bool(self.changed_files or self.removed)

    def added_to(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a module with these changes in it."""
        lists = {key: getattr(self, key) for key in ("changed_files", "removed", "changes", "diff")}
        return {
            **result,
            **{key: [*result.get(key, []), *found] for key, found in lists.items() if found or key in result},
            "changed": result["changed"] or self.changed,
            "kept": {**result["kept"], **self.kept},
        }


@dataclass(frozen=True)
class ForeignSources:
    """Sources on this machine that bedplate did not write. `apt` and `yum` are the directories of the package managers."""

    directory: Path
    check: bool
    apt: Path = apt_sources.APT
    yum: Path = yum_sources.YUM
    run: Callable[[list[str]], Outcome] = command.run

    def found(self, wanted: Sequence[DesiredFile], own: Collection[str], *, alone: bool = False) -> list[ForeignSource]:
        """Return the entries that are in the way of the desired files; `own` are paths that bedplate wrote.

        `alone`: every other entry is in the way. Raises NodeFilesError where a source cannot be read.
        """
        ours = [(entry.path, entry.content.decode("utf-8", "replace")) for entry in wanted if entry.state == "file"]
        known = {*own, *(path for path, _text in ours)}
        if alone:
            return [*self._others(ours, known)]
        return [*self._of_apt(ours, known), *self._of_dnf(ours, known)]

    def taken_over(
        self, found: Sequence[ForeignSource], policy: str, vendor: Sequence[str], diff: bool
    ) -> SourceChanges:
        """Set aside these entries, as far as `policy` allows it; `vendor` are patterns of names of files.

        Raises NodeFilesError with all refused entries: then nothing has changed.
        """
        files = {path: [one for one in found if one.path == path] for path in dict.fromkeys(one.path for one in found)}
        texts = {path: self._text(Path(path)) for path in files}
        remains = {path: self._without(path, texts[path], entries) for path, entries in files.items()}
        refused = [
            _refusal(one)
            for path, entries in files.items()
            if not _may(policy, vendor, path, remains[path])
            for one in entries
        ]
        if refused:
            raise NodeFilesError(refused)
        done = SourceChanges()
        for path, entries in files.items():
            self._set_aside(path, remains[path], sorted({one.ours for one in entries}))
            rest = remains[path]
            verb = "moved aside" if rest is None else "switched off"
            done.changes.append(f"{', '.join(one.place for one in entries)}: {verb}; it {entries[0].why}")
            (done.removed if rest is None else done.changed_files).append(path)
            if diff:
                done.diff.append(_diff(path, texts[path], rest or ""))
        return done

    def put_back(self, written: Collection[str], diff: bool) -> SourceChanges:
        """Restore the files that were set aside for files of ours that are no longer among `written`.

        A file that somebody has changed since stays as it is. Raises NodeFilesError where a file cannot be written.
        """
        done, record = SourceChanges(), self._record()
        for path, row in sorted(record.items()):
            if set(row.instead) & set(written):
                continue
            now = Path(path).read_bytes() if Path(path).is_file() else b""
            if digest(now) != row.left and (now or row.left):
                done.kept[path] = "it was changed since bedplate set an older one aside"
            else:
                done.changed_files.append(path)
                done.changes.append(f"{path}: restored, as {', '.join(row.instead)} was removed")
                if diff:
                    done.diff.append(_diff(path, now.decode("utf-8", "surrogateescape"), row.content))
                if not self.check:
                    self._put_back(Path(path), row)
            if not self.check:
                self._save({name: one for name, one in self._record().items() if name != path})
        return done

    def _put_back(self, path: Path, row: SetAside) -> None:
        try:
            _write(path, row.content, (row.mode, row.uid, row.gid))
        except OSError as error:
            text = f"Its content is in {self.directory / RECORD}, and the next run restores it"
            raise NodeFilesError([f"{write_problem(path, error)}. {text}"]) from error

    def refused(self, wanted: Sequence[DesiredFile]) -> str:
        """Run apt-get update; return its error if it names a repository of these files, else "".

        Where apt has older lists of a repository, another key than that which signed it is a warning for apt, and it ends with 0.
        """
        texts = [(entry.path, entry.content.decode("utf-8", "replace")) for entry in wanted if self._is_apt(entry.path)]
        uris = {one.uri.rstrip("/") for path, text in texts for one in apt_sources.parse(path, text)}
        done = self.run(["apt-get", "--quiet", "update"])
        said = done.stderr or done.stdout
        if done.code == 0:
            said = "\n".join(line for line in said.splitlines() if _UNPROVEN in line)
        if done.code is None or not any(uri in said for uri in uris):
            return ""
        return said.strip()

    def has_apt_sources(self, paths: Collection[str]) -> bool:
        """Return whether one of these is a file that apt reads its repositories from."""
        return any(self._is_apt(path) for path in paths)

    def _is_apt(self, path: str) -> bool:
        return Path(path).parent == self.apt / "sources.list.d" or Path(path) == self.apt / "sources.list"

    def _of_apt(self, ours: Sequence[tuple[str, str]], known: Collection[str]) -> Iterator[ForeignSource]:
        mine = [one for path, text in ours if self._is_apt(path) for one in apt_sources.parse(path, text)]
        if not mine:
            return
        for there in self._apt_entries(known):
            for one in mine:
                if there.repository == one.repository and (why := _conflict(there, one, str(self.apt))):
                    yield ForeignSource(there.path, there.lines, there.place, one.path, why)
                    break

    def _apt_entries(self, known: Collection[str]) -> Iterator[AptSource]:
        native = ""
        for path in self._files(apt_sources.source_files, self.apt):
            if str(path) in known:
                continue
            text = self._text(path)
            if "$(ARCH)" in text and not native:
                native = self.run(["dpkg", "--print-architecture"]).stdout.strip()
            yield from apt_sources.parse(str(path), text, native)

    def _others(self, ours: Sequence[tuple[str, str]], known: Collection[str]) -> Iterator[ForeignSource]:
        """Yield every enabled entry of others, for the package manager that ours are for."""
        mine = [path for path, _text in ours if self._is_apt(path)]
        for one in self._apt_entries(known) if mine else ():
            yield ForeignSource(one.path, one.lines, one.place, mine[0], f"names {one.uri} {one.suite}, {_OUTSIDE}")
        mine = [path for path, _text in ours if Path(path).parent == self.yum]
        for path in self._files(yum_sources.source_files, self.yum) if mine else ():
            for there in yum_sources.parse(str(path), self._text(path)) if str(path) not in known else ():
                yield ForeignSource(there.path, there.lines, there.place, mine[0], f"names {there.name}, {_OUTSIDE}")

    def _of_dnf(self, ours: Sequence[tuple[str, str]], known: Collection[str]) -> Iterator[ForeignSource]:
        mine = [one for path, text in ours if Path(path).parent == self.yum for one in yum_sources.parse(path, text)]
        if not mine:
            return
        variables = _variables()
        for path in self._files(yum_sources.source_files, self.yum):
            if str(path) in known:
                continue
            for there in yum_sources.parse(str(path), self._text(path), variables):
                for one in mine:
                    if both := set(there.urls) & set(one.urls):
                        why = (
                            f"names {sorted(both)[0]} under the id {there.name}, as {one.path} does under {one.name}: dnf would "
                            "check packages as either of them says"
                        )
                        yield ForeignSource(there.path, there.lines, there.place, one.path, why)
                        break

    def _files(self, read: Callable[[Path], list[Path]], directory: Path) -> list[Path]:
        try:
            return read(directory)
        except OSError as error:
            raise NodeFilesError([f"{directory}: cannot be read: {error.strerror}. No source was written"]) from error

    def _text(self, path: Path) -> str:
        try:
            # Line ends as they are: what is put back is the same file.
            return path.read_bytes().decode("utf-8", "surrogateescape")
        except OSError as error:
            raise NodeFilesError([f"{path}: cannot be read: {error.strerror}. No source was written"]) from error

    def _without(self, path: str, text: str, found: Sequence[ForeignSource]) -> str | None:
        """Return the text of a file without these entries; None if no other entry of it is in force."""
        off = {one.lines for one in found}
        if Path(path).parent == self.yum:
            sections = yum_sources.parse(path, text)
            if {one.lines for one in sections} <= off:
                return None
            return yum_sources.switched_off(text, [one for one in sections if one.lines in off])
        entries = apt_sources.parse(path, text)
        if {one.lines for one in entries} <= off and Path(path) != self.apt / "sources.list":
            return None
        return apt_sources.switched_off(path, text, [one for one in entries if one.lines in off])

    def _set_aside(self, path: str, rest: str | None, instead: list[str]) -> None:
        if self.check:
            return
        record, status = self._record(), Path(path).stat()
        before = record.get(path)
        text = self._text(Path(path))
        left = "" if rest is None else digest(rest.encode("utf-8", "surrogateescape"))
        if before and before.left == digest(text.encode("utf-8", "surrogateescape")):
            text = before.content  # what it was before the first change
        instead = sorted({*instead, *(before.instead if before else [])})
        row = SetAside(text, status.st_mode & 0o7777, status.st_uid, status.st_gid, left, instead)
        self._save({**record, path: row})
        try:
            if rest is None:
                Path(path).unlink()
            else:
                _write(Path(path), rest, (row.mode, row.uid, row.gid))
        except OSError as error:
            raise NodeFilesError([write_problem(Path(path), error)]) from error

    def _record(self) -> dict[str, SetAside]:
        path = self.directory / RECORD
        try:
            rows = json.loads(path.read_text(encoding="utf-8"))
            return {name: SetAside(**row) for name, row in rows.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as error:
            raise NodeFilesError(
                [
                    f"{path}: cannot be read: {error}. It holds the package sources that bedplate set aside. Restore it from a backup, or "
                    "move it away: then they are not put back"
                ]
            ) from error

    def _save(self, record: Mapping[str, SetAside]) -> None:
        path = self.directory / RECORD
        try:
            if not record:
                path.unlink(missing_ok=True)
                return
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            rows = {name: asdict(record[name]) for name in sorted(record)}
            atomic_write(path, json.dumps(rows, indent=1) + "\n", mode=0o600)
        except OSError as error:
            raise NodeFilesError([f"{write_problem(path, error)}. No source was changed"]) from error


def _conflict(there: AptSource, ours: AptSource, apt: str) -> str:
    """Return why apt refuses both entries, or would check ours less strictly; "" where they agree."""
    what = f"names {there.uri} {there.suite}, as {ours.path} will"
    if there.checks:
        return f"{what}, with {', '.join(there.checks)}, which would count for both"
    # apt reads sources.list first, then the others by name. An entry without the option agrees with one that follows.
    first = Path(there.path) == Path(apt) / "sources.list" or there.path < ours.path
    if there.signed_by == ours.signed_by or (first and not there.signed_by):
        return ""
    return f"{what}, with {_shown(there.signed_by)} instead of {_shown(ours.signed_by)}: apt would refuse every command"


def _shown(signed_by: str) -> str:
    if not signed_by:
        return "no Signed-By"
    return "an embedded key" if "\n" in signed_by else f"Signed-By {signed_by}"


def _may(policy: str, vendor: Sequence[str], path: str, rest: str | None) -> bool:
    if policy == VENDOR:
        # A file with more in it is the site's own, whatever its name.
        return rest is None and any(fnmatchcase(Path(path).name, one) for one in vendor)
    return policy == TAKE_OVER


def _refusal(one: ForeignSource) -> str:
    return (
        f"{one.place}: {one.why}. No source was written. Remove that entry, or have bedplate set it aside: "
        f"`foreign_sources: {TAKE_OVER}` in gpu_stack"
    )


def _diff(path: str, before: str, after: str) -> dict[str, str]:
    return {"before_header": f"before: {path}", "after_header": f"after: {path}", "before": before, "after": after}


def _write(path: Path, text: str, owned: tuple[int, int, int]) -> None:
    mode, uid, gid = owned
    owner = (uid, gid) if os.geteuid() == 0 else None
    atomic_write(path, text.encode("utf-8", "surrogateescape"), mode=mode, owner=owner)


def _variables() -> dict[str, str]:
    """Return dnf's variables in addresses: the architecture, and the release as its distribution counts it."""
    found = {"basearch": os.uname().machine}
    try:
        lines: list[Any] = _OS_RELEASE.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return found
    for line in lines:
        name, _sign, value = line.partition("=")
        if name == "VERSION_ID":
            found["releasever"] = value.strip("\"'").partition(".")[0]
    return found
