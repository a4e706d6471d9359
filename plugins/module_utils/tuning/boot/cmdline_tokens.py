# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse, add and remove tokens of a kernel command line; all other tokens stay unchanged, byte for byte."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from . import token_lists

_BLANKS = " \t\n\v\f\r"  # the kernel's separators
_END = "--"  # everything after it is for init, not for the kernel
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
# Characters without a meaning to a shell, to GRUB and to the kernel's own parser.
_SAFE = re.compile(r"[A-Za-z0-9_.,:=/+@%~!^-]*\Z")
# A size applies to the number after it, so both must have the same owner.
_FAMILIES = {"hugepagesz": "hugepages"}
_QUOTED = re.compile(r'(?:[^"]*|[^"=]*="[^"]*"|"[^"]*")\Z')
_BOOT_LOADERS = frozenset(["root", "ro", "rw", "init", "rdinit", "initrd", "BOOT_IMAGE"])


class CmdlineError(Exception):
    """Problems that prevent a change; `problems` are whole sentences."""

    def __init__(self, problems: Sequence[str]) -> None:
        """Keep every problem, so that one run reports them all."""
        super().__init__("\n".join(problems))
        self.problems = list(problems)


@dataclass(frozen=True)
class Token:
    """One token without quotes; without an equals sign it has no `value`."""

    key: str
    value: str | None = None

    @property
    def family(self) -> str:
        """Return the key by which tokens are owned; of a key with a list, the option. The kernel reads dashes in a key as underscores."""
        name = self.key.replace("-", "_")
        if name in token_lists.KEYS and self.value:
            return token_lists.family(name, self.value)
        return _FAMILIES.get(name, name)

    @property
    def parts(self) -> list[Token]:
        """Return a token for each option of a key with a list; all other tokens are one part."""
        if self.key not in token_lists.KEYS or not self.value:
            return [self]
        return [Token(self.key, option) for option in self.value.split(",") if option] or [self]

    @property
    def same(self) -> tuple[str, str | None]:
        """Return a value that is equal for two tokens with the same meaning."""
        return self.key.replace("-", "_"), self.value

    def __str__(self) -> str:
        """Return the token as the kernel reads it."""
        if self.value is None:
            return self.key
        quoted = any(blank in self.value for blank in _BLANKS)
        return f'{self.key}="{self.value}"' if quoted else f"{self.key}={self.value}"

    @property
    def for_grub(self) -> str:
        """Return the token as a word of a GRUB script, as in the text of a `linux` line."""
        if self.value is None or _SAFE.match(self.value):
            return str(self)
        if any(blank in self.value for blank in _BLANKS):
            escaped = self.value.replace("$", r"\$")
            return f'{self.key}="{escaped}"'
        return f"{self.key}=" + "".join(char if _SAFE.match(char) else f"\\{char}" for char in self.value)

    @property
    def plain(self) -> bool:
        """Return whether all characters mean the same to every boot loader, including blanks in quotes."""
        return self.value is None or bool(_SAFE.match(re.sub("[ \t]", "", self.value)))


@dataclass(frozen=True)
class PlacedToken:
    """A token in a text: the blanks before it, its bytes, and its text without quotes."""

    gap: str
    raw: str
    bare: str

    @property
    def token(self) -> Token:
        """Return the parsed token."""
        key, equals, value = self.bare.partition("=")
        return Token(key, value if equals else None)

    def with_parts(self, left: Sequence[Token], grub: bool) -> PlacedToken | None:
        """Return the word with some of its token's parts: unchanged with all of them, None without any."""
        if len(left) == len(self.token.parts):
            return self
        if not left:
            return None
        (token,) = merged(left)
        return PlacedToken(self.gap, token.for_grub if grub else str(token), str(token))


def split(text: str, grub: bool = False) -> list[PlacedToken]:
    r"""Return the words of a command line; `grub` says whether GRUB reads it, with its own quotes and backslashes.

    Raises CmdlineError for a quote that does not end, or a backslash with nothing after it.

    >>> [word.raw for word in split('quiet  dyndbg="file a.c +p" x')]
    ['quiet', 'dyndbg="file a.c +p"', 'x']
    """
    words: list[PlacedToken] = []
    gap = raw = bare = quote = ""
    skip = False
    for char in text:
        if skip or (quote and char != quote and not (grub and quote == '"' and char == "\\")):
            raw, bare, skip = raw + char, bare + char, False
        elif char in _BLANKS:
            if raw:
                words.append(PlacedToken(gap, raw, bare))
                gap = raw = bare = ""
            gap += char
        else:
            raw += char
            if grub and char == "\\" and quote != "'":
                skip = True
            elif char == '"' or (grub and char == "'"):
                quote = "" if quote else char
            else:
                bare += char
    if quote or skip:
        what = f"the quote {quote} does not end" if quote else "a backslash is the last character"
        raise CmdlineError([f"{what}: {text!r}"])
    if raw:
        words.append(PlacedToken(gap, raw, bare))
    return words


def tokens(text: str, grub: bool = False) -> list[Token]:
    """Return the tokens for the kernel."""
    found = []
    for word in split(text, grub):
        if word.bare == _END:
            break
        found += word.token.parts
    return found


def merged(found: Iterable[Token]) -> list[Token]:
    """Return tokens in which neighbours of one key with a list are one token.

    >>> [str(token) for token in merged(parse(["pci=realloc", "pci=noaer", "quiet"]))]
    ['pci=realloc,noaer', 'quiet']
    """
    together: list[Token] = []
    for token in found:
        last = together[-1] if together else None
        if last and last.value and token.value and last.key == token.key and token.key in token_lists.KEYS:
            together[-1] = Token(token.key, f"{last.value},{token.value}")
        else:
            together.append(token)
    return together


def parse(texts: Iterable[str]) -> list[Token]:
    """Return the desired tokens. Raises CmdlineError with all mistakes in them."""
    found: list[Token] = []
    problems: list[str] = []
    for text in texts:
        try:
            found += _parsed(text).parts
        except CmdlineError as error:
            problems += error.problems
    sized = False
    for token in found:
        sized = sized or token.same[0] == "hugepagesz"
        if token.same[0] == "hugepages" and not sized:
            problems.append(f"{token}: the page size is missing. Write hugepagesz=2M or hugepagesz=1G before it")
            break
    if problems:
        raise CmdlineError(problems)
    return found


def known(texts: Iterable[str]) -> list[Token]:
    """Return tokens from texts that `str` of a token wrote."""
    return [token for text in texts for word in split(text) for token in word.token.parts]


def others(texts: Iterable[str], wanted: Sequence[Token]) -> list[Token]:
    """Return the tokens, as texts from `str`, that are not among the desired ones."""
    own = {token.same for token in wanted}
    return [token for token in known(texts) if token.same not in own]


def _parsed(text: str) -> Token:
    if not text.isascii() or not text.isprintable() or not text:
        raise CmdlineError([f"{text!r} is not a token. Allowed: printable ASCII characters in one line"])
    words = split(text)
    if len(words) != 1 or words[0].gap or words[0].raw != text:
        raise CmdlineError([f'{text!r} is not one token. Blanks are allowed in double quotes: key="a b"'])
    token = words[0].token
    if not _KEY.match(token.key):
        raise CmdlineError([f"{text!r}: {token.key!r} is not a key. Allowed: letters, digits, _ . and -"])
    if token.key in _BOOT_LOADERS:
        raise CmdlineError([f"{text!r}: {token.key} belongs to the boot loader and to the installation"])
    if not _QUOTED.match(text):
        raise CmdlineError([f'{text!r}: double quotes are allowed around the whole value: key="a b"'])
    if token.value is not None and re.search(r"['\\]", token.value):
        raise CmdlineError([f"{text!r}: GRUB puts a backslash before ' and \\, so the kernel would read another value"])
    return token


def owned(wanted: Iterable[Token]) -> set[str]:
    """Return the families that the owner of these tokens owns."""
    return {token.family for token in wanted}


def of_families(found: Iterable[Token], families: set[str]) -> list[Token]:
    """Return the tokens of these families, in their order."""
    return [token for token in found if token.family in families]


def placed(text: str, wanted: Sequence[Token], grub: bool = False) -> str:
    """Return a command line with exactly these tokens of their families, at the end of what is for the kernel.

    >>> placed("ro iommu=soft quiet -- s", parse(["iommu=pt"]))
    'ro quiet iommu=pt -- s'
    """
    kept, rest = _halves(text, grub)
    body = _bytes(_left(kept, owned(wanted), grub))
    own = " ".join(str(token) for token in merged(wanted))
    return _joined(body, own, _bytes(rest))


def cleared(text: str, families: set[str], grub: bool = False) -> str:
    """Return a command line without the tokens of some families."""
    kept, rest = _halves(text, grub)
    left = _left(kept, families, grub)
    return text if left == kept else _bytes([*left, *rest])


def displaced(text: str, wanted: Sequence[Token], grub: bool = False) -> list[str]:
    """Return the words of a command line that `placed` removes, except desired ones; of a list, the options that it removes."""
    families, own = owned(wanted), {token.same for token in wanted}
    found = []
    for word in _halves(text, grub)[0]:
        gone = [token for token in word.token.parts if token.family in families and token.same not in own]
        found += [one.raw for one in [word.with_parts(gone, grub)] if one]
    return found


def without_tokens(text: str, own: Sequence[Token], back: Sequence[str], grub: bool = False) -> str:
    """Return a command line that was changed after `placed`, without our tokens and with the replaced ones restored."""
    ours = [token.same for token in own]
    kept, rest = _halves(text, grub)
    left: list[PlacedToken] = []
    for word in reversed(kept):  # our tokens came last
        parts: list[Token] = []
        for token in reversed(word.token.parts):
            if token.same in ours:
                ours.remove(token.same)
            else:
                parts.insert(0, token)
        left[:0] = [one for one in [word.with_parts(parts, grub)] if one]
    there = {token.family for word in left for token in word.token.parts}  # somebody set the key anew
    missing = [raw for raw in back if there.isdisjoint(owned(split(raw, grub)[0].token.parts))]
    if left == kept and not missing:
        return text
    return _joined(_bytes(left), " ".join(missing), _bytes(rest))


def _left(words: Sequence[PlacedToken], families: set[str], grub: bool) -> list[PlacedToken]:
    """Return words without the tokens of some families."""
    found = (
        word.with_parts([token for token in word.token.parts if token.family not in families], grub) for word in words
    )
    return [word for word in found if word]


def _bytes(words: Iterable[PlacedToken]) -> str:
    return "".join(word.gap + word.raw for word in words)


def _halves(text: str, grub: bool) -> tuple[list[PlacedToken], list[PlacedToken]]:
    words = split(text, grub)
    end = next((number for number, word in enumerate(words) if word.bare == _END), len(words))
    return words[:end], words[end:]


def _joined(body: str, own: str, rest: str) -> str:
    if own:
        body = f"{body} {own}" if body else own
    return f"{body}{rest}" if not body or not rest or rest[0] in _BLANKS else f"{body} {rest}"
