"""Seeds: plain names, in a form that the installer reads."""

from __future__ import annotations

import io
import tarfile

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.provision.seed import SeedFile, machine_files, pack


def test_members() -> None:
    files = machine_files(
        "gpu001", "127.0.0.1 localhost\n", "52:54:00:be:d9:01", "10.20.9.1/22", "none", "ssh-ed25519 A\n", None
    )
    with tarfile.open(fileobj=io.BytesIO(pack(files))) as archive:
        names = archive.getnames()
        manifest = archive.extractfile("manifest").read().decode().splitlines()  # type: ignore[union-attr]
    assert names == ["manifest", *map(str, range(len(files)))]
    assert [line.split()[2] for line in manifest[:-1]] == sorted(files)
    assert manifest[-1] == f"end {len(files)}"
    assert b"Gateway" not in files["/etc/systemd/network/10-bedplate.network"].data


@pytest.mark.parametrize("path", ["etc/x", "/etc/../x", "/", "/a b", "/a//b", "/a\nb", "/./a", "/a/"])
def test_paths_that_are_not_allowed(path: str) -> None:
    with pytest.raises(ValueError, match="not an absolute path"):
        pack({path: SeedFile(b"")})


def test_a_mode_that_is_not_allowed() -> None:
    with pytest.raises(ValueError, match="mode"):
        pack({"/x": SeedFile(b"", 0o4755)})


@pytest.mark.parametrize("number", [0, 65])
def test_a_number_of_files_that_the_installer_does_not_read(number: int) -> None:
    with pytest.raises(ValueError, match=f"a seed of {number} files"):
        pack({f"/f{one}": SeedFile(b"") for one in range(number)})


def test_only_root_reads_the_private_key_and_who_may_log_in() -> None:
    files = machine_files(
        "gpu001", "", "52:54:00:be:d9:01", "10.20.9.1/22", "none", "ssh-ed25519 A\n", ("private", "public")
    )
    modes = {path: file.mode for path, file in files.items()}
    assert (modes["/etc/ssh/ssh_host_ed25519_key"], modes["/root/.ssh/authorized_keys"]) == (0o600, 0o600)
    assert files["/etc/ssh/ssh_host_ed25519_key"].data == b"private"
