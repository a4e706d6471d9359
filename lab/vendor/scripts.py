# SPDX-License-Identifier: GPL-3.0-or-later
"""The maintainer scripts of packages with units: what debhelper would write into them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_HEAD = "#!/bin/sh\nset -e\n"
_RELOAD = """\
if [ -d /run/systemd/system ]; then
    systemctl --system daemon-reload >/dev/null || true
fi
"""
_ENABLE = """\
if [ "$1" = configure ]; then
    deb-systemd-helper unmask {unit} >/dev/null || true
    if deb-systemd-helper --quiet was-enabled {unit}; then
        deb-systemd-helper enable {unit} >/dev/null || true
    fi
    if [ -d /run/systemd/system ]; then
        systemctl --system daemon-reload >/dev/null || true
        deb-systemd-invoke "$([ -n "$2" ] && echo restart || echo start)" {unit} >/dev/null || true
    fi
fi
"""
_STOP = """\
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    deb-systemd-invoke stop {unit} >/dev/null || true
fi
"""
_FORGET = """\
if [ "$1" = purge ] && [ -x /usr/bin/deb-systemd-helper ]; then
    deb-systemd-helper purge {unit} >/dev/null || true
    deb-systemd-helper unmask {unit} >/dev/null || true
fi
"""


def with_units(own: Mapping[str, str], units: Sequence[str], enabled: Sequence[str]) -> dict[str, str]:
    """Return a package's own scripts with what its units need; `enabled` units start when it is installed."""
    if not units:
        return dict(own)
    parts = {
        "postinst": "".join(_ENABLE.format(unit=unit) for unit in enabled) or _RELOAD,
        "prerm": "".join(_STOP.format(unit=unit) for unit in units),
        "postrm": _RELOAD + "".join(_FORGET.format(unit=unit) for unit in enabled),
    }
    made = {name: _HEAD + text for name, text in parts.items()}
    for name, text in own.items():
        body = text.removeprefix(_HEAD)
        made[name] = made.get(name, _HEAD) + body
    return made
