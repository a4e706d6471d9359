# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare modprobe's configuration: modules that must be loadable, and modules that must not be loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..common.command import Runner, run_quick
from ..common.finding import Finding
from ..common.remedies import run_role_again
from ..common.sysfs import Root

# Of several files with one name, modprobe reads the first.
DIRECTORIES = ("etc/modprobe.d", "run/modprobe.d", "usr/local/lib/modprobe.d", "usr/lib/modprobe.d", "lib/modprobe.d")
DRACUT = ("etc/dracut.conf.d", "usr/lib/dracut/dracut.conf.d")
_FORCED = re.compile(r"""\s*force_drivers\+?=["']?([^"'#]*)""")


@dataclass(frozen=True)
class Rule:
    """Hold a line of modprobe's configuration: `verb` is blacklist, install, alias, ...; `rest` follows the module's name."""

    verb: str
    module: str
    rest: str
    place: str

    @property
    def text(self) -> str:
        """Return the line."""
        return f"{self.verb} {self.module} {self.rest}".strip()


def kernel_name(name: str) -> str:
    """Return a module's name in the kernel's spelling."""
    return name.replace("-", "_")


def rules(root: Root) -> list[Rule]:
    """Return all lines of the files that modprobe reads, in its order, and the blacklist of the kernel command line."""
    found = []
    for path in _files(root, DIRECTORIES, ".conf"):
        for number, line in _joined(root.lines(path)):
            words = line.split(None, 2)
            if len(words) > 1 and not words[0].startswith("#"):
                found.append(
                    Rule(
                        words[0], kernel_name(words[1]), words[2].strip() if len(words) > 2 else "", f"/{path}:{number}"
                    )
                )
    for token in (root.text("proc/cmdline", needed=False) or "").split():
        key, _equals, value = token.partition("=")
        if key in ("modprobe.blacklist", "module_blacklist"):
            found += [Rule("blacklist", kernel_name(one), "", f"/proc/cmdline: {token}") for one in value.split(",")]
    return found


def _joined(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield lines, each with the number of its first line; a backslash at the end continues a line."""
    start, pending = 0, ""
    for number, line in enumerate(lines, 1):
        start = start if pending else number
        if line.endswith("\\"):
            pending += line[:-1] + " "
            continue
        yield start, pending + line
        pending = ""
    if pending:
        yield start, pending


def findings(root: Root, expected: Mapping[str, Any], run: Runner = run_quick) -> Iterator[Finding]:
    """Compare `expected["modules"]`, which must be loadable, and `expected["blacklisted"]`, which `expected["role"]` blocks."""
    found = _in_force(rules(root), run)
    for name in expected.get("modules", ()):
        for rule in found:
            if rule.module == kernel_name(name) and (hindrance := _hindrance(rule)):
                yield Finding(
                    "modprobe", f"kernel module {name}", "loadable", hindrance, "remove the line; then modprobe " + name,
                    overridden_by=rule.place,
                )  # fmt: skip
    yield from _unwanted(root, found, expected.get("blacklisted", ()), str(expected.get("role", "")))


def _hindrance(rule: Rule) -> str:
    """Return the text in a line that prevents its module from being loaded; "" if nothing does."""
    if rule.verb == "blacklist":
        return "blacklisted"
    if rule.verb == "install" and not re.search(r"(modprobe|insmod)\b", rule.rest):
        return f"replaced by {rule.rest}"
    return "alias off" if rule.verb == "alias" and rule.rest == "off" else ""


def _unwanted(root: Root, found: Sequence[Rule], names: Sequence[str], role: str) -> Iterator[Finding]:
    places = list(_loaded(root)) if names else []
    for name in names:
        if not any(rule.module == kernel_name(name) and _hindrance(rule) for rule in found):
            yield Finding("modprobe", f"kernel module {name}", "blacklisted", "loadable", run_role_again(role))
        for module, place in places:
            if module == kernel_name(name):
                yield Finding(
                    "modprobe", f"kernel module {name}", "not loaded at boot", "loaded at boot", f"remove {place}",
                    overridden_by=place,
                )  # fmt: skip


def _loaded(root: Root) -> Iterator[tuple[str, str]]:
    """Return (module, place) of each module that an initramfs or the command line loads by name, in spite of a blacklist.

    systemd-modules-load honours the blacklist.
    """
    for path in ("etc/initramfs-tools/modules", "usr/share/initramfs-tools/modules"):
        for number, line in enumerate(root.lines(path), 1):
            if words := line.split("#")[0].split():
                yield kernel_name(words[0]), f"/{path}:{number}"
    for path in ("etc/dracut.conf", *_files(root, DRACUT, ".conf")):
        for number, line in enumerate(root.lines(path), 1):
            if match := _FORCED.match(line):
                for name in match[1].split():
                    yield kernel_name(name), f"/{path}:{number}"
    for token in (root.text("proc/cmdline", needed=False) or "").split():
        key, _equals, value = token.partition("=")
        if key in ("rd.driver.pre", "rd.driver.post"):
            for name in value.split(","):
                yield kernel_name(name), f"/proc/cmdline: {token}"


def _in_force(found: list[Rule], run: Runner) -> list[Rule]:
    """Return the lines that modprobe itself shows, if it can be run."""
    outcome = run(["modprobe", "--showconfig"])
    if outcome.code != 0 or not outcome.stdout.strip():
        return found
    shown = {tuple(line.split(None, 2)[:2]) for line in outcome.stdout.splitlines()}
    shown = {(words[0], kernel_name(words[1])) for words in shown if len(words) > 1}
    # modprobe does not show module_blacklist=, which is the kernel's own.
    return [one for one in found if (one.verb, one.module) in shown or one.place.startswith("/proc/cmdline")]


def _files(root: Root, folders: Sequence[str], ending: str) -> list[str]:
    files: dict[str, str] = {}
    for folder in folders:
        for name in root.names(folder):
            if name.endswith(ending):
                files.setdefault(name, f"{folder}/{name}")
    return [files[name] for name in sorted(files)]
