# SPDX-License-Identifier: GPL-3.0-or-later
"""The artifact list: every package, key and file that a site needs, with origin and checksum; the same bytes for the same origins."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

from .mirror_model import File, Listing, MirrorOrigin

COLUMNS = ("kind", "name", "version", "architecture", "systems", "parts", "asked", "size", "sha256", "url")


def listed(cluster: str, listings: Sequence[Listing], files: Iterable[File]) -> dict[str, Any]:
    """Return the list as JSON has it."""
    packages = _packages(listings)
    return {
        "cluster": cluster,
        "format": 1,
        "systems": {one.system.name: _system(one) for one in sorted(listings, key=lambda one: one.system.name)},
        "packages": packages,
        "keys": _keys(listings),
        "files": [
            {"name": file.name, "url": file.url, "sha256": file.sha256}
            for file in sorted(files, key=lambda one: one.name)
        ],
        "bytes": sum(row["size"] for row in packages),
    }


def as_json(artifacts: dict[str, Any]) -> str:
    """Return the list as a file."""
    return json.dumps(artifacts, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def as_csv(artifacts: dict[str, Any]) -> str:
    """Return the list as a table, for spreadsheets and for approval."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for row in artifacts["packages"]:
        systems = row["systems"]
        parts = sorted({part for one in systems.values() for part in one["parts"]})
        asked = "yes" if any(one["asked"] for one in systems.values()) else "no"
        plain = {name: row[name] for name in ("name", "version", "architecture", "size", "sha256", "url")}
        writer.writerow(
            {**plain, "kind": "package", "systems": " ".join(systems), "parts": " ".join(parts), "asked": asked}
        )
    for row in artifacts["keys"]:
        writer.writerow({"kind": "key", "name": row["origin"], "version": " ".join(row["fingerprints"]), "sha256": row["sha256"],
                         "systems": " ".join(row["systems"])})  # fmt: skip
    for row in artifacts["files"]:
        writer.writerow({"kind": "file", **row})
    return stream.getvalue()


def _system(listing: Listing) -> dict[str, Any]:
    return {
        "architecture": listing.system.architecture,
        "origins": [_origin(origin) for origin in sorted(listing.system.origins, key=lambda one: one.name)],
        "packages": len(listing.packages),
        "bytes": sum(package.size for package in listing.packages),
    }


def _origin(origin: MirrorOrigin) -> dict[str, Any]:
    return {
        "name": origin.name,
        "url": origin.url,
        "suites": list(origin.suites),
        "components": list(origin.components),
    }


def _packages(listings: Sequence[Listing]) -> list[dict[str, Any]]:
    """Return the packages; a package of several systems is one row."""
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for listing in sorted(listings, key=lambda one: one.system.name):
        for package in listing.packages:
            row = rows.setdefault(
                (*package.identity, package.sha256, package.url),
                {
                    "name": package.name,
                    "version": package.version,
                    "architecture": package.architecture,
                    "origin": package.origin,
                    "url": package.url,
                    "size": package.size,
                    "sha256": package.sha256,
                    "systems": {},
                },
            )
            row["systems"][listing.system.name] = {
                "parts": list(package.parts),
                "asked": package.asked,
                "file": f"{listing.system.name}/{package.file}",
            }
    return [rows[identity] for identity in sorted(rows)]


def _keys(listings: Sequence[Listing]) -> list[dict[str, Any]]:
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for listing in sorted(listings, key=lambda one: one.system.name):
        for key in listing.keys:
            row = rows.setdefault(
                (key.origin, key.sha256),
                {"origin": key.origin, "fingerprints": list(key.fingerprints), "sha256": key.sha256, "systems": []},
            )
            row["systems"].append(listing.system.name)
    return [rows[identity] for identity in sorted(rows)]
