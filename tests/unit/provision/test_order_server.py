"""The order server over TLS: what it answers, and what it logs."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.provision import order_server
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.orders import Orders
from tests.unit.provision.test_orders import HASH, NONCE, VALUES

PROGRAM = "ansible_collections.bedplate.cluster.plugins.module_utils.provision.order_server"
TOP = Path(__file__).parents[3] / "collections"


def request(site, method: str, path: str, body: str = "", **headers: str) -> tuple[int, bytes, http.client.HTTPMessage]:
    context = ssl.create_default_context(cafile=str(site.ca))
    connection = http.client.HTTPSConnection("127.0.0.1", site.server.server_address[1], context=context, timeout=10)
    connection.request(method, path, body or None, headers)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return answer.status, data, answer.headers


def post(site, order, verb: str, token: str = "", **values: str) -> tuple[int, bytes]:
    body = "".join(f"{key}={value}\n" for key, value in values.items())
    status, data, _headers = request(
        site, "POST", f"/orders/{order.id}/{verb}", body, Authorization=f"Bearer {token or order.token}"
    )
    return status, data


def test_an_installation(site, capfd: pytest.CaptureFixture[str]) -> None:
    order = site.arm()
    assert post(site, order, "claim", "0" * 64, nonce=NONCE) == (403, b"refused: unknown order or token\n")
    same = {"serial": order.serial, "mac": order.mac, "disk": order.disk}
    assert post(site, order, "claim", nonce=NONCE, **same) == (200, f"claimed {order.id} {NONCE}\n".encode())
    assert post(site, order, "claim", nonce="b" * 36, **same)[0] == 409
    assert post(site, order, "seed", nonce=NONCE)[0] == 200
    assert post(site, order, "seed", nonce=NONCE)[0] == 409
    assert post(site, order, "report", nonce=NONCE, result="written", reason="") == (
        200,
        f"reported {order.id} written\n".encode(),
    )
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [row["status"] for row in rows] == [403, 200, 409, 200, 409, 200]
    assert order.token not in json.dumps(rows)
    assert "PRIVATE" not in json.dumps(rows)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404), ("GET", "/images/", 404), ("GET", "/images/../state/lock", 404), ("GET", f"/images/{HASH}.img.zst", 404),
        ("GET", "/orders/" + "0" * 32 + "/seed", 404), ("POST", "/orders/x/claim", 404), ("POST", "/orders/" + "0" * 32 + "/claim", 403),
        ("PUT", "/", 501),
    ],
)  # fmt: skip
def test_other_requests(site, method: str, path: str, status: int) -> None:
    assert request(site, method, path, "x=y\n" if method == "POST" else "")[0] == status


def test_ranges_of_a_medium(site) -> None:
    name = f"/media/{'a' * 40}.iso"
    (site.server.served / name[1:]).write_bytes(bytes(range(256)) * 4)
    status, data, headers = request(site, "GET", name, Range="bytes=10-19")
    assert (status, data, headers["Content-Range"]) == (206, bytes(range(10, 20)), "bytes 10-19/1024")
    assert request(site, "GET", name, Range="bytes=1020-")[1] == bytes(range(252, 256))
    assert request(site, "GET", name, Range="bytes=1024-")[0] == 416
    status, data, headers = request(site, "HEAD", name)
    assert (status, data, headers["Content-Length"]) == (200, b"", "1024")


def test_a_long_request_and_a_silent_client_delay_nobody(site) -> None:
    order = site.arm()
    with socket.create_connection(("127.0.0.1", site.server.server_address[1])):
        assert post(site, order, "claim", nonce="x" * 9000)[0] == 413
        assert post(site, order, "seed", nonce=NONCE)[0] == 409


def test_the_program_is_killed_and_continues(certified: Path, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"address": "127.0.0.1", "port": port, "orders": str(tmp_path / "state"), "served": str(tmp_path)}
    settings.update(certificate=str(certified / "server.pem"), key=str(certified / "server.key"))
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    order = Orders(tmp_path / "state").arm(VALUES, b"seed", 600).order

    class Remote:
        ca = certified / "ca.pem"

        class server:  # noqa: N801
            server_address = ("127.0.0.1", port)

    def start() -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", PROGRAM, str(tmp_path / "settings.json")]
        process = subprocess.Popen(words, env={**os.environ, "PYTHONPATH": str(TOP)}, stdout=subprocess.DEVNULL)
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return process
            time.sleep(0.05)
        raise AssertionError("the server does not listen")

    facts = {"serial": order.serial, "mac": order.mac, "disk": order.disk}
    for verb, values, again in (
        ("claim", facts, 200),
        ("seed", {}, 409),
        ("report", {"result": "written", "reason": ""}, 200),
    ):
        process = start()
        try:
            assert post(Remote, order, verb, nonce=NONCE, **values)[0] == 200
            process.send_signal(signal.SIGKILL)
            process.wait(10)
            process = start()
            assert post(Remote, order, verb, nonce=NONCE, **values)[0] == again or verb == "claim"
        finally:
            process.kill()
            process.wait(10)
    assert Orders(tmp_path / "state").state(order.id)["state"] == "written"


def test_a_proxy_on_this_host_states_the_address_of_the_machine(site, capfd: pytest.CaptureFixture[str]) -> None:
    for given in ("10.20.9.1", "fd00::1", "x", "10.20.9.1, 10.20.9.2"):
        request(site, "GET", "/", **{"X-Real-IP": given})
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [row["peer"] for row in rows] == ["10.20.9.1", "fd00::1", "127.0.0.1", "127.0.0.1"]


def test_nothing_beside_images_and_media_is_sent(site) -> None:
    (site.server.served / "media" / "key.pem").write_text("PRIVATE")
    order = site.arm()
    for path in ("/media/key.pem", "/media/", f"/../state/orders/{order.id}/seed.tar"):
        status, data, headers = request(site, "GET", path)
        assert (status, data) == (404, b"no such file\n")
        # What a refused request has in its body is not the next request.
        assert headers["Connection"] == "close"


def test_the_name_of_a_medium_is_in_no_log(site, capfd: pytest.CaptureFixture[str]) -> None:
    name = "ab" * 20
    for path in (f"/media/{name}.iso", f"/media/{name}"):
        (site.server.served / path[1:]).write_bytes(b"iso")
        request(site, "GET", path)
    rows = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [(row["path"], row["status"]) for row in rows] == [("/media", 200), ("/media", 404)]


def test_a_connection_without_a_byte_ends(site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order_server, "_PATIENCE", 0.2)
    with socket.create_connection(site.server.server_address, timeout=20) as silent:
        assert silent.recv(1) == b""


def test_another_host_cannot_state_an_address(site, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = site.server.RequestHandlerClass.__new__(site.server.RequestHandlerClass)
    handler.client_address, handler.headers = ("10.20.9.7", 1), {"X-Real-IP": "10.20.9.1"}
    assert handler._peer() == "10.20.9.7"


@pytest.mark.parametrize("length", ["\u00b2", "9" * 5000, "-1", "x"])
def test_a_length_that_is_no_number(site, capfd: pytest.CaptureFixture[str], length: str) -> None:
    order = site.arm()
    head = f"POST /orders/{order.id}/claim HTTP/1.1\r\nContent-Length: {length}\r\n\r\n"
    context = ssl.create_default_context(cafile=str(site.ca))
    plain = socket.create_connection(site.server.server_address, 10)
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
        connection.sendall(head.encode("latin-1"))
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")
    assert '"status": 413' in capfd.readouterr().out


def test_a_range_that_is_no_number_sends_the_whole_file(site) -> None:
    name = f"/media/{'a' * 40}.iso"
    (site.server.served / name[1:]).write_bytes(b"iso")
    assert request(site, "GET", name, Range=f"bytes={'9' * 5000}-")[:2] == (200, b"iso")
    assert request(site, "GET", name, Range="bytes=1-99")[:2] == (206, b"so")


def test_only_a_bearer_has_the_token(site) -> None:
    order = site.arm()
    facts = {"nonce": NONCE, "serial": order.serial, "mac": order.mac, "disk": order.disk}
    body = "".join(f"{key}={value}\n" for key, value in facts.items())
    for scheme in ("Basic", "bearer", ""):
        given = f"{scheme} {order.token}".strip()
        answer = request(site, "POST", f"/orders/{order.id}/claim", body, Authorization=given)
        assert answer[:2] == (403, b"refused: unknown order or token\n")
    assert site.state(order) == "armed"


def test_a_long_path_is_cut_in_the_log(site, capfd: pytest.CaptureFixture[str]) -> None:
    request(site, "GET", f"/{'a' * 500}")
    assert json.loads(capfd.readouterr().out)["path"] == f"/{'a' * 19}"


def test_files_that_cannot_be_kept_are_a_refusal(site, capfd: pytest.CaptureFixture[str]) -> None:
    order = site.arm()
    (site.server.orders.folder / "orders" / order.id / "claim").mkdir()
    same = {"serial": order.serial, "mac": order.mac, "disk": order.disk}
    assert post(site, order, "claim", nonce=NONCE, **same) == (503, b"refused: the server cannot keep its files\n")
    out = capfd.readouterr().out
    assert "IsADirectoryError" in out
    assert str(site.server.orders.folder) not in out


def test_the_size_of_a_file_has_no_body(site) -> None:
    name = f"/media/{'a' * 40}.iso"
    (site.server.served / name[1:]).write_bytes(b"iso")
    context = ssl.create_default_context(cafile=str(site.ca))
    connection = http.client.HTTPSConnection("127.0.0.1", site.server.server_address[1], context=context, timeout=10)
    for method, data in (("HEAD", b""), ("GET", b"iso")):
        connection.request(method, name)
        answer = connection.getresponse()
        assert (answer.status, answer.read(), answer.headers["Content-Length"]) == (200, data, "3")
    connection.close()
