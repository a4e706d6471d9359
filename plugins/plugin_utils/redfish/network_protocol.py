# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and change the network protocols of a BMC: NTP servers, and IPMI over LAN. Each write is read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .client import Answer, Client
from .errors import UNSUPPORTED
from .fields import Resource, flag, link, part, texts
from .read_back import Change, not_taken, write_until_taken
from .tasks import finished

_PAGE = "Set it on the BMC's own page."


@dataclass(frozen=True)
class Protocols:
    """Network protocols of a BMC. None: the BMC does not show it. `ntp` are the servers, without empty places."""

    path: str
    etag: str = ""
    ntp: tuple[str, ...] | None = None
    has_ntp_on: bool | None = None
    has_ipmi: bool | None = None

    def is_ntp(self, servers: Sequence[str]) -> bool:
        """Return whether NTP is on with these servers, in this order."""
        return self.ntp == tuple(servers) and self.has_ntp_on is not False

    @property
    def ntp_text(self) -> str:
        """Return the state of NTP for people."""
        return f"{'off, ' if self.has_ntp_on is False else ''}{', '.join(self.ntp or ()) or 'no server'}"


def read_protocols(client: Client, manager: Resource) -> Protocols:
    """Return the network protocols of a manager. Raises BmcError: kind unsupported if the manager does not show them."""
    path = link(manager, "NetworkProtocol")
    answer = client.find(path)
    if answer is None:
        where = str(manager.get("@odata.id") or "")
        raise client.error(UNSUPPORTED, "the manager shows no network protocols", _PAGE, path=path or where)
    body = answer.body
    ntp = part(body, "NTP")
    servers = tuple(one.strip() for one in texts(ntp, "NTPServers") if one.strip()) if "NTPServers" in ntp else None
    return Protocols(path, answer.etag, servers, flag(ntp, "ProtocolEnabled"), flag(body, "IPMI", "ProtocolEnabled"))


def set_ntp(client: Client, manager: Resource, servers: Sequence[str]) -> Change:
    """Let the BMC use these NTP servers alone. Raises BmcError: kind unsupported, not-taken, or of the request."""
    before = read_protocols(client, manager)
    if before.ntp is None:
        raise client.error(UNSUPPORTED, "the BMC shows no NTP servers", _PAGE, path=before.path)
    body = {"NTP": {"NTPServers": list(servers), "ProtocolEnabled": True}}
    found = _written(client, manager, before, body, lambda one: one.is_ntp(servers), "NTP", ", ".join(servers))
    return Change(found is not before, ", ".join(servers), before.ntp_text, before.path)


def end_ipmi(client: Client, manager: Resource) -> Change:
    """Turn IPMI over LAN off. Raises BmcError: kind unsupported if the BMC does not show whether it is on, not-taken, or of the request."""
    before = read_protocols(client, manager)
    if before.has_ipmi is None:
        remedy = "Turn IPMI over LAN off on the BMC's own page, and run with -e bmc_keep_ipmi=true."
        raise client.error(UNSUPPORTED, "the BMC does not show whether IPMI is on", remedy, path=before.path)
    body = {"IPMI": {"ProtocolEnabled": False}}
    _written(client, manager, before, body, lambda one: one.has_ipmi is False, "the end of IPMI", "off")
    return Change(before.has_ipmi, "off", "on" if before.has_ipmi else "off", before.path)


def _written(
    client: Client,
    manager: Resource,
    before: Protocols,
    body: Mapping[str, Any],
    is_taken: Callable[[Protocols], bool],
    what: str,
    expected: str,
) -> Protocols:
    """Return the protocols after the write; `before` itself if nothing differs. In check mode nothing is written."""
    if is_taken(before):
        return before
    last = before
    if client.read_only:
        return Protocols(before.path)

    def write() -> Answer:
        return finished(client, client.patch(last.path, body, last.etag))

    def read() -> Protocols:
        nonlocal last
        last = read_protocols(client, manager)
        return last

    found, messages = write_until_taken(client, write, read, is_taken)
    if not is_taken(found):
        shown = found.ntp_text if "NTP" in body else ("on" if found.has_ipmi else "unknown")
        raise not_taken(client, what, before.path, expected, shown, messages)
    return found
