"""Names on every machine, as the machine itself resolves them."""

from __future__ import annotations

import pytest

testinfra_hosts = ["ansible://bedplate"]


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("ctl1", "10.215.2.10"),
        ("node1", "10.215.2.11"),
        ("node1.molecule.internal", "10.215.2.11"),
        ("node1-bmc", "10.216.2.1"),
        ("localhost", "127.0.0.1"),
    ],
)
def test_names_resolve(host, name, address):
    assert address in host.check_output(f"getent ahostsv4 {name}").split()


def test_the_file_is_readable_by_all_and_writable_by_root(host):
    hosts = host.file("/etc/hosts")
    assert (hosts.user, hosts.group, hosts.mode) == ("root", "root", 0o644)


def test_what_bedplate_wrote_is_on_record(host):
    record = host.file("/var/lib/bedplate/files.json")
    assert "/etc/hosts" in record.content_string
    assert record.mode == 0o600


def test_time_is_left_alone_without_servers(host):
    assert not host.package("chrony").is_installed
