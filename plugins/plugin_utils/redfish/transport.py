# SPDX-License-Identifier: GPL-3.0-or-later
"""Exchange one HTTPS request with a BMC: trust is proved before the first byte, bytes and seconds of each answer are bounded.

A certificate is proved by its pinned SHA-256 fingerprint or by a CA file, and nothing turns this off. `read_fingerprint` is for the first
contact: it only reads the certificate and sends no request.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import re
import select
import socket
import ssl
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, cast

from .errors import CUT, NOT_JSON, TIMEOUT, TOO_LARGE, UNREACHABLE, WRONG_CERTIFICATE, BmcError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_CHUNK = 1 << 16
_IDLE_S = 5.0
"""A connection that was idle for longer is not used for a request that must not be repeated."""
_WRONG = "its certificate is not the trusted one"
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Trust:
    """Proof of a BMC's certificate: exactly one of `fingerprint` (SHA-256, hex, colons allowed) and `ca_file` (PEM; the name is verified).

    Raises ValueError for both, for neither, and for text that is not a SHA-256.
    """

    fingerprint: str = ""
    ca_file: str = ""

    def __post_init__(self) -> None:
        if bool(self.fingerprint) == bool(self.ca_file):
            raise ValueError("a BMC needs either the fingerprint of its certificate or a CA file")
        plain = self.fingerprint.replace(":", "").strip().lower()
        if self.fingerprint and not _FINGERPRINT.fullmatch(plain):
            raise ValueError(f"{self.fingerprint!r} is not a SHA-256 fingerprint: write 64 hexadecimal digits")
        object.__setattr__(self, "fingerprint", plain)


@dataclass(frozen=True)
class Account:
    """Name and password of an account of a BMC."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class Limits:
    """Bounds of requests to one BMC, in seconds and bytes.

    `attempts` counts the first one. `patience_s` bounds all attempts of one request together. `post_delay_s` is the delay while the
    machine is in POST. `close_s` bounds the end of a session, `task_s` a task, `settle_s` the time until a write shows, `power_s` a
    change of power. `poll_s` is the first delay between reads.
    """

    connect_s: float = 10.0
    answer_s: float = 60.0
    answer_bytes: int = 16 << 20
    attempts: int = 5
    first_delay_s: float = 0.5
    longest_delay_s: float = 30.0
    post_delay_s: float = 15.0
    patience_s: float = 120.0
    task_s: float = 900.0
    poll_s: float = 1.0
    settle_s: float = 20.0
    power_s: float = 180.0
    close_s: float = 10.0


@dataclass(frozen=True)
class Bmc:
    """Address of one node's BMC, its trust and its account. `name` is the name in the certificate, if it is not the address."""

    node: str
    address: str
    trust: Trust
    account: Account
    port: int = 443
    name: str = ""
    limits: Limits = Limits()


@dataclass(frozen=True)
class Raw:
    """An answer before its body is read as JSON. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


@dataclass(frozen=True)
class ServedCertificate:
    """The certificate that a BMC serves: SHA-256, and its end in seconds since 1970."""

    fingerprint: str
    ends: float


class _BoundedSocket(ssl.SSLSocket):
    """A TLS socket with one deadline for all reads of an answer: each slow byte would otherwise renew the timeout."""

    deadline = 0.0

    def recv_into(self, buffer: WriteableBuffer, nbytes: int | None = None, flags: int = 0) -> int:
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer took too long")
        self.settimeout(left)
        return super().recv_into(buffer, nbytes, flags)


@lru_cache(maxsize=64)
def _context(ca_file: str) -> ssl.SSLContext:
    """Return a context that verifies by a CA file; without one, the caller must compare the fingerprint."""
    if ca_file:
        context = ssl.create_default_context(cafile=ca_file)
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.sslsocket_class = _BoundedSocket
    return context


class _WrongFingerprintError(Exception):
    """The certificate differs from the pinned one; the argument is its fingerprint."""


class _Https(http.client.HTTPSConnection):
    sock: _BoundedSocket | None

    def __init__(self, bmc: Bmc) -> None:
        self._bmc, self._trusted = bmc, _context(bmc.trust.ca_file)
        super().__init__(bmc.address, bmc.port, timeout=bmc.limits.connect_s, context=self._trusted)

    def connect(self) -> None:
        bmc = self._bmc
        self.sock = _handshake(bmc.address, bmc.port, bmc.limits.connect_s, self._trusted, bmc.name)
        if pinned := bmc.trust.fingerprint:
            found = _fingerprint(self.sock)
            if not hmac.compare_digest(found, pinned):
                self.close()
                raise _WrongFingerprintError(found)


def _handshake(address: str, port: int, seconds: float, context: ssl.SSLContext, name: str = "") -> _BoundedSocket:
    raw = socket.create_connection((address, port), seconds)
    try:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wrapped = context.wrap_socket(raw, server_hostname=name or address)
    except BaseException:
        raw.close()
        raise
    return cast(_BoundedSocket, wrapped)


def _fingerprint(sock: ssl.SSLSocket) -> str:
    return hashlib.sha256(sock.getpeercert(binary_form=True) or b"").hexdigest()


def read_fingerprint(node: str, address: str, port: int = 443, seconds: float = 10.0) -> str:
    """Return the SHA-256 of the certificate at an address, 64 hex digits. No request and no credential is sent.

    The fingerprint proves nothing at first contact. Raises BmcError of kind unreachable or timeout.
    """
    try:
        with _handshake(address, port, seconds, _context("")) as sock:
            return _fingerprint(sock)
    except OSError as error:
        raise _no_connection(node, address, port, error) from None


def verify_certificate(bmc: Bmc) -> ServedCertificate:
    """Return the certificate of a BMC, proved by its CA file and its name. No request and no credential is sent.

    Raises BmcError: kind wrong-certificate if it is not of the CA, unreachable or timeout. Raises ValueError without a CA file.
    """
    if not bmc.trust.ca_file:
        raise ValueError("a certificate is verified by a CA file")
    try:
        with _handshake(bmc.address, bmc.port, bmc.limits.connect_s, _context(bmc.trust.ca_file), bmc.name) as sock:
            ends = str((sock.getpeercert() or {}).get("notAfter", ""))
            return ServedCertificate(_fingerprint(sock), float(ssl.cert_time_to_seconds(ends)))
    except ssl.SSLCertVerificationError as error:
        raise _not_of_ca(bmc, error) from None
    except OSError as error:
        raise _no_connection(bmc.node, bmc.address, bmc.port, error) from None


def _not_of_ca(bmc: Bmc, error: ssl.SSLCertVerificationError) -> BmcError:
    remedy = (
        f"Install a certificate of the CA in {bmc.trust.ca_file} for {bmc.name or bmc.address}, or compare the SHA-256 of its certificate "
        "and record it as bmc_fingerprint in the line of the machine in *.machines.json."
    )
    return BmcError(WRONG_CERTIFICATE, bmc.node, f"{_WRONG}: {error.verify_message}", remedy)


def _no_connection(node: str, address: str, port: int, error: Exception) -> BmcError:
    place = f"{address} port {port}"
    if isinstance(error, TimeoutError):
        remedy = "Check the network of BMCs, and whether the BMC hangs."
        return BmcError(TIMEOUT, node, f"no connection to {place} in time", remedy)
    why = getattr(error, "strerror", "") or type(error).__name__
    remedy = "Check the address, the cable and the network of BMCs."
    dropped = isinstance(error, ConnectionResetError | BrokenPipeError | ssl.SSLEOFError)
    return BmcError(UNREACHABLE, node, f"no connection to {place}: {why}", remedy, dropped=dropped)


class Connection:
    """A kept-alive connection to one BMC; it is opened at the first request, and again after each failure."""

    def __init__(self, bmc: Bmc) -> None:
        self._bmc = bmc
        self._https = _Https(bmc)
        self._used = 0.0

    def exchange(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        seconds: float,
        *,
        repeatable: bool,
    ) -> Raw:
        """Send one request and return its answer. `seconds` bounds the answer as a whole.

        A request that is not `repeatable` is sent on a connection that certainly lives. Raises BmcError of kind unreachable (nothing was
        sent), timeout, cut (it was sent), wrong-certificate or too-large.
        """
        limits = self._bmc.limits
        if self._is_stale(repeatable):
            self._https.close()
        deadline = time.monotonic() + seconds
        if self._https.sock is None:
            self._connect()
        try:
            sock = self._https.sock
            if sock is None:
                raise ConnectionError("the connection was closed")
            sock.deadline = deadline
            sock.settimeout(seconds)
            self._https.request(method, path, body, dict(headers))
            with self._https.getresponse() as response:
                found = {name.lower(): value for name, value in response.getheaders()}
                data = _body(response, limits.answer_bytes)
        except TimeoutError:
            self._https.close()
            what, remedy = f"no answer to {method} within {seconds:g} s", "Check whether the BMC hangs, then run again."
            raise BmcError(TIMEOUT, self._bmc.node, what, remedy, path=path) from None
        except _TooLargeError:
            self._https.close()
            what = f"an answer of more than {limits.answer_bytes} bytes"
            raise BmcError(TOO_LARGE, self._bmc.node, what, "Report the model of this BMC.", path=path) from None
        except (OSError, http.client.HTTPException, zlib.error) as error:
            self._https.close()
            what = f"the connection ended before the answer to {method} ({type(error).__name__})"
            remedy = "Check the state of the machine, then run again."
            raise BmcError(CUT, self._bmc.node, what, remedy, path=path) from None
        except BaseException:
            self._https.close()
            raise
        self._used = time.monotonic()
        return Raw(response.status, found, _plain(found, data, limits.answer_bytes, self._bmc.node, path))

    def _connect(self) -> None:
        bmc = self._bmc
        try:
            self._https.connect()
        except _WrongFingerprintError as error:
            raise BmcError(
                WRONG_CERTIFICATE,
                bmc.node,
                _WRONG,
                # bmc_discover.yml overwrites nothing.
                "Find out who changed the certificate. Then correct `bmc_fingerprint` in the line of this node in <name>.machines.json.",
                expected=bmc.trust.fingerprint,
                found=str(error),
            ) from None
        except ssl.SSLCertVerificationError as error:
            raise _not_of_ca(bmc, error) from None
        except OSError as error:
            raise _no_connection(bmc.node, bmc.address, bmc.port, error) from None

    def _is_stale(self, repeatable: bool) -> bool:
        """Return whether the BMC may have closed the connection, which shows as readable before a request."""
        sock = self._https.sock
        if sock is None:
            return False
        if not repeatable and time.monotonic() - self._used > _IDLE_S:
            return True
        poll = select.poll()
        poll.register(sock.fileno(), select.POLLIN)
        return bool(poll.poll(0))

    def interrupt(self) -> None:
        """End the exchange that another thread is in; that thread receives an error of kind cut."""
        sock = self._https.sock
        if sock is not None:
            try:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
            except OSError:
                return

    def close(self) -> None:
        """Close the connection."""
        self._https.close()


class _TooLargeError(Exception):
    """An answer is larger than the bound."""


def _body(response: http.client.HTTPResponse, most: int) -> bytes:
    if response.length is not None and response.length > most:
        raise _TooLargeError
    parts, size = [], 0
    while chunk := response.read(_CHUNK):
        size += len(chunk)
        if size > most:
            raise _TooLargeError
        parts.append(chunk)
    if response.length:
        raise http.client.IncompleteRead(b"")
    return b"".join(parts)


def _plain(headers: Mapping[str, str], data: bytes, most: int, node: str, path: str) -> bytes:
    """Return the body without gzip, which some BMCs send for registries without a request for it."""
    if headers.get("content-encoding", "").lower() != "gzip" or not data:
        return data
    unpack = zlib.decompressobj(wbits=31)
    try:
        plain = unpack.decompress(data, most + 1)
    except zlib.error:
        raise _not_gzip(node, path) from None
    if len(plain) > most:
        what = f"an answer of more than {most} bytes"
        raise BmcError(TOO_LARGE, node, what, "Report the model of this BMC.", path=path)
    if not unpack.eof:
        raise _not_gzip(node, path)
    return plain


def _not_gzip(node: str, path: str) -> BmcError:
    what = "an answer that is not gzip, or only its beginning"
    return BmcError(NOT_JSON, node, what, "Report the model of this BMC.", path=path)
