# SPDX-License-Identifier: GPL-3.0-or-later
"""Determine which kernel GRUB boots next, from /boot and GRUB's settings; if they do not show it, nothing is guessed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ...common import command
from ...common.command import Outcome
from .dkms_packages import MANAGERS
from .grub_menu import kernel_of_entry

BOOT, DEFAULTS = Path("/boot"), Path("/etc/default/grub")
Run = Callable[[list[str]], Outcome]
# EL's rescue image, which is not a kernel release.
_RESCUE = "0-rescue-"
_NUMBERS = re.compile(r"(\d+)")
# Entries of GRUB by their position in the menu, such as 2 or 1>2.
_PLACE = re.compile(r"[0-9]+(>[0-9]+)*\Z")


class BootError(Exception):
    """Another kernel than the stated one boots next, or it is unknown; the text says what to do."""


class _UnknownError(Exception):
    """Reason why the kernel that boots next is unknown."""


@dataclass(frozen=True)
class Grub:
    """Settings of a machine's GRUB; `run` runs a program of this machine."""

    boot: Path = BOOT
    defaults: Path = DEFAULTS
    run: Run = field(default=command.run)

    def setting(self, name: str) -> str:
        """Return a setting of /etc/default/grub and of the files read after it; "" if it is not set."""
        files = [self.defaults, *sorted(Path(f"{self.defaults}.d").glob("*.cfg"))]
        text = "\n".join(path.read_text(errors="replace") for path in files if path.exists())
        found = re.findall(rf"^\s*{name}=[\"']?([^\"'\n]*)", text, re.MULTILINE)
        return found[-1].strip() if found else ""

    def memory(self) -> dict[str, str] | None:
        """Return the values that GRUB has saved; None if it has no file for them."""
        for name in ("grub/grubenv", "grub2/grubenv"):
            if (self.boot / name).exists():
                lines = (self.boot / name).read_text(errors="replace").splitlines()
                return {key: value for key, equals, value in (line.partition("=") for line in lines) if equals}
        return None

    def entries(self) -> dict[str, str]:
        """Return name -> kernel of the menu entry files, as EL has them."""
        found = {}
        for path in (self.boot / "loader/entries").glob("*.conf"):
            match = re.search(r"^version\s+(\S+)", path.read_text(errors="replace"), re.MULTILINE)
            found[path.stem] = match[1] if match else ""
        return found

    def by_entries(self) -> bool:
        """Return whether the menu consists of such files."""
        return self.setting("GRUB_ENABLE_BLSCFG").startswith("true") or bool(self.entries())


def kernels(boot: Path = BOOT) -> list[str]:
    """Return the bootable kernels, the newest last, as GRUB sorts them.

    >>> sorted(["6.1.0-9-amd64", "6.1.0-56-amd64"], key=_by_number)
    ['6.1.0-9-amd64', '6.1.0-56-amd64']
    """
    found = (path.name[len("vmlinuz-") :] for path in boot.glob("vmlinuz-*"))
    return sorted((release for release in found if not release.startswith(_RESCUE)), key=_by_number)


def next_kernel(grub: Grub | None = None) -> str:
    """Return the kernel that boots next: the newest one, unless GRUB is set otherwise. Raises BootError if that is unknown."""
    grub = grub or Grub()
    try:
        return _boots(grub, kernels(grub.boot), "")
    except _UnknownError as why:
        raise BootError(f"{why}: state `kernel`, one of {', '.join(kernels(grub.boot))}") from None


def boot_problem(kernel: str, manager: str, grub: Grub | None = None, *, installed: bool) -> str:
    """Return "" if a stated kernel boots next, or the reason why that is unknown.

    With `installed`, it must be installed already; otherwise the result assumes that it is. Raises BootError if another kernel boots, which
    would have no driver.
    """
    grub = grub or Grub()
    there = kernels(grub.boot)
    coming = "" if kernel in there else kernel
    if coming and installed:
        raise BootError(f"kernel {kernel} is stated but not installed ({grub.boot / f'vmlinuz-{kernel}'} not found)")
    try:
        boots = _boots(grub, sorted({*there, kernel}, key=_by_number), coming)
    except _UnknownError as why:
        return f"it is unknown whether kernel {kernel} boots next: {why}"
    if boots == kernel:
        return ""
    names = MANAGERS[manager]
    raise BootError(
        f"kernel {kernel} is stated, but {boots} boots next, for which no driver is proven. State that one, or remove it "
        f"({names.remove.format(kernel=boots)}), or make GRUB boot the stated one ({names.choose.format(kernel=kernel)})"
    )


def _boots(grub: Grub, found: list[str], coming: str) -> str:
    """Return which kernel of `found` boots; `coming` is one of them that is not installed yet."""
    if not found:
        raise _UnknownError(f"no kernel in {grub.boot}")
    memory, chosen, by_entries = grub.memory(), grub.setting("GRUB_DEFAULT"), grub.by_entries()
    if by_entries and coming:
        raise _UnknownError("GRUB has an entry for each kernel, and installing one may change the default entry")
    once = (memory or {}).get("next_entry", "")
    if not (once or by_entries) and chosen != "saved":
        return _entry(grub, chosen, found, coming, f"{grub.defaults} has GRUB_DEFAULT={chosen}")
    if memory is None:
        told = (
            f"GRUB boots one of the entries in {grub.boot / 'loader/entries'}"
            if by_entries
            else "GRUB boots the saved entry"
        )
        return _asked(
            grub, found, f"{told}, and grubenv, which records it, is missing, so the newest kernel need not boot next"
        )
    entry = once or memory.get("saved_entry", "")
    why = f"GRUB has saved {entry!r} as the entry that boots"
    if by_entries:
        release = grub.entries().get(entry, "") or ("" if _PLACE.match(entry) else _named(entry, found))
        return release or _asked(grub, found, why)
    return _entry(grub, entry, found, coming, why)


def _entry(grub: Grub, entry: str, found: list[str], coming: str, why: str) -> str:
    """Return the kernel of an entry of GRUB's menu as grub-mkconfig makes it: the newest is first, others are named by their release."""
    if entry in ("", "0"):
        return found[-1]
    menu = grub.boot / "grub/grub.cfg"
    by_place = bool(_PLACE.match(entry))
    release = "" if by_place else _named(entry, found)
    # The places of a menu change with a kernel that comes.
    if not release and menu.exists() and not (coming and by_place):
        release = kernel_of_entry(menu.read_text(errors="replace"), entry)
    if release not in found:
        raise _UnknownError(f"{why}, so the newest kernel need not boot next")
    return release


def _asked(grub: Grub, found: list[str], why: str) -> str:
    """Return what EL's own tool says, which knows about places in the menu."""
    said = grub.run(["grubby", "--default-kernel"])
    release = said.stdout.strip().rpartition("/vmlinuz-")[2]
    if said.code != 0 or release not in found:
        raise _UnknownError(why)
    return release


def _named(entry: str, found: list[str]) -> str:
    """Return the kernel whose release is in the name of an entry.

    >>> _named("gnulinux-6.1.0-5-amd64-advanced-9f", ["6.1.0-5-amd64", "6.1.0-55-amd64"])
    '6.1.0-5-amd64'
    """
    there = [one for one in found if re.search(rf"(?<![\w.+]){re.escape(one)}(?![\w.+])", entry)]
    return max(there, key=len, default="")


def _by_number(release: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in _NUMBERS.split(release)]
