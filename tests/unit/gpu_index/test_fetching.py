"""Files of repositories: whatever an address or a server is, one error names the address."""

from __future__ import annotations

import bz2
import gzip
import lzma
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_index import fetching
from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_index.index_model import IndexReadError


@contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Run a server that gives one answer, and ends the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _unused = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/InRelease"
        thread.join(10)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", "SSH-2.0-OpenSSH_9.2"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100\r\nabc", "IncompleteRead"),
        (b"HTTP/1.1 500 Oops\r\n\r\n", "HTTP 500 Oops"),
        (b"", "Remote end closed connection"),
    ],
)
def test_a_server_that_gives_no_file_is_an_error_with_its_address(answer, why):
    with answering(answer) as url, pytest.raises(IndexReadError) as caught:
        fetching.optional(url)
    (line,) = caught.value.mistakes
    assert line.startswith(f"{url}: ")
    assert why in line


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:port/", "http://[::1/", "http://127.0.0.1/a b", "ftp://127.0.0.1/a", "data:,Origin:"]
)
def test_an_address_that_cannot_be_read_is_an_error_with_it(url):
    with pytest.raises(IndexReadError) as caught:
        fetching.optional(url)
    (line,) = caught.value.mistakes
    assert line.startswith(f"{url}: ")


def test_a_file_that_does_not_exist_is_none():
    with answering(b"HTTP/1.1 404 Not Found\r\n\r\n") as url:
        assert fetching.optional(url) is None


def test_a_file_that_is_larger_than_any_index_is_refused(monkeypatch):
    monkeypatch.setattr(fetching, "_MOST", 3)
    with answering(b"HTTP/1.0 200 OK\r\n\r\nabc") as url:
        assert fetching.optional(url) == b"abc"
    with answering(b"HTTP/1.0 200 OK\r\n\r\nabcd") as url, pytest.raises(IndexReadError, match="which no index has"):
        fetching.optional(url)


@pytest.mark.parametrize(
    ("ending", "data"),
    [
        (".gz", b"plain text"),
        (".gz", b"\x1f\x8b\x08\x00cut"),
        (".gz", gzip.compress(b"text")[:-9]),
        (".gz", gzip.compress(b"text")[:12] + b"\xff" * 12),
        (".xz", b"plain text"),
        (".xz", lzma.compress(b"text")[:-9]),
        (".bz2", b"plain text"),
        (".bz2", bz2.compress(b"text")[:-9]),
    ],
    # gzip writes the time into its data, and every worker must collect the same tests.
    ids=range(8),
)
def test_a_file_that_cannot_be_unpacked_is_an_error_with_its_address(ending, data):
    with pytest.raises(IndexReadError) as caught:
        fetching.unpacked(f"http://m/Packages{ending}", data)
    (line,) = caught.value.mistakes
    assert line.startswith(f"http://m/Packages{ending}: cannot be unpacked: ")
