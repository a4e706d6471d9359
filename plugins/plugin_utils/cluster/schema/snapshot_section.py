# SPDX-License-Identifier: GPL-3.0-or-later
"""Fields of `snapshots`: dated copies of all repositories of the machines."""

from __future__ import annotations

from .fields import Field
from .gpu_sections import FINGERPRINT, KEY_FILE, URL
from .text_rules import WORD

KINDS = ("system", "security", "slurm", "gpu", "site")
"""Kinds of repositories. A snapshot has one repository for each system and kind."""
_KEY = "armored public key, a path beside the cluster file or an absolute one"

_REPOSITORY = {
    "system": Field("Operating system of the machines that read it, such as debian-13.", required=True, **WORD),
    "kind": Field(
        "What it has: the system's packages, its security updates, Slurm, GPU software, or others.",
        required=True,
        choices=KINDS,
    ),
    "url": Field("Address of the origin.", required=True, **URL),
    "suites": Field(
        'Suites of an apt repository, such as [trixie, trixie-updates]; a flat one has ["./"]. None for dnf.',
        "list",
        item=Field("a suite", pattern=r"[A-Za-z0-9./][A-Za-z0-9._/-]*", allowed="Allowed: the name of a suite, or ./"),
    ),
    "components": Field(
        "Components of these suites, such as [main, non-free-firmware].",
        "list",
        item=Field("a component", pattern=r"[A-Za-z0-9][A-Za-z0-9._/-]*", allowed="Allowed: the name of a component."),
    ),
    "architecture": Field("Architecture of its packages.", default="x86_64", choices=("x86_64", "arm64")),
    "key": Field(f"The key that signs the origin: {_KEY}, or the path of a keyring.", required=True, **KEY_FILE),
}

SNAPSHOTS = {
    "url": Field("Where machines find the folder of snapshots.", required=True, **URL),
    "key": Field(f"The key that signs the snapshots, key.asc of the mirror: {_KEY}.", required=True, **KEY_FILE),
    "fingerprint": Field(
        "The fingerprint of that key: another one in the file is a mistake. Several in a list.",
        "list",
        item=Field("a fingerprint", **FINGERPRINT),
    ),
    "system": Field(
        "System of the machines without a `gpu_stack`; needed where `repositories` names several systems.", **WORD
    ),
    "test": Field(
        "Nodes that try a snapshot first. With it a new snapshot is promoted only after these nodes have it.",
        "list",
        item=Field("a node or hostlist"),
    ),
    "repositories": Field(
        "The repositories that machines need, each with its origin. playbooks/mirror.yml copies them.",
        "list",
        required=True,
        item=Field("a repository", "section", fields=_REPOSITORY),
    ),
}
