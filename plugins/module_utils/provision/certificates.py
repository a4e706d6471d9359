# SPDX-License-Identifier: GPL-3.0-or-later
"""Make and renew the certificate of a provision host, and the CA of this host that signs it. Needs openssl.

The private folder has `authority.pem` and `server.pem`, mode 0600: each has a certificate and its key in one file, so that no reader ever
finds two that do not fit. The certificate of the CA has a second, public file, which goes on the media of machines.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..common.command import Runner, run_quick
from ..common.files import atomic_write

AUTHORITY, SERVER = "authority.pem", "server.pem"
NAME = "bedplate-orders"
"""DNS name in the certificate: the proxy of this host verifies the order server by it."""
LEFT = 60
"""Days that the certificate of the server has at least after a run."""
# The CA is renewed while it still outlives every certificate that it has signed.
_DAYS = {AUTHORITY: 3650, SERVER: 397}
_LEFT = {AUTHORITY: 460, SERVER: LEFT}
_CONFIG = """\
[req]
prompt = no
distinguished_name = name
[name]
CN = {subject}
[authority]
basicConstraints = critical,CA:TRUE,pathlen:0
keyUsage = critical,keyCertSign,cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = IP:{address},DNS:{name}
"""
# Firmware that boots by HTTP, and BMCs, may have no elliptic curves.
_KEY = ("-newkey", "rsa:3072", "-nodes")
_FOLDER, _PRIVATE, _PUBLIC = 0o700, 0o600, 0o644


class CertificateError(Exception):
    """A certificate that was not made. The text has the reason of openssl."""


@dataclass
class Renewal:
    """Hold the paths that are written, and for each certificate that is made why it is."""

    files: list[str] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)


class Certificates:
    """The certificates of a provision host at an IP address: a private `folder`, and `public`, the file with the CA's certificate."""

    def __init__(self, folder: Path, public: Path, address: str, runner: Runner = run_quick) -> None:
        """Take the paths. Nothing is read yet."""
        self._folder, self._public, self._address, self._run = folder, public, address, runner

    def renew(self, check: bool = False) -> Renewal:
        """Make each certificate that is missing, wrong or ends soon; with `check` only predict it. Raises CertificateError, OSError."""
        found = Renewal()
        if self._folder.exists() and self._folder.stat().st_mode & 0o777 != _FOLDER:
            found.files.append(str(self._folder))
        if not check:
            self._folder.mkdir(mode=_FOLDER, exist_ok=True)
            self._folder.chmod(_FOLDER)
        if reason := self._defect(AUTHORITY):
            self._note(found, AUTHORITY, reason, check)
        own = self._certificate(AUTHORITY)
        if AUTHORITY in found.reasons or not self._public.exists() or self._public.read_text() != own:
            found.files.append(str(self._public))
            if not check:
                atomic_write(self._public, own, mode=_PUBLIC)
        reason = "signed by another CA" if AUTHORITY in found.reasons else self._defect(SERVER)
        if reason:
            self._note(found, SERVER, reason, check)
        return found

    def _note(self, found: Renewal, name: str, reason: str, check: bool) -> None:
        found.reasons[name] = reason
        found.files.append(str(self._folder / name))
        if not check:
            self._make(name)

    def _defect(self, name: str) -> str:
        """Return why a certificate must be made again, or ""."""
        path = self._folder / name
        if not path.exists():
            return "missing"
        seconds = _LEFT[name] * 86400
        key = self._run(["openssl", "pkey", "-in", str(path), "-pubout"])
        if key.code != 0 or key.stdout != self._run(["openssl", "x509", "-in", str(path), "-noout", "-pubkey"]).stdout:
            return "key and certificate do not fit"
        if self._run(["openssl", "x509", "-in", str(path), "-noout", "-checkend", str(seconds)]).code != 0:
            return f"less than {_LEFT[name]} days left"
        if name == SERVER:
            proof = ["-purpose", "sslserver", "-verify_ip", self._address, "-verify_hostname", NAME]
            done = self._run(["openssl", "verify", "-CAfile", str(self._folder / AUTHORITY), *proof, str(path)])
            if done.code != 0:
                return f"not valid for {self._address}: {done.error_line}"
        # A killed run, or a person, may have left another mode.
        return "" if path.stat().st_mode & 0o777 == _PRIVATE else "others may read its key"

    def _certificate(self, name: str) -> str:
        """Return the certificate in a file, without the key; "" for a missing file."""
        return self._run(["openssl", "x509", "-in", str(self._folder / name)]).stdout

    def _make(self, name: str) -> None:
        subject = f"bedplate provision host {secrets.token_hex(4)}" if name == AUTHORITY else NAME
        with tempfile.TemporaryDirectory(dir=self._folder, prefix=".new-") as scratch:
            config, key, request, made = (Path(scratch) / one for one in ("config", "key", "request", "made"))
            config.write_text(_CONFIG.format(subject=subject, address=self._address, name=NAME))
            words = ["openssl", "req", "-config", str(config), *_KEY, "-keyout", str(key)]
            days = ["-days", str(_DAYS[name])]
            if name == AUTHORITY:
                self._call([*words, "-x509", *days, "-extensions", "authority", "-out", str(made)])
            else:
                self._call([*words, "-out", str(request)])
                authority = str(self._folder / AUTHORITY)
                signed = ["-CA", authority, "-CAkey", authority, "-set_serial", f"0x1{secrets.token_hex(15)}"]
                words = ["openssl", "x509", "-req", "-in", str(request), *signed, *days]
                self._call([*words, "-extfile", str(config), "-extensions", "server", "-out", str(made)])
            atomic_write(self._folder / name, made.read_text() + key.read_text(), mode=_PRIVATE)

    def _call(self, words: Sequence[str]) -> None:
        done = self._run(words)
        if done.code != 0:
            raise CertificateError(f"{' '.join(words[:2])}: {done.error_line}")
