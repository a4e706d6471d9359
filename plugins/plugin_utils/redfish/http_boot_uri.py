# SPDX-License-Identifier: GPL-3.0-or-later
"""Set the URI of HTTP boot where it is a BIOS attribute, and read it back from the settings of the BIOS."""

from __future__ import annotations

from .client import Answer, Client
from .errors import UNSUPPORTED
from .fields import Resource, link, part, text
from .machine import Machine
from .read_back import not_taken, write_until_taken
from .resources.bios_settings import settings_body
from .tasks import finished

ATTRIBUTE = "HttpDev1Uri"


def set_uri(client: Client, machine: Machine, uri: str) -> bool:
    """Let the BIOS boot from a URI after its next reset; return whether a write was needed. In check mode nothing is written.

    Raises BmcError: kind unsupported if the BIOS does not have the attribute, not-taken if its settings do not show the URI.
    """
    bios = client.find(machine.system.bios_path)
    current = part(bios.body, "Attributes") if bios else {}
    path = link(bios.body, "@Redfish.Settings", "SettingsObject") if bios else ""
    if ATTRIBUTE not in current or not path:
        what = f"neither HttpBootUri nor a BIOS attribute {ATTRIBUTE}"
        remedy = "Set another `boot.method` in the profile."
        raise client.error(UNSUPPORTED, what, remedy, path=machine.system.bios_path)
    settings = client.get(path)
    if _uri(settings.body, current) == uri:
        return False
    if client.read_only:
        return True
    last, body = settings, settings_body({ATTRIBUTE: uri}, machine.dialect.bios_apply_time)

    def write() -> Answer:
        return finished(client, client.patch(path, body, last.etag))

    def read() -> Answer:
        nonlocal last
        last = client.get(path)
        return last

    found, messages = write_until_taken(client, write, read, lambda one: _uri(one.body, {}) == uri)
    if _uri(found.body, {}) != uri:
        raise not_taken(client, f"BIOS attribute {ATTRIBUTE}", path, uri, _uri(found.body, {}) or "no value", messages)
    return True


def _uri(settings: Resource, current: Resource) -> str:
    """Return the URI that the next reset will leave: the pending one, else the current one."""
    return text(part(settings, "Attributes"), ATTRIBUTE) or text(current, ATTRIBUTE)
