# SPDX-License-Identifier: GPL-3.0-or-later
"""Replace the certificate that a BMC serves: it makes the key and a request, a CA signs, and a new connection proves the result."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from .client import Client
from .errors import CUT, NOT_TAKEN, OTHER, STOPPED, TIMEOUT, UNREACHABLE, UNSUPPORTED, WRONG_CERTIFICATE, BmcError
from .fields import Resource, link, links, text
from .read_back import not_taken
from .resources.dialects import Dialect
from .tasks import finished
from .transport import ServedCertificate, Trust, verify_certificate

_PAGE = "Install a certificate of the CA on the BMC's own page, and record its fingerprint."
_WAITED = (WRONG_CERTIFICATE, UNREACHABLE, TIMEOUT, CUT)
_HTTPS = "/networkprotocol/https/certificates/"
SUBJECT = ("CommonName", "Organization", "OrganizationalUnit", "City", "State", "Country")
"""Names of a request, as GenerateCSR requires them."""


@dataclass(frozen=True)
class CertificatePlace:
    """The place of the served certificate: paths of it, of its collection, and of the two actions."""

    path: str
    collection: str
    request_path: str
    replace_path: str


def read_place(client: Client, manager: Resource, dialect: Dialect) -> CertificatePlace:
    """Return the place of the served certificate. Raises BmcError: kind unsupported if the BMC offers no way that is known."""
    root = client.root or client.get("/redfish/v1/")
    where = link(root.body, "CertificateService")
    service = client.find(where)
    body: Resource = service.body if service else {}
    request, exchange = (
        text(body, "Actions", f"#CertificateService.{name}", "target") for name in ("GenerateCSR", "ReplaceCertificate")
    )
    missing = [name for name, path in (("GenerateCSR", request), ("ReplaceCertificate", exchange)) if not path]
    if missing:
        what = f"no {' and no '.join(missing)} in a CertificateService"
        raise client.error(UNSUPPORTED, what, _PAGE, path=where or root.path)
    if dialect.certificate_applies != "at_once":
        what = "this firmware serves a new certificate only after a reset of the BMC"
        raise client.error(UNSUPPORTED, what, "Update the firmware of the BMC.", path=where)
    collection = _collection(client, manager)
    found = client.find(collection)
    paths = links(found.body, "Members") if found else _located(client, body)
    if len(paths) != 1:
        what = f"{len(paths)} certificates of HTTPS, so the served one is not known"
        raise client.error(UNSUPPORTED, what, _PAGE, path=collection or where)
    return CertificatePlace(paths[0], collection or paths[0].rpartition("/")[0], request, exchange)


def _collection(client: Client, manager: Resource) -> str:
    protocols = client.find(link(manager, "NetworkProtocol"))
    return link(protocols.body, "HTTPS", "Certificates") if protocols else ""


def _located(client: Client, service: Resource) -> tuple[str, ...]:
    """Return the certificates of HTTPS among all certificates of the BMC."""
    found = client.find(link(service, "CertificateLocations"))
    paths = links(found.body, "Links", "Certificates") if found else ()
    return tuple(one for one in paths if _HTTPS in one.lower())


def request_certificate(client: Client, place: CertificatePlace, subject: Mapping[str, str]) -> str:
    """Return a signing request (PEM) for a new key, which the BMC makes and keeps. `subject` has the names of SUBJECT."""
    body = {"CertificateCollection": {"@odata.id": place.collection}, **{name: subject[name] for name in SUBJECT}}
    answer = finished(client, client.post(place.request_path, body))
    request = text(answer.body, "CSRString")
    if "BEGIN CERTIFICATE REQUEST" not in request and "BEGIN NEW CERTIFICATE REQUEST" not in request:
        what = "the answer has no signing request"
        raise client.error(OTHER, what, "Report the model of this BMC.", path=place.request_path)
    return request


def replace_certificate(
    client: Client, place: CertificatePlace, pem: str, fingerprint: str, trust: Trust
) -> ServedCertificate:
    """Install a certificate, and return it once new connections serve it, proved by the CA of `trust`. The session continues.

    Raises BmcError: kind not-taken if the BMC still serves another one; then the client trusts what it trusted before.
    """
    body = {"CertificateString": pem, "CertificateType": "PEM", "CertificateUri": {"@odata.id": place.path}}
    before = client.bmc.trust
    try:
        finished(client, client.post(place.replace_path, body))
    except BmcError as error:
        # A BMC that restarts its web server may not answer, or no longer with the old certificate: the new connection decides.
        if error.kind not in _WAITED:
            raise
    try:
        found = _served(client, fingerprint, trust)
        client.trust(trust)
        _answers(client, place)
    except BmcError as error:
        if error.kind == NOT_TAKEN:
            client.trust(before)
        raise
    return found


def _served(client: Client, fingerprint: str, trust: Trust) -> ServedCertificate:
    bmc = replace(client.bmc, trust=trust)
    until, shown = time.monotonic() + client.bmc.limits.power_s, "another certificate"
    while True:
        try:
            found = verify_certificate(bmc)
            if found.fingerprint == fingerprint:
                return found
            shown = found.fingerprint
        except BmcError as error:
            if error.kind not in _WAITED:
                raise
            shown = error.what
        if time.monotonic() > until:
            raise not_taken(client, "the certificate", "", fingerprint, shown)
        client.pause(client.bmc.limits.poll_s)


def _answers(client: Client, place: CertificatePlace) -> None:
    """Read the certificate's resource by the new connection; a BMC may refuse requests while its web server starts."""
    until = time.monotonic() + client.bmc.limits.power_s
    while True:
        try:
            client.find(place.path)
        except BmcError as error:
            if error.kind == STOPPED or time.monotonic() > until:
                raise
            client.pause(client.bmc.limits.poll_s)
        else:
            return
