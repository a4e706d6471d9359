# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the command line of the next boot, and of the next update-grub; other files may override bedplate's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ...common.finding import WARNING, Finding
from ...common.remedies import run_role_again
from ...common.sysfs import Root
from ...primitives.files.manifest import STATE_DIRECTORY, NodeFilesError
from . import boot_files, bootloader, cmdline_change, grub_scripts, token_lists
from .cmdline_tokens import CmdlineError, Token, known, of_families, owned, tokens

_UPDATE = "update-grub"


def drift_of_loader(root: Root, tokens: Sequence[str]) -> Iterator[Finding]:
    """Compare the boot loader's command line: its entries, or grub.cfg and bedplate's file."""
    fix = f"{run_role_again('node_tuning')}; who changed it?"
    try:
        result = cmdline_change.apply_tokens(root.top, tokens, Path(root.top, STATE_DIRECTORY.lstrip("/")), check=True)
    except (CmdlineError, NodeFilesError) as error:
        yield Finding(
            "boot-loader",
            "boot loader",
            " ".join(tokens),
            "; ".join(error.problems),
            "correct that; then " + run_role_again("node_tuning"),
        )
        return
    if result["changed"]:
        heads = [diff.get("before_header") or diff["prepared"].strip() for diff in result["diff"]]
        top = str(root.top).rstrip("/")
        yield Finding(
            "boot-loader",
            "boot loader",
            "the tokens of the role",
            f"other ones: {', '.join(heads).replace(top, '')}",
            fix,
        )


def findings(root: Root, wanted: Sequence[str]) -> Iterator[Finding]:
    """Evaluate GRUB's settings as grub-mkconfig does, and compare; yield nothing for another boot loader or none."""
    try:
        if bootloader.find(root.top) != "grub":
            return
        files = grub_scripts.settings(root.top, root.top / bootloader.DROP_IN)
        given = tokens(grub_scripts.evaluated(files), grub=True)
    except CmdlineError as error:
        where = "result of update-grub"
        yield Finding(
            "boot-settings", where, " ".join(wanted), "; ".join(error.problems), "correct the settings of GRUB"
        )
        return
    own = known(wanted)
    for family in dict.fromkeys(token.family for token in own):
        want, there = of_families(own, {family}), of_families(given, {family})
        if _same(want) != _same(there):
            yield Finding(
                "boot-settings", f"result of update-grub, {family}", _text(want), _text(there) or "nothing",
                "remove the setting before you run update-grub", overridden_by=_who(root, files, want, family),
            )  # fmt: skip
    yield from _stale(root, files, given, own)


def _who(root: Root, files: Sequence[Path], want: Sequence[Token], family: str) -> str:
    """Return the first file after ours, with its line, after which the tokens of a family differ from the desired ones."""
    start = files.index(root.top / bootloader.DROP_IN) + 1

    def is_overridden(given: Sequence[Token]) -> bool:
        return _same(of_families(given, {family})) != _same(want)

    return _first(root, files, start, is_overridden, family)


def _first(
    root: Root, files: Sequence[Path], start: int, has_happened: Callable[[Sequence[Token]], bool], family: str
) -> str:
    """Return the file, with its line, that causes an effect; files before `start` are evaluated with the first one."""
    for end in range(start, len(files) + 1):
        if has_happened(tokens(grub_scripts.evaluated(files[:end]), grub=True)):
            path = files[end - 1]
            if path == root.top / bootloader.DROP_IN:
                return ""
            found = grub_scripts.places([path], {family})
            key = token_lists.key_of(family)
            named = next((one for one in found if key in one.partition(": ")[2]), found[0] if found else str(path))
            return _place(root, named)
    return ""


def _place(root: Root, place: str) -> str:
    """Return FILE:LINE, as a path of the machine, from `FILE:LINE: text`."""
    bare = place.removeprefix(str(root.top).rstrip("/"))
    return ":".join(part.strip() for part in bare.split(":")[:2])


def _stale(root: Root, files: Sequence[Path], given: Sequence[Token], own: Sequence[Token]) -> Iterator[Finding]:
    """Yield tokens that other settings add and grub.cfg does not have yet: the next kernel would get them unexpectedly."""
    lines = grub_scripts.kernel_lines(boot_files.read(root.top / "boot/grub/grub.cfg") or "")
    if not lines:
        return
    try:
        made = {token.same for token in tokens(lines[0], grub=True)}
    except CmdlineError:
        return
    families = owned(own)
    late = [token for token in given if token.same not in made and token.family not in families]
    if late:
        place = _first(root, files, 1, lambda there: late[0].same in _same(there), late[0].family)
        yield Finding(
            "boot-stale", "/boot/grub/grub.cfg", f"generated from its settings, with {_text(late)}", "generated before they changed",
            f"{_UPDATE}, or remove the setting", severity=WARNING, overridden_by=place,
        )  # fmt: skip


def _same(found: Sequence[Token]) -> list[tuple[str, str | None]]:
    return [token.same for token in found]


def _text(found: Sequence[Token]) -> str:
    return " ".join(map(str, found))
