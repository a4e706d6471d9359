# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for names, words and texts of the cluster file, each with the allowed form."""

from __future__ import annotations

from typing import Any

from .fields import Field

HOST_NAME: dict[str, Any] = {
    "pattern": "[a-z]([a-z0-9-]{0,61}[a-z0-9])?",
    "allowed": "Allowed: a host name of small letters, digits and '-', starting with a letter.",
}
NAME: dict[str, Any] = {
    "pattern": "[a-z][a-z0-9_]{0,40}",
    "allowed": "Allowed: small letters, digits and '_', starting with a letter.",
}
# To Slurm a node or partition DEFAULT, in any case, is no object: its options are those that the next ones start from.
_NO_DEFAULT = "(?![Dd][Ee][Ff][Aa][Uu][Ll][Tt]$)"
NODE_NAME: dict[str, Any] = {
    "pattern": _NO_DEFAULT + HOST_NAME["pattern"],
    "allowed": f"{HOST_NAME['allowed'][:-1]}; not default, which Slurm takes for the options that other nodes start from.",
}
PARTITION: dict[str, Any] = {
    "pattern": _NO_DEFAULT + "(?!ALL$)[A-Za-z][A-Za-z0-9_-]{0,40}",
    "allowed": "Allowed: letters, digits, '_' and '-', starting with a letter; not ALL, and not default in any case, which Slurm takes "
    "for the options that other partitions start from.",
}
DOMAIN: dict[str, Any] = {
    "pattern": r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*",
    "allowed": "Allowed: a DNS domain in small letters, such as cluster.example.org.",
}
TIME: dict[str, Any] = {
    "pattern": "[0-9]+(:[0-9]+){0,2}|[0-9]+-[0-9]+(:[0-9]+){0,2}|UNLIMITED|INFINITE",
    "allowed": 'Allowed: minutes, hours:minutes:seconds or days-hours:minutes:seconds, in quotes, or "UNLIMITED".',
}
# What fits between quotes in one line of slurm.conf.
TEXT: dict[str, Any] = {
    "pattern": r'[^\n\r"#]+',
    "allowed": 'Allowed: one line without " and #.',
}
# What Slurm writes in lists of features and switches, and what it takes for users.
WORD: dict[str, Any] = {
    "pattern": "[A-Za-z0-9_][A-Za-z0-9_.-]*",
    "allowed": "Allowed: letters, digits and _ . -",
}
# sacctmgr makes the names of accounts and QOS small: with capitals, no later run would find them.
OBJECT: dict[str, Any] = {
    "pattern": "[a-z0-9_][a-z0-9_.-]*",
    "allowed": "Allowed: small letters, digits and _ . -, for sacctmgr makes capital letters small.",
}


def names(description: str, **rules: Any) -> Field:
    """Return the key of a list of names that follow these rules."""
    return Field(description, "list", item=Field("a name", **rules))


TENANT_NAME: dict[str, Any] = {
    "pattern": "(?![Dd]efault$)[A-Za-z][A-Za-z0-9_.-]{0,30}",
    "allowed": "Allowed: at most 31 letters, digits and _ . -, starting with a letter; not Default.",
}
# The name of a directory, beside those of the first fabric's files and planes.
FABRIC_NAME: dict[str, Any] = {
    "pattern": "(?!(comparison|discovered|fabric|ibsim|opensm|proved|slurm)$)(?!(.*-)?(rail|plane)[0-9]+$)[a-z]([a-z0-9-]{0,29}[a-z0-9])?",
    "allowed": "Allowed: at most 31 small letters, digits and '-', starting with a letter; not comparison, discovered, fabric, ibsim, "
    "opensm, proved or slurm, which are directories, and no end such as rail0 or plane1, which are planes.",
}
# A port of a switch as its label names it; brackets of a hostlist stand for several.
PORT: dict[str, Any] = {
    "pattern": r"[A-Za-z0-9\[][A-Za-z0-9_.,\[\]-]*:[0-9,\[\]-]+",
    "allowed": "Allowed: a switch and its port, leaf-a01:17, or a hostlist of such, leaf-a[01-04]:[63-64].",
}
PCI: dict[str, Any] = {
    "pattern": r"[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]",
    "allowed": "Allowed: domain, bus, device and function in small letters, such as 0000:3b:00.0.",
}
