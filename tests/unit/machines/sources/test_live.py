"""The APIs of NetBox, MAAS and Ironic, by a server on this machine: credentials, pages, limits, and what a server may do wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.sources import https_reader, maas_source
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.sources.chosen_source import rows_of, source_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.sources.https_reader import HttpsReader
from ansible_collections.bedplate.cluster.plugins.plugin_utils.machines.sources.machine_row import SourceError
from tests.unit.machines.sources.standing_server import Standing, standing

EXPORTS = Path(__file__).parent / "exports"
TOKEN = "0123456789abcdef-canary"
OURS = {"gpu001", "GPU002.lab.internal", "gpu002"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with standing(tmp_path_factory.mktemp("tls")) as running:
        yield running


@pytest.fixture(autouse=True)
def fresh(server, monkeypatch):
    server.requests.clear()
    server.answer = lambda *_request: (404, "no answer")
    monkeypatch.setenv("no_proxy", "*")


@pytest.fixture
def live(server, tmp_path):
    def read(kind: str, token: str = TOKEN, path: str = "", pauses: list[float] | None = None, **options: str):
        (tmp_path / "token").write_text(f"{token}\n")
        waited = [] if pauses is None else pauses
        source = source_of(
            f"{kind}:{server.url}{path}", str(tmp_path / "token"), options.pop("ca", server.ca), **options
        )
        return rows_of(source, lambda name, _serial: name in OURS, waited.append)

    return read


def load(name: str):
    return json.loads((EXPORTS / name).read_text())


class NetBox:
    """Answer as NetBox 4 does, with pages of one device or two interfaces."""

    def __init__(self, server: Standing, inside: str = "http://netbox.internal:8080") -> None:
        self.server, self.inside = server, inside

    def __call__(self, path, query, _headers):
        if path == "/nb/api/dcim/devices/":
            rows, step = load("netbox-devices.json")["results"], 1
        elif path == "/nb/api/dcim/interfaces/":
            wanted = [int(one) for one in query["device_id"]]
            rows = [one for one in load("netbox-interfaces.json")["results"] if one["device"]["id"] in wanted]
            step = 2
        else:
            return 404, {"detail": "Not found."}
        at = int(query.get("offset", ["0"])[0])
        words = "&".join(f"device_id={one}" for one in query.get("device_id", []))
        more = f"{self.inside}{path}?limit={step}&offset={at + step}&{words}" if at + step < len(rows) else None
        return 200, {"count": len(rows), "next": more, "previous": None, "results": rows[at : at + step]}


def test_netbox_by_pages_and_without_the_interfaces_of_others(server, live):
    server.answer = NetBox(server)
    found = {row.name: dict(row.values) for row in live("netbox", path="/nb/?site=west&role=gpu")}
    assert found["gpu001"] == {
        "serial": "S462117X3B01",
        "bmc_mac": "3C:EC:EF:00:01:01",
        "boot_mac": "3C:EC:EF:00:01:02",
    }
    assert found["GPU002.lab.internal"]["boot_mac"] == "3C:EC:EF:00:02:02"
    assert server.paths == ["/nb/api/dcim/devices/"] * 3 + ["/nb/api/dcim/interfaces/"] * 3
    _path, query, headers = server.requests[0]
    assert (query["site"], query["role"], query["exclude"]) == (["west"], ["gpu"], ["config_context"])
    assert headers["Authorization"] == f"Token {TOKEN}"
    assert server.requests[3][1]["device_id"] == ["11", "12"]


def test_a_token_of_netbox_4_5(server, live):
    server.answer = NetBox(server)
    live("netbox", token="nbt_abc.def", path="/nb")
    assert server.requests[0][2]["Authorization"] == "Bearer nbt_abc.def"


def test_maas_with_oauth(server, live):
    server.answer = lambda path, *_rest: (
        (200, load("maas-machines.json")) if path == "/MAAS/api/2.0/machines/" else (404, "")
    )
    found = {row.name: dict(row.values) for row in live("maas", token="consumer:token:sec&ret", path="/MAAS")}
    assert found["gpu001"]["disk_serial"] == "S64GNE0R507836"
    header = server.requests[0][2]["Authorization"]
    words = dict(one.split("=", 1) for one in header.removeprefix("OAuth ").split(", "))
    assert header.startswith("OAuth ")
    assert (words["oauth_consumer_key"], words["oauth_token"]) == ('"consumer"', '"token"')
    # RFC 5849: the secrets are encoded and joined by &, and the whole is encoded as a parameter.
    assert (words["oauth_signature_method"], words["oauth_signature"]) == ('"PLAINTEXT"', '"%26sec%2526ret"')


def test_each_request_to_maas_has_another_nonce():
    assert maas_source.authorization("a:b:c") != maas_source.authorization("a:b:c")


@pytest.mark.parametrize("key", ["abc", "a:b", "a:b:", "a:b:c:d"])
def test_a_wrong_key_of_maas_is_not_sent(server, live, key):
    with pytest.raises(SourceError) as error:
        live("maas", token=key)
    assert server.requests == []
    assert key not in str(error.value).partition(":")[2].replace("consumer:token:secret", "")


class Ironic:
    def __init__(self, newest: str) -> None:
        self.newest = newest

    def __call__(self, path, query, _headers):
        nodes = [
            {
                **{key.lower().replace(" ", "_"): value for key, value in one.items()},
                "driver_info": {"ipmi_password": "******"},
            }
            for one in load("ironic-nodes.json")
        ]
        ports = [
            {
                "address": one["Address"],
                "node_uuid": one["Node UUID"],
                "pxe_enabled": one["PXE boot enabled"],
                "uuid": one["UUID"],
            }
            for one in load("ironic-ports.json")
        ]
        at = int(query.get("marker", ["0"])[0])
        if path == "/v1":
            return 200, {"id": "v1", "version": {"id": "v1", "version": self.newest, "min_version": "1.1"}}
        if path == "/v1/nodes/detail":
            more = {"next": f"http://127.0.0.1:6385{path}?limit=1&marker={at + 1}"} if at + 1 < len(nodes) else {}
            return 200, {"nodes": nodes[at : at + 1], **more}
        if path == "/v1/ports/detail":
            return 200, {"ports": ports}
        if path == "/v1/nodes/2b045129-a906-46af-bc1a-092b294b3428/inventory":
            return 200, load("gpu002.json")
        return 404, {"error_message": "not found"}


@pytest.mark.parametrize(("newest", "version", "serial"), [("1.95", "1.81", "S462117X3B02"), ("1.58", "1.58", None)])
def test_ironic(server, live, newest, version, serial):
    server.answer = Ironic(newest)
    found = {row.name: dict(row.values) for row in live("ironic")}
    assert found["gpu001"]["boot_mac"] == "3c:ec:ef:00:01:02"
    assert found["gpu002"].get("serial") == serial
    headers = [one for _path, _query, one in server.requests]
    assert headers[0]["X-Auth-Token"] == TOKEN
    assert {one["X-Openstack-Ironic-Api-Version"] for one in headers[1:]} == {version}


def test_a_standalone_ironic_has_user_and_password(server, live):
    server.answer = Ironic("1.95")
    live("ironic", token="admin:pass")
    assert server.requests[0][2]["Authorization"] == "Basic YWRtaW46cGFzcw=="
    assert "X-Auth-Token" not in server.requests[0][2]


def refused(read, kind: str = "netbox", **options) -> str:
    with pytest.raises(SourceError) as error:
        read(kind, **options)
    assert TOKEN not in str(error.value)
    (mistake,) = error.value.mistakes
    return mistake


def test_a_certificate_of_another_ca_gets_no_token(server, live):
    server.answer = NetBox(server)
    assert "certificate is not trusted" in refused(live, ca="")
    assert server.requests == []


def test_an_expired_certificate_gets_no_token(tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    with standing(tmp_path, expired=True) as old:
        source = source_of(f"netbox:{old.url}", str(tmp_path / "token"), old.ca)
        with pytest.raises(SourceError, match="expired"):
            rows_of(source, lambda *_machine: True, lambda _seconds: None)
        assert old.requests == []


@pytest.mark.parametrize(
    ("status", "text"), [(401, "not valid"), (403, "not valid"), (404, "HTTP 404"), (500, "HTTP 500")]
)
def test_what_the_server_refuses(server, live, status, text):
    server.answer = lambda *_request: (status, {"detail": TOKEN})
    assert text in refused(live)
    assert len(server.requests) == 1


def test_a_redirect_is_not_followed(server, live):
    server.answer = lambda *_request: (302, "https://elsewhere.example.org/api/?token=x")
    assert "redirected to https://elsewhere.example.org/api/." in refused(live)
    assert len(server.requests) == 1


def test_a_busy_server_is_asked_again(server, live):
    answers = iter([(503, ""), (429, "")])
    netbox = NetBox(server)
    server.answer = lambda *request: next(answers, None) or netbox(*request)
    waited: list[float] = []
    assert live("netbox", path="/nb", pauses=waited)
    assert waited == [1.0, 2.0]
    server.answer = lambda *_request: (503, "")
    assert "HTTP 503" in refused(live)


@pytest.mark.parametrize("body", ["<html>login</html>", "[1, 2]", '"text"', b"\xff\xfe"])
def test_what_is_not_the_api(server, live, body):
    server.answer = lambda *_request: (200, body)
    assert "Is this the right address?" in refused(live)


def test_pages_without_an_end(server, live, monkeypatch):
    monkeypatch.setattr(https_reader, "MOST_PAGES", 5)
    server.answer = lambda path, *_rest: (200, {"next": path, "results": []})
    assert "more than 5 pages" in refused(live)
    assert len(server.requests) == 6


def test_an_answer_that_is_too_large(server):
    server.answer = lambda *_request: (200, [0] * 1000)
    reader = HttpsReader(server.url, dict, server.ca, most_bytes=1 << 20, pause=pytest.fail)
    assert len(reader.get("x")) == 1000
    reader.most_bytes = reader.read + 100
    with pytest.raises(SourceError, match="Narrow the query"):
        reader.get("x")


def test_a_server_that_does_not_answer(tmp_path):
    (tmp_path / "token").write_text(TOKEN)
    waited: list[float] = []
    with pytest.raises(SourceError, match="refused"):
        rows_of(source_of("maas:https://127.0.0.1:1", str(_key(tmp_path))), lambda *_machine: True, waited.append)
    assert waited == [1.0, 2.0]


def _key(folder: Path) -> Path:
    path = folder / "key"
    path.write_text("a:b:c")
    return path


@pytest.mark.parametrize("content", ["", "two words", "\u00e9"])
def test_a_token_file_that_has_no_token(server, live, content):
    assert refused(live, token=content).endswith(".")
    assert server.requests == []
