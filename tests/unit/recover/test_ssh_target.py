# SPDX-License-Identifier: GPL-3.0-or-later
"""How Ansible's SSH reaches a machine, as the real ssh reports it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import NOT_STARTED, Outcome
from ansible_collections.bedplate.cluster.plugins.plugin_utils.recover.ssh_target import (
    SshError,
    SshTarget,
    command_of,
    refusal,
    target,
)

OPTIONS = {"ssh_executable": "ssh", "ssh_args": "-o ControlMaster=auto", "ssh_extra_args": None, "remote_user": "root"}


def reached(folder: Path, config: str, host: str = "n2", **more: object):
    path = folder / "with blank"
    path.write_text(config)
    options = {**OPTIONS, "ssh_common_args": f'-F "{path}"', **more}
    return target(command_of(options.get), host)


def test_the_files_are_those_of_the_configuration(tmp_path: Path):
    one = reached(
        tmp_path, f"Host n2\n HostName 10.0.0.2\nUserKnownHostsFile {tmp_path}/a {tmp_path}/b\nHashKnownHosts yes\n"
    )
    assert (one.name, one.address, one.port, one.hashes, one.proxied) == ("10.0.0.2", "10.0.0.2", 22, True, False)
    assert one.user_files == (tmp_path / "a", tmp_path / "b")
    assert one.argv[-2:] == ("-o", 'User="root"')


def test_without_a_configuration_the_files_are_in_the_home_folder(tmp_path: Path):
    one = reached(tmp_path, "")
    assert one.user_files[0] == Path.home() / ".ssh/known_hosts"


@pytest.mark.parametrize(
    ("config", "more", "name", "port", "proxied"),
    [
        ("Port 2222\n", {}, "[n2]:2222", 2222, False),
        ("", {"port": 2200}, "[n2]:2200", 2200, False),
        ("HostKeyAlias rack1\nPort 2222\n", {}, "rack1", 2222, False),
        ("ProxyJump gate\n", {}, "n2", 22, True),
        ("ProxyCommand nc %h %p\n", {}, "n2", 22, True),
    ],
)
def test_the_name_of_the_key(tmp_path: Path, config: str, more: dict[str, object], name: str, port: int, proxied: bool):
    one = reached(tmp_path, config, **more)
    assert (one.name, one.port, one.proxied) == (name, port, proxied)


@pytest.mark.parametrize(
    ("config", "aliases"),
    [
        ("HostName 10.0.0.2\n", ("n2", "rack-n2")),
        # The address is that of a gateway.
        ("HostName gate\nPort 2202\n", ("[n2]:2202", "[rack-n2]:2202")),
        ("HostName gate\nHostKeyAlias n2\nPort 2202\n", ()),
    ],
)
def test_other_names_of_the_machine_are_not_those_of_a_gateway(tmp_path: Path, config: str, aliases: tuple[str, ...]):
    assert reached(tmp_path, config).aliases("Rack-n2") == aliases


def test_ansibles_own_options_count(tmp_path: Path):
    one = reached(tmp_path, "", ssh_extra_args=f"-o UserKnownHostsFile={tmp_path}/extra")
    assert one.user_files == (tmp_path / "extra",)


@pytest.mark.parametrize("value", ["none", "/dev/null"])
def test_a_site_that_keeps_no_keys_has_no_file(tmp_path: Path, value: str):
    assert reached(tmp_path, f"UserKnownHostsFile {value}\n").user_files == ()


def test_tokens(tmp_path: Path):
    assert reached(tmp_path, "UserKnownHostsFile %d/keys/%h ~/x\n").user_files == (
        Path.home() / "keys/n2",
        Path.home() / "x",
    )


def test_a_configuration_that_ssh_refuses_is_an_error(tmp_path: Path):
    with pytest.raises(SshError, match="ssh"):
        reached(tmp_path, "NoSuchOption yes\n")


DENIED = "root@n2: Permission denied (publickey).\n"


@pytest.mark.parametrize(
    ("code", "stderr", "proxied", "proved"),
    [
        (0, "", False, True),
        # The command on the machine failed: ssh had accepted the key.
        (1, "", False, True),
        (255, DENIED, False, True),
        (255, DENIED, True, False),
        (255, "Host key verification failed.\n", False, False),
        (255, "ssh: connect to host n2 port 22: Connection refused\n", False, False),
        (NOT_STARTED, "ssh: No such file or directory\n", False, False),
        (None, DENIED, False, False),
        (None, "", False, False),
    ],
)
def test_a_login_proves_the_key_only_where_ssh_compared_it(code: int | None, stderr: str, proxied: bool, proved: bool):
    one = SshTarget(("ssh",), "n2", "n2", "10.0.0.2", 22, (), (), False, proxied)
    assert (refusal(one, ["n2 key"], lambda _argv, _seconds: Outcome(code, "", stderr)) == "") == proved
