# SPDX-License-Identifier: GPL-3.0-or-later
"""The CA: which keys and certificates make one, and what it signs."""

from __future__ import annotations

import ipaddress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from ansible_collections.bedplate.cluster.plugins.plugin_utils.commission import bmc_authority
from ansible_collections.bedplate.cluster.plugins.plugin_utils.commission.bmc_authority import AuthorityError

KEY = bmc_authority.new_key()
CERTIFICATE = bmc_authority.new_certificate(KEY, "east BMC CA", "east")
OTHER = bmc_authority.new_key()
PEM, PLAIN = serialization.Encoding.PEM, serialization.NoEncryption()
PRIVATE = serialization.PrivateFormat.PKCS8


def request(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey) -> str:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "impostor")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(name)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("ctl1")]), critical=False)
    digest = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, digest).public_bytes(PEM).decode()


def test_it_signs_the_key_for_the_declared_name_and_address_alone() -> None:
    authority = bmc_authority.read(CERTIFICATE, KEY)
    subject = authority.subject("gpu01-bmc", "site", "cluster")
    assert subject == {
        "CommonName": "gpu01-bmc",
        "Organization": "east",
        "OrganizationalUnit": "cluster",
        "City": "unknown",
        "State": "unknown",
        "Country": "XX",
    }
    key = ec.generate_private_key(ec.SECP256R1())
    issued = authority.sign(request(key), subject, ["gpu01-bmc"], "10.0.0.7", 90)
    made = x509.load_pem_x509_certificate(issued.pem.encode())
    made.verify_directly_issued_by(authority.certificate)
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["gpu01-bmc"]
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address("10.0.0.7")]
    assert "impostor" not in made.subject.rfc4514_string()
    assert made.public_key() == key.public_key()
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert (made.not_valid_after_utc - made.not_valid_before_utc).days == 90
    assert made.fingerprint(hashes.SHA256()).hex() == issued.fingerprint


def test_no_certificate_outlives_its_ca() -> None:
    authority = bmc_authority.read(CERTIFICATE, KEY)
    key = rsa.generate_private_key(65537, 2048)
    issued = authority.sign(request(key), authority.subject("n", "o", "u"), ["n"], "10.0.0.7", 30000)
    made = x509.load_pem_x509_certificate(issued.pem.encode())
    assert made.not_valid_after_utc == authority.certificate.not_valid_after_utc


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "cannot be read"),
        (request(rsa.generate_private_key(65537, 1024)), "weak"),
        (request(ed25519.Ed25519PrivateKey.generate()), "unknown kind"),
        (request(ec.generate_private_key(ec.SECP192R1())), "weak"),
    ],
    ids=["garbage", "short RSA", "ed25519", "short curve"],
)
def test_requests_that_are_refused(text: str, says: str) -> None:
    authority = bmc_authority.read(CERTIFICATE, KEY)
    with pytest.raises(AuthorityError, match=says):
        authority.sign(text, authority.subject("n", "o", "u"), ["n"], "10.0.0.7", 90)


def test_the_ca_is_the_one_of_the_key_among_several() -> None:
    other = bmc_authority.new_certificate(OTHER, "west", "west")
    assert bmc_authority.read(other + CERTIFICATE, KEY).certificate.subject.rfc4514_string() == "O=east,CN=east BMC CA"


def encrypted() -> bytes:
    form = serialization.BestAvailableEncryption(b"x")
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(PEM, PRIVATE, form)


def leaf() -> bytes:
    authority = bmc_authority.read(CERTIFICATE, KEY)
    key = serialization.load_pem_private_key(OTHER, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return authority.sign(request(key), authority.subject("n", "o", "u"), ["n"], "10.0.0.7", 90).pem.encode()


@pytest.mark.parametrize(
    ("certificates", "key", "says"),
    [
        (b"", KEY, "no certificate in PEM form"),
        (CERTIFICATE, b"", "no private key in PEM form"),
        (CERTIFICATE, OTHER, "belongs to none of its certificates"),
        (CERTIFICATE, encrypted(), "has a passphrase"),
        (CERTIFICATE, ed25519.Ed25519PrivateKey.generate().private_bytes(PEM, PRIVATE, PLAIN), "of another kind"),
        (leaf(), OTHER, "not of a CA"),
    ],
    ids=["no certificate", "no key", "another key", "passphrase", "ed25519", "leaf"],
)
def test_files_that_are_no_ca(certificates: bytes, key: bytes, says: str) -> None:
    with pytest.raises(AuthorityError, match=says) as raised:
        bmc_authority.read(certificates, key)
    assert "PRIVATE KEY" not in str(raised.value)
    assert "key" not in repr(bmc_authority.read(CERTIFICATE, KEY)).replace("public_key", "")
