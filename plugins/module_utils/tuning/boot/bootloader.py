# SPDX-License-Identifier: GPL-3.0-or-later
"""Detect the boot loader of a machine, and plan its changes for the desired tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import boot_entries, cmdline_tokens, grub_scripts
from .boot_entries import CMDLINE, ENTRY, GRUBENV, CommandLines, FileLines
from .boot_files import BootRecord, inside, read
from .cmdline_tokens import CmdlineError, Token

SUPPORTED = (
    "supported are GRUB with update-grub, as on Debian and Ubuntu, and boot loader entries (/boot/loader/entries/*.conf), "
    "as EL and systemd-boot have them"
)
_ENTRIES = ("boot/loader/entries", "efi/loader/entries", "boot/efi/loader/entries")
_PROGRAMS = ("usr/sbin", "sbin", "usr/bin", "usr/local/sbin")
# The last of its directory, so that the drop-ins of vendors and of cloud images are read before it.
DROP_IN = "etc/default/grub.d/zz-bedplate.cfg"


@dataclass
class BootPlan:
    """Plan of a change: texts of files (None: no file), a command after them, and the next boot's command lines."""

    loader: str
    texts: dict[Path, str | None] = field(default_factory=dict)
    seen: dict[str, CommandLines] = field(default_factory=dict)
    gave_way: dict[str, None] = field(default_factory=dict)
    # Command lines of the next boot, for GRUB in GRUB's words.
    lines: list[str] = field(default_factory=list)
    grub: bool = True
    command: list[str] = field(default_factory=list)
    # Our tokens that must no longer be in the result of the command.
    unwanted: list[Token] = field(default_factory=list)
    config: Path | None = None


def find(sysroot: Path) -> str:
    """Return `grub` or `entries`, or ``""`` if there is no boot loader, as in a container.

    Raises CmdlineError for an unsupported boot loader.
    """
    entries = _entries(sysroot)
    debian = (sysroot / "boot/grub").is_dir() and bool(_program(sysroot, "update-grub", "grub-mkconfig"))
    if (sysroot / "etc/zipl.conf").exists():
        raise _unsupported(sysroot, "zipl (/etc/zipl.conf)")
    images = [*sysroot.glob("boot/efi/EFI/Linux/*.efi"), *sysroot.glob("efi/EFI/Linux/*.efi")]
    if images:
        beside = f", beside boot loader entries (/{entries[0].parent.relative_to(sysroot)})" if entries else ""
        what = f"a unified kernel image, which has its command line inside ({images[0]}){beside}"
        raise _unsupported(sysroot, what)
    if entries and debian:
        where = entries[0].parent.relative_to(sysroot)
        raise _unsupported(
            sysroot,
            f"both GRUB (/boot/grub) and boot loader entries (/{where}), so it is unknown which one boots this machine",
        )
    configs = _grub_configs(sysroot)
    if entries and configs and not any("blscfg" in (read(path) or "") for path in configs):
        raise _unsupported(sysroot, f"a GRUB that does not read boot loader entries: blscfg not found in {configs[0]}")
    if entries:
        return "entries"
    if debian:
        return "grub"
    if configs or (sysroot / "boot/grub2").is_dir() or _program(sysroot, "grub2-mkconfig"):
        raise _unsupported(sysroot, "GRUB 2 without update-grub and without boot loader entries")
    return ""


def _unsupported(sysroot: Path, found: str) -> CmdlineError:
    return CmdlineError(
        [
            f"the boot loader of {sysroot} is not supported for changes of the kernel command line: found {found}; {SUPPORTED}"
        ]
    )


def plan(sysroot: Path, loader: str, wanted: Sequence[Token], record: BootRecord) -> BootPlan:
    """Return the plan for exactly these tokens. Raises one CmdlineError with all problems."""
    return _grub(sysroot, wanted, record) if loader == "grub" else _with_entries(sysroot, wanted, record)


def _grub(sysroot: Path, wanted: Sequence[Token], record: BootRecord) -> BootPlan:
    drop_in, config = sysroot / DROP_IN, sysroot / "boot/grub/grub.cfg"
    text = grub_scripts.shell(wanted) if wanted else None
    decided = BootPlan("grub", config=config, lines=grub_scripts.kernel_lines(read(config) or ""))
    before = cmdline_tokens.others([*record.own, *record.past], wanted)
    old = grub_scripts.old_drop_in(drop_in)
    changes = read(drop_in) != text or old.exists()
    stale = grub_scripts.mismatched_line(decided.lines, wanted) or (wanted and not decided.lines)
    if not (changes or stale or before):
        return decided
    line = grub_scripts.judged(sysroot, drop_in, text, wanted)
    there = {token.same for token in cmdline_tokens.tokens(line, grub=True)}
    decided.unwanted = [token for token in before if token.same not in there]
    if changes:
        if read(drop_in) != text:
            decided.texts[drop_in] = text
        if old.exists():
            decided.texts[old] = None
        theirs = grub_scripts.judged(sysroot, drop_in, None, [])
        decided.gave_way.update(dict.fromkeys(cmdline_tokens.displaced(theirs, wanted, grub=True)))
    if changes or stale or grub_scripts.mismatched_line(decided.lines, [], decided.unwanted):
        decided.lines = [line]
        decided.command = _command(sysroot)
    return decided


def _command(sysroot: Path) -> list[str]:
    update = _program(sysroot, "update-grub")
    argv = [update] if update else [_program(sysroot, "grub-mkconfig"), "-o", "/boot/grub/grub.cfg"]
    return argv if sysroot == Path("/") else ["chroot", str(sysroot), *argv]


def _with_entries(sysroot: Path, wanted: Sequence[Token], record: BootRecord) -> BootPlan:
    odd = [str(token) for token in wanted if not token.plain]
    if odd:
        raise CmdlineError(
            [f"{', '.join(odd)}: boot loader entries are read differently by GRUB and systemd-boot; allowed are letters, digits, "
             "blanks in quotes and _ . , : = / + @ % ~ ! ^ -"]
        )  # fmt: skip
    decided = BootPlan("entries", grub=bool(_grub_configs(sysroot)) or (sysroot / "boot/grub2").is_dir())
    own = cmdline_tokens.known(record.own)
    _settings(sysroot, decided, wanted)
    problems: list[str] = []
    for path, lines in _files(sysroot, decided.grub):
        try:
            _planned(decided, path, lines, wanted, record.files.get(str(path)), own)
        except CmdlineError as error:
            problems += [f"{path}: {problem}" for problem in error.problems]
    if problems:
        raise CmdlineError(problems)
    return decided


def _planned(
    decided: BootPlan,
    path: Path,
    lines: FileLines,
    wanted: Sequence[Token],
    seen: CommandLines | None,
    own: Sequence[Token],
) -> None:
    base = boot_entries.original_lines(lines, seen, own)
    after, back = boot_entries.planned_lines(lines, base, wanted)
    if list(wanted) == list(own) and boot_entries.has_tokens(lines, wanted):
        # Somebody put other tokens after ours, or a new kernel got ours: nothing to correct.
        after, back = lines.values, seen.back if seen else []
    text = lines.with_values(after)
    if text != lines.text:
        decided.texts[path] = text
        decided.gave_way.update(dict.fromkeys(back))
    if wanted:
        decided.seen[str(path)] = CommandLines(base, FileLines(lines.kind, text, lines.grub).values, back)
    if lines.kind == ENTRY:
        decided.lines += after


def _settings(sysroot: Path, decided: BootPlan, wanted: Sequence[Token]) -> None:
    """Plan the settings of GRUB, from which grub2-mkconfig generates command lines."""
    path = inside(sysroot, sysroot / "etc/default/grub")
    text = read(path)
    if text is None or not decided.grub:
        return
    after = boot_entries.with_block(text, grub_scripts.shell(wanted) if wanted else "")
    if after != text:
        grub_scripts.judged(sysroot, path, after, wanted)
        decided.texts[path] = after


def _files(sysroot: Path, grub: bool) -> list[tuple[Path, FileLines]]:
    """Return the files with command lines; of those for later kernels, /etc/kernel/cmdline only if it exists."""
    entries = [(path, read(path) or "") for path in _entries(sysroot)]
    environment = inside(sysroot, sysroot / "boot/grub2/grubenv")
    common = FileLines(GRUBENV, read(environment) or "", grub) if grub else None
    found = []
    for path, text in entries:
        lines = FileLines(ENTRY, text, grub)
        elsewhere = bool(common and common.values) and any("$kernelopts" in value.split() for value in lines.values)
        found.append((path, FileLines(ENTRY, text, grub, elsewhere)))
    if common and common.values:
        found.append((environment, common))
    later = inside(sysroot, sysroot / "etc/kernel/cmdline")
    text = read(later) or ""
    return [*found, (later, FileLines(CMDLINE, text, grub))] if text.strip() else found


def _entries(sysroot: Path) -> list[Path]:
    for directory in _ENTRIES:
        found = sorted((sysroot / directory).glob("*.conf"))
        if found:
            return found
    return []


def _grub_configs(sysroot: Path) -> list[Path]:
    """Return the files that EL's grub2-mkconfig generated; Debian's and newer EL's files on the EFI partition only point to another."""
    efi = [path for path in sorted(sysroot.glob("boot/efi/EFI/*/grub.cfg")) if "10_linux" in (read(path) or "")]
    return [path for path in [sysroot / "boot/grub2/grub.cfg"] if path.exists()] + efi


def _program(sysroot: Path, *names: str) -> str:
    for name in names:
        for directory in _PROGRAMS:
            if (sysroot / directory / name).exists():
                return f"/{directory}/{name}"
    return ""
