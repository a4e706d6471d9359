# SPDX-License-Identifier: GPL-3.0-or-later
"""One BMC: session, retries of each method, ETags, bounds, and what errors contain."""

from __future__ import annotations

import base64
import pickle
import threading
import time
from dataclasses import replace

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish import errors
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.client import Client
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.errors import BmcError
from ansible_collections.bedplate.cluster.plugins.plugin_utils.redfish.transport import Account, Trust

from .conftest import Made

SYSTEM = "/redfish/v1/Systems/1"
RESET = f"{SYSTEM}/Actions/ComputerSystem.Reset"
ONCE = {"Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"}}


def test_session_is_opened_used_and_deleted(make: Made) -> None:
    simulated, bmc = make()
    with Client(bmc) as client:
        assert client.get(SYSTEM).body["SerialNumber"] == f"SN-{bmc.node}"
        assert simulated.state()["sessions"] == 1
    assert simulated.state()["sessions"] == 0
    assert not client.session_left
    assert [line.split()[0] for line in simulated.state()["log"]] == ["GET", "POST", "GET", "DELETE"]


def test_session_is_deleted_after_an_exception(make: Made) -> None:
    simulated, bmc = make()
    with pytest.raises(ZeroDivisionError), Client(bmc):
        _ = 1 // 0
    assert simulated.state()["sessions"] == 0


def test_session_is_deleted_after_the_connection_ended(make: Made) -> None:
    simulated, bmc = make(faults={"cut": 9, "paths": [SYSTEM]})
    with pytest.raises(BmcError), Client(bmc) as client:
        client.get(SYSTEM)
    assert simulated.state()["sessions"] == 0


def test_session_is_deleted_once_more_if_its_answer_was_cut(make: Made) -> None:
    simulated, bmc = make(faults={"cut": 1, "cut_after": True, "methods": ["DELETE"], "paths": ["/Sessions/"]})
    with Client(bmc) as client:
        pass
    assert simulated.state()["sessions"] == 0
    assert not client.session_left


def test_session_that_cannot_be_deleted_is_recorded(make: Made) -> None:
    _simulated, bmc = make(faults={"cut": 9, "methods": ["DELETE"], "paths": ["/Sessions/"]})
    with Client(bmc) as client:
        pass
    assert client.session_left


def test_lost_answer_of_the_login_is_recorded_and_not_repeated(make: Made) -> None:
    simulated, bmc = make(faults={"cut": 1, "cut_after": True, "methods": ["POST"], "paths": ["/Sessions"]})
    client = Client(bmc)
    with pytest.raises(BmcError) as caught, client:
        pass
    assert caught.value.kind == errors.CUT
    assert client.session_left
    assert simulated.state()["most_sessions"] == 1


def test_expired_session_is_renewed(make: Made) -> None:
    simulated, bmc = make()
    with Client(bmc) as client:
        simulated.faults(forget=1)
        assert client.get(SYSTEM).status == 200
    assert simulated.state()["sessions"] == 0


def test_expired_session_does_not_repeat_a_post(make: Made) -> None:
    simulated, bmc = make()
    with Client(bmc) as client:
        simulated.faults(forget=1, methods=["POST"])
        with pytest.raises(BmcError) as caught:
            client.post(RESET, {"ResetType": "ForceRestart"})
    assert caught.value.kind == errors.REFUSED
    assert simulated.state()["resets"] == []


def test_session_limit_is_busy_and_says_so(make: Made) -> None:
    simulated, bmc = make(session_limit=1)
    with Client(bmc), pytest.raises(BmcError) as caught:
        Client(bmc).open()
    assert (caught.value.kind, caught.value.status) == (errors.BUSY, 503)
    assert "sessions" in caught.value.what
    # The limit does not end by itself, so the login is not repeated.
    assert len([one for one in simulated.state()["log"] if one.startswith("POST")]) == 2


def test_hundred_uses_leave_no_session(make: Made) -> None:
    simulated, bmc = make(session_limit=2)
    for _use in range(30):
        with Client(bmc) as client:
            client.get(SYSTEM)
    assert simulated.state()["most_sessions"] == 1


def test_basic_authentication_only_without_session_service(make: Made) -> None:
    simulated, bmc = make(session_service=False)
    with Client(bmc) as client:
        assert client.get(SYSTEM).status == 200
    assert simulated.state()["requests"] == {"GET": 2}


def test_wrong_password_is_refused(make: Made) -> None:
    simulated, bmc = make()
    with pytest.raises(BmcError) as caught, Client(replace(bmc, account=Account("root", "wrong-canary"))):
        pass
    assert (caught.value.kind, caught.value.status) == (errors.REFUSED, 401)
    client = Client(replace(bmc, account=Account("root", "wrong-canary")))
    with pytest.raises(BmcError), client:
        pass
    assert client._connection._https.sock is None
    assert simulated.state()["sessions"] == 0


def test_password_change_required(make: Made) -> None:
    simulated, bmc = make(faults={"password_change": True})
    with Client(bmc) as client:
        with pytest.raises(BmcError) as caught:
            client.get(SYSTEM)
        assert caught.value.kind == errors.REFUSED
        assert caught.value.needs_new_password
        client.patch("/redfish/v1/AccountService/Accounts/1", {"Password": "another-canary"})
        assert client.get(SYSTEM).status == 200
    assert simulated.state()["sessions"] == 0


@pytest.mark.parametrize("status", [503, 429])
def test_busy_bmc_is_waited_for(make: Made, status: int) -> None:
    simulated, bmc = make(faults={"busy": 3, "busy_status": status})
    with Client(bmc) as client:
        assert client.get(SYSTEM).status == 200
    assert simulated.state()["requests"]["GET"] == 5


def test_busy_bmc_is_waited_for_within_bounds(make: Made) -> None:
    simulated, bmc = make(faults={"busy": 99, "methods": ["GET"]})
    with Client(bmc) as client, pytest.raises(BmcError) as caught:
        client.get(SYSTEM)
    assert (caught.value.kind, caught.value.status) == (errors.BUSY, 503)
    assert simulated.state()["requests"]["GET"] == 1 + bmc.limits.attempts


def test_retry_after_is_obeyed(make: Made) -> None:
    _simulated, bmc = make({"longest_delay_s": 9}, faults={"busy": 1, "retry_after": "1"})
    with Client(bmc) as client:
        started = time.monotonic()
        client.get(SYSTEM)
    assert time.monotonic() - started >= 1


def test_retry_after_is_bounded(make: Made) -> None:
    _simulated, bmc = make(faults={"busy": 1, "retry_after": "3600"})
    with Client(bmc) as client:
        started = time.monotonic()
        client.get(SYSTEM)
    assert time.monotonic() - started < 2


def test_busy_patch_is_repeated(make: Made) -> None:
    simulated, bmc = make(faults={"busy": 2, "methods": ["PATCH"]})
    with Client(bmc) as client:
        client.patch(SYSTEM, ONCE)
    assert simulated.state()["requests"]["PATCH"] == 3
    assert simulated.state()["boot"]["BootSourceOverrideTarget"] == "Pxe"


@pytest.mark.parametrize("fault", [{"busy": 1}, {"cut": 1}, {"cut": 1, "cut_after": True}, {"in_post": 1}])
def test_reset_is_sent_once(make: Made, fault: dict[str, object]) -> None:
    simulated, bmc = make(faults={**fault, "methods": ["POST"]})
    with Client(bmc) as client, pytest.raises(BmcError) as caught:
        client.post(RESET, {"ResetType": "ForceRestart"})
    assert caught.value.kind == (errors.CUT if "cut" in fault else errors.BUSY)
    assert [line for line in simulated.writes() if "Reset" in line][1:] == []
    assert simulated.state()["resets"] == (["ForceRestart"] if "cut_after" in fault else [])


def test_cut_get_is_repeated(make: Made) -> None:
    simulated, bmc = make(faults={"cut": 2, "methods": ["GET"]})
    with Client(bmc) as client:
        assert client.get(SYSTEM).status == 200
    assert simulated.state()["requests"]["GET"] == 4


def test_cut_get_is_repeated_within_bounds(make: Made) -> None:
    simulated, bmc = make(faults={"cut": 99, "methods": ["GET"]})
    with Client(bmc) as client, pytest.raises(BmcError) as caught:
        client.get(SYSTEM)
    assert caught.value.kind == errors.CUT
    assert simulated.state()["requests"]["GET"] == 1 + bmc.limits.attempts


def test_cut_patch_is_not_repeated(make: Made) -> None:
    simulated, bmc = make(faults={"cut": 1, "cut_after": True, "methods": ["PATCH"]})
    with Client(bmc) as client, pytest.raises(BmcError) as caught:
        client.patch(SYSTEM, ONCE)
    assert caught.value.kind == errors.CUT
    assert simulated.state()["requests"]["PATCH"] == 1


def test_cut_delete_is_repeated_and_a_missing_resource_is_deleted(make: Made) -> None:
    simulated, bmc = make()
    other = Client(bmc)
    other.open()
    with Client(bmc) as client:
        simulated.faults(cut=1, cut_after=True, methods=["DELETE"], paths=["/Sessions/1"])
        assert client.delete("/redfish/v1/SessionService/Sessions/1").status == 204
        with pytest.raises(BmcError) as caught:
            client.delete("/redfish/v1/SessionService/Sessions/1")
        assert caught.value.kind == errors.MISSING
    other.close()
    assert not other.session_left


def test_machine_in_post_is_waited_for(make: Made) -> None:
    simulated, bmc = make(faults={"in_post": 2})
    with Client(bmc) as client:
        client.patch(SYSTEM, ONCE)
    assert simulated.state()["requests"]["PATCH"] == 3


def test_closed_idle_connection_is_opened_again_before_a_post(make: Made) -> None:
    simulated, bmc = make()
    with Client(bmc) as client:
        client.get(SYSTEM)
        simulated.hang_up()
        client.post(RESET, {"ResetType": "ForceRestart"})
    assert simulated.state()["resets"] == ["ForceRestart"]


@pytest.mark.parametrize("kind", ["strong", "weak", "required", "weak-as-strong", "none"])
def test_etags_of_each_kind(make: Made, kind: str) -> None:
    simulated, bmc = make(etag=kind)
    with Client(bmc) as client:
        client.patch(SYSTEM, ONCE, client.get(SYSTEM).etag)
        client.patch(SYSTEM, {"Boot": {"BootSourceOverrideTarget": "Cd"}})
    assert simulated.state()["boot"]["BootSourceOverrideTarget"] == "Cd"


def test_stale_etag_is_read_again_once(make: Made) -> None:
    simulated, bmc = make(faults={"changed_between": 1})
    with Client(bmc) as client:
        client.patch(SYSTEM, ONCE, client.get(SYSTEM).etag)
    assert [line.rpartition(" ")[2] for line in simulated.writes()] == ["412", "204"]


def test_stale_etag_is_an_error_the_second_time(make: Made) -> None:
    simulated, bmc = make(faults={"changed_between": 9})
    with Client(bmc) as client, pytest.raises(BmcError) as caught:
        client.patch(SYSTEM, ONCE, client.get(SYSTEM).etag)
    assert caught.value.status == 412
    assert len(simulated.writes()) == 2


def test_read_only_sends_only_gets_and_its_session(make: Made) -> None:
    simulated, bmc = make()
    with Client(bmc, read_only=True) as client:
        client.get(SYSTEM)
        for write in (
            lambda: client.patch(SYSTEM, ONCE),
            lambda: client.post(RESET, {"ResetType": "On"}),
            lambda: client.delete(SYSTEM),
        ):
            with pytest.raises(BmcError) as caught:
                write()
            assert caught.value.kind == errors.READ_ONLY
    assert simulated.writes() == []
    assert simulated.state()["sessions"] == 0


def test_text_that_is_not_json(make: Made) -> None:
    _simulated, bmc = make(faults={"garbage": 1})
    with Client(bmc) as client, pytest.raises(BmcError) as caught:
        client.get(SYSTEM)
    assert caught.value.kind == errors.NOT_JSON


def test_answer_of_64_mib_is_refused(make: Made) -> None:
    _simulated, bmc = make(faults={"huge": 1})
    with Client(bmc) as client, pytest.raises(BmcError) as caught:
        client.get(SYSTEM)
    assert caught.value.kind == errors.TOO_LARGE


@pytest.mark.parametrize("bound", [True, False])
def test_packed_answers_are_read_and_bounded(make: Made, bound: bool) -> None:
    _simulated, bmc = make({"answer_bytes": 1 << 20}, faults={"gzip": True, "huge": int(bound)})
    with Client(bmc) as client:
        if bound:
            with pytest.raises(BmcError) as caught:
                client.get(SYSTEM)
            assert caught.value.kind == errors.TOO_LARGE
        assert client.get(SYSTEM).body["Id"] == "1"


def test_slow_answer_times_out_as_a_whole(make: Made) -> None:
    _simulated, bmc = make({"answer_s": 1}, faults={"drip": 1})
    with Client(bmc) as client:
        started = time.monotonic()
        with pytest.raises(BmcError) as caught:
            client.get(SYSTEM)
    assert caught.value.kind == errors.TIMEOUT
    assert time.monotonic() - started < 3


def test_silent_bmc_times_out(make: Made) -> None:
    _simulated, bmc = make({"answer_s": 0.3}, faults={"slow_s": 2})
    with pytest.raises(BmcError) as caught, Client(bmc):
        pass
    assert caught.value.kind == errors.TIMEOUT


def test_no_listener_is_unreachable(make: Made) -> None:
    _simulated, bmc = make()
    with pytest.raises(BmcError) as caught, Client(replace(bmc, address="127.1.250.1")):
        pass
    assert caught.value.kind == errors.UNREACHABLE


@pytest.mark.parametrize("host", ["", "https://other.example"])
def test_redirect_is_followed_on_the_same_bmc_alone(make: Made, host: str) -> None:
    simulated, bmc = make(redirects=f"{host}/redfish/v1/moved")
    with Client(bmc) as client:
        assert client.root
        assert client.root.path == "/redfish/v1/moved"
    assert simulated.state()["requests"]["GET"] == 2


def test_endless_redirect_is_an_error(make: Made) -> None:
    simulated, bmc = make(redirects="/redfish/v1/")
    with pytest.raises(BmcError) as caught, Client(bmc):
        pass
    assert caught.value.status == 308
    assert simulated.state()["requests"] == {"GET": 4}


def test_missing_resource(make: Made) -> None:
    _simulated, bmc = make()
    with Client(bmc) as client:
        assert client.find(f"{SYSTEM}/Nothing") is None
        with pytest.raises(BmcError) as caught:
            client.get(f"{SYSTEM}/Nothing")
    assert (caught.value.kind, caught.value.status) == (errors.MISSING, 404)
    assert caught.value.path == f"{SYSTEM}/Nothing"


def test_messages_of_the_bmc_are_in_the_error(make: Made) -> None:
    _simulated, bmc = make()
    with Client(bmc) as client, pytest.raises(BmcError) as caught:
        client.patch(SYSTEM, {"Boot": {"BootSourceOverrideTarget": "Floppy"}})
    (message,) = caught.value.messages
    assert message.key == "PropertyValueNotInList"
    assert message.args == ("Floppy", "BootSourceOverrideTarget")


@pytest.mark.parametrize("link", ["", "http://other.example/x", "/redfish/v1/\r\nX: 1", "//other.example/x y"])
def test_link_that_is_not_a_path_is_not_followed(make: Made, link: str) -> None:
    _simulated, bmc = make()
    with Client(bmc) as client, pytest.raises(BmcError):
        client.get(link)


def test_no_secret_in_errors(make: Made) -> None:
    simulated, bmc = make(password="password-canary", faults={"echo_secrets": True})
    caught: list[BmcError] = []
    with Client(bmc) as client:
        token = client._authorization["X-Auth-Token"]
        requests = (
            lambda: client.get(f"{SYSTEM}/Nothing"),
            lambda: client.post(RESET, {"ResetType": "Nonsense", "Password": "inner-canary"}),
            lambda: client.patch("/redfish/v1/AccountService/Accounts/1", {"Password": "short"}),
        )
        for request in requests:
            with pytest.raises(BmcError) as one:
                request()
            caught.append(one.value)
    with pytest.raises(BmcError) as one:
        Client(replace(bmc, account=Account("root", "wrong-canary"))).open()
    caught.append(one.value)
    simulated.change(session_service=False)
    with pytest.raises(BmcError) as one, Client(replace(bmc, account=Account("root", "basic-canary"))) as client:
        client.get(SYSTEM)
    caught.append(one.value)
    for error in caught:
        shown = f"{error} {error!r} {error.as_data()} {pickle.loads(pickle.dumps(error))} {error.__cause__} {error.__context__!r}"
        assert error.messages, shown
        assert "canary" not in shown
        assert "short'" not in shown
        assert token not in shown
        assert base64.b64encode(b"root:basic-canary").decode() not in shown
    assert "canary" not in f"{bmc!r} {bmc.account!r} {client!r}"


def test_error_is_the_same_after_pickling() -> None:
    error = BmcError(
        errors.BUSY, "gpu001", "busy", "Wait.", path="/x", status=503, messages=[errors.Message("a.b", "text")]
    )
    again = pickle.loads(pickle.dumps(error))
    assert (again.as_data(), str(again)) == (error.as_data(), str(error))


@pytest.mark.parametrize("values", [{}, {"fingerprint": "ab" * 32, "ca_file": "/x"}, {"fingerprint": "abc"}])
def test_trust_is_exactly_one(values: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"certificate|fingerprint"):
        Trust(**values)


def test_stop_ends_waiting_and_deletes_the_session(make: Made) -> None:
    simulated, bmc = make(
        {"longest_delay_s": 30, "patience_s": 60}, faults={"busy": 9, "retry_after": "30", "methods": ["GET"]}
    )
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    started = time.monotonic()
    with pytest.raises(BmcError) as caught, Client(bmc, stop=stop) as client:
        client.get(SYSTEM)
    assert caught.value.kind == errors.STOPPED
    assert time.monotonic() - started < 5
    assert simulated.state()["sessions"] == 0
