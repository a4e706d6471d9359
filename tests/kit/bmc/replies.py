# SPDX-License-Identifier: GPL-3.0-or-later
"""Answer the requests to a simulated BMC: sessions, reads, writes, and the faults among them. No I/O."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.kit.bmc import accounts, manager_services
from tests.kit.bmc.accounts import ACCOUNTS
from tests.kit.bmc.manager_services import GENERATE, PROTOCOLS, REPLACE
from tests.kit.bmc.methods import methods_of
from tests.kit.bmc.refused import Refused, Reply
from tests.kit.bmc.resources import (
    SESSIONS,
    SYSTEM_PATH,
    TASKS,
    V1,
    Json,
    boot_settings,
    link,
    resource,
    session,
    slot_named,
    task_resource,
    version_key,
)
from tests.kit.bmc.state import SYSTEM, State

_BIG = 64 << 20
MONITORS = f"{V1}/TaskMonitors"


@dataclass
class Request:
    """A request; names of headers in lower case, the path without query and trailing slash."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes = b""


def reply(state: State, request: Request) -> Reply:
    """Return the answer to a request, after its effect on the state. Paths are those that the BMC has, by the spec's `names`."""
    if not state.spec.names:
        return _reply(state, request)
    for own, shown in state.spec.names.items():
        if _is_below(request.path.lower(), shown.lower()):
            request.path = own + request.path[len(shown) :]
    answer = _reply(state, request)
    if answer.raw is None and answer.body is not None:
        body = _renamed(answer.body, state.spec.names)
        itself = {"@odata.id": body["@odata.id"]} if "@odata.id" in body else {}
        answer.body = {**_renamed(body, state.spec.links), **itself}
    return answer


def _renamed(body: Json, names: dict[str, str]) -> Json:
    text = json.dumps(body)
    for old, new in names.items():
        text = re.sub(rf'"{re.escape(old)}(?=["/])', f'"{new}', text)
    found: Json = json.loads(text)
    return found


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _reply(state: State, request: Request) -> Reply:
    try:
        early = _fault(state, request)
        if early and not (early.is_cut and state.spec.faults.cut_after):
            return early
        answer = _authorized(state, request)
        return early or answer
    except Refused as refused:
        if state.spec.faults.echo_secrets:
            info = refused.reply.body["error"]["@Message.ExtendedInfo"][0]
            said = [*request.headers.values(), request.body.decode(errors="replace"), *_strings(request)]
            info["Message"] += f" {' '.join(said)}"
            info["MessageArgs"] = said
        return refused.reply


def _strings(request: Request) -> list[str]:
    try:
        body = json.loads(request.body or b"{}")
    except ValueError:
        return []
    return [str(one) for one in body.values()] if isinstance(body, dict) else []


def _fault(state: State, request: Request) -> Reply | None:
    """Return the answer of a fault that meets this request, and use one of its count up."""
    faults, method, path = state.spec.faults, request.method, request.path
    if any(one in path for one in faults.missing):
        raise Refused(404, "ResourceMissingAtURI")
    if any(one in path for one in faults.broken):
        raise Refused(500, "InternalError", "The service failed.")
    spared = path in (V1, SESSIONS) or path.startswith(f"{SESSIONS}/")
    named = any(one in path for one in faults.paths)
    if (faults.paths and not named) or (spared and not named) or (faults.methods and method not in faults.methods):
        return None
    for name, answer in _COUNTED.items():
        count = getattr(faults, name)
        if count > 0 and (name not in ("in_post", "changed_between") or method in ("PATCH", "POST")):
            setattr(faults, name, count - 1)
            return answer(state, request)
    return None


def _busy(state: State, request: Request) -> Reply:
    faults = state.spec.faults
    after = {"Retry-After": faults.retry_after} if faults.retry_after else {}
    raise Refused(faults.busy_status, "ServiceTemporarilyUnavailable", "Busy.", after)


def _in_post(state: State, request: Request) -> Reply:
    refused = Refused(400, "UnableToModifyDuringSystemPOST", "The machine is in POST.")
    refused.reply.body["error"]["@Message.ExtendedInfo"][0]["MessageId"] = "iLO.2.15.UnableToModifyDuringSystemPOST"
    raise refused


def _forget(state: State, request: Request) -> None:
    state.sessions.clear()


def _changed(state: State, request: Request) -> None:
    state.bump(version_key(request.path))


_COUNTED: dict[str, Callable[[State, Request], Reply | None]] = {
    "cut": lambda state, request: Reply(0, is_cut=True),
    "busy": _busy,
    "in_post": _in_post,
    "garbage": lambda state, request: Reply(200, raw=b"<html>restarting {"),
    "huge": lambda state, request: Reply(200, raw=b'{"a": "' + b"a" * _BIG + b'"}'),
    "drip": lambda state, request: Reply(200, {"Name": "slow"}, drips=True),
    "forget": _forget,
    "changed_between": _changed,
}


def _authorized(state: State, request: Request) -> Reply:
    method, path = request.method, request.path
    if path == V1 and state.spec.redirects:
        return Reply(308, None, {"Location": state.spec.redirects})
    if path in (V1, f"{V1}/moved") and method in ("GET", "HEAD"):
        return _read(state, request)
    if path == "/redfish" and method == "GET":
        return Reply(200, {"v1": f"{V1}/"})
    if path == f"{V1}/odata" and method == "GET":
        return Reply(
            200,
            {"@odata.context": f"{V1}/$metadata", "value": [{"name": "Service", "kind": "Singleton", "url": f"{V1}/"}]},
        )
    if path == SESSIONS and method == "POST" and state.spec.session_service:
        return _log_in(state, request)
    token = request.headers.get("x-auth-token", "")
    if not (token in state.sessions or _is_basic(state, request.headers.get("authorization", ""))):
        raise Refused(401, "NoValidSession", "No valid session.")
    if method == "DELETE" and path.startswith(f"{SESSIONS}/"):
        return _log_out(state, path)
    if state.spec.faults.password_change and not path.startswith(f"{V1}/AccountService"):
        raise Refused(
            403, "PasswordChangeRequired", "The password must be changed.", args=[f"{ACCOUNTS}/{state.first_account}"]
        )
    if method in ("GET", "HEAD"):
        return _read(state, request)
    if method == "PATCH":
        return _patch(state, request)
    if method == "POST":
        return _post(state, path, _json(request))
    raise Refused(405, "OperationNotAllowed")


def _is_basic(state: State, header: str) -> bool:
    try:
        user, _, password = base64.b64decode(header.removeprefix("Basic ")).decode().partition(":")
    except ValueError:
        return False
    return header.startswith("Basic ") and bool(accounts.number_of(state, user, password))


def _json(request: Request) -> Json:
    try:
        body = json.loads(request.body or b"{}")
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise Refused(400, "MalformedJSON")
    return body


def _log_in(state: State, request: Request) -> Reply:
    body, spec = _json(request), state.spec
    if not accounts.number_of(state, body.get("UserName"), body.get("Password")):
        raise Refused(401, "NoValidSession", "Wrong name or password.")
    if len(state.sessions) >= spec.session_limit:
        raise Refused(503, "SessionLimitExceeded", "All sessions are in use.")
    token, number = state.log_in(str(body["UserName"]))
    headers = {"X-Auth-Token": token, "Location": f"https://{spec.address}:{spec.port}{SESSIONS}/{number}"}
    return Reply(201, session(state, number), headers)


def _log_out(state: State, path: str) -> Reply:
    number = path.rpartition("/")[2]
    token = next((token for token, one in state.sessions.items() if one == number), "")
    if not token:
        raise Refused(404, "ResourceMissingAtURI")
    del state.sessions[token]
    return Reply(204)


def _read(state: State, request: Request) -> Reply:
    if request.path.startswith(f"{MONITORS}/"):
        return _monitor(state, request.path.rpartition("/")[2])
    found = resource(state, V1 if request.path == f"{V1}/moved" else request.path)
    if found is None:
        raise Refused(404, "ResourceMissingAtURI", f"{request.path} does not exist.")
    if state.spec.expand and "$expand" in request.query and "Members" in found:
        found["Members"] = [resource(state, one["@odata.id"]) for one in found["Members"]]
    if state.spec.page and request.path.endswith("/EthernetInterfaces"):
        _page(found, request, state.spec.page)
    etag = _etag(state, request.path)
    allowed = {"Allow": ", ".join(methods_of(state, request.path))}
    return Reply(200, found, {**allowed, **({"ETag": etag} if etag else {})})


def _page(found: Json, request: Request, size: int) -> None:
    """Leave one page of a collection, with a link to the next."""
    start = int(request.query.partition("$skip=")[2] or 0)
    if start + size < len(found["Members"]):
        found["Members@odata.nextLink"] = f"{request.path}?$skip={start + size}"
    found["Members"] = found["Members"][start : start + size]


def _etag(state: State, path: str) -> str:
    kind = state.spec.etag
    if kind == "none":
        return ""
    plain = f'"{state.versions[version_key(path)]}"'
    return f"W/{plain}" if kind.startswith("weak") else plain


def _monitor(state: State, number: str) -> Reply:
    task = state.tasks.get(number)
    if not task or task.is_monitor_read:
        raise Refused(404, "ResourceMissingAtURI")
    if task.state == "Running":
        return Reply(202, task_resource(number, task), {"Location": f"{MONITORS}/{number}"})
    if task.state == "Completed":
        task.is_monitor_read = True
        return Reply(204)
    return Reply(200, task_resource(number, task))


def _patch(state: State, request: Request) -> Reply:
    path, body = request.path, _json(request)
    if resource(state, path) is None:
        raise Refused(404, "ResourceMissingAtURI")
    if "PATCH" not in (allowed := methods_of(state, path)):
        raise Refused(405, "OperationNotAllowed", headers={"Allow": ", ".join(allowed)})
    _match(state, request)
    if path == SYSTEM_PATH and "Boot" in body and not state.spec.settings_elsewhere:
        return _as_task(state, "boot", _boot_change(state, body["Boot"]))
    if path == SYSTEM_PATH and set(body) == {"AssetTag"}:
        state.bump(SYSTEM)
        return Reply(204)
    if path == boot_settings(state) and "Boot" in body and state.spec.settings_elsewhere:
        return _as_task(state, "boot", _boot_change(state, body["Boot"]))
    if path == f"{SYSTEM_PATH}/Bios/Settings" and isinstance(body.get("Attributes"), dict):
        has_time = "@Redfish.SettingsApplyTime" in body
        if (state.spec.bios_apply, has_time) in (("needed", False), ("refused", True)):
            raise Refused(400, "SettingsApplyTimeUnknown", args=["@Redfish.SettingsApplyTime"])
        if unknown := set(body["Attributes"]) - set(state.bios):
            raise Refused(400, "PropertyUnknown", args=sorted(unknown))
        return _as_task(state, "bios", lambda: state.set_bios(body["Attributes"]))
    if path.startswith(f"{ACCOUNTS}/"):
        return _as_task(state, "account", accounts.changed(state, path.rpartition("/")[2], body))
    if path == PROTOCOLS:
        return _as_task(state, "protocols", manager_services.protocols_changed(state, body))
    if path == SYSTEM_PATH and "Boot" in body:
        raise Refused(400, "OperationSupportedInFutureStateURI", args=[boot_settings(state)])
    slot = slot_named(state, path.rpartition("/")[2]) if "/VirtualMedia/" in path else None
    if slot and "Image" in body:
        image = body["Image"]
        return _as_task(state, "media", lambda: state.insert(slot, image) if image else state.eject(slot))
    raise Refused(400, "PropertyUnknown", args=sorted(body))


def _match(state: State, request: Request) -> None:
    """Refuse an If-Match that is not of the current version."""
    sent, kind = request.headers.get("if-match", ""), state.spec.etag
    if kind == "none":
        return
    if not sent:
        if kind == "required":
            raise Refused(428, "PreconditionRequired")
        return
    current = _etag(state, request.path)
    wanted = current.removeprefix("W/") if kind == "weak-as-strong" else current
    if sent not in ("*", wanted):
        raise Refused(412, "PreconditionFailed", "The resource has changed.")


def _boot_change(state: State, raw: Any) -> Callable[[], None]:
    spec = state.spec
    if not isinstance(raw, dict):
        raise Refused(400, "PropertyValueTypeError")
    names = {
        "enabled": "BootSourceOverrideEnabled",
        "target": "BootSourceOverrideTarget",
        "mode": "BootSourceOverrideMode",
    }
    if unknown := set(raw) - {*names.values(), "HttpBootUri"}:
        raise Refused(400, "PropertyUnknown", args=sorted(unknown))
    if raw.get(names["enabled"], "Once") not in ("Once", "Continuous", "Disabled"):
        raise Refused(400, "PropertyValueNotInList", args=[str(raw[names["enabled"]]), names["enabled"]])
    if raw.get(names["target"], "None") not in spec.targets:
        raise Refused(400, "PropertyValueNotInList", args=[str(raw[names["target"]]), names["target"]])
    if names["mode"] in raw and spec.no_mode:
        raise Refused(400, "PropertyUnknown", args=[names["mode"]])
    if raw.get("HttpBootUri") and spec.http_uri_in_bios:
        raise Refused(400, "PropertyUnknown", args=["HttpBootUri"])
    if names["mode"] in raw and not spec.mode_writable:
        raise Refused(400, "PropertyNotWritable", args=[names["mode"]])
    if raw.get("HttpBootUri") and "UefiHttp" not in spec.targets:
        raise Refused(400, "PropertyUnknown", args=["HttpBootUri"])
    if spec.whole_boot and not {names["enabled"], names["target"], names["mode"]} <= set(raw):
        raise Refused(400, "PropertyMissing")
    changes = {key: str(value or "") for key, value in raw.items()}
    if spec.resets_boot:
        changes = {names["enabled"]: "Once", names["mode"]: "Legacy", **changes}
    if changes.get(names["enabled"]) == "Disabled":
        changes[names["target"]] = "None"
    return lambda: state.set_boot(changes)


def _post(state: State, path: str, body: Json) -> Reply:
    if path == f"{SYSTEM_PATH}/Actions/ComputerSystem.Reset":
        kind = body.get("ResetType", "On")
        if kind not in state.spec.reset_types:
            raise Refused(400, "ActionParameterNotSupported", args=[str(kind), "ResetType"])
        if kind == "On" and state.spec.faults.conflicts:
            state.spec.faults.conflicts -= 1
            raise Refused(409, "ActionParameterValueConflict", args=["ResetType", "On"])
        if state.power not in ("On", "Off"):
            raise Refused(409, "ResourceInUse", "The power changes.")
        return _as_task(state, "reset", lambda: state.reset(kind))
    if path == ACCOUNTS:
        where, effect = accounts.added(state, body)
        done = _as_task(state, "account", effect)
        return done if done.status == 202 else Reply(201, None, {"Location": where})
    if path == GENERATE and state.spec.certificate_service:
        return manager_services.generated(state, body)
    if path == REPLACE and state.spec.certificate_service:
        return _as_task(state, "certificate", manager_services.replaced(state, body))
    folder, _, action = path.rpartition("/Actions/")
    slot = (
        slot_named(state, folder.rpartition("/")[2]) if "/VirtualMedia/" in folder and resource(state, folder) else None
    )
    if slot and state.spec.insert == "action":
        if slot.is_kvm_only:
            raise Refused(405, "OperationNotAllowed", "This slot is for the console.")
        if action == "VirtualMedia.EjectMedia":
            return _as_task(state, "media", lambda: state.eject(slot))
        if action == "VirtualMedia.InsertMedia":
            return _insert(state, slot.name, body)
    if resource(state, path) is not None:
        raise Refused(405, "OperationNotAllowed")
    raise Refused(404, "ResourceMissingAtURI")


def _insert(state: State, name: str, body: Json) -> Reply:
    slot, image = slot_named(state, name), body.get("Image")
    assert slot
    if state.spec.insert_strict and set(body) != {"Image"}:
        raise Refused(400, "ActionParameterUnknown", args=sorted(set(body) - {"Image"}))
    if not isinstance(image, str) or "://" not in image:
        raise Refused(400, "ActionParameterMissing", args=["InsertMedia", "Image"])
    if slot.image:
        if state.spec.faults.eject_s:
            raise Refused(500, "InternalError", "The last medium is still being ejected.")
        raise Refused(409, "ResourceInUse", "A medium is inserted.")
    return _as_task(state, "media", lambda: state.insert(slot, image))


def _as_task(state: State, name: str, effect: Callable[[], None]) -> Reply:
    faults = state.spec.faults
    if name not in faults.tasks:
        effect()
        return Reply(204)
    task = state.start_task(effect)
    number = str(task.number)
    where = f"{MONITORS}/{number}" if faults.task_is_monitor else f"{TASKS}/{number}"
    return Reply(202, {**task_resource(number, task), **link(f"{TASKS}/{number}")}, {"Location": where})
