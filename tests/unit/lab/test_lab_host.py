from __future__ import annotations

import ipaddress
import os
import shutil
from pathlib import Path

import pytest

from lab import host
from lab.shell import LabError
from tests.kit import sentences

SENTENCES = Path(__file__).parent / "sentences.txt"

ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
podman1\t00D50A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
""".replace("00D50A", "0000D50A")


@pytest.mark.parametrize(
    ("cgroups", "limits", "runtime", "ulimits"),
    [
        ("v2", True, (), 0),
        ("v2", False, (), 2),
        ("hybrid", True, ("--runtime", "runc"), 0),
        ("hybrid", False, ("--runtime", "runc"), 2),
        ("v1", False, ("--runtime", "runc"), 2),
    ],
)
def test_choice_of_runtime_and_limits(cgroups: str, limits: bool, runtime: tuple[str, ...], ulimits: int) -> None:
    choice = host.choose(cgroups, limits)
    assert choice.podman[:2] == runtime
    assert choice.run.count("--ulimit") == ulimits
    assert "--systemd=always" in choice.run
    assert len(choice.reasons) == 2


@pytest.mark.parametrize(
    ("files", "mode"),
    [
        (["cgroup.controllers"], "v2"),
        (["unified/cgroup.controllers", "devices/tasks"], "hybrid"),
        (["devices/tasks"], "v1"),
    ],
)
def test_cgroup_mode(tmp_path: Path, files: list[str], mode: str) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert host.cgroup_mode(tmp_path) == mode


@pytest.mark.parametrize(
    ("effective", "has"), [("000001ffffffffff", True), ("000001fffeffffff", False), ("0000000001000000", True)]
)
def test_capability(effective: str, has: bool) -> None:
    assert host.has_capability(host.CAP_SYS_RESOURCE, f"Name:\tx\nCapPrm:\t0\nCapEff:\t{effective}\n") is has


def test_default_route_is_no_clash() -> None:
    assert [str(network) for _, network in host.routes(ROUTES)] == ["10.213.0.0/24", "192.0.2.0/24"]
    assert host.clash(ipaddress.IPv4Network("10.215.1.0/24"), ROUTES) is None


def test_clash_names_network_and_interface_but_not_the_labs_own() -> None:
    subnet = ipaddress.IPv4Network("10.213.0.0/16")
    assert host.clash(subnet, ROUTES) == "10.213.0.0/24 dev podman1"
    assert host.clash(subnet, ROUTES, own_interface="podman1") is None


def test_plain_user_is_told_to_become_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LabError, match=r"\broot\b") as caught:
        host.require_root()
    sentences.check(SENTENCES, "a plain user", [caught.value])


def test_missing_commands_are_named_by_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda command, path=None: None if command == "runc" else f"/bin/{command}")
    monkeypatch.setattr(host, "KEYRING", Path("/nowhere"))
    monkeypatch.setattr(host, "NETWORK_HELPERS", ())
    monkeypatch.setattr(host, "succeeds", lambda command: False)
    assert host.missing_packages() == ["containernetworking-plugins", "debian-archive-keyring", "runc"]


def test_a_machine_without_apt_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "missing_packages", lambda guests, metal: ["podman"])
    monkeypatch.setattr(shutil, "which", lambda *_args, **_kwargs: None)
    with pytest.raises(LabError, match=r": podman[\s\S]*Debian 12, Debian 13, Ubuntu 24\.04") as caught:
        host.install_missing()
    sentences.check(SENTENCES, "a machine without apt", [caught.value])
