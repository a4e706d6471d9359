"""verify of machines that boot from the network: a daemon that does not run, and answers without an open order."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import Finding
from ansible_collections.bedplate.cluster.plugins.module_utils.provision import boot_drift
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.orders import Orders
from tests.kit.provision import network
from tests.unit.provision.test_orders import arm


def found(root: Path, *daemons: int) -> list[Finding]:
    return list(boot_drift.findings(str(root), {"directory": "/host"}, lambda _folder: list(daemons)))


def test_only_open_orders_are_answered(tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.mkdir()
    hosts = network.make_folder(host / "network") / "hosts"
    orders = Orders(host / "orders")
    order, _folder = arm(orders)
    (hosts / order.id).write_text("x\n")
    (hosts / ".x.tmp").write_text("x\n")
    assert found(tmp_path, 1) == []
    assert [one.kind for one in found(tmp_path)] == ["network-boot-daemon"]
    orders.release(order.id)
    (hosts / ("0" * 32)).write_text("x\n")
    assert [(one.kind, one.where) for one in found(tmp_path, 1)] == [
        ("network-boot-answer", name) for name in sorted((order.id, "0" * 32))
    ]
