# SPDX-License-Identifier: GPL-3.0-or-later
"""Write tokens for GRUB's own scripts (shell that grub-mkconfig reads), and parse the resulting grub.cfg."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...common import command
from . import token_lists
from .cmdline_tokens import CmdlineError, Token, merged, of_families, owned, split, tokens

# Sourced by grub-mkconfig with `set -e`, by whatever /bin/sh is, and by kernel-install's plugin with bash: no command, no
# pipe, no word splitting, nothing left behind but the two variables. It reads them as GRUB will: quotes, backslashes.
# No line begins with a variable's name, for grubby and others rewrite such lines with sed.
_SHELL = r"""bedplate_word() {
    case $bedplate_bare in
        '') [ -n "$bedplate_raw" ] || return 0 ;;
        --) bedplate_end=$bedplate_raw$bedplate_rest bedplate_rest= ;;
    esac
    case $bedplate_bare in
        --) ;;
@KEYS@@LISTS@        *) bedplate_kept=$bedplate_kept$bedplate_gap$bedplate_raw ;;
    esac
    bedplate_gap= bedplate_raw= bedplate_bare=
}
bedplate_read() {
    bedplate_rest=$1 bedplate_kept= bedplate_end= bedplate_gap= bedplate_raw= bedplate_bare= bedplate_quote=
    while [ -n "$bedplate_rest" ]; do
        bedplate_run=${bedplate_rest%%[ @TAB@\"\'\\]*}
        bedplate_rest=${bedplate_rest#"$bedplate_run"}
        bedplate_raw=$bedplate_raw$bedplate_run bedplate_bare=$bedplate_bare$bedplate_run
        bedplate_char=${bedplate_rest%"${bedplate_rest#?}"}
        bedplate_rest=${bedplate_rest#?}
        case $bedplate_quote$bedplate_char in
            '') ;;
            ' ' | '@TAB@')
                bedplate_rest=$bedplate_char$bedplate_rest
                bedplate_word
                if [ -n "$bedplate_rest" ]; then
                    bedplate_rest=${bedplate_rest#?} bedplate_gap=$bedplate_gap$bedplate_char
                fi
                ;;
            \\ | \"\\)
                bedplate_char=${bedplate_rest%"${bedplate_rest#?}"}
                bedplate_rest=${bedplate_rest#?}
                bedplate_raw=$bedplate_raw\\$bedplate_char bedplate_bare=$bedplate_bare$bedplate_char
                ;;
            \"\" | \'\') bedplate_raw=$bedplate_raw$bedplate_char bedplate_quote= ;;
            \" | \') bedplate_raw=$bedplate_raw$bedplate_char bedplate_quote=$bedplate_char ;;
            *) bedplate_raw=$bedplate_raw$bedplate_char bedplate_bare=$bedplate_bare$bedplate_char ;;
        esac
    done
    bedplate_word
}
if :; then
    bedplate_own='@OWN@'
    bedplate_read "${GRUB_CMDLINE_LINUX-}"
    GRUB_CMDLINE_LINUX="$bedplate_kept${bedplate_kept:+ }$bedplate_own${bedplate_end:+ }$bedplate_end"
    if [ -z "$bedplate_end" ]; then
        bedplate_read "${GRUB_CMDLINE_LINUX_DEFAULT-}"
        GRUB_CMDLINE_LINUX_DEFAULT="$bedplate_kept${bedplate_end:+ }$bedplate_end"
    fi
fi
unset -f bedplate_word bedplate_read
unset bedplate_own bedplate_rest bedplate_kept bedplate_end bedplate_gap bedplate_raw bedplate_bare bedplate_quote
unset bedplate_run bedplate_char
"""
# Options of a list are removed from others' words, unless a word has characters that GRUB needs quotes for: then it stays as it is, and the
# result is refused.
_LIST_CASE = """        @KEY@=*) bedplate_list '@KEY@=' ;;
"""
_LIST_SHELL = r"""bedplate_list() {
    bedplate_more=${bedplate_bare#*=}, bedplate_left= bedplate_gone=
    while [ -n "$bedplate_more" ]; do
        bedplate_option=${bedplate_more%%,*}
        bedplate_more=${bedplate_more#*,}
        case $1$bedplate_option in
            @OPTIONS@) bedplate_gone=x ;;
            *) bedplate_left=$bedplate_left${bedplate_left:+,}$bedplate_option ;;
        esac
    done
    case $bedplate_gone$bedplate_bare in
        x*[!A-Za-z0-9_.,:=/+@%~!^-]* | [!x]*) bedplate_kept=$bedplate_kept$bedplate_gap$bedplate_raw ;;
        *) [ -z "$bedplate_left" ] || bedplate_kept=$bedplate_kept$bedplate_gap$1$bedplate_left ;;
    esac
}
"""
_LIST_END = """unset -f bedplate_list
unset bedplate_more bedplate_left bedplate_gone bedplate_option
"""
_NOTE = """# bedplate's tokens of the kernel command line. Other settings of the same keys are replaced; they return without this file.
"""
# Both lines of a machine: what it would boot without our tokens, and with them.
_EVALUATE = """for bedplate_file do if [ -e "$bedplate_file" ]; then . "$bedplate_file" >&2; fi; done
printf '%s\\n%s\\n' "$GRUB_CMDLINE_LINUX" "$GRUB_CMDLINE_LINUX_DEFAULT"
"""
_SECTION = re.compile(r"### BEGIN \S*/10_linux\S* ###$(.*?)^### END ", re.MULTILINE | re.DOTALL)
_LINUX = re.compile(r"^\s*linux(?:16|efi)?[ \t]+\S+(.*)$", re.MULTILINE)


def shell(wanted: Sequence[Token]) -> str:
    """Return the shell text that adds tokens to GRUB_CMDLINE_LINUX and removes the replaced ones from both variables."""
    names: dict[str, None] = {}
    families = sorted(owned(wanted))
    lists = token_lists.options(families)
    for family in families:
        if token_lists.key_of(family) == family:
            names.update(dict.fromkeys([family, "hugepagesz"] if family == "hugepages" else [family]))
    keys = f"        {_patterns(name.replace('_', '[-_]') for name in names)}) ;;\n" if names else ""
    own = " ".join(token.for_grub for token in merged(wanted))  # no token has a single quote
    text = _SHELL.replace("@KEYS@", keys).replace("@OWN@", own).replace("@TAB@", "\t")
    text = text.replace("@LISTS@", "".join(_LIST_CASE.replace("@KEY@", key) for key in lists))
    if not lists:
        return _NOTE + text
    options = _patterns(f"{key}={name}" for key, found in lists.items() for name in found)
    return _NOTE + _LIST_SHELL.replace("@OPTIONS@", options) + text + _LIST_END


def _patterns(names: Iterable[str]) -> str:
    """Return the patterns of a shell's `case` for words with these names, with a value and without one."""
    return " | ".join(f"{name} | {name}=*" for name in names)


def evaluated(files: Sequence[Path]) -> str:
    """Return the command line that grub-mkconfig would write, in GRUB's syntax, from settings files in this order.

    Raises CmdlineError with the shell's error if it cannot read them, or with the text that GRUB could not read.
    """
    outcome = command.run(["sh", "-ec", _EVALUATE, "sh", *map(str, files)], 60.0)
    if outcome.code != 0:
        raise CmdlineError([f"the settings of GRUB cannot be read by sh, as grub-mkconfig would: {outcome.text}"])
    line = " ".join(part for part in outcome.stdout.split("\n") if part)
    try:
        split(line, grub=True)
    except CmdlineError as error:
        where = "; ".join(places(files, set())) or ", ".join(map(str, files))
        raise CmdlineError(
            [f"GRUB could not read the command line in its settings: {error}. It is set here: {where}"]
        ) from error
    return line


def judged(sysroot: Path, path: Path, text: str | None, wanted: Sequence[Token]) -> str:
    """Return the command line from GRUB's settings with this text at a path; None means no file.

    Raises CmdlineError if the result lacks a desired token, with file and line of the setting that removes it.
    """
    order = settings(sysroot, path)
    with tempfile.TemporaryDirectory(prefix="bedplate-") as scratch:
        planned = Path(scratch) / path.name
        if text is not None:
            planned.write_bytes(text.encode("utf-8", "surrogateescape"))
        try:
            line = evaluated([planned if one == path else one for one in order])
        except CmdlineError as error:
            raise CmdlineError([problem.replace(str(planned), str(path)) for problem in error.problems]) from error
    if mismatched_line([line], wanted):
        later = order[order.index(path) + 1 :]
        found = places(later, owned(wanted))
        why = f"A file that is read later overrides it: {'; '.join(found or map(str, order))}. Remove that setting"
        lists = {family for family in owned(wanted) if token_lists.key_of(family) != family}
        if not found and (words := places([one for one in order if one != path], lists)):
            why = (
                f"An option cannot be removed from a token with quotes or backslashes: {'; '.join(words)}. Write the option as a "
                "separate token there"
            )
        raise CmdlineError(
            [
                f"{path} would not set {' '.join(map(str, wanted))}: kernels would get {line.strip()!r}. {why}. Nothing was changed"
            ]
        )
    return line


def kernel_lines(text: str) -> list[str]:
    """Return the kernel command lines in a grub.cfg, in GRUB's syntax, without the kernel's path."""
    return [line for section in _SECTION.findall(text) for line in _LINUX.findall(section)]


def mismatched_line(lines: Iterable[str], wanted: Sequence[Token], unwanted: Iterable[Token] = ()) -> str:
    """Return the first line that has not exactly the desired tokens of their families, or has unwanted ones; else ``""``."""
    families, own = owned(wanted), [token.same for token in wanted]
    gone = {token.same for token in unwanted}
    for line in lines:
        try:
            found = tokens(line, grub=True)
        except CmdlineError:
            return line.strip()
        if [token.same for token in of_families(found, families)] != own or any(token.same in gone for token in found):
            return line.strip()
    return ""


def settings(sysroot: Path, own: Path) -> list[Path]:
    """Return the files that grub-mkconfig reads, in its order, including ours even if it does not exist."""
    directory = sysroot / "etc/default"
    # A shell's * sorts by the locale, but the beginning of a name is nearly always decisive.
    drop_ins = set((directory / "grub.d").glob("*.cfg")) - {old_drop_in(own)} | ({own} - {directory / "grub"})
    return [directory / "grub", *sorted(drop_ins)]


def old_drop_in(own: Path) -> Path:
    """Return the path of our drop-in in releases before 0.2.0, which drop-ins of vendors could override. It goes when ours is written."""
    return own.with_name("60-bedplate.cfg")


def places(files: Iterable[Path], families: set[str]) -> list[str]:
    """Return the lines that name keys of these families or set the variables: ``file:line: the line``."""
    found, keys = [], {token_lists.key_of(family) for family in families}
    for path in files:
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue
        for number, line in enumerate(lines, 1):
            bare = line.strip()
            words = re.findall(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", bare.split("#")[0])
            if any(word.startswith("GRUB_CMDLINE_LINUX") or Token(word).family in keys for word in words):
                found.append(f"{path}:{number}: {bare}")
    return found
