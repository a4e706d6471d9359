# SPDX-License-Identifier: GPL-3.0-or-later
"""Sources of a host key: the right key is proved and new, a wrong one refused, and a known one needs no source."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover import key_verdict, ssh_target
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover.host_keys import (
    REVOKED,
    HostKey,
    HostKeyError,
    hashed,
    keys_for,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover.key_sources import confirm_mistakes, stated
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover.key_verdict import Judge, KeyVerdict, lines_for
from tests.unit.recover.machine import Machine, made

NAMES = ("n2", "n2.site")


class Site:
    """A machine with a new key, and a known_hosts file with its old one."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.old, self.new, self.other = (made(folder, name) for name in ("old", "new", "other"))
        self.machine = Machine([self.new])
        self.known_hosts = folder / "known_hosts"
        self.known_hosts.write_text(f"n2 {self.old.text}\n")
        for name in ("offered", "refusal"):
            function: Callable[..., Any] = getattr(ssh_target, name)
            monkeypatch.setattr(key_verdict, name, lambda *given, call=function: call(*given, start=self.machine.start))

    def verdict(self, proxied: bool = False, **choices: object) -> KeyVerdict:
        """Judge with these variables, without `recover_`."""
        target = self.machine.target(self.known_hosts, proxied=proxied)
        return Judge(target, NAMES[1:], lines_for(target), stated(choices, "n2", NAMES)).verdict()

    def file(self, text: str) -> str:
        """Return the path of a file with a text."""
        path = self.folder / "stated"
        path.write_text(text)
        return str(path)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(tmp_path, monkeypatch)


def test_without_a_source_another_key_is_refused_with_both_fingerprints(site: Site):
    found = site.verdict()
    assert (found.state, found.unconfirmed, found.key) == ("refused", True, None)
    assert (found.offered, found.recorded) == ((site.new.shown,), (site.old.shown,))
    # No login, not even a try.
    assert [argv[0] for argv in site.machine.commands] == ["ssh-keyscan"]


def test_without_a_source_and_without_a_known_key_the_machine_is_refused(site: Site):
    site.known_hosts.write_text("")
    assert (site.verdict().state, site.verdict().unconfirmed) == ("refused", True)


@pytest.mark.parametrize("line", ["n2 {}", "n1,n2 {}", "{hash} {}"])
def test_a_known_key_needs_no_source_and_nothing_is_written(site: Site, line: str):
    site.known_hosts.write_text(line.format(site.new.text, hash=hashed("n2")) + "\n")
    assert (site.verdict().state, site.verdict().key) == ("known", None)


def test_a_key_of_the_system_counts_where_the_user_has_none(site: Site):
    system = site.folder / "ssh_known_hosts"
    machine = replace(site.machine.target(site.known_hosts), global_files=(system,))
    system.write_text(f"n2 {site.new.text}\n@revoked n2 {site.other.text}\n")
    assert keys_for(lines_for(machine), "n2") == [site.old]
    assert keys_for(lines_for(machine), "n2", REVOKED) == [site.other]
    site.known_hosts.write_text("")
    assert keys_for(lines_for(machine), "n2") == [site.new]


def test_a_known_key_of_one_type_does_not_hide_a_changed_one(site: Site):
    ecdsa = made(site.folder, "ecdsa", "ecdsa")
    site.machine.keys = [site.new, ecdsa]
    site.known_hosts.write_text(f"n2 {site.old.text}\nn2 {ecdsa.text}\n")
    assert site.verdict().state == "refused"


SOURCES: dict[str, Callable[[Site, HostKey], dict[str, object]]] = {
    "confirmed": lambda _site, key: {"host_key_confirm": key.fingerprint},
    "confirmed by node": lambda _site, key: {"host_key_confirm": {"n2": [key.fingerprint]}},
    "public key": lambda site, key: {"host_key_file": site.file(f"{key.text} root@n2\n")},
    "known_hosts": lambda site, key: {"host_key_file": site.file(f"# console\nn1 {site.old.text}\nn2 {key.text}\n")},
    "known_hosts, by its other name": lambda site, key: {"host_key_file": site.file(f"n2.site {key.text}\n")},
    "hashed known_hosts": lambda site, key: {"host_key_file": site.file(f"{hashed('n2')} {key.text}\n")},
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_the_stated_key_is_proved_and_new(site: Site, source: Callable[[Site, HostKey], dict[str, object]]):
    found = site.verdict(**source(site, site.new))
    assert found.state == "new"
    assert found.key is not None
    assert (found.key["name"], found.key["keys"], found.key["aliases"]) == ("n2", [site.new.text], ["n2.site"])
    proof = site.machine.commands[-1]
    assert proof[0] == "ssh"
    # The first value counts for ssh: ahead of what Ansible or a file of settings says.
    assert proof.index("StrictHostKeyChecking=yes") < proof.index("n2")
    assert {"ControlPath=none", "GlobalKnownHostsFile=/dev/null", "BatchMode=yes"} <= set(proof)


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_another_key_than_stated_is_refused_without_a_login(
    site: Site, source: Callable[[Site, HostKey], dict[str, object]]
):
    found = site.verdict(**source(site, site.other))
    assert (found.state, found.key, found.unconfirmed) == ("refused", None, False)
    assert site.other.fingerprint in found.why
    assert [argv[0] for argv in site.machine.commands] == ["ssh-keyscan"]


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_the_stated_key_that_is_known_changes_nothing(site: Site, source: Callable[[Site, HostKey], dict[str, object]]):
    site.known_hosts.write_text(f"n2 {site.new.text}\n")
    assert site.verdict(**source(site, site.new)).state == "known"


def test_a_known_key_that_is_not_the_stated_one_is_refused(site: Site):
    site.known_hosts.write_text(f"n2 {site.new.text}\n")
    assert site.verdict(host_key_confirm=site.other.fingerprint).state == "refused"


def test_each_of_several_fingerprints_must_be_offered(site: Site):
    both = f"{site.new.fingerprint},{site.other.fingerprint}"
    assert site.verdict(host_key_confirm=both).state == "refused"


def test_one_stated_key_does_not_hide_another_that_is_not_the_stated_one(site: Site):
    ecdsa = made(site.folder, "ecdsa", "ecdsa")
    site.machine.keys = [site.new, ecdsa]
    text = f"n2 {site.other.text}\nn2 {ecdsa.text}\n"
    assert site.verdict(host_key_file=site.file(text)).state == "refused"


def test_a_key_that_the_machine_no_longer_has_is_replaced_though_the_new_one_is_known(site: Site):
    """With both on record ssh would also accept a machine with the old key."""
    site.known_hosts.write_text(f"n2 {site.old.text}\nn2 {site.new.text}\n")
    found = site.verdict(host_key_confirm=site.new.fingerprint)
    assert (found.state, found.key and found.key["kept"]) == ("new", [site.new.text])
    site.machine.authority = site.other
    site.known_hosts.write_text(f"@cert-authority n* {site.other.text}\nn2 {site.old.text}\n")
    found = site.verdict(host_key_ca=site.other.text)
    assert (found.state, found.key and found.key["kept"]) == ("new", [])


def test_a_ca_that_signed_the_key_is_a_source(site: Site):
    site.machine.authority = site.other
    found = site.verdict(host_key_ca=f"{site.other.text} ca@site")
    assert (found.state, found.key and found.key["authority"]) == ("new", site.other.text)
    assert site.verdict(host_key_ca=site.file(site.other.text)).state == "new"
    site.known_hosts.write_text(f"@cert-authority n* {site.other.text}\n")
    assert site.verdict(host_key_ca=site.other.text).state == "known"
    # Ansible's ssh accepts the machine already.
    assert site.verdict().state == "known"
    site.known_hosts.write_text(f"@cert-authority n* {site.other.text}\nn2 {site.old.text}\n")
    assert site.verdict().state == "new"


def test_a_ca_that_did_not_sign_the_key_is_refused(site: Site):
    assert site.verdict(host_key_ca=site.other.text).state == "refused"
    site.machine.authority = site.old
    assert site.verdict(host_key_ca=site.other.text).state == "refused"


def test_a_machine_that_refuses_the_user_has_proved_its_key(site: Site):
    site.machine.login = (255, "root@n2: Permission denied (publickey).\n")
    assert site.verdict(host_key_confirm=site.new.fingerprint).state == "new"
    # Then the machine between may have refused it.
    assert site.verdict(True, host_key_confirm=site.new.fingerprint).state == "refused"


def test_a_machine_behind_another_is_scanned_by_ssh(site: Site):
    assert site.verdict(True, host_key_confirm=site.new.fingerprint).state == "new"
    assert {argv[0] for argv in site.machine.commands} == {"ssh"}
    assert "PreferredAuthentications=none" in site.machine.commands[0]


def test_a_machine_without_an_ssh_daemon_is_refused(site: Site):
    site.machine.keys = []
    found = site.verdict(host_key_confirm=site.new.fingerprint)
    assert (found.state, found.unconfirmed, found.offered) == ("refused", False, ())
    assert "10.0.0.2 port 22" in found.why


def test_a_revoked_key_is_refused_whatever_is_stated(site: Site):
    site.known_hosts.write_text(f"@revoked * {site.new.text}\n")
    assert site.verdict(host_key_confirm=site.new.fingerprint).state == "refused"
    # Nor does a line count that still has it.
    site.known_hosts.write_text(f"@revoked * {site.new.text}\nn2 {site.new.text}\n")
    assert site.verdict().state == site.verdict(host_key_confirm=site.new.fingerprint).state == "refused"


@pytest.mark.parametrize(
    "choices",
    [
        {"host_key_file": "/nonexistent"},
        {"host_key_ca": "/nonexistent"},
        {"host_key_ca": "ssh-ed25519 AAAA"},
        {"host_key_confirm": "MD5:aa"},
    ],
)
def test_a_source_that_cannot_be_read_is_an_error(choices: dict[str, object]):
    with pytest.raises(HostKeyError, match="recover_host_key"):
        stated(choices, "n2", NAMES)


def test_a_file_without_the_node_or_without_a_key_is_an_error(site: Site):
    for text in (f"n1 {site.new.text}\n", "", "broken\n"):
        with pytest.raises(HostKeyError):
            stated({"host_key_file": site.file(text)}, "n2", NAMES)


PRINT = "SHA256:" + "a" * 43


@pytest.mark.parametrize(
    ("value", "nodes", "mistakes"),
    [
        (PRINT, ["n1"], 0),
        ({"n1": PRINT, "n2": [PRINT, PRINT]}, ["n1", "n2"], 0),
        (PRINT, ["n1", "n2"], 1),
        ("SHA256:short", ["n1"], 1),
        ({"n1": PRINT, "n9": "x"}, ["n1"], 2),
        ("", ["n1", "n2"], 0),
    ],
)
def test_mistakes_in_fingerprints(value: object, nodes: list[str], mistakes: int):
    assert len(confirm_mistakes(value, nodes)) == mistakes
