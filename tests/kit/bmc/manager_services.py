# SPDX-License-Identifier: GPL-3.0-or-later
"""Network protocols and certificates of a simulated BMC. A replaced certificate is served by the next connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.kit.bmc.refused import Refused, Reply

if TYPE_CHECKING:
    from tests.kit.bmc.state import State

PROTOCOLS = "/redfish/v1/Managers/1/NetworkProtocol"
CERTIFICATES = f"{PROTOCOLS}/HTTPS/Certificates"
CERTIFICATE = f"{CERTIFICATES}/1"
CERTIFICATE_SERVICE = "/redfish/v1/CertificateService"
GENERATE = f"{CERTIFICATE_SERVICE}/Actions/CertificateService.GenerateCSR"
REPLACE = f"{CERTIFICATE_SERVICE}/Actions/CertificateService.ReplaceCertificate"
_REQUIRED = ("CertificateCollection", "CommonName", "Organization", "OrganizationalUnit", "City", "State", "Country")
_NAMES = {
    "CommonName": NameOID.COMMON_NAME,
    "Organization": NameOID.ORGANIZATION_NAME,
    "OrganizationalUnit": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "City": NameOID.LOCALITY_NAME,
    "State": NameOID.STATE_OR_PROVINCE_NAME,
    "Country": NameOID.COUNTRY_NAME,
}
_RESTART_S = 0.05
Json = dict[str, Any]


def protocols_resource(state: State) -> Json:
    """Return the properties of ManagerNetworkProtocol."""
    spec, found = state.spec, state.protocols
    servers = [*found["ntp"], *[""] * max(0, spec.ntp_places - len(found["ntp"]))]
    shown: Json = {
        "HostName": spec.node,
        "HTTP": {"ProtocolEnabled": False, "Port": 80},
        "HTTPS": {"ProtocolEnabled": True, "Port": spec.port, "Certificates": {"@odata.id": CERTIFICATES}},
        "SSH": {"ProtocolEnabled": False, "Port": 22},
    }
    if spec.has_ntp:
        shown["NTP"] = {"ProtocolEnabled": found["ntp_on"], "NTPServers": servers}
    if spec.has_ipmi:
        shown["IPMI"] = {"ProtocolEnabled": found["ipmi"], "Port": 623}
    return shown


def protocols_changed(state: State, body: Json) -> Callable[[], None]:
    """Return the effect of a PATCH of ManagerNetworkProtocol."""
    allowed = [name for name, has in (("NTP", state.spec.has_ntp), ("IPMI", state.spec.has_ipmi)) if has]
    if unknown := set(body) - set(allowed):
        raise Refused(400, "PropertyUnknown", args=sorted(unknown))

    def change() -> None:
        if not state.take("protocols"):
            return
        ntp = body.get("NTP", {})
        if "NTPServers" in ntp:
            state.protocols["ntp"] = [one for one in ntp["NTPServers"] if one]
        state.protocols["ntp_on"] = ntp.get("ProtocolEnabled", state.protocols["ntp_on"])
        state.protocols["ipmi"] = body.get("IPMI", {}).get("ProtocolEnabled", state.protocols["ipmi"])
        state.bump(PROTOCOLS)

    return change


def certificate_resource(state: State) -> Json:
    """Return the properties of the served certificate."""
    served = x509.load_pem_x509_certificate(state.certificate.encode())
    return {
        "CertificateString": state.certificate,
        "CertificateType": "PEM",
        "Issuer": _names(served.issuer),
        "Subject": _names(served.subject),
        "ValidNotBefore": served.not_valid_before_utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "ValidNotAfter": served.not_valid_after_utc.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def _names(name: x509.Name) -> Json:
    found = {key: name.get_attributes_for_oid(kind) for key, kind in _NAMES.items()}
    return {key: str(one[0].value) for key, one in found.items() if one}


def service_resource() -> Json:
    """Return the properties of CertificateService."""
    return {
        "CertificateLocations": {"@odata.id": f"{CERTIFICATE_SERVICE}/CertificateLocations"},
        "Actions": {
            "#CertificateService.GenerateCSR": {"target": GENERATE},
            "#CertificateService.ReplaceCertificate": {"target": REPLACE},
        },
    }


def generated(state: State, body: Json) -> Reply:
    """Make a new key, and answer with a request for it."""
    if missing := [one for one in _REQUIRED if not body.get(one)]:
        raise Refused(400, "ActionParameterMissing", args=["GenerateCSR", missing[0]])
    if body["CertificateCollection"] != {"@odata.id": CERTIFICATES}:
        raise Refused(400, "ActionParameterValueFormatError", args=["CertificateCollection"])
    state.request_key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(kind, str(body[key])) for key, kind in _NAMES.items()])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(state.request_key, hashes.SHA256())
    text = request.public_bytes(serialization.Encoding.PEM).decode()
    return Reply(200, {"CertificateCollection": {"@odata.id": CERTIFICATES}, "CSRString": text})


def replaced(state: State, body: Json) -> Callable[[], None]:
    """Return the effect of ReplaceCertificate. The certificate must be of the key of the last request."""
    place = body.get("CertificateUri")
    if (place.get("@odata.id") if isinstance(place, dict) else place) != CERTIFICATE:
        raise Refused(400, "ActionParameterValueFormatError", args=["CertificateUri"])
    key = state.request_key
    try:
        certificate = x509.load_pem_x509_certificate(str(body.get("CertificateString")).encode())
    except ValueError:
        raise Refused(400, "ActionParameterValueFormatError", args=["CertificateString"]) from None
    if key is None or certificate.public_key() != key.public_key():
        raise Refused(400, "ActionParameterValueConflict", "The certificate is not of the last request.")

    def serve() -> None:
        if not state.take("certificate"):
            return
        plain = serialization.NoEncryption()
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        state.certificate = certificate.public_bytes(serialization.Encoding.PEM).decode()
        state.fingerprint = certificate.fingerprint(hashes.SHA256()).hex()
        state.serve(state.certificate.encode() + private)
        if state.spec.certificate_restarts:
            state.sessions.clear()
            state.later(_RESTART_S, state.hang_up)

    def apply() -> None:
        if state.spec.faults.takes_s:
            state.later(state.spec.faults.takes_s, serve)
        else:
            serve()

    return apply
