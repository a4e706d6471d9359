# SPDX-License-Identifier: GPL-3.0-or-later
"""Add tokens to the kernel command line of a machine, or remove them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...common import command as node_command
from ...common.sysfs import Root
from ...primitives.files import manifest
from . import boot_files, bootloader, cmdline_pages, cmdline_tokens, grub_scripts
from .boot_files import BootRecord, Writer
from .bootloader import BootPlan
from .cmdline_tokens import CmdlineError, Token
from .running_cmdline import reboot_reason

Run = Callable[[list[str]], node_command.Outcome]


def _patiently(argv: list[str]) -> node_command.Outcome:
    return node_command.run(argv, 600.0)  # update-grub may look for other systems on every disk


def apply_tokens(
    sysroot: Path, texts: Iterable[str], state: Path, check: bool, run: Run = _patiently
) -> dict[str, Any]:
    """Change the command line to exactly these tokens of ours, and return the result of the module.

    `state` is the directory of bedplate's records. Raises CmdlineError after restoring every change.
    """
    wanted = _wanted(sysroot, texts)
    running = running_tokens(sysroot)
    loader = _loader(sysroot, wanted)
    with manifest.locked(state, create=bool(wanted) and not check):
        path = state / boot_files.FILE_NAME
        record = boot_files.load(path)
        decided = bootloader.plan(sysroot, loader, wanted, record) if loader else BootPlan("")
        was = {file: boot_files.read(file) for file in decided.texts}
        changed = bool(decided.texts or decided.command)
        if changed and not check:
            keep = _keep_in_step(sysroot)
            _carry_out(decided, wanted, path, (record, _remembered(record, wanted, running, decided)), run)
            keep()
    next_boot = {token.same for line in decided.lines for token in cmdline_tokens.tokens(line, decided.grub)}
    past = [
        token for token in cmdline_tokens.others([*record.own, *record.past], wanted) if token.same not in next_boot
    ]
    reason = reboot_reason(running, wanted, past)
    return {
        "changed": changed,
        "tokens": [str(token) for token in wanted],
        "running": [str(token) for token in running],
        "reboot_wanted": bool(reason),
        "reason": reason,
        "loader": loader,
        "gave_way": list(decided.gave_way),
        "diff": _diff(decided, was),
    }


def compare_tokens(sysroot: Path, texts: Iterable[str]) -> dict[str, Any]:
    """Compare the running kernel with the tokens of a machine that boots from the network; return the result of the module."""
    wanted, running = _wanted(sysroot, texts), running_tokens(sysroot)
    reason = reboot_reason(running, wanted, [])
    return {
        "changed": False,
        "tokens": [str(token) for token in wanted],
        "running": [str(token) for token in running],
        "reboot_wanted": bool(reason),
        "reason": reason,
        "loader": "network",
        "gave_way": [],
        "diff": [],
    }


def refuse(sysroot: Path, texts: Iterable[str], state: Path) -> None:
    """Raise CmdlineError if these tokens could not be set here; huge pages are not compared with the memory. Change nothing."""
    wanted = cmdline_tokens.parse(texts)
    loader = _loader(sysroot, wanted)
    if loader:
        bootloader.plan(sysroot, loader, wanted, boot_files.load(state / boot_files.FILE_NAME))


def _wanted(sysroot: Path, texts: Iterable[str]) -> list[Token]:
    wanted = cmdline_tokens.parse(texts)
    if refused := cmdline_pages.refusals(Root(str(sysroot)), wanted):
        raise CmdlineError([str(one) for one in refused])
    return wanted


def _loader(sysroot: Path, wanted: Sequence[Token]) -> str:
    """Return the boot loader of a machine; "" if no tokens need one. CmdlineError: not found, for tokens that need one."""
    loader = bootloader.find(sysroot)
    if not loader and wanted:
        raise CmdlineError(
            [
                f"no boot loader found below {sysroot}, so the kernel command line cannot be changed: {bootloader.SUPPORTED}. "
                "For a machine that boots from the network, set `boot: network` in its profile of the cluster file: its boot server sets "
                "the tokens. With `boot: none`, bedplate sets and compares no token. A container has its host's kernel: set "
                "node_tuning_manage: false"
                + ("" if os.geteuid() == 0 else ". This was not run as root, and only root can look into /boot/loader")
            ]
        )
    return loader


def running_tokens(sysroot: Path) -> list[Token]:
    """Return the tokens that the running kernel was started with; empty without /proc."""
    text = boot_files.read(sysroot / "proc/cmdline") or ""
    try:
        return cmdline_tokens.tokens(text)
    except CmdlineError:  # cut in the middle of a value
        return cmdline_tokens.tokens(text.replace('"', ""))


def _remembered(record: BootRecord, wanted: Sequence[Token], running: Sequence[Token], decided: BootPlan) -> BootRecord:
    runs = {token.same for token in running}
    past = [str(token) for token in cmdline_tokens.others([*record.own, *record.past], wanted) if token.same in runs]
    return BootRecord([str(token) for token in wanted], list(dict.fromkeys(past)), decided.seen)


def _carry_out(
    decided: BootPlan, wanted: Sequence[Token], path: Path, records: tuple[BootRecord, BootRecord], run: Run
) -> None:
    before, after = records
    old = [str(token) for token in cmdline_tokens.others(before.own, wanted)]
    made = boot_files.read(decided.config) if decided.config else None
    writer = Writer()
    # Write the record before the files, so that an interrupted run leaves no unrecorded token.
    ahead = replace(before, own=[*after.own, *old], files=decided.seen or before.files)
    writer.write({path: ahead.text(), **decided.texts})
    said = _make(decided, wanted, run) if decided.command else ""
    if not said:
        writer.write({path: after.text()})
        return
    writer.undo()
    if decided.config and boot_files.read(decided.config) != made:
        again = run(decided.command)
        said += "" if again.code == 0 else f", and again without our tokens: {again.text}"
    raise CmdlineError([f"{said}. The old files were restored"])


def _keep_in_step(sysroot: Path) -> Callable[[], None]:
    """Return the function that restores the age of /etc/kernel/cmdline: if it is older than GRUB's settings, it is generated from them."""
    settings, later = sysroot / "etc/default/grub", sysroot / "etc/kernel/cmdline"
    if not (settings.exists() and later.exists()):
        return lambda: None
    older = 0 if later.stat().st_mtime_ns >= settings.stat().st_mtime_ns else 1_000_000_000

    def keep() -> None:
        moment = settings.stat().st_mtime_ns - older
        os.utime(later, ns=(moment, moment))

    return keep


def _make(decided: BootPlan, wanted: Sequence[Token], run: Run) -> str:
    """Generate grub.cfg, read it back, and return its mistakes."""
    outcome = run(decided.command)
    command = " ".join(decided.command)
    if outcome.code != 0:
        ending = "did not end in time" if outcome.code is None else f"ended with {outcome.code}"
        return f"{command} {ending}: {outcome.stderr.strip() or outcome.stdout.strip() or 'no output'}"
    if decided.config is None:
        raise AssertionError("a command that writes grub.cfg has its path")
    lines = grub_scripts.kernel_lines(boot_files.read(decided.config) or "")
    if not lines and wanted:
        return f"{command} generated {decided.config} without an entry for a kernel in its part of 10_linux"
    bad = grub_scripts.mismatched_line(lines, wanted, decided.unwanted)
    if not bad:
        return ""
    tokens = " ".join(map(str, wanted)) or f"no {' '.join(map(str, decided.unwanted))}"
    return f"{command} generated {decided.config} without {tokens} in this line: {bad}"


def _diff(decided: BootPlan, was: dict[Path, str | None]) -> list[dict[str, str]]:
    found = []
    for path, after in decided.texts.items():
        before = was[path]
        found.append(
            {
                "before_header": f"{path}{' (absent)' if before is None else ''}",
                "after_header": f"{path}{' (removed)' if after is None else ''}",
                "before": _shown(before),
                "after": _shown(after),
            }
        )
    if decided.command and not found:
        found.append({"prepared": f"{decided.config} does not match its settings: {' '.join(decided.command)}\n"})
    return found


def _shown(text: str | None) -> str:
    return (text or "").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
