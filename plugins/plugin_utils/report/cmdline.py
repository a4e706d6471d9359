# SPDX-License-Identifier: GPL-3.0-or-later
"""Redact a kernel command line: values of tokens that are not known to be harmless are replaced."""

from __future__ import annotations

import re

from .pseudonyms import Pseudonyms
from .public_words import public_words

_TOKEN = re.compile(r"(?:[^\s\"]|\"[^\"]*\")+")
_PLAIN_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,30}\Z")
_LABEL = re.compile(r"<[a-z]+-[0-9a-f]{10}>\Z")


def redacted_cmdline(text: str, pseudonyms: Pseudonyms) -> str:
    """Return the command line with the values of unknown tokens, and unknown words, as labels.

    BOOT_IMAGE is a path of the boot partition and has the kernel's release.
    """
    return " ".join(_token(token, pseudonyms) for token in _TOKEN.findall(text))


def _token(token: str, pseudonyms: Pseudonyms) -> str:
    """Return a token; root=, ds= and ip= name a site's machines, and so may any token that is not in the table."""
    name, equals, value = token.partition("=")
    if _LABEL.match(token):
        return token
    if not equals:
        return token if token.lower() in public_words("cmdline_words") else pseudonyms.label("token", token)
    is_known = name in public_words("cmdline_values") or name.startswith(tuple(public_words("cmdline_families")))
    if is_known or name == "BOOT_IMAGE":
        shown = f"{name}={pseudonyms.text(value)}"
        # Name and value together may look like a token of a service.
        return shown if pseudonyms.text(shown) == shown else f"{name}={pseudonyms.label('value', value)}"
    shown = name if _PLAIN_NAME.match(name) or _LABEL.match(name) else pseudonyms.label("token", name)
    return f"{pseudonyms.text(shown)}={value if _LABEL.match(value) else pseudonyms.label('value', value)}"
