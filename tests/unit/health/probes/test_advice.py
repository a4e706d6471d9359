# SPDX-License-Identifier: GPL-3.0-or-later
"""Verdicts of other tools, in the shapes of their documentation. No DCGM, gpud or validation ran here."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.health.probes import advice

from .machine_kit import Machine, problems, values

HEALTH = {
    "body": {
        "Overall Health": {"value": "Warning"},
        "GPU": {"children": {"3": {"value": "Warning", "children": {"Errors": {"children": {
            "PCIe system": {"value": "Warning", "overflow": ["Detected more than 8 PCIe replays per minute"]},
        }}}}}},
    },
    "header": ["Health Monitor Report"],
}  # fmt: skip
HEALTHY = {"body": {"Overall Health": {"value": "Healthy"}}, "header": ["Health Monitor Report"]}
DIAG_3 = {"DCGM GPU Diagnostic": {"test_categories": [
    {"category": "Deployment", "tests": [{"name": "Denylist", "results": [{"status": "PASS"}]}]},
    {"category": "Hardware", "tests": [{"name": "GPU Memory", "results": [
        {"gpu_id": "0", "status": "PASS"}, {"gpu_id": "1", "status": "Fail", "warnings": "uncorrectable errors"},
        {"gpu_id": "2", "status": "Skip"},
    ]}]},
]}}  # fmt: skip
DIAG_4 = {"DCGM Diagnostic": {"test_categories": [{"category": "Deployment", "tests": [{
    "name": "software",
    "results": [
        {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 0, "status": "Pass"},
        {"entity_group": "GPU", "entity_group_id": 1, "entity_id": 1, "status": "Fail",
         "warnings": [{"error_id": 40, "warning": "row remap failed"}]},
    ],
    "test_summary": {"status": "Fail"},
}]}]}}  # fmt: skip
GPUD = [
    {"component": "accelerator-nvidia-ecc", "states": [{"name": "ecc", "health": "Healthy", "reason": "no issue"}]},
    {
        "component": "accelerator-nvidia-infiniband",
        "states": [{"name": "ib", "health": "Unhealthy", "reason": "port 3 is down"}],
    },
    {"component": "cpu", "states": [{"health": "Initializing"}]},
]
VALIDATION = {
    "overall_severity": "CRITICAL",
    "affected_components": [
        {
            "category": "nvlink",
            "check_ids": ["nvlink_active"],
            "entities": ["gpu-3", "gpu-4"],
            "max_severity": "CRITICAL",
        }
    ],
}


@pytest.mark.parametrize(
    ("source", "answer", "expected"),
    [
        ("dcgm", HEALTHY, {"": "ok"}),
        ("dcgm", HEALTH, {"": "warn", "GPU 3": "warn"}),
        ("dcgm", DIAG_3, {"": "ok", "GPU 0": "ok", "GPU 1": "fail"}),
        ("dcgm", DIAG_4, {"": "fail", "GPU 0": "ok", "GPU 1": "fail"}),
        ("gpud", GPUD, {"": "fail", "accelerator-nvidia-ecc": "ok", "accelerator-nvidia-infiniband": "fail"}),
        ("validation", VALIDATION, {"": "fail", "gpu-3": "fail", "gpu-4": "fail"}),
        ("validation", {"overall_severity": "PASS", "affected_components": None}, {"": "ok"}),
    ],
)
def test_an_answer(source: str, answer: Any, expected: dict[str, str]):
    readings = advice.parse(source, json.dumps(answer))
    assert values(readings, f"advice/{source}") == expected
    assert {one.source for one in readings} == {source}


def test_texts_for_people():
    assert (
        "Detected more than 8 PCIe replays" in problems(advice.parse("dcgm", json.dumps(HEALTH)), "advice/dcgm").pop()
    )
    assert "GPU Memory: uncorrectable errors" in problems(advice.parse("dcgm", json.dumps(DIAG_3)), "advice/dcgm")
    assert "software: row remap failed" in problems(advice.parse("dcgm", json.dumps(DIAG_4)), "advice/dcgm")


MALFORMED: list[tuple[str, Any]] = [
    ("dcgm", None), ("dcgm", []), ("dcgm", {}), ("dcgm", {"body": {}}), ("dcgm", {"body": {"Overall Health": {"value": "Fine"}}}),
    ("dcgm", {"body": {"Overall Health": {"value": "Internal error"}}}), ("dcgm", {"DCGM Diagnostic": {}}),
    ("dcgm", {"DCGM Diagnostic": {"test_categories": []}}),
    ("dcgm", {"DCGM Diagnostic": {"test_categories": [{"tests": [{"results": [{"status": "Great"}]}]}]}}),
    ("dcgm", {"DCGM GPU Diagnostic": {"test_categories": [{"tests": [{"results": [{"gpu_id": "0", "status": "Skip"}]}]}]}}),
    ("gpud", {}), ("gpud", []), ("gpud", [{"component": ""}]), ("gpud", [{"component": "", "states": [{"health": "Healthy"}]}]),
    ("gpud", [{"component": "a", "states": [{"health": "Sick"}]}]),
    ("gpud", [{"component": "a", "states": [{}]}]), ("gpud", [{"component": "a", "states": [{"health": "Initializing"}]}]),
    ("validation", {}), ("validation", {"overall_severity": "UNKNOWN"}), ("validation", "PASS"),
    ("validation", {"overall_severity": "PASS", "affected_components": [3]}),
]  # fmt: skip


@pytest.mark.parametrize(("source", "answer"), MALFORMED)
def test_a_malformed_answer_is_unread(source: str, answer: Any):
    assert [(one.device, one.value) for one in advice.parse(source, json.dumps(answer))] == [("", None)]


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xfe", b"Error: Unable to check health watches.", b"[" * 100_000, b"{" * 100]
)
@pytest.mark.parametrize("source", advice.SOURCES)
def test_an_answer_that_is_not_json_is_unread(source: str, data: bytes):
    assert [(one.device, one.value) for one in advice.parse(source, data)] == [("", None)]


def test_dcgmi_and_a_verdict_in_a_file(machine: Machine):
    verdict = machine.write("verdict.json", json.dumps(VALIDATION))
    assert values(machine.read("advice:validation", validation=str(verdict)), "advice/validation")[""] == "fail"
    program = machine.write("dcgmi", f"#!/bin/sh\n[ \"$*\" = 'health -g 0 -c -j' ] && echo '{json.dumps(HEALTH)}'\n")
    program.chmod(0o755)
    assert values(machine.read("advice:dcgm", dcgm=str(program)), "advice/dcgm") == {"": "warn", "GPU 3": "warn"}
    program.write_text(f"#!/bin/sh\necho '{json.dumps(HEALTH)}'; exit 1\n")
    assert values(machine.read("advice:dcgm", dcgm=str(program)), "advice/dcgm") == {"": None}
    program.write_text("#!/bin/sh\necho 'Error: Health watches not enabled.' >&2; exit 1\n")
    assert values(machine.read("advice:dcgm", dcgm=str(program)), "advice/dcgm") == {"": None}
    assert values(machine.read("advice:validation", validation=str(Path("/missing"))), "advice/validation") == {
        "": None
    }


def test_gpud_of_this_machine_only(machine: Machine, monkeypatch: pytest.MonkeyPatch):
    class States(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(GPUD).encode())

        def log_message(self, *arguments: object) -> None:
            """Write no line for each request."""

    with HTTPServer(("127.0.0.1", 0), States) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1/states"
        # A proxy of the environment would see the request, and could answer it.
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        assert values(machine.read("advice:gpud", gpud=url), "advice/gpud")[""] == "fail"
        server.shutdown()
    assert values(machine.read("advice:gpud", gpud="https://example.org/v1/states"), "advice/gpud") == {"": None}
    assert values(machine.read("advice:gpud", gpud=url), "advice/gpud") == {"": None}
