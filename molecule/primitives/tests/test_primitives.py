"""Packages, files and units on a real machine: what they write, run, keep, restart and take back."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lab.scenario_run import recap, run

testinfra_hosts = ["ansible://bedplate"]

SCENARIO = Path(__file__).parents[1]


def apply(part: str = "apart", **variables: object) -> tuple[int, str]:
    """Run a part of the scenario's playbook with other variables; return how often something changed, and the output."""
    done = run(
        "primitives", SCENARIO / "converge.yml", SCENARIO / "primitives.bedplate.yml",
        f"--tags={part}", f"--extra-vars={json.dumps(variables)}",
    )  # fmt: skip
    output = done.stdout + done.stderr
    return (recap(output)["node1"]["changed"] if done.returncode == 0 else -1), output


def start_of(host) -> str:
    return host.check_output("systemctl show demo.service --property=ExecMainStartTimestampMonotonic,MainPID")


def deploy(**variables: object) -> tuple[int, str]:
    """Do so with the part that is one task for packages, files and units."""
    return apply("together", **variables)


@pytest.fixture
def restored():
    """Bring back what the scenario says, whatever the test did."""
    yield
    assert apply()[0] >= 0


def test_files_have_their_owner_and_mode(host):
    directory, key, link = (host.file(f"/etc/demo{name}") for name in ("", "/key", "/current"))
    assert (directory.user, directory.mode) == ("root", 0o750)
    assert (key.user, key.group, key.mode, key.size) == ("daemon", "daemon", 0o400, 32)
    assert link.linked_to == "/etc/demo/demo.conf"
    assert host.file("/etc/demo/extra").mode == 0o755


def test_the_unit_runs_with_its_drop_in_and_at_boot(host):
    assert host.service("demo").is_running
    assert host.service("demo").is_enabled
    assert host.check_output("systemctl show demo.service --property=Environment --value") == "COLOUR=red"


def test_only_the_handler_of_a_changed_file_runs(host, restored):
    host.check_output("rm -f /run/demo-told")
    changed, output = apply(demo_more_files=[{"path": "/etc/demo/extra/two.conf", "content": "two\n"}])
    assert changed == 1, output
    assert not host.file("/run/demo-told").exists
    assert apply(demo_configuration="valid too")[0] >= 0
    assert host.file("/run/demo-told").exists


def test_what_is_no_longer_wanted_goes_and_what_others_wrote_stays(host, restored):
    host.check_output("touch /etc/demo/by-hand")
    before = start_of(host)
    changed, output = apply(demo_more_files=[], demo_drop_ins={})
    assert changed == 2, output
    assert start_of(host) != before
    assert not host.file("/etc/demo/extra").exists
    assert not host.file("/etc/systemd/system/demo.service.d/bedplate.conf").exists
    assert host.file("/etc/demo/by-hand").exists
    assert host.check_output("systemctl show demo.service --property=Environment --value") == ""


def test_a_file_that_its_command_refuses_changes_nothing_at_all(host):
    before = host.check_output("find /etc/demo /var/lib/bedplate -type f | sort | xargs sha256sum")
    changed, output = apply(demo_configuration="broken", demo_more_files=[])
    assert changed == -1
    assert "/etc/demo/demo.conf" in output
    assert host.check_output("find /etc/demo /var/lib/bedplate -type f | sort | xargs sha256sum") == before


def test_a_file_that_changed_outside_a_run_still_reaches_its_daemon(host):
    before = start_of(host)
    assert apply()[0] == 0
    assert start_of(host) == before
    # As a run that was interrupted after it wrote the file.
    host.check_output("touch /etc/demo/key")
    assert apply()[0] == 1
    assert start_of(host) != before
    assert apply()[0] == 0


def test_a_daemon_that_does_not_come_up_with_a_changed_drop_in_shows_its_journal(host, restored):
    broken = {"broken.conf": "[Service]\nExecStart=\nExecStart=/bin/sh -c 'echo no such GPU; exit 3'\n"}
    # The drop-in restarts the running unit; the next run starts it.
    for _run in range(2):
        changed, output = apply(demo_drop_ins=broken)
        assert changed == -1, output
        assert "no such GPU" in output


def test_a_package_is_installed_and_its_daemon_starts_with_its_file_not_before(host):
    assert host.package("bedplate-demo").version == "1.0"
    assert host.service("bedplate-demo").is_enabled
    # Once, and not by the package, when there was no file to be read.
    assert host.check_output("cat /run/bedplate-demo.read") == "first"
    assert "bedplate-demo" in host.check_output("apt-mark showmanual")


def test_a_package_that_went_comes_back_and_one_that_would_go_is_kept(host):
    host.check_output("apt-mark auto bash")
    changed, output = deploy()
    assert changed == 1, output
    assert "bash" in host.check_output("apt-mark showmanual").split()
    host.check_output("dpkg --remove bedplate-demo")
    changed, output = deploy()
    assert changed == 1, output
    assert host.package("bedplate-demo").is_installed
    assert host.service("bedplate-demo").is_running
    assert deploy()[0] == 0


def test_what_a_source_offers_is_found_whoever_added_it_and_when(host):
    """As after a run that ended between its repository and its packages."""
    host.check_output("dpkg --remove bedplate-demo")
    host.check_output("rm -f /var/lib/apt/lists/*repository*; touch /etc/apt/sources.list.d/bedplate-demo.sources")
    assert host.run("apt-cache show bedplate-demo").rc != 0
    changed, output = deploy()
    assert changed == 1, output
    assert host.package("bedplate-demo").is_installed


def test_a_changed_file_of_a_package_reaches_its_daemon_and_its_handler(host):
    host.check_output("rm -f /run/demo-told /run/bedplate-demo.read")
    file = {"path": "/etc/bedplate-demo.conf", "content": "second\n", "notify": "Tell that the configuration changed"}
    changed, output = deploy(demo_packaged_files=[file])
    assert changed == 2, output  # with the handler
    assert host.check_output("cat /run/bedplate-demo.read") == "second"
    assert host.file("/run/demo-told").exists


def test_a_unit_that_fails_after_its_file_was_written_is_brought_up_by_the_next_run(host):
    file = {"path": "/etc/bedplate-demo.conf", "content": "third\n"}
    broken = {"name": "bedplate-demo.service", "state": "started", "restart_after": [file["path"]],
              "drop_ins": {"broken.conf": "[Service]\nExecStartPre=/bin/false\n"}}  # fmt: skip
    changed, output = deploy(demo_packaged_files=[file], demo_packaged_units=[broken])
    assert changed == -1
    assert re.search(r"bedplate-demo\.service: [a-z ]*started, ", output)
    assert host.file(file["path"]).content_string == "third\n"
    changed, output = deploy(demo_packaged_files=[file], demo_packaged_units=[{**broken, "drop_ins": {}}])
    assert changed == 1, output
    assert host.check_output("tail -n 1 /run/bedplate-demo.read") == "third"


def test_a_package_that_nobody_has_changes_nothing(host):
    before = host.check_output("sha256sum /etc/bedplate-demo.conf")
    changed, output = deploy(
        demo_packages=["bedplate-demo=2.0"],
        demo_packaged_files=[{"path": "/etc/bedplate-demo.conf", "content": "other\n"}],
    )
    assert changed == -1
    assert "no available installation candidate for bedplate-demo=2.0" in output
    assert host.check_output("sha256sum /etc/bedplate-demo.conf") == before


def test_the_key_is_in_no_output(host):
    key = host.check_output("base64 --wrap=0 /etc/demo/key")
    host.check_output("rm /etc/demo/key")
    changed, output = apply()
    assert changed >= 1, output
    assert host.check_output("base64 --wrap=0 /etc/demo/key") == key
    assert key not in output
