# SPDX-License-Identifier: GPL-3.0-or-later
"""From a line of a node's kernel log to Alertmanager: Debian's exporter and programs, with the files of the roles."""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from lab.paths import ROOT
from lab.scenario_run import machine
from lab.scenario_site import CONTROLLER
from tests.kit.health_scenario import DEADLINE, GPU, RESET, XID, log, node, reason, reported, until

testinfra_hosts = ["ansible://slurm_controllers"]
pytestmark = pytest.mark.full_in("health")

EXAMPLES = ROOT / "roles/health_control/files/prometheus"
INSTALL = "DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends prometheus-node-exporter"
SICK = "cpu03"
ALERT = "BedplateXidHardware"
SECONDS = 5
"""Between two scrapes and two evaluations; the example has 30."""


def answer(port: int, path: str, **words: str) -> Any:
    with urllib.request.urlopen(
        f"http://{CONTROLLER}:{port}/api/{path}?{urllib.parse.urlencode(words)}", timeout=10
    ) as text:
        return json.load(text)


def query(expression: str) -> dict[str, str]:
    """Return node or host -> value of an expression, asked of Prometheus."""
    found = answer(9090, "v1/query", query=expression)["data"]["result"]
    return {one["metric"].get("node") or one["metric"].get("host", ""): one["value"][1] for one in found}


def alerts() -> list[dict[str, Any]]:
    """Return the alerts of an Xid that Alertmanager has; a resolved one is not among them."""
    return list(answer(9093, "v2/alerts", filter=f'alertname="{ALERT}"'))


def first_times(seconds: float, holds: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return condition -> seconds until it first held. AssertionError: one did not in time."""
    start, found = time.monotonic(), dict[str, float]()
    while len(found) < len(holds):
        assert time.monotonic() - start < seconds, f"in time: {found}"
        for name in holds.keys() - found.keys():
            if holds[name]():
                found[name] = time.monotonic() - start
        time.sleep(1)
    return found


@pytest.fixture
def monitored(host, request):
    """Install the programs of a site, and give them the examples of the role."""
    for name in ("cpu01", "cpu02", "cpu03"):
        machine(request.config, name).check_output(INSTALL)
    host.check_output(f"{INSTALL} prometheus prometheus-alertmanager")
    for name, program in (("prometheus", "prometheus"), ("alertmanager", "prometheus-alertmanager")):
        text = (EXAMPLES / f"{name}.example.yml").read_text().replace("interval: 30s", f"interval: {SECONDS}s")
        host.check_output(f"cat > /etc/prometheus/{name}.yml <<'END'\n{text}\nEND\nsystemctl restart {program}")
    host.check_output("promtool check config /etc/prometheus/prometheus.yml")
    yield
    host.run("scancel --user=root; scontrol update nodename=cpu[01-03] state=resume")


def test_an_xid_is_a_drain_and_an_alert_within_two_minutes_and_both_end(host, monitored):
    expected = {"cpu01": "1", "cpu02": "1", "cpu03": "1", "ctl1": "1"}
    until(90, lambda: _answers(lambda: query('up{job="bedplate-node"}')) == expected)
    until(90, lambda: query("bedplate_slurm_up") == {"ctl1": "1"})
    assert query('bedplate_health_status{status="ok"}') == {name: "1" for name in expected if name != "ctl1"}
    assert alerts() == []
    job = host.check_output(f"sbatch --parsable --nodelist={SICK} --wrap='sleep 600'")
    until(60, lambda: "RUNNING" in host.check_output(f"squeue --noheader --format=%T --job={job}"))

    log(SICK, XID)
    took = first_times(DEADLINE, {"drained": lambda: "DRAIN" in node(host, SICK), "alert": alerts})
    print(f"drained {took['drained']:.0f} s, alert {took['alert']:.0f} s after the line, job {job}")
    assert f"reset xid-79@{GPU} job={job} ev=" in reason(host, SICK)
    [alert] = alerts()
    wanted = {"node": SICK, "rack": "r1", "profile": "cpu", "check": "xid-79", "class": "reset", "device": GPU}
    assert {**alert["labels"], **wanted} == alert["labels"]
    assert alert["status"]["state"] == "active"
    assert f"scontrol show node {SICK}" in alert["annotations"]["remedy"]
    until(60, lambda: query('bedplate_health_control_drains_total{class="reset"}').get("ctl1", "0") != "0")

    log(SICK, RESET)
    resolved = until(DEADLINE, lambda: not alerts())
    print(f"resolved {resolved:.0f} s after the record of the reset")
    until(DEADLINE, lambda: reported(host, SICK) == "ok")
    assert "DRAIN" in node(host, SICK)
    host.check_output(f"scontrol update nodename={SICK} state=resume")
    # Two ticks of the controller.
    time.sleep(45)
    assert "DRAIN" not in node(host, SICK)
    assert alerts() == []
    assert "RUNNING" in host.check_output(f"squeue --noheader --format=%T --job={job}")


def _answers(ask: Callable[[], dict[str, str]]) -> dict[str, str]:
    """Return an answer; nothing while Prometheus still starts."""
    try:
        return ask()
    except OSError:
        return {}
