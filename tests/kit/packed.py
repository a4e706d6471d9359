# SPDX-License-Identifier: GPL-3.0-or-later
"""Unpack what Ansible packs: payloads of modules are base64 of zlib."""

from __future__ import annotations

import base64
import contextlib
import re
import zlib


def readable(said: str) -> str:
    """Return an output and what is packed in it."""
    packed = []
    for word in re.findall(r"[A-Za-z0-9+/]{40,}={0,2}", said):
        with contextlib.suppress(ValueError, zlib.error):
            packed.append(zlib.decompress(base64.b64decode(word + "=" * (-len(word) % 4))).decode(errors="replace"))
    return "\n".join([said, *packed])
