# SPDX-License-Identifier: GPL-3.0-or-later
"""Replace names, addresses, serial numbers and passwords in texts by pseudonyms: equal values get equal labels.

A label is `<kind-ten hex digits>`, a keyed digest. The key is random and is never written, so that nobody can try all IPv4 addresses or
all serial numbers. Redacting a redacted text changes nothing; `report_leaks` relies on that.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from urllib.parse import urlsplit

from .public_words import public_words

HOST, DOMAIN, USER, SERIAL, SECRET = "host", "domain", "user", "serial", "secret"
_LOOPBACK = ("127.0.0.1", "0.0.0.0", "::1", "::")
_NO_VALUE = ("n/a", "none", "[n/a]", "null", '""', "''")
# Two letters only where file names do not end so.
_TLD = (
    "com|net|org|edu|gov|mil|info|cloud|local|localdomain|lan|internal|intranet|corp|private|example|test|io|ai|co|dev|tech|"
    "eu|uk|de|fr|ch|jp|cn|kr|us|au|ca|nl|se|fi|no|it"
)
_HEX = "[0-9a-f]"
_SECRET_KEY = r"[\w.-]*(?:passw(?:or)?d|passphrase|passwd|secret|token|(?:api|access|private)[_-]?key|credential|authorization)[\w.-]*"
_SECRET_VALUE = r"\"[^\"]*\"|'[^']*'|(?:(?:bearer|basic|token)\s+)?[^\s\"'<]+"
_LONG = "[A-Za-z0-9+=_-]"
_PATTERNS = {
    "label": r"<[a-z]+(?:-[0-9a-f]{10})?>",
    "key": r"-----BEGIN [^-]*-----(?s:.*?)(?:-----END [^-]*-----|\Z)",
    "url": r"\b[a-z][a-z0-9+.-]*://[^\s\"'<>\])]+",
    "jwt": r"\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?",
    "bearer": r"\b(?:bearer|basic)\s+[\w.~+/=-]{8,}",
    "secret": rf"(?P<secret_key>(?<![\w.-]){_SECRET_KEY}\"?\s*[=:]\s*)(?P<secret_value>{_SECRET_VALUE})",
    "netrc": r"(?P<netrc_key>\b(?:password|passwd)\s+)(?P<netrc_value>[^\s<]+)",
    "login": r"(?P<login_key>\b(?:user|user_?name|login)\"?\s*[=:]\s*|\blogin\s+)(?P<login_value>\"?[\w.@\\-]+\"?)",
    "serial": (
        r"(?P<serial_key>\b(?:serial(?:[ _-]?(?:number|num|no))?|s/n|sn|asset[ _-]?tag)\"?\s*[:=#]\s*)"
        r"(?P<serial_value>[^\s,;\"<]+)"
    ),
    "uuid": rf"(?:(?:GPU|MIG)-)*{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}(?:/\d+/\d+)?",
    "pci": rf"(?<![\w:])(?:{_HEX}{{4,8}}:)?{_HEX}{{2}}:{_HEX}{{2}}\.[0-7](?![\w.])",
    "mail": r"[\w.+-]+@[\w-][\w.-]*",
    "colons": rf"(?<![0-9a-z.])(?:{_HEX}{{0,4}}:){{2,20}}(?:\d{{1,3}}(?:\.\d{{1,3}}){{3}}|{_HEX}{{0,4}})(?![0-9a-z])",
    "dashes": rf"(?<![\w-])(?:{_HEX}{{2}}-){{5}}{_HEX}{{2}}(?![\w-])|(?<![\w.])(?:{_HEX}{{4}}\.){{2}}{_HEX}{{4}}(?![\w.])",
    "aws": r"\bip-\d{1,3}(?:-\d{1,3}){3}(?![\w-])",
    "ipv4": r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?!\d|\.\d)",
    "named": rf"(?P<named_prefix>\b(?:enx|wlx|ibx|rocex|iwx|opax))(?P<named_hex>{_HEX}{{12,16}})(?![0-9a-z])",
    "hex": rf"(?<![0-9a-z])(?:0x)?{_HEX}{{12,}}(?![0-9a-z])",
    "vendor": r"\b(?:gh[pousr]|github_pat|glpat|nvapi|hf|sk|xox[abp]|akia|asia)[_-]?(?=[\w-]*\d)[\w-]{16,}",
    "home": r"(?P<home_path>/(?:home|users)/)(?P<home_user>[^/\s:\"'<>]+)",
    "long": rf"(?-i:(?={_LONG}*[A-Z])(?={_LONG}*[a-z])(?={_LONG}*[0-9]))(?<!{_LONG}){_LONG}{{24,}}",
    "word": r"[A-Za-z0-9][A-Za-z0-9._-]*",
}
_MASTER = re.compile(
    "|".join(f"(?P<{name}>{pattern})" for name, pattern in _PATTERNS.items()), re.IGNORECASE | re.ASCII
)
_FQDN = re.compile(rf"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+(?:{_TLD})\.?\Z", re.IGNORECASE)
_CUT = re.compile(r"([._-])")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


class Pseudonyms:
    """Replaces values; `names` has the known names of a run by kind: hosts, domains, users, serial numbers, passwords.

    `public_hosts` and `public_words` are kept: hosts of URLs, and parts of their paths.
    """

    def __init__(
        self,
        names: Mapping[str, Iterable[str]],
        public_hosts: Collection[str] = (),
        public_words: Collection[str] = (),
        salt: bytes | None = None,
    ) -> None:
        self._salt = salt or secrets.token_bytes(32)
        self._hosts, self._words = frozenset(public_hosts), frozenset(public_words)
        self._names: dict[str, str] = {}
        # Hosts go before users, domains before both: a value has one kind, and so one label.
        for kind in (SECRET, SERIAL, USER, HOST, DOMAIN):
            self._names.update({name.strip().lower(): kind for name in names.get(kind, ()) if _is_name(name)})
        phrases = sorted((name for name in self._names if not _PLAIN.match(name)), key=len, reverse=True)
        # A label that is there already stays whole, whatever a phrase is.
        joined = "|".join((_PATTERNS["label"], *map(re.escape, phrases)))
        self._phrases = re.compile(joined, re.IGNORECASE) if phrases else None
        self._domains = tuple(f".{name}" for name, kind in self._names.items() if kind == DOMAIN)
        self._cache: dict[str, str] = {}

    @property
    def known(self) -> Mapping[str, str]:
        """Return the known names in small letters, with their kind."""
        return self._names

    def label(self, kind: str, value: str) -> str:
        """Return the pseudonym of a value."""
        digest = hmac.new(self._salt, f"{kind}\0{value.lower()}".encode(), hashlib.sha256).hexdigest()
        return f"<{kind}-{digest[:10]}>"

    def text(self, text: str) -> str:
        """Return a text in which every value that could identify a site is replaced."""
        if text not in self._cache:
            found = self._phrases.sub(self._phrase, text) if self._phrases else text
            before = ""
            # A label can end what hid the next value. Each round replaces more of the text, so there is a last one.
            while found != before:
                before, found = found, _MASTER.sub(self._replaced, found)
            self._cache[text] = found
        return self._cache[text]

    def version(self, text: str) -> str:
        """Return a package's version without known names; 12.9.1.4-1 is not an address."""
        return self._word(text)

    def _phrase(self, match: re.Match[str]) -> str:
        return self._name(match[0]) if match[0].lower() in self._names else match[0]

    def _name(self, name: str) -> str:
        return self.label(self._names[name.lower()], name)

    def _replaced(self, match: re.Match[str]) -> str:
        kind, text = str(match.lastgroup), match[0]
        # A group inside an alternative closes before it, so the alternative's name is the last group.
        method = getattr(self, f"_{kind}", None)
        if method is not None:
            return str(method(match))
        if kind in ("label", "pci"):
            return text
        return self.label({"aws": HOST}.get(kind, kind if kind in ("key", "uuid") else "token"), text)

    def _secret(self, match: re.Match[str]) -> str:
        return match["secret_key"] + self.label("secret", match["secret_value"].strip("\"'"))

    def _netrc(self, match: re.Match[str]) -> str:
        return match["netrc_key"] + self.label("secret", match["netrc_value"])

    def _login(self, match: re.Match[str]) -> str:
        value = match["login_value"].strip('"')
        return match["login_key"] + (value if value.lower() in public_words("names") else self.label(USER, value))

    def _serial(self, match: re.Match[str]) -> str:
        value = match["serial_value"]
        return match["serial_key"] + (value if value.lower() in _NO_VALUE else self.label(SERIAL, value))

    def _mail(self, match: re.Match[str]) -> str:
        user, _at, host = match[0].rpartition("@")
        return f"{self.label(USER, user)}@{self.label(HOST, host)}"

    def _dashes(self, match: re.Match[str]) -> str:
        return self._number(match[0])

    def _hex(self, match: re.Match[str]) -> str:
        return self._number(match[0])

    def _named(self, match: re.Match[str]) -> str:
        return match["named_prefix"] + self._number(match["named_hex"])

    def _number(self, text: str) -> str:
        """Return the label of a MAC address, a GUID or a longer number, the same for all its notations."""
        digits = re.sub(r"[^0-9a-f]", "", text.lower().removeprefix("0x"))
        return self.label({12: "mac", 16: "guid"}.get(len(digits), "token"), digits)

    def _colons(self, match: re.Match[str]) -> str:
        """Return groups with colons, the longest address or number in them replaced: `error:2001:db8::17:` has words beside it."""
        groups = match[0].split(":")
        for count in range(len(groups), 2, -1):
            for start in range(len(groups) - count + 1):
                before, found, after = (groups[:start], groups[start : start + count], groups[start + count :])
                if label := self._of_groups(found):
                    return ":".join([*map(self._word, before), label, *map(self._word, after)])
        return ":".join(map(self._word, groups))

    def _of_groups(self, groups: Sequence[str]) -> str:
        if len(groups) in (6, 8, 20) and all(len(group) == 2 for group in groups):
            return self._number("".join(groups))
        if len(groups) == 4 and all(len(group) == 4 for group in groups):
            return self._number("".join(groups))
        text = ":".join(groups)
        try:
            return text if text in _LOOPBACK else self.label("address", str(IPv6Address(text)))
        except AddressValueError:
            return ""

    def _ipv4(self, match: re.Match[str]) -> str:
        try:
            IPv4Address(match[0])
        except AddressValueError:
            return self._word(match[0])
        return match[0] if match[0] in _LOOPBACK else self.label("address", match[0])

    def _home(self, match: re.Match[str]) -> str:
        return match["home_path"] + self.label(USER, match["home_user"])

    def _word(self, match: re.Match[str] | str) -> str:
        word = match if isinstance(match, str) else match[0]
        lower = word.lower().rstrip(".")
        if lower in self._hosts:
            return word
        if lower.endswith(self._domains) or (_FQDN.match(word) and lower not in self._names):
            return self.label(HOST, lower)
        parts = _CUT.split(word)
        found, at = [], 0
        while at < len(parts):
            end = next((end for end in range(len(parts), at, -1) if "".join(parts[at:end]).lower() in self._names), 0)
            found.append(self._name("".join(parts[at:end])) if end else parts[at])
            at = end or at + 1
        return "".join(found)

    def _url(self, match: re.Match[str]) -> str:
        text = match[0]
        try:
            url = urlsplit(text)
            host, port = url.hostname or "", url.port
        except ValueError:
            return self.label("url", text)
        login = f"{self.label('login', url.netloc.rpartition('@')[0])}@" if "@" in url.netloc else ""
        if host in self._hosts:
            place, path = host, self._path(url.path, public=True)
        else:
            is_plain = not host or host in (*_LOOPBACK, "localhost")
            kind = "address" if re.fullmatch(r"[\d.]+|[0-9a-f:]+", host) else HOST
            place, path = host if is_plain else self.label(kind, host), self._path(url.path, public=False)
        rest = ("<query>" if url.query else "") + ("<fragment>" if url.fragment else "")
        return f"{url.scheme}://{login}{place}{f':{port}' if port else ''}{path}{rest}"

    def _path(self, path: str, public: bool) -> str:
        """Return the path of a URL; of a private host, only words of public repositories are kept."""
        parts = path.split("/")
        if public:
            return "/".join(self._word(part) for part in parts)
        return "/".join(
            part if not part or part.lower() in self._words or part.startswith("$") else self.label("path", part)
            for part in parts
        )


def _is_name(name: str) -> bool:
    text = name.strip().lower()
    return (
        len(text) > 1
        and text not in public_words("names")
        and text not in _LOOPBACK
        and not (text.isdigit() and len(text) < 5)
    )


def report_leaks(texts: Iterable[str], pseudonyms: Pseudonyms) -> list[str]:
    """Return the kinds of values that are still in texts that were redacted. The second look does not use the same search as the first."""
    found = []
    for text in texts:
        if pseudonyms.text(text) != text:
            found.append("a value that looks like an address, a number or a password")
        words = set(re.findall(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*", re.sub(r"<[^<>]*>", " ", text.lower())))
        pieces = {piece for word in words for piece in (word, *re.split(r"[._-]+", word))}
        found += [f"a known {pseudonyms.known[piece]} name" for piece in pieces if piece in pseudonyms.known]
    return sorted(set(found))
