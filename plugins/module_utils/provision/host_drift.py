# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what machines would get from the provision host, over its own address: verify's reader of the role provision."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..common.finding import WARNING, Finding
from ..common.remedies import run_role_again

_SECONDS = 10
_NO_ORDER = f"/orders/{'0' * 32}/claim"
_LISTS = ("/", "/images/", "/media/", "/orders/")
_UNITS = "`systemctl status bedplate-orders nginx` has the reason"


def findings(root: str, expected: Mapping[str, Any], clock: Callable[[], float] = time.time) -> Iterator[Finding]:
    """Yield the findings: a certificate that machines would refuse or that ends soon, no order server behind it, a listed folder.

    `expected`: `address` and `port` of the host, `authority`, the path of the CA's certificate, `days` that the certificate has at least.
    """
    where = f"https://{expected['address']}:{expected['port']}"
    try:
        context = ssl.create_default_context(cafile=str(Path(root, str(expected["authority"]).lstrip("/"))))
        plain = socket.create_connection((expected["address"], expected["port"]), _SECONDS)
        with plain, context.wrap_socket(plain, server_hostname=str(expected["address"])) as secured:
            found = secured.getpeercert() or {}
    except (OSError, ValueError) as error:
        text = getattr(error, "verify_message", "") or str(error)
        wanted = f"a certificate of the CA in {expected['authority']}"
        yield Finding("provision-certificate", where, wanted, text, f"{_UNITS}; {run_role_again('provision')}")
        return
    left = (ssl.cert_time_to_seconds(str(found["notAfter"])) - clock()) / 86400
    if left < expected["days"]:
        remedy = run_role_again("provision")
        wanted = f"at least {expected['days']} days left"
        yield Finding("provision-certificate", where, wanted, f"{left:.0f} days left", remedy, severity=WARNING)
    yield from _answers(where, context, expected)


def _answers(where: str, context: ssl.SSLContext, expected: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield a finding for each request with another answer than it must have."""
    rows = [("POST", _NO_ORDER, 403), *(("GET", path, 404) for path in _LISTS)]
    for method, path, status in rows:
        connection = http.client.HTTPSConnection(
            str(expected["address"]), int(expected["port"]), timeout=_SECONDS, context=context
        )
        try:
            connection.request(method, path, "nonce=\n" if method == "POST" else None)
            found = str(connection.getresponse().status)
        except (OSError, http.client.HTTPException) as error:
            found = f"{type(error).__name__}: {error}"
        finally:
            connection.close()
        if found != str(status):
            what = f"{method} {where}{path}"
            yield Finding(
                "provision-server", what, f"status {status}", found, f"{_UNITS}; {run_role_again('provision')}"
            )
