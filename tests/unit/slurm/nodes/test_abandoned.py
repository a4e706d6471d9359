# SPDX-License-Identifier: GPL-3.0-or-later
"""A module notices that nobody reads its output any more."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.common.abandoned import nobody_reads


def test_a_pipe_whose_reader_is_gone():
    reader, writer = os.pipe()
    try:
        assert not nobody_reads(writer)
        os.close(reader)
        assert nobody_reads(writer)
    finally:
        os.close(writer)


def test_a_socket_whose_peer_is_gone():
    one, other = socket.socketpair()
    with one:
        assert not nobody_reads(one.fileno())
        other.close()
        assert nobody_reads(one.fileno())


def test_a_file_is_always_read(tmp_path: Path):
    with (tmp_path / "out").open("w") as file:
        assert not nobody_reads(file.fileno())
