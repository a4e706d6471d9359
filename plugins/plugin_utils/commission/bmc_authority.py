# SPDX-License-Identifier: GPL-3.0-or-later
"""The CA of BMC certificates on the control node: it signs a key for the declared name and address, never for the names in a request."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
_HOUR, _DAY = datetime.timedelta(hours=1), datetime.timedelta(days=1)
_CA_DAYS = 7300
_LEAST_RSA, _LEAST_EC = 2048, 256  # bits
_NAMES = {
    "CommonName": NameOID.COMMON_NAME,
    "Organization": NameOID.ORGANIZATION_NAME,
    "OrganizationalUnit": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "City": NameOID.LOCALITY_NAME,
    "State": NameOID.STATE_OR_PROVINCE_NAME,
    "Country": NameOID.COUNTRY_NAME,
}
_UNKNOWN = {"City": "unknown", "State": "unknown", "Country": "XX"}
"""Values that GenerateCSR requires and the CA does not have; XX is nobody's country code."""


class AuthorityError(ValueError):
    """A CA or a request that cannot be used. The text has no key."""


@dataclass(frozen=True)
class Issued:
    """A signed certificate: PEM, and SHA-256 of its DER."""

    pem: str
    fingerprint: str


@dataclass(frozen=True)
class Authority:
    """A CA: its certificate and its key."""

    certificate: x509.Certificate
    key: Key = field(repr=False)

    def subject(self, name: str, organization: str, unit: str) -> dict[str, str]:
        """Return the subject of a BMC's certificate by the names of GenerateCSR; places are of the CA, if it has them."""
        own = {key: _text(self.certificate.subject, kind) for key, kind in _NAMES.items()}
        placed = {key: own[key] or _UNKNOWN[key] for key in _UNKNOWN}
        return {
            "CommonName": name,
            "Organization": own["Organization"] or organization,
            "OrganizationalUnit": unit,
            **placed,
        }

    def sign(self, request: str, subject: dict[str, str], names: Iterable[str], address: str, days: int) -> Issued:
        """Return a certificate for the key of a request (PEM). It proves `names` and `address`; the names in the request are not used.

        Raises AuthorityError for a request that is not signed by its key, and for a weak key.
        """
        key = _key_of(request)
        now = datetime.datetime.now(datetime.UTC)
        until = min(now + days * _DAY, self.certificate.not_valid_after_utc)
        alternatives = [x509.IPAddress(ipaddress.ip_address(address)), *(x509.DNSName(one) for one in names)]
        is_rsa = isinstance(key, rsa.RSAPublicKey)
        issuer = x509.SubjectKeyIdentifier.from_public_key(self.key.public_key())
        built = (
            x509.CertificateBuilder()
            .subject_name(_name(subject))
            .issuer_name(self.certificate.subject)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _HOUR)
            .not_valid_after(until)
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True, key_encipherment=is_rsa), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(_key_id(self.certificate, issuer), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        pem = built.public_bytes(serialization.Encoding.PEM).decode()
        return Issued(pem, built.fingerprint(hashes.SHA256()).hex())


def _key_of(request: str) -> ec.EllipticCurvePublicKey | rsa.RSAPublicKey:
    try:
        parsed = x509.load_pem_x509_csr(request.encode())
        is_signed, key = parsed.is_signature_valid, parsed.public_key()
    except Exception:
        raise AuthorityError("the BMC's signing request cannot be read. Report the model of this BMC") from None
    if not is_signed:
        raise AuthorityError("the BMC's signing request is not signed by its own key. Report the model of this BMC")
    if isinstance(key, rsa.RSAPublicKey) and key.key_size >= _LEAST_RSA:
        return key
    if isinstance(key, ec.EllipticCurvePublicKey) and key.key_size >= _LEAST_EC:
        return key
    raise AuthorityError(
        f"the key of the BMC's signing request is weak or of an unknown kind; allowed: RSA with {_LEAST_RSA} bits or more, "
        f"elliptic curves with {_LEAST_EC} or more. Update the firmware of the BMC"
    )


def read(certificates: bytes, key: bytes) -> Authority:
    """Return the CA whose key this is, among PEM certificates. Raises AuthorityError with what is allowed."""
    try:
        known = x509.load_pem_x509_certificates(certificates)
    except ValueError:
        raise AuthorityError("no certificate in PEM form") from None
    parsed = read_key(key)
    own = _public(parsed)
    for one in known:
        if _public_of(one) == own:
            _require_ca(one)
            return Authority(one, parsed)
    raise AuthorityError("the key belongs to none of its certificates; allowed: the key of the CA")


def read_key(key: bytes) -> Key:
    """Return a private key (PEM without a passphrase; RSA or elliptic curve). Raises AuthorityError."""
    try:
        parsed = serialization.load_pem_private_key(key, None)
    except TypeError:
        raise AuthorityError("the key has a passphrase; allowed: a key without one, mode 0400") from None
    except Exception:
        raise AuthorityError("no private key in PEM form") from None
    if not isinstance(parsed, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise AuthorityError("the key is of another kind; allowed: RSA, elliptic curve")
    return parsed


def _require_ca(one: x509.Certificate) -> None:
    try:
        is_ca = one.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        is_ca = False
    if not is_ca:
        raise AuthorityError("the certificate of this key is not of a CA; allowed: basicConstraints CA:TRUE")
    if one.not_valid_after_utc < datetime.datetime.now(datetime.UTC):
        raise AuthorityError(f"the certificate of the CA ended on {one.not_valid_after_utc:%Y-%m-%d}")


def new_key() -> bytes:
    """Return a new private key (PEM, elliptic curve P-384)."""
    plain = serialization.NoEncryption()
    made = ec.generate_private_key(ec.SECP384R1())
    return made.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)


def new_certificate(key: bytes, name: str, organization: str) -> bytes:
    """Return the certificate (PEM) of a new CA, which is valid for 20 years. Raises AuthorityError for a key that cannot be used."""
    parsed, now = read_key(key), datetime.datetime.now(datetime.UTC)
    subject = _name({"CommonName": name, "Organization": organization})
    key_id = x509.SubjectKeyIdentifier.from_public_key(parsed.public_key())
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(parsed.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _HOUR)
        .not_valid_after(now + _CA_DAYS * _DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(key_id, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id), critical=False)
        .sign(parsed, hashes.SHA256())
    )
    return built.public_bytes(serialization.Encoding.PEM)


def _key_id(issuer: x509.Certificate, computed: x509.SubjectKeyIdentifier) -> x509.AuthorityKeyIdentifier:
    """Return the identifier of the issuer's key as its certificate states it."""
    try:
        stated = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        stated = computed
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(stated)


def _usage(**used: bool) -> x509.KeyUsage:
    names = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "key_cert_sign",
        "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{name: used.get(name, False) for name in names})


def _name(subject: dict[str, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(kind, subject[key]) for key, kind in _NAMES.items() if subject.get(key)])


def _text(name: x509.Name, kind: x509.ObjectIdentifier) -> str:
    found = name.get_attributes_for_oid(kind)
    return str(found[0].value) if found else ""


def _public(key: Key) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.DER, form)


def _public_of(one: x509.Certificate) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return one.public_key().public_bytes(serialization.Encoding.DER, form)
