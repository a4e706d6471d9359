# SPDX-License-Identifier: GPL-3.0-or-later
"""What Slurm's parts have with the packages of SchedMD, of OpenHPC and of a site, and on clients of a release without sackd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.common.role_choices import defaults, role_choices
from ansible_collections.bedplate.cluster.plugins.plugin_utils.parts.render import render_part
from ansible_collections.bedplate.cluster.plugins.plugin_utils.roles.decisions import HostRequest, decide
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import repository_options, slurm_packages
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables.packagings import PARTS
from tests.kit import sentences
from tests.kit.decided import decided
from tests.kit.decided import decision as decision_of

SENTENCES = Path(__file__).with_name("sentences.txt")
BASE = """\
plugin: bedplate.cluster.racks
site: s
cluster: c
networks: {management: {cidr: 10.0.0.0/24, start: 10.0.0.11}}
profiles: {cpu: {sockets: 1, cores_per_socket: 2, memory_mib: 1024}}
racks: {r1: {nodes: a1, profile: cpu}}
hosts: {ctl1: {address: 10.0.0.10}, login1: {address: 10.0.0.9}, rest1: {address: 10.0.0.8}}
services: {controllers: [ctl1], database: [ctl1], login: [login1], rest: [rest1]}
partitions: {all: {nodes: all}}
"""
SCHEDMD = "slurm: {packages: schedmd}\n"
RPMS = "slurm: {packages: {packaging: schedmd, manager: dnf}}\n"
OPENHPC = 'slurm: {version: "23.11", packages: openhpc}\n'


class Site:
    """A cluster file, and parts of its hosts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def part(self, slurm: str, host: str, part: str, **variables: Any) -> dict[str, Any]:
        """Return the arguments of bedplate.cluster.deploy for a part."""
        self.path.write_text(BASE + slurm)
        choices = role_choices(
            "slurm", {f"slurm_{key}": value for key, value in variables.items()}, lambda value: value
        )
        found = decide("slurm", HostRequest(load(str(self.path)), host, choices, login_user="root"))
        return render_part("slurm", part, found.parts[part])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "c.bedplate.yml")


def paths(part: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {entry["path"]: entry for entry in [*part.get("sources", []), *part["files"]]}


@pytest.mark.parametrize(
    ("slurm", "host", "part", "packages"),
    [
        (SCHEDMD, "a1", "compute", "slurm-smd-slurmd= slurm-smd-client= munge slurm-smd-libpam-slurm-adopt="),
        (SCHEDMD, "ctl1", "database", "slurm-smd-slurmdbd= slurm-smd-client= munge mariadb-server"),
        (SCHEDMD, "login1", "login", "slurm-smd-sackd= slurm-smd-client= munge"),
        (RPMS, "a1", "compute", "slurm-slurmd= slurm= munge slurm-pam_slurm= python3-dnf-plugin-versionlock"),
        (
            OPENHPC,
            "ctl1",
            "controller_packages",
            "slurm-slurmctld-ohpc= slurm-ohpc= munge python3-dnf-plugin-versionlock",
        ),
    ],
)
def test_packages_by_packaging(site: Site, slurm: str, host: str, part: str, packages: str) -> None:
    found, release = site.part(slurm, host, part), "23.11" if slurm == OPENHPC else "24.11"
    assert found["packages"] == packages.replace("=", f"={release}.*").split()
    assert found["manager"] == ("apt" if slurm == SCHEDMD else "dnf")


def test_a_list_that_the_site_sets_is_taken_as_it_is(site: Site) -> None:
    found = site.part(SCHEDMD, "login1", "login", login_packages=["slurm-smd-sackd", "munge"])
    assert found["packages"] == ["slurm-smd-sackd=24.11.*", "munge"]


def test_apt_pins_and_holds_schedmds_packages(site: Site) -> None:
    found = site.part(SCHEDMD, "a1", "compute")
    preferences = paths(found)["/etc/apt/preferences.d/bedplate-slurm"]["content"]
    assert "Package: slurm-smd*\nPin: version 24.11.*\n" in preferences
    assert found["hold"] == ["slurm-smd-slurmd", "slurm-smd-client", "slurm-smd-libpam-slurm-adopt"]
    assert found["follow"] == ["slurm-smd*"]
    assert found["fixed"]["packages"] == ["slurm-smd*"]


def test_dnf_locks_what_is_installed(site: Site) -> None:
    found = site.part(RPMS, "a1", "compute", package_version="24.11.5-1.el9")
    assert "slurm-slurmd=24.11.5-1.el9" in found["packages"]
    assert found["hold"] == found["repositories"] == []
    assert {"slurm", "slurm-slurmd", "slurm-devel"} <= set(found["follow"])
    # A version there would be locked before it is installed.
    assert not [one for one in found["follow"] if "=" in one]
    assert "/etc/apt/preferences.d/bedplate-slurm" not in paths(found)


def test_a_repository_of_dnf_is_a_file(site: Site) -> None:
    options = {
        "name": "slurm",
        "baseurl": ["https://a/x", "https://b/x"],
        "gpgkey": "https://a/key",
        "repo_gpgcheck": True,
    }
    entry = paths(site.part(RPMS, "a1", "compute", repository=options))["/etc/yum.repos.d/bedplate-slurm.repo"]
    assert entry["content"].splitlines() == [
        "[slurm]", "name=slurm", "enabled=1", "gpgcheck=1", "baseurl=https://a/x https://b/x", "gpgkey=https://a/key", "repo_gpgcheck=1",
    ]  # fmt: skip
    assert site.part(SCHEDMD, "a1", "compute", repository=options)["repositories"] == [options]


@pytest.mark.parametrize(
    ("options", "missing"),
    [({"name": "slurm", "uris": "https://a"}, "baseurl"), ({"name": "slurm", "baseurl": "https://a"}, "gpgkey")],
)
def test_a_repository_that_dnf_cannot_have_is_refused(site: Site, options: dict[str, str], missing: str) -> None:
    with pytest.raises(ValueError, match=r"^slurm_repository: ") as caught:
        site.part(RPMS, "a1", "compute", repository=options)
    sentences.check(SENTENCES, f"slurm_repository without {missing}", [str(caught.value)])
    assert site.part(RPMS, "a1", "compute", repository={"name": "x", "baseurl": "https://a", "gpgcheck": False})


APT = {"name": "slurm", "uris": "https://a", "suites": "./", "signed_by": "KEY"}
DNF = {"name": "slurm", "baseurl": "https://a", "gpgkey": "https://a/key"}


@pytest.mark.parametrize(
    ("manager", "options", "found"),
    [
        ("apt", {}, 0),
        ("apt", APT, 0),
        ("apt", {**APT, "types": ["deb", "deb-src"], "trusted": False, "mode": "0644", "components": ["main"]}, 0),
        ("apt", {"name": "slurm"}, 2),
        ("apt", {**APT, "suite": "./"}, 1),
        ("apt", {**APT, "types": "debs", "enabled": "perhaps"}, 2),
        ("apt", {**APT, "uris": {"a": 1}}, 1),
        ("apt", DNF, 4),
        ("dnf", DNF, 0),
        ("dnf", {**DNF, "baseurl": ["https://a", "https://b"], "excludepkgs": "x*", "repo_gpgcheck": 1}, 0),
        ("dnf", {**DNF, "gpgcheck": "perhaps", "failovermethod": ["x"]}, 1),
        ("dnf", {"name": "slurm", "baseurl": "https://a", "gpgcheck": False}, 0),
        ("dnf", APT, 5),
    ],
)
def test_options_of_a_repository_are_refused_all_at_once(manager: str, options: dict[str, Any], found: int) -> None:
    lines = repository_options.mistakes(manager, options)
    assert len(lines) == found, lines
    assert all(line.startswith("slurm_repository") for line in lines)
    if found:
        sentences.check(SENTENCES, f"slurm_repository for {manager}: {', '.join(map(str, options.values()))}", lines)


def test_variables_of_packages_are_judged_without_a_machine(site: Site) -> None:
    site.path.write_text(BASE)
    cluster = load(str(site.path))

    def mistakes(**variables: Any) -> list[str]:
        given = {f"slurm_{key}": value for key, value in variables.items()}
        return slurm_packages.mistakes(cluster, role_choices("slurm", given, lambda value: value))

    assert mistakes() == mistakes(repository=APT, package_version="24.11.5-4") == []
    lines = mistakes(repository={"name": "x"}, package_version="23.11.1", login_packages=["sackd=25.05.1"])
    assert [line.split(":")[0] for line in lines] == [*["slurm_repository"] * 2, "slurm_package_version", "sackd"]


def test_a_site_table_without_headers_is_a_mistake_for_pyxis(site: Site) -> None:
    site.path.write_text(BASE + SCHEDMD)
    assert slurm_packages.header_mistakes(load(str(site.path))) == []
    own = (
        "slurm:\n  packages:\n    {manager: apt, database: [x-dbd], controller: [x-ctld], compute: [x-d], login: [x-client], "
        "rest: [x-restd], release: [x-*], makes_users: false, sackd: false}\n"
    )
    site.path.write_text(BASE + own)
    (line,) = slurm_packages.header_mistakes(load(str(site.path)))
    assert line.startswith(f"{site.path}:11: slurm.packages: 'headers' is missing")


@pytest.mark.parametrize(
    ("slurm", "accounts"),
    [
        ("", []),
        (SCHEDMD, [("slurm", 64030, 64030)]),
        (RPMS, [("slurm", 64030, 64030)]),
        (OPENHPC, []),
        (
            "slurm: {users: {slurm: {uid: 981}, munge: {uid: 980, gid: 990}}}\n",
            [("slurm", 981, 981), ("munge", 980, 990)],
        ),
        ("slurm: {packages: schedmd, users: {slurm: {uid: 202}}}\n", [("slurm", 202, 202)]),
    ],
)
def test_users_are_made_where_packages_make_none_or_the_file_states_a_number(
    site: Site, slurm: str, accounts: list[tuple[str, int, int]]
) -> None:
    for host, part in (
        ("a1", "compute"),
        ("ctl1", "database"),
        ("ctl1", "controller_packages"),
        ("login1", "login"),
        ("rest1", "rest"),
    ):
        found = site.part(slurm, host, part)["accounts"]
        assert [(one["name"], one["uid"], one["gid"]) for one in found] == accounts
        assert all(f"{site.path}:" in one["place"] and f"slurm.users.{one['name']}" in one["place"] for one in found)


def test_directories_that_packages_leave_to_root_are_slurms(site: Site) -> None:
    controller, compute = site.part(SCHEDMD, "ctl1", "controller"), site.part(SCHEDMD, "a1", "compute")
    state = paths(controller)["/var/lib/slurm/slurmctld"]
    assert (state["state"], state["owner"], state["group"]) == ("directory", "slurm", "slurm")
    assert paths(compute)["/var/lib/slurm/slurmd"]["owner"] == "root"
    assert {"/var/log/slurm"} <= {*paths(controller)} & {*paths(compute)}
    # On storage that the site mounts, or made by the packages.
    shared = "slurm: {packages: schedmd, options: {StateSaveLocation: /srv/state}}\n"
    for other in ("", OPENHPC, shared):
        assert not [path for path in paths(site.part(other, "ctl1", "controller")) if path.startswith("/var/lib/slurm")]


def test_state_and_spool_are_where_the_packages_have_them(site: Site) -> None:
    text = paths(site.part(OPENHPC, "ctl1", "controller"))["/etc/slurm/slurm.conf"]["content"]
    assert "\nStateSaveLocation=/var/spool/slurmctld\n" in text
    assert "\nSlurmdSpoolDir=/var/spool/slurmd\n" in text
    stated = OPENHPC.replace("}\n", ", options: {SlurmdSpoolDir: /local/slurmd}}\n")
    assert (
        "\nSlurmdSpoolDir=/local/slurmd\n"
        in paths(site.part(stated, "ctl1", "controller"))["/etc/slurm/slurm.conf"]["content"]
    )


def test_files_of_an_el_are_at_its_own_places(site: Site) -> None:
    database = site.part(RPMS, "ctl1", "database")
    assert (
        "init_file = /etc/my.cnf.d/bedplate-slurm.sql\n"
        in paths(database)["/etc/my.cnf.d/60-bedplate-slurm.cnf"]["content"]
    )
    assert not [path for path in paths(database) if path.startswith("/etc/mysql")]
    (mariadb,) = [unit for unit in database["units"] if unit["name"] == "mariadb.service"]
    assert mariadb["restart_after"][0] == "/usr/libexec/mariadbd"
    assert paths(site.part(RPMS, "a1", "compute"))["/etc/pam.d/sshd"]["after"] == r"^account\s+include\s+password-auth"


def test_a_unit_of_slurmrestd_opens_no_port_of_its_own(site: Site) -> None:
    path = "/etc/systemd/system/slurmrestd.service.d/bedplate.conf"
    assert "\nUnsetEnvironment=SLURMRESTD_LISTEN\n" in paths(site.part(SCHEDMD, "rest1", "rest"))[path]["content"]
    assert "Unset" not in paths(site.part("", "rest1", "rest"))[path]["content"]


@pytest.mark.parametrize(
    ("slurm", "refused"),
    [("", "slurm-smd*"), (SCHEDMD, "slurmd"), (RPMS, "slurm-*-ohpc"), (OPENHPC, "slurm-slurmd")],
)
def test_packages_of_another_packaging_are_refused(site: Site, slurm: str, refused: str) -> None:
    for host, part in (
        ("a1", "compute"),
        ("ctl1", "controller_packages"),
        ("ctl1", "database"),
        ("login1", "login"),
        ("login1", "installed"),
    ):
        conflicts = site.part(slurm, host, part)["conflicts"]
        assert refused in conflicts["packages"]
        assert "Another packaging" in conflicts["advice"]


def test_a_site_that_names_packages_of_another_packaging_is_not_refused(site: Site) -> None:
    named = ["slurm-smd-slurmd", "slurm-smd-client", "munge"]
    assert site.part("", "a1", "compute", compute_packages=named)["conflicts"]["packages"] == []


def test_what_is_compared_before_a_run_changes_nothing(site: Site) -> None:
    found = site.part(SCHEDMD, "a1", "installed")
    assert found["only"] == ["services"]
    assert not found.get("packages")
    assert (found["fixed"]["version"], [one["name"] for one in found["accounts"]]) == ("24.11.*", ["slurm"])


OLD = 'slurm: {version: "23.02", packages: schedmd, options: {CliFilterPlugins: lua}}\n'


def test_a_client_of_a_release_without_sackd_has_slurm_conf_and_munge(site: Site) -> None:
    client = site.part(OLD, "login1", "client")
    assert client["packages"] == ["slurm-smd-client=23.02.*", "munge"]
    assert [unit["name"] for unit in client["units"]] == ["munge.service"]
    text = paths(client)["/etc/slurm/slurm.conf"]["content"]
    assert "SlurmctldHost=ctl1(10.0.0.10)\n" in text
    assert "NodeName=a1 " in text
    assert {"/etc/slurm/plugstack.conf", "/etc/slurm/topology.conf", "/etc/munge/munge.key"} <= {*paths(client)}
    # What daemons alone read, or only slurm may read.
    assert not {"/etc/slurm/gres.conf", "/etc/slurm/cgroup.conf", "/etc/slurm/jwt_hs256.key", "/etc/default/sackd"} & {
        *paths(client)
    }
    with pytest.raises(KeyError):
        site.part(OLD, "login1", "login")
    with pytest.raises(KeyError):
        site.part(SCHEDMD, "login1", "client")


def test_debians_client_of_an_older_release(site: Site) -> None:
    assert site.part('slurm: {version: "22.05"}\n', "login1", "client")["packages"] == ["slurm-client=22.05.*", "munge"]


def test_lines_that_jobs_need_are_on_a_client_too(site: Site) -> None:
    site.path.write_text(BASE + OLD)
    answer = {"configured": True, "slurm": ["NodeName=gone1 CPUs=1"], "gres": []}
    choices = role_choices("slurm", {}, lambda value: value)
    found = decide("slurm", HostRequest(load(str(site.path)), "login1", choices, {"in_use": [answer]})).parts["client"]
    (conf,) = [one["text"] for one in found["configuration"] if one["name"] == "slurm.conf"]
    assert "NodeName=gone1 CPUs=1\n" in conf


PYXIS: dict[str, Any] = {
    "engines": ["enroot"],
    "packages": {"enroot": ["enroot"]},
    "pyxis": {"source": "https://x/pyxis.tar.gz", "sha256": "0" * 64},
}


@pytest.mark.parametrize(
    ("slurm", "packages", "manager"),
    [
        ("", ["gcc", "make", "libc6-dev", "libslurm-dev"], "apt"),
        (SCHEDMD, ["gcc", "make", "libc6-dev", "slurm-smd-dev"], "apt"),
        (RPMS, ["gcc", "make", "glibc-devel", "slurm-devel"], "dnf"),
        (OPENHPC, ["gcc", "make", "glibc-devel", "slurm-devel-ohpc"], "dnf"),
    ],
)
def test_pyxis_compiles_against_the_headers_of_the_packaging(
    site: Site, slurm: str, packages: list[str], manager: str
) -> None:
    site.path.write_text(BASE + slurm)
    found = decided("container_runtime", site.path, "login1", "pyxis_build", **PYXIS)
    assert (found["packages"], found["manager"]) == (packages, manager)
    assert found["follow"] == slurm_packages.values(load(str(site.path)), [])["follow"]
    own = decided(
        "container_runtime", site.path, "login1", "pyxis_build", **PYXIS, pyxis_packages=["gcc", "my-headers"]
    )
    assert own["packages"] == ["gcc", "my-headers"]


def test_pyxis_without_headers_of_the_own_table_is_refused(site: Site) -> None:
    lists = ", ".join(f"{part}: [x-{part}]" for part in PARTS)
    table = f"manager: apt, {lists}, release: [x-*], makes_users: true, sackd: true"
    site.path.write_text(f"{BASE}slurm: {{packages: {{{table}}}}}\n")
    with pytest.raises(ValueError, match=r":10: slurm\.packages: .headers. is missing") as caught:
        decision_of("container_runtime", site.path, "login1", **PYXIS)
    sentences.check(SENTENCES, "pyxis without headers", [str(caught.value).replace(str(site.path), "FILE")])
    # Without pyxis nobody needs them.
    assert decision_of("container_runtime", site.path, "login1").parts == {}


def test_the_defaults_of_the_role_are_the_lists_that_a_packaging_replaces() -> None:
    assert {f"slurm_{part}_packages" for part in PARTS} <= set(defaults("slurm"))
