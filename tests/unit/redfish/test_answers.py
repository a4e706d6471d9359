# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers that are too long, too short, late or not what their headers say, and logins without a usable token."""

from __future__ import annotations

import gzip
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish import errors, transport
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.client import Client
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.errors import BmcError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Trust

from .conftest import Made
from .scripted import Part, answer, scripted, session

PATH = "/redfish/v1/X"
SESSIONS = "/redfish/v1/SessionService/Sessions"
BOUND = 100_000
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
PACKED = gzip.compress(b"{}" + b" " * 1000)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


ANSWERS: list[tuple[str, list[Part], str]] = [
    # The length alone refuses: its bytes are never waited for.
    ("length", [answer(b"", length=BOUND + 1), 3.0], errors.TOO_LARGE),
    ("chunks", [CHUNKED, chunk(b"{}" + b" " * BOUND), chunk(b""), 0.5], errors.TOO_LARGE),
    ("short", [answer(b"{}", length=50)], errors.CUT),
    ("half a chunk", [CHUNKED, chunk(b"{}")], errors.CUT),
    ("not packed", [answer(b"{}", Content_Encoding="gzip")], errors.NOT_JSON),
    ("packed and long", [answer(gzip.compress(b"{}" + b" " * (BOUND - 1)), Content_Encoding="gzip")], errors.TOO_LARGE),
    ("half packed", [answer(PACKED[:-12], Content_Encoding="gzip")], errors.NOT_JSON),
    ("nothing", [answer(b"")], errors.NOT_JSON),
    ("list", [answer(b"[]")], errors.NOT_JSON),
    ("status only", [answer(b"", "404 Not Found")], errors.MISSING),
    ("redirect to nowhere", [answer(b"", "302 Found")], errors.OTHER),
]


@pytest.mark.parametrize(("parts", "kind"), [one[1:] for one in ANSWERS], ids=[one[0] for one in ANSWERS])
def test_an_answer_that_is_not_whole_is_no_answer(parts: list[Part], kind: str, tmp_path: Path) -> None:
    with scripted(tmp_path, {f"GET {PATH}": parts}) as running:
        with Client(running.bmc(answer_bytes=BOUND, answer_s=2)) as client, pytest.raises(BmcError) as caught:
            client.get(PATH)
        assert caught.value.kind == kind


def test_answers_up_to_the_bound_are_read(tmp_path: Path) -> None:
    body = b"{}" + b" " * (BOUND - 2)
    packed = answer(gzip.compress(body), Content_Encoding="gzip")
    for parts in (
        [answer(body)],
        [packed],
        [CHUNKED, chunk(body), chunk(b"")],
        [answer(PACKED, Content_Encoding="GZIP")],
    ):
        with (
            scripted(tmp_path, {f"GET {PATH}": parts}) as running,
            Client(running.bmc(answer_bytes=BOUND)) as client,
        ):
            assert client.get(PATH).status == 200


def test_a_redirect_without_a_place_is_named(tmp_path: Path) -> None:
    with scripted(tmp_path, {f"GET {PATH}": [answer(b"", "302 Found")]}) as running:
        with Client(running.bmc()) as client, pytest.raises(BmcError) as caught:
            client.get(PATH)
        assert (caught.value.status, caught.value.what) == (302, "a redirect that is not followed")


def test_a_place_in_an_answer_that_is_no_redirect_is_not_followed(tmp_path: Path) -> None:
    with scripted(tmp_path, {f"GET {PATH}": [answer(b"{}", Location=f"{PATH}/other")]}) as running:
        with Client(running.bmc()) as client:
            assert client.get(PATH).path == PATH
        assert f"GET {PATH}/other" not in running.requests


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
def test_a_write_is_never_redirected(method: str, tmp_path: Path) -> None:
    moved = answer(b"", "308 Permanent Redirect", Location=f"{PATH}/other")
    with scripted(tmp_path, {f"{method} {PATH}": [moved]}) as running:
        with Client(running.bmc()) as client, pytest.raises(BmcError) as caught:
            {"POST": client.post, "PATCH": client.patch, "DELETE": lambda path, _body: client.delete(path)}[method](
                PATH, {}
            )
        assert caught.value.status == 308
        assert f"{method} {PATH}/other" not in running.requests


@pytest.mark.parametrize("token", ["", "one\ttwo", "t\xf6ken"])
def test_a_login_without_a_usable_token_ends_its_session(token: str, tmp_path: Path) -> None:
    with scripted(tmp_path, {f"POST {SESSIONS}": [session(token).decode().encode("latin-1")]}) as running:
        with pytest.raises(BmcError, match="without a usable token"), Client(running.bmc()):
            pass
        assert running.requests[-1] == f"DELETE {SESSIONS}/1"


@pytest.mark.parametrize(
    ("body", "is_left"), [(b'{"@odata.id": "/redfish/v1/SessionService/Sessions/1"}', False), (b"{}", True)]
)
def test_a_session_is_deleted_by_its_own_path_or_recorded(body: bytes, is_left: bool, tmp_path: Path) -> None:
    opened = answer(body, "201 Created", X_Auth_Token="token-canary")
    with scripted(tmp_path, {f"POST {SESSIONS}": [opened]}) as running:
        with Client(running.bmc()) as client:
            pass
        assert client.session_left == is_left
        assert (f"DELETE {SESSIONS}/1" in running.requests) != is_left


def test_the_time_of_an_answer_is_not_renewed_by_its_first_bytes(tmp_path: Path) -> None:
    with scripted(tmp_path, {f"GET {PATH}": [1.6, b"HTTP/1.1 200 OK\r\n", 4.0]}) as running:
        with Client(running.bmc(answer_s=2)) as client:
            started = time.monotonic()
            with pytest.raises(BmcError) as caught:
                client.get(PATH)
            seconds = time.monotonic() - started
        assert caught.value.kind == errors.TIMEOUT
        assert seconds < 3


def test_a_time_that_is_over_before_the_answer_is_a_timeout(make: Made) -> None:
    _simulated, bmc = make({"answer_s": 0.0001})
    with pytest.raises(BmcError) as caught, Client(bmc):
        pass
    assert caught.value.kind == errors.TIMEOUT


def test_what_must_not_be_repeated_is_sent_on_a_new_connection_after_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scripted(tmp_path, {f"POST {PATH}": [answer(b"{}")]}) as running, Client(running.bmc()) as client:
        monkeypatch.setattr(transport, "_IDLE_S", 0.0)
        client.get("/redfish/v1/")
        assert running.connections == 1
        client.post(PATH, {})
        assert running.connections == 2


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_connection_that_ends_before_the_request_is_opened_again_for_each_method(method: str, tmp_path: Path) -> None:
    with scripted(tmp_path, {f"{method} {PATH}": [answer(b"{}")]}) as running, Client(running.bmc()) as client:
        client.interrupt()
        running.drops = 2
        done = client.get(PATH) if method == "GET" else client.post(PATH, {})
        assert (done.status, running.drops) == (200, 0)
        assert running.requests.count(f"{method} {PATH}") == 1


def test_a_resource_that_is_missing_after_a_lost_answer_and_a_lost_connection_is_deleted(tmp_path: Path) -> None:
    def obey() -> bytes:
        if running.requests.count(f"DELETE {PATH}") > 1:
            return answer(b"", "404 Not Found")
        running.drops = 1
        return b""

    with scripted(tmp_path, {f"DELETE {PATH}": [obey]}) as running, Client(running.bmc()) as client:
        assert client.delete(PATH).status == 204
        assert running.requests.count(f"DELETE {PATH}") == 2


@pytest.mark.parametrize(("method", "status"), [("GET", 404), ("DELETE", 400), ("DELETE", 403)])
def test_only_a_missing_resource_counts_as_deleted(method: str, status: int, tmp_path: Path) -> None:
    def obey() -> bytes:
        return answer(b"", f"{status} Refused") if running.requests.count(f"{method} {PATH}") > 1 else b""

    with scripted(tmp_path, {f"{method} {PATH}": [obey]}) as running, Client(running.bmc()) as client:
        with pytest.raises(BmcError) as caught:
            client.get(PATH) if method == "GET" else client.delete(PATH)
        assert caught.value.status == status


def test_the_end_of_a_session_has_its_own_bound(make: Made) -> None:
    _simulated, bmc = make({"close_s": 0.5}, faults={"slow_s": 4, "paths": ["/Sessions/"]})
    started = time.monotonic()
    with Client(bmc) as client:
        pass
    assert time.monotonic() - started < 3
    assert client.session_left


def test_a_wrong_certificate_is_refused_each_time(make: Made) -> None:
    simulated, bmc = make()
    client = Client(replace(bmc, trust=Trust("ab" * 32)))
    for _time in range(2):
        with pytest.raises(BmcError) as caught:
            client.get("/redfish/v1")
        assert caught.value.kind == errors.WRONG_CERTIFICATE
    assert simulated.state()["requests"] == {}


@pytest.mark.parametrize(
    ("faults", "limits"),
    [
        ({"busy": 9, "retry_after": "30"}, {"longest_delay_s": 30, "patience_s": 3}),
        ({"cut": 9}, {"longest_delay_s": 30, "first_delay_s": 20, "patience_s": 3}),
    ],
)
def test_a_delay_beyond_the_patience_is_not_waited_for(
    faults: dict[str, object], limits: dict[str, float], make: Made
) -> None:
    simulated, bmc = make(limits, faults={**faults, "methods": ["GET"]})
    with Client(bmc) as client:
        started = time.monotonic()
        with pytest.raises(BmcError):
            client.get("/redfish/v1/Systems")
        assert time.monotonic() - started < 10
    assert simulated.state()["requests"]["GET"] == 2
