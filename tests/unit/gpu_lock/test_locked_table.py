"""Drivers of a lock: only those whose packages are all in it."""

from __future__ import annotations

from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_lock import locked_table
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_lock.lock_document import LockedSource
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack import stack_table

VERSION = "550.163.01"


def offered(packages: dict[str, tuple[str, ...]]) -> list[str]:
    table = locked_table.table_of(stack_table.default(), LockedSource((), packages), "debian-13", "debian", "x86_64")
    return [one.version for one in table.drivers_of("debian-13", "debian", "x86_64")]


def test_a_driver_needs_its_support_packages_in_whichever_version() -> None:
    (row,) = (one for one in stack_table.default().names if one.source == "debian" and "debian-13" in one.systems)
    named = [*row.driver, *(name for names in row.kernel.values() for name in names)]
    packages = dict.fromkeys(named, (f"{row.epoch}{VERSION}-2",)) | dict.fromkeys(row.support, ("1",))
    assert row.support
    assert offered(packages) == [VERSION]
    for name in (*row.support, row.driver[-1]):
        assert offered({other: one for other, one in packages.items() if other != name}) == []
