# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the access to repositories: proxy, certificates and logins of the cluster file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any
from urllib.parse import urlsplit

from ..gpu_stack import stack_table
from .model import PackageAccess, PackageLogin, Profile
from .schema.fields import Mistakes, Path

_AT: Path = ("package_access",)
_PEM = "-----BEGIN CERTIFICATE-----"
_SERVER = re.compile(r"[A-Za-z0-9._-]+(:[0-9]*)?\Z|\[[0-9A-Fa-f:.]+\](:[0-9]*)?\Z")


def refuse_password(path: Path, url: str, mistakes: Mistakes) -> bool:
    """Note a mistake if an address has a user or a password, and return whether it has. The message does not show them."""
    # An @ in a path is none, but only behind the name of a server: an address without scheme, or a password with a slash, is one.
    if "@" not in url or _SERVER.match(url.partition("://")[2].partition("/")[0]):
        return False
    mistakes.add(
        path,
        "has a user or a password in the address, and a cluster file is kept in git. Allowed: the address without them. Put them into "
        "`package_access.logins`: {url, user, password: <name of a secret>}, and the password into `bedplate_secrets`.",
    )
    return True


def package_access_of(
    data: Mapping[str, Any] | None, profiles: Mapping[str, Profile], file: str, mistakes: Mistakes
) -> PackageAccess | None:
    """Return the section `package_access`; None if the file lacks it."""
    if data is None:
        return None
    for profile in profiles.values():
        system = stack_table.default().systems.get(profile.gpu_stack.os) if profile.gpu_stack else None
        if system and system.family == "rpm":
            mistakes.add(
                _AT,
                f"is written for apt, and profile {profile.name} has dnf. Allowed with dnf: proxy, sslcacert and passwords in the "
                "/etc/dnf/dnf.conf of its image, and no package_access here.",
            )
    proxy = data["proxy"] or ""
    if proxy:
        _check_url((*_AT, "proxy"), proxy, mistakes)
    hosts = tuple(host for host in data["no_proxy"] or () if host)
    if hosts and not proxy:
        mistakes.add((*_AT, "no_proxy"), "there is no `proxy`. Add one, or remove this.")
    logins = tuple(_logins(data["logins"] or (), mistakes))
    return PackageAccess(proxy.rstrip("/"), hosts, _ca(data["ca"], file), logins)


def _ca(text: str | None, file: str) -> str:
    return str(FilePath(file).resolve().parent / text) if text else ""


def certificates(path: str) -> str:
    """Return the text of a file with certificates. ValueError: the file has no certificate."""
    try:
        text = FilePath(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read as certificates: {error}. Put the PEM file there") from None
    if _PEM not in text:
        raise ValueError(f"{path}: has no certificate. Allowed: PEM, with {_PEM}")
    if "PRIVATE KEY" in text:
        raise ValueError(f"{path}: has a private key, which every machine would get. Allowed: certificates only")
    return text if text.endswith("\n") else f"{text}\n"


def certificate_mistakes(access: PackageAccess | None) -> list[str]:
    """Return the mistakes of the file of certificates; only a run that writes it reads it."""
    try:
        if access and access.ca:
            certificates(access.ca)
    except ValueError as error:
        return [f"package_access.ca: {error}"]
    return []


def _logins(rows: Any, mistakes: Mistakes) -> list[PackageLogin]:
    found: dict[str, PackageLogin] = {}
    for number, row in enumerate(rows):
        path = (*_AT, "logins", number)
        if not row or not all(row[key] for key in ("url", "user", "password")):
            continue
        _check_url((*path, "url"), row["url"], mistakes)
        url = row["url"].rstrip("/")
        if url in found:
            mistakes.add((*path, "url"), f"{url} is already above. Keep one.")
        found[url] = PackageLogin(url, row["user"], row["password"])
    return list(found.values())


def _check_url(path: Path, url: str, mistakes: Mistakes) -> None:
    if refuse_password(path, url, mistakes):
        return
    try:
        parts = urlsplit(url)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        mistakes.add(path, f"{url!r} is not an address. Allowed: http://HOST:PORT or https://HOST:PORT.")
