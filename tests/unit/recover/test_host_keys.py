# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys in known_hosts files: read as ssh-keygen reads them, and replaced without a line of another machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover import known_hosts_files
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover.host_keys import (
    AUTHORITY,
    REVOKED,
    HostKey,
    HostKeyError,
    Replacement,
    hashed,
    keys_for,
    lines_of,
    public_key,
    read,
    scanned,
)
from tests.unit.recover.held import waits_for
from tests.unit.recover.machine import made


@pytest.fixture
def keys(tmp_path: Path) -> tuple[HostKey, HostKey]:
    return made(tmp_path, "old"), made(tmp_path, "new")


def found_by_ssh_keygen(path: Path, name: str) -> list[str]:
    """Return the keys that OpenSSH itself finds for a name."""
    done = subprocess.run(["ssh-keygen", "-F", name, "-f", str(path)], capture_output=True, text=True, check=False)
    return [" ".join(line.split()[-2:]) for line in done.stdout.splitlines() if not line.startswith("#")]


def test_a_fingerprint_is_that_of_ssh_keygen(tmp_path: Path):
    for kind in ("ed25519", "ecdsa", "rsa"):
        key = made(tmp_path, kind, kind)
        done = subprocess.run(
            ["ssh-keygen", "-lf", str(tmp_path / f"{kind}.pub")], capture_output=True, text=True, check=True
        )
        assert key.fingerprint == done.stdout.split()[1]


@pytest.mark.parametrize("text", ["", "ssh-ed25519", "ssh-ed25519 AAAA", "ssh-rsa !!", "x y z"])
def test_what_is_not_a_public_key_is_refused(text: str):
    with pytest.raises(HostKeyError):
        public_key(text)


def test_a_key_with_the_type_of_another_is_refused(keys: tuple[HostKey, HostKey]):
    with pytest.raises(HostKeyError):
        public_key(f"ssh-rsa {keys[0].blob}")


@pytest.mark.parametrize(
    ("names", "name", "fits"),
    [
        ("n2", "n2", True),
        ("n2", "n20", False),
        ("N2", "n2", True),
        ("n1,n2", "n2", True),
        ("n?", "n2", True),
        ("n*,!n2", "n2", False),
        ("[n2]:2222", "[n2]:2222", True),
        ("[n2]:2222", "n2", False),
        ("[n2]:2222", "2:2222", False),
    ],
)
def test_names_fit_as_ssh_has_them(names: str, name: str, fits: bool, keys: tuple[HostKey, HostKey], tmp_path: Path):
    (line,) = lines_of(f"{names} {keys[0].text}")
    assert line.fits(name) == fits
    path = tmp_path / "known_hosts"
    path.write_text(line.text + "\n")
    assert bool(found_by_ssh_keygen(path, name)) == fits


def test_scanned_keys_are_in_the_order_of_ssh(tmp_path: Path):
    found = [made(tmp_path, kind, kind) for kind in ("rsa", "ecdsa", "ed25519")]
    text = "".join(f"n2 {key.text}\n" for key in found)
    assert scanned(f"# n2:22 SSH-2.0-OpenSSH_10.0\n{text}{text}") == found[::-1]


def test_a_hashed_line_is_read_and_replaced(keys: tuple[HostKey, HostKey], tmp_path: Path):
    old, new = keys
    path = tmp_path / "known_hosts"
    path.write_text(f"n1 {old.text}\nn2 {old.text}\n")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(path)], check=True, capture_output=True)
    assert keys_for(lines_of(read(path)), "n2") == [old]

    path.write_text(Replacement("n2", (), (new,), hashes=True).applied(read(path)))
    assert found_by_ssh_keygen(path, "n2") == [new.text]
    assert found_by_ssh_keygen(path, "n1") == [old.text]
    # A text in base64 may have the two letters.
    assert not any(line.startswith("n2") for line in read(path).splitlines())


def test_other_lines_stay_to_the_byte(keys: tuple[HostKey, HostKey]):
    old, new = keys
    others = (
        f"# by hand\n\nn1  {old.text}  comment\n{AUTHORITY} *.site {old.text}\n{REVOKED} n2 {old.text}\nbroken line\n"
    )
    text = Replacement("n2", ("n2.site",), (new,)).applied(f"{others}n2,n2.site,n3 {old.text} root@n2\n")
    # n3 has the same key, as machines of one image may, and is another machine.
    assert text == f"{others}n3 {old.text} root@n2\nn2 {new.text}\nn2.site {new.text}\n"


def test_a_second_replacement_changes_nothing(keys: tuple[HostKey, HostKey]):
    old, new = keys
    for hashes in (False, True):
        one = Replacement("n2", ("10.0.0.2",), (new,), hashes=hashes)
        text = one.applied(f"{hashed('n2')} {old.text}\n10.0.0.2 {old.text}")
        assert one.applied(text) == text
        assert len(text.splitlines()) == 2


def test_the_key_of_a_ca_replaces_the_keys_of_the_machine(keys: tuple[HostKey, HostKey]):
    old, authority = keys
    one = Replacement("n2", (), authority=authority)
    text = one.applied(f"n2 {old.text}\n")
    assert text == f"{AUTHORITY} n2 {authority.text}\n"
    wide = f"{AUTHORITY} n* {authority.text}\n"
    assert one.applied(f"{wide}n2 {old.text}\n") == wide


def test_files_are_written_once_and_keep_their_mode_and_link(keys: tuple[HostKey, HostKey], tmp_path: Path):
    old, new = keys
    real, first, second = tmp_path / "dotfiles", tmp_path / "known_hosts", tmp_path / "known_hosts2"
    real.write_text(f"n2 {old.text}\n")
    real.chmod(0o644)
    first.symlink_to(real)
    second.write_text(f"n2 {old.text}\n")
    files, one = [first, second, tmp_path / "absent/known_hosts"], Replacement("n2", (), (new,))

    assert known_hosts_files.write(files, one, check=True) == [str(real), str(second)]
    assert (real.read_text(), second.read_text()) == (f"n2 {old.text}\n",) * 2
    assert known_hosts_files.write(files, one) == [str(real), str(second)]
    assert (first.is_symlink(), real.read_text(), second.read_text()) == (True, f"n2 {new.text}\n", "")
    assert real.stat().st_mode & 0o777 == 0o644
    assert known_hosts_files.write(files, one) == []
    assert sorted(path.name for path in tmp_path.iterdir() if "known" in path.name) == ["known_hosts", "known_hosts2"]


def test_workers_of_a_run_write_one_after_the_other(keys: tuple[HostKey, HostKey], tmp_path: Path):
    """Each writes the whole file: the later one would remove the key of the other machine."""
    path = tmp_path / "known_hosts"
    path.write_text(f"n2 {keys[0].text}\n")
    new = Replacement("n2", (), (keys[1],))
    assert waits_for(tmp_path, lambda: known_hosts_files.write([path], new), lambda: keys[1].text in path.read_text())


def test_a_new_file_is_of_the_user_alone(keys: tuple[HostKey, HostKey], tmp_path: Path):
    path = tmp_path / ".ssh/known_hosts"
    assert known_hosts_files.write([path], Replacement("n2", (), (keys[1],))) == [str(path)]
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_file_that_cannot_be_written_is_named(keys: tuple[HostKey, HostKey], tmp_path: Path):
    (tmp_path / "known_hosts").mkdir()
    with pytest.raises(HostKeyError, match="known_hosts"):
        known_hosts_files.write([tmp_path / "known_hosts"], Replacement("n2", (), (keys[1],)))
