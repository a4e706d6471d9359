# SPDX-License-Identifier: GPL-3.0-or-later
"""Edit tokens in boot loader entries and related files, and compute the original text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from . import cmdline_tokens
from .cmdline_tokens import CmdlineError, Token

ENTRY, CMDLINE, GRUBENV = "entry", "cmdline", "grubenv"
# The beginning of a line with a command line, and the rest of the line with its separating blanks.
_FORMS = {
    ENTRY: re.compile(r"^([ \t]*options)((?:[ \t].*)?)$", re.MULTILINE),
    CMDLINE: re.compile(r"^()([ \t]*[^#\s].*)$", re.MULTILINE),
}
_KERNELOPTS = re.compile(r"^kernelopts=((?:[^\n\\]|\\.)*)$", re.MULTILINE | re.DOTALL)
_BEGIN, _END = "# bedplate kernel_cmdline: begin\n", "# bedplate kernel_cmdline: end\n"
_BLOCK = re.compile(rf"(?:\A|\n){_BEGIN}.*?^{_END}", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class CommandLines:
    """Command lines of a file before and after the change; `back` are the words that were replaced."""

    before: list[str]
    after: list[str]
    back: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class FileLines:
    """The command lines of one file. With `elsewhere`, another file has our tokens: only other tokens with our keys are removed."""

    kind: str
    text: str
    grub: bool
    elsewhere: bool = False

    @property
    def values(self) -> list[str]:
        """Return the command lines: all `options` of an entry, the lines of a cmdline file, kernelopts of an environment."""
        if self.kind == GRUBENV:
            found = _KERNELOPTS.search(self.text)
            return [re.sub(r"\\(.)", r"\1", found[1], flags=re.DOTALL)] if found else []
        return [match[2] for match in _FORMS[self.kind].finditer(self.text)]

    def with_values(self, values: Sequence[str]) -> str:
        """Return the text with other command lines, and everything else unchanged."""
        if list(values) == self.values:
            return self.text
        if self.kind == GRUBENV:
            return self._environment(values[0])
        head = "options " if self.kind == ENTRY else ""
        there = list(_FORMS[self.kind].finditer(self.text))
        if len(there) < len(values):  # it had none
            line = head + values[-1]
            return f"{self.text}{line}\n" if not self.text or self.text.endswith("\n") else f"{self.text}\n{line}"
        text = self.text
        if len(there) > len(values):  # it had none before us
            start, end = there[-1].span()
            return text[:start] + text[end + 1 :] if text[end:] else text[:start].removesuffix("\n")
        for match, value in reversed(list(zip(there, values))):
            gap = " " if match[1] and value and value[0] not in " \t" else ""
            text = text[: match.start()] + match[1] + gap + value + text[match.end() :]
        return text

    def _environment(self, value: str) -> str:
        escaped = re.sub(r"([\\\n])", r"\\\1", value)
        body = _KERNELOPTS.sub(lambda _match: f"kernelopts={escaped}", self.text, count=1).rstrip("#")
        size = len(self.text.encode("utf-8", "surrogateescape"))
        room = size - len(body.encode("utf-8", "surrogateescape"))
        if room < 0:
            raise CmdlineError([f"GRUB's environment has {size} bytes, and the tokens need {-room} more"])
        return body + "#" * room


def original_lines(lines: FileLines, seen: CommandLines | None, own: Sequence[Token]) -> list[str]:
    """Return the command lines of a file without our tokens, byte for byte unless they were changed since."""
    values = lines.values
    if seen and values == seen.after:
        return list(seen.before)
    if (seen and values == seen.before) or not values:
        return values
    # Somebody changed it, or a new kernel's entry was created from the running command line, with our tokens.
    last = cmdline_tokens.without_tokens(values[-1], own, seen.back if seen else [], lines.grub)
    return [*values[:-1], last]


def planned_lines(lines: FileLines, base: Sequence[str], tokens: Sequence[Token]) -> tuple[list[str], list[str]]:
    """Return the desired command lines of a file, and the words in them that are replaced."""
    if not tokens:
        return list(base), []
    back = [word for value in base for word in cmdline_tokens.displaced(value, tokens, lines.grub)]
    families = cmdline_tokens.owned(tokens)
    head = [cmdline_tokens.cleared(value, families, lines.grub) for value in base]
    if lines.elsewhere:
        return head, back
    last = cmdline_tokens.placed(base[-1] if base else "", tokens, lines.grub)
    return [*head[:-1], last], back


def has_tokens(lines: FileLines, tokens: Sequence[Token]) -> bool:
    """Return whether exactly these tokens of their families are in the lines, at any place."""
    found = [token for value in lines.values for token in cmdline_tokens.tokens(value, lines.grub)]
    there = [token.same for token in cmdline_tokens.of_families(found, cmdline_tokens.owned(tokens))]
    return there == ([] if lines.elsewhere else [token.same for token in tokens])


def with_block(text: str, shell: str) -> str:
    """Return GRUB's settings with our shell text at their end; ``""`` removes it, to the byte."""
    found = _BLOCK.search(text)
    if found:
        head, rest = text[: found.start()], text[found.end() :]
        text = head + ("\n" if rest and head and not head.endswith("\n") else "") + rest
    return f"{text}\n{_BEGIN}{shell}{_END}" if shell else text
