# SPDX-License-Identifier: GPL-3.0-or-later
"""The software list of a cluster as SPDX 2.3: what the lock of GPU software and the promoted snapshot have it install.

The same lock and snapshot give the same bytes: the time of creation is that of the snapshot.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any
from urllib.parse import quote

from ansible_collections.bedplate.cluster.plugins.module_utils.common.release import RELEASE
from ansible_collections.bedplate.cluster.plugins.module_utils.common.versions import matches

from ...cluster import Cluster
from ...cluster.gpu_stack_checks import stack_of
from ...gpu_lock.version_order import newest_first
from .snapshot_model import Snapshot, SnapshotPackage

_DOCUMENT = "SPDXRef-DOCUMENT"
_ID = re.compile(r"[^A-Za-z0-9.-]")


def document(cluster: Cluster, snapshot: Snapshot) -> dict[str, Any]:
    """Return the document. A package of the lock that the snapshot lacks has no checksum."""
    packages = [_package(*row) for row in _listed(cluster, snapshot)]
    unique = {one["SPDXID"]: one for one in packages}
    digest = hashlib.sha256(json.dumps(unique, sort_keys=True).encode()).hexdigest()
    name = f"{cluster.name}-{snapshot.name}"
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": _DOCUMENT,
        "name": name,
        "documentNamespace": f"https://spdx.org/spdxdocs/bedplate-{quote(name)}-{digest[:32]}",
        "creationInfo": {"created": snapshot.made, "creators": [f"Tool: bedplate-{RELEASE}"]},
        "packages": list(unique.values()),
        "relationships": [
            {"spdxElementId": _DOCUMENT, "relationshipType": "DESCRIBES", "relatedSpdxElement": one} for one in unique
        ],
    }


def text_of(found: dict[str, Any]) -> str:
    """Return the document as a file."""
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _listed(cluster: Cluster, snapshot: Snapshot) -> list[tuple[str, str, str, str, SnapshotPackage | None]]:
    """Return system, family, name, version and the package of the snapshot, of each package that a profile's set installs."""
    rows = {}
    families = {one.system: one.family for one in snapshot.repositories}
    for profile in {node.profile.name: node.profile for node in cluster.nodes}.values():
        stack = profile.gpu_stack
        if stack is None or profile.gpus is None:
            continue
        there = snapshot.by_name(stack.os)
        family = families.get(stack.os, "deb")
        for one in stack_of(stack, profile).packages:
            fitting = {
                package.version: package for package in there.get(one.name, []) if matches(package.version, one.version)
            }
            newest = next(iter(newest_first(family, fitting)), "")
            rows[stack.os, one.name] = (stack.os, family, one.name, newest or one.version, fitting.get(newest))
    return [rows[key] for key in sorted(rows)]


def _package(system: str, family: str, name: str, version: str, there: SnapshotPackage | None) -> dict[str, Any]:
    space = system.partition("-")[0]
    architecture = f"&arch={there.architecture}" if there else ""
    locator = f"pkg:{family}/{space}/{quote(name)}@{quote(version)}?distro={quote(system)}{architecture}"
    found: dict[str, Any] = {
        "SPDXID": f"SPDXRef-{_ID.sub('-', f'{system}-{name}-{version}')}",
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
        "externalRefs": [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": locator}
        ],
    }
    if there:
        found["packageFileName"] = there.file.rpartition("/")[2]
        found["checksums"] = [{"algorithm": "SHA256", "checksumValue": there.sha256}]
    return found
