# SPDX-License-Identifier: GPL-3.0-or-later
"""Make the CA and the certificates of simulated BMCs."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)
_NOW = datetime.datetime.now(datetime.timezone.utc)  # noqa: UP017


class Authority:
    """A CA in a folder; `file` is its certificate."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self.folder = folder
        self.file = folder / f"{name}.pem"
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(f"bedplate simulator {name}")
        basic = x509.BasicConstraints(ca=True, path_length=0)
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        key_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self._key_id = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id)
        certificate = (
            _builder(self._name, self._name, self._key, expired=False)
            .add_extension(basic, critical=True)
            .add_extension(usage, critical=True)
            .add_extension(key_id, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def issue(self, stem: str, address: str, *, expired: bool = False) -> tuple[Path, str]:
        """Return the file of a certificate with its key, and the certificate's SHA-256."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        certificate = (
            _builder(_name(stem), self._name, key, expired)
            .add_extension(names, critical=False)
            .add_extension(self._key_id, critical=False)
            .sign(self._key, hashes.SHA256())
        )
        file = self.folder / f"{stem}.pem"
        plain = serialization.NoEncryption()
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
        file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
        return file, certificate.fingerprint(hashes.SHA256()).hex()


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, expired: bool
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_NOW - 30 * _DAY)
        .not_valid_after(_NOW - _DAY if expired else _NOW + 365 * _DAY)
    )
