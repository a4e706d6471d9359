"""SchedMD's packages on every machine: what bedplate does where they make no user, and what it refuses."""

from __future__ import annotations

import json
import re

import pytest

from lab.scenario_site import Site, output_of, ssh
from tests.kit.pyxis import inventory as pyxis_inventory

DAEMONS = {
    "ctl1": ("slurmctld", "slurmdbd", "slurmrestd"),
    "login1": ("sackd",),
    "gpu01": ("slurmd",),
    "gpu02": ("slurmd",),
}
LISTED = "dpkg-query --show --showformat='${Package} ${Version} ${db:Status-Want}\\n'"
STATE = (
    f"{LISTED}; sha256sum /etc/slurm/* /etc/default/slurm* /etc/passwd /etc/group /etc/apt/sources.list.d/* 2>/dev/null"
)

testinfra_hosts = ["local://"]


@pytest.fixture
def site(tmp_path) -> Site:
    return Site(tmp_path)


def installed(machine: str) -> dict[str, tuple[str, str]]:
    """Return the packages of Slurm: name -> version, and what dpkg wants with it."""
    lines = (line.split() for line in ssh(machine, LISTED).stdout.splitlines())
    return {name: (version, want) for name, version, want in lines if "slurm" in name or name == "sackd"}


@pytest.mark.parametrize("machine", DAEMONS)
def test_packages_are_schedmds_alone_of_one_version_and_held(machine):
    found = installed(machine)
    assert {f"slurm-smd-{daemon}" for daemon in DAEMONS[machine]} | {"slurm-smd"} <= set(found)
    assert set(found.values()) == {("24.11.5-1", "hold")}
    assert [name for name in found if not name.startswith("slurm-smd")] == []


@pytest.mark.parametrize("machine", DAEMONS)
def test_user_slurm_has_one_number_and_no_login(machine):
    entry = ssh(machine, "getent passwd slurm").stdout.strip().split(":")
    assert (entry[2], entry[3], entry[6]) == ("64030", "64030", "/usr/sbin/nologin")
    assert ssh(machine, "getent group slurm").stdout.strip() == "slurm:x:64030:"


def test_no_script_of_the_packages_made_the_user():
    scripts = ssh("ctl1", "ls /var/lib/dpkg/info | grep -E '^slurm-smd.*(preinst|postinst|prerm|postrm)$'").stdout
    assert scripts == ""


@pytest.mark.parametrize(
    ("machine", "path"),
    [("ctl1", "/var/lib/slurm/slurmctld"), ("ctl1", "/var/log/slurm"), ("gpu01", "/var/log/slurm")],
)
def test_directories_that_the_packages_leave_to_root_are_slurms(machine, path):
    assert ssh(machine, f"stat --format='%U %G %a' {path}").stdout == "slurm slurm 755\n"


def test_daemons_run_as_their_users():
    for machine, daemons in DAEMONS.items():
        for daemon in daemons:
            user = ssh(machine, f"ps -C {daemon} -o user= | sort -u").stdout.strip()
            assert (user == "slurm") == (daemon in ("slurmctld", "slurmdbd", "sackd")), (daemon, user)
            assert user


def test_slurmrestd_listens_only_where_the_cluster_file_says():
    assert "Environment=SLURMRESTD_LISTEN=:6820" in ssh("ctl1", "systemctl cat slurmrestd").stdout
    listening = ssh("ctl1", "ss --no-header --listening --tcp --numeric --processes").stdout
    assert [line.split()[3] for line in listening.splitlines() if '"slurmrestd"' in line] == ["127.0.0.1:6820"]


def test_another_packaging_is_refused_and_changes_nothing(site):
    before = {machine: ssh(machine, STATE).stdout for machine in DAEMONS}
    site.edit("  packages: schedmd\n", "")
    done = site.run()
    assert done.returncode != 0
    assert "slurm-smd" in output_of(done)
    assert "Another packaging" in output_of(done)
    assert {machine: ssh(machine, STATE).stdout for machine in DAEMONS} == before


def test_another_number_is_refused_with_file_and_line(site):
    before = {machine: ssh(machine, STATE).stdout for machine in DAEMONS}
    site.edit("  packages: schedmd\n", "  packages: schedmd\n  users: {slurm: {uid: 64031}}\n")
    done = site.run()
    assert done.returncode != 0
    text = output_of(done)
    assert re.search(r"slurm\.bedplate\.yml:\d+: slurm\.users\.slurm\b.* uid 64030 .*expected uid 64031", text), text
    assert {machine: ssh(machine, STATE).stdout for machine in DAEMONS} == before


def test_pyxis_is_compiled_against_schedmds_headers(site, tmp_path):
    site.apply(f"--inventory={pyxis_inventory(tmp_path)}")
    assert "slurm-smd-dev" in installed("login1")
    # Not loaded: login1 reads the controllers' plugstack.conf, as docs/containers.md says.
    record = json.loads(
        ssh("login1", "test -f /usr/local/lib/slurm/spank_pyxis.so && cat /var/lib/bedplate/pyxis.json").stdout
    )
    assert record["slurm"] == "24.11.5"


# The same packages as a table of the site, without one of sackd.
TABLE = """\
  packages:
    manager: apt
    database: [slurm-smd-slurmdbd, slurm-smd-client, munge, mariadb-server]
    controller: [slurm-smd-slurmctld, slurm-smd-client, munge]
    compute: [slurm-smd-slurmd, slurm-smd-client, munge, slurm-smd-libpam-slurm-adopt]
    login: [slurm-smd-client, munge]
    rest: [slurm-smd-slurmrestd, slurm-smd-client, munge]
    release: ["slurm-smd*"]
    makes_users: false
    sackd: false
"""


def test_a_login_host_without_sackd_has_commands_that_work(site):
    made = ssh(
        "login1", "systemctl stop sackd && apt-mark unhold slurm-smd-sackd && apt-get --yes purge slurm-smd-sackd"
    )
    assert made.returncode == 0, made.stderr
    site.edit("  packages: schedmd\n", TABLE)
    site.apply()
    assert "slurm-smd-sackd" not in installed("login1")
    assert not ssh("login1", "pgrep --exact sackd").stdout
    shown = ssh(
        "login1", "sinfo --noheader --partition=gpu --format=%N; srun --account=research --nodelist=gpu02 hostname"
    )
    assert shown.stdout.splitlines() == ["gpu[01-02]", "gpu02"], shown.stderr
    assert {name: counts["changed"] for name, counts in site.apply().items() if counts["changed"]} == {}
