# SPDX-License-Identifier: GPL-3.0-or-later
"""GET JSON from one server over HTTPS: verified, bounded, and with the credentials for this server alone."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urljoin, urlsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from .machine_row import SourceError

SECONDS = 30.0
"""Of a request without any data."""
MOST_BYTES = 512 << 20
"""Of all answers: 20,000 machines of MAAS, the most talkative."""
MOST_PAGES = 2000
_TRIES = 3
# The server is busy, or a proxy before it.
_AGAIN = (429, 502, 503, 504)


class _NoRedirect(HTTPRedirectHandler):
    """Another address would get the credentials."""

    def redirect_request(self, *_arguments: Any, **_named: Any) -> None:
        return None


def server_mistake(url: str) -> str:
    """Return the mistake of a server's address, "" for none.

    >>> server_mistake("http://netbox.example.org")
    'allowed: https://HOST:PORT/PATH. Without TLS, others could read the token'
    """
    try:
        parts = urlsplit(url)
        valid = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return "not an address; allowed: https://HOST:PORT/PATH"
    if parts.scheme != "https":
        return "allowed: https://HOST:PORT/PATH. Without TLS, others could read the token"
    if "@" in parts.netloc:
        return "has a user or a password in it. Put the token into the file of import_token_file"
    return "" if valid else "no host; allowed: https://HOST:PORT/PATH"


@dataclass
class HttpsReader:
    """Read from the server at `url`; `headers` returns the headers of a request. `ca`: path of certificates, "" for the system's.

    `pause` waits for seconds before a request is repeated.
    """

    url: str
    headers: Callable[[], Mapping[str, str]]
    ca: str = ""
    seconds: float = SECONDS
    most_bytes: int = MOST_BYTES
    pause: Callable[[float], None] = time.sleep
    read: int = 0
    """Bytes of all answers."""
    _opener: OpenerDirector | None = field(default=None, repr=False)

    @property
    def host(self) -> str:
        """Return the name of the server for people."""
        return urlsplit(self.url).netloc

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON at a path below the server's address. SourceError: it cannot be read."""
        parts = urlsplit(self.url)
        base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/"
        url = urljoin(base, path.lstrip("/"))
        words = urlencode(query or {}, doseq=True)
        return self._json(f"{url}{'&' if '?' in url else '?'}{words}" if words else url)

    def pages(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[Mapping[str, Any]]:
        """Yield an object and the following ones, by path and query of its `next`, whose host may be behind a proxy."""
        page = self.get(path, query)
        for _number in range(MOST_PAGES):
            if not isinstance(page, Mapping):
                raise SourceError([f"{self.url}: the answer to {path} is not an object. Is this the right address?"])
            yield page
            following = page.get("next")
            if not following:
                return
            after = urlsplit(str(following))
            here = urlsplit(self.url)
            page = self._json(f"{here.scheme}://{here.netloc}{after.path}?{after.query}")
        raise SourceError([f"{self.url}: more than {MOST_PAGES} pages of {path}. Narrow the query."])

    def _json(self, url: str) -> Any:
        shown = url.partition("?")[0]
        data = self._bytes(url, shown)
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise SourceError([f"{shown}: the answer is not JSON. Is this the right address?"]) from None

    def _bytes(self, url: str, shown: str) -> bytes:
        for attempt in range(1, _TRIES + 1):
            try:
                return self._once(url, shown)
            except SourceError:
                raise
            except HTTPError as error:
                error.close()
                if error.code not in _AGAIN or attempt == _TRIES:
                    raise SourceError([f"{shown}: {_explained(error)}"]) from None
            except (URLError, OSError, HTTPException, ValueError) as error:
                reason = getattr(error, "reason", error)
                if isinstance(reason, ssl.SSLCertVerificationError):
                    text = f"its certificate is not trusted: {reason.verify_message}. Name its CA with import_ca."
                    raise SourceError([f"{shown}: {text}"]) from None
                if attempt == _TRIES:
                    raise SourceError([f"{shown}: {str(reason).strip() or type(reason).__name__}"]) from None
            self.pause(float(attempt))
        raise AssertionError("unreachable")

    def _once(self, url: str, shown: str) -> bytes:
        if self._opener is None:
            self._opener = build_opener(HTTPSHandler(context=_context(self.ca)), _NoRedirect())
        request = Request(url, headers={"Accept": "application/json", **self.headers()})
        with self._opener.open(request, timeout=self.seconds) as answer:
            data: bytes = answer.read(self.most_bytes - self.read + 1)
        self.read += len(data)
        if self.read > self.most_bytes:
            raise SourceError([f"{shown}: more than {self.most_bytes >> 20} MiB. Narrow the query."])
        return data


def _context(ca: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca or None)
    except (OSError, ValueError) as error:
        raise SourceError([f"{ca}: cannot be read as certificates: {error}. Allowed: a file in PEM."]) from None


def _explained(error: HTTPError) -> str:
    if error.code in (401, 403):
        return f"HTTP {error.code}: the token of import_token_file is not valid there, or may not read this."
    if 300 <= error.code < 400:
        to = urlsplit(error.headers.get("Location", ""))
        return f"HTTP {error.code}: redirected to {to.scheme}://{to.netloc}{to.path}. Name the right address in import_from."
    return f"HTTP {error.code} {error.reason}."
