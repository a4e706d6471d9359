"""Two subnet managers of one plane."""

from __future__ import annotations

testinfra_hosts = ["ansible://subnet_managers"]


def test_it_runs(host):
    assert host.service("opensm-plane@fabric.service").is_running
