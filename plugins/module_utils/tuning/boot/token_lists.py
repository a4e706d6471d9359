# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of the kernel command line whose values the kernel adds up: `pci=nocrs pci=realloc` is `pci=nocrs,realloc`.

Source: drivers/pci/pci.c of Linux. `early_param("pci", pci_setup)` runs for each token with the key; pci_setup reads the value up to each
comma. Of two options that exclude each other, the last one wins.
"""

from __future__ import annotations

from collections.abc import Iterable

KEYS = ("pci",)
# Options that exclude each other: they have one owner. An option with a value excludes itself with another value.
_EXCLUSIVE = (
    ("nocrs", "use_crs"),
    ("use_e820", "no_e820"),
    ("bfsort", "nobfsort"),
    ("pcie_bus_tune_off", "pcie_bus_safe", "pcie_bus_perf", "pcie_bus_peer2peer"),
)
_GROUPS = {name: group for group in _EXCLUSIVE for name in group}


def family(key: str, option: str) -> str:
    """Return the family of one option of a key.

    >>> family("pci", "realloc=off"), family("pci", "use_crs")
    ('pci=realloc', 'pci=nocrs')
    """
    name = option.partition("=")[0]
    return f"{key}={_GROUPS.get(name, (name,))[0]}"


def key_of(some_family: str) -> str:
    """Return the key of a family.

    >>> key_of("pci=nocrs"), key_of("iommu")
    ('pci', 'iommu')
    """
    return some_family.partition("=")[0]


def options(families: Iterable[str]) -> dict[str, list[str]]:
    """Return key -> names of the options that these families have, for the families of lists among them.

    >>> options(["pci=nocrs", "pci=realloc", "iommu"])
    {'pci': ['nocrs', 'use_crs', 'realloc']}
    """
    found: dict[str, list[str]] = {}
    for one in families:
        key, equals, name = one.partition("=")
        if equals:
            found.setdefault(key, []).extend(_GROUPS.get(name, (name,)))
    return found
