"""slurm.scripts: what is installed where, which options name it, and what is refused before an option comes into force."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.bedplate.cluster.plugins.module_utils.common.finding import to_json
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.conf_reader import parse
from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf.script_check import findings_of, in_force
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Cluster, ClusterFileError, load
from ansible_collections.bedplate.cluster.plugins.plugin_utils.hosts.groups import groups_of
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm import render, script_guard, scripts
from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables import script_table
from tests.kit import sentences

SENTENCES = Path(__file__).with_name("sentences.txt")
BASE = (Path(__file__).parents[1] / "cluster/base.yml").read_text()


class Site:
    """A cluster file with scripts beside it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.script("a.sh", "#!/bin/sh\nexit 0\n")
        self.script("b.sh", "#!/bin/sh\nexit 1\n")
        self.script("x.lua", "return 0\n")

    def script(self, name: str, text: str | bytes) -> None:
        (self.directory / name).write_bytes(text if isinstance(text, bytes) else text.encode())

    def load(self, block: str = "", options: str = "") -> Cluster:
        text = BASE.replace("slurm:\n", f"slurm:\n{block}", 1).replace("  options:\n", f"  options:\n{options}", 1)
        path = self.directory / "lab.bedplate.yml"
        path.write_text(text)
        return load(path)

    def mistakes(self, block: str = "", options: str = "") -> list[tuple[str, int]]:
        with pytest.raises(ClusterFileError) as caught:
            self.load(block, options)
        return [(one.where, one.line) for one in caught.value.mistakes]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def conf(cluster: Cluster) -> dict[str, str]:
    return {
        key: value
        for line in render.slurm_files(cluster)["slurm.conf"].splitlines()
        if "=" in line
        for key, value in [line.split("=", 1)]
    }


def test_without_scripts_nothing_is_installed_or_asked(site):
    cluster = site.load()
    assert scripts.stated(cluster) == []
    assert scripts.hosts(cluster) == []
    assert groups_of(cluster)["slurm_script_hosts"] == []
    assert scripts.files(cluster, "gpu01") == scripts.expected(cluster, "gpu01") == []


def test_a_script_is_installed_where_it_runs_and_its_option_names_it(site):
    cluster = site.load("  scripts: {prolog: a.sh, prolog_slurmctld: b.sh}\n")
    (node,), (controller,) = scripts.files(cluster, "gpu01"), scripts.files(cluster, "ctl1")
    assert conf(cluster)["Prolog"] == node["path"]
    assert conf(cluster)["PrologSlurmctld"] == controller["path"]
    assert node["content"] == "#!/bin/sh\nexit 0\n"
    assert node["mode"] == "0755"
    assert set(groups_of(cluster)["slurm_script_hosts"]) == {one.name for one in cluster.nodes}


def test_another_content_is_another_path(site):
    before = conf(site.load("  scripts: {prolog: a.sh}\n"))["Prolog"]
    site.script("a.sh", "#!/bin/sh\nexit 3\n")
    assert conf(site.load("  scripts: {prolog: a.sh}\n"))["Prolog"] != before


def test_several_run_in_order_with_the_arguments_and_the_first_that_fails_ends_it(site, tmp_path):
    site.script("one.sh", f"#!/bin/sh\necho one $* >>{tmp_path}/log\n")
    site.script("bad.sh", f"#!/bin/sh\necho bad $* >>{tmp_path}/log\nexit 7\n")
    cluster = site.load("  scripts: {resume: [one.sh, {path: /bin/true}, bad.sh, one.sh]}\n")
    for entry in scripts.files(cluster, "ctl1"):
        path = tmp_path / "root" / entry["path"].lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(entry["content"].replace(scripts.DIRECTORY, f"{tmp_path}/root{scripts.DIRECTORY}"))
        path.chmod(0o755)
    runner = f"{tmp_path}/root{conf(cluster)['ResumeProgram']}"
    done = subprocess.run([runner, "gpu[01-02]", "x y"], check=False)
    assert done.returncode == 7
    assert (tmp_path / "log").read_text().splitlines() == ["one gpu[01-02] x y", "bad gpu[01-02] x y"]


def test_lua_scripts_and_plugstack_lie_beside_slurm_conf(site):
    site.script("stack", "optional /opt/x.so\n")
    cluster = site.load(
        "  scripts: {job_submit: x.lua, cli_filter: x.lua, plugstack: stack}\n",
        "    JobSubmitPlugins: all_partitions\n",
    )
    files = render.slurm_files(cluster)
    assert files["job_submit.lua"] == files["cli_filter.lua"] == "return 0\n"
    assert "optional /opt/x.so" in files["plugstack.conf"]
    assert conf(cluster)["JobSubmitPlugins"] == "all_partitions,lua"
    assert conf(cluster)["CliFilterPlugins"] == "lua"


@pytest.mark.parametrize(
    ("block", "options", "where"),
    [
        ("  scripts: {prolog: none.sh}\n", "", "slurm.scripts.prolog"),
        ("  scripts: {prolog: ../}\n", "", "slurm.scripts.prolog"),
        ("  scripts: {prolog: x.lua}\n", "", "slurm.scripts.prolog"),
        ("  scripts: {prolog: binary}\n", "", "slurm.scripts.prolog"),
        ("  scripts: {prolog: empty}\n", "", "slurm.scripts.prolog"),
        ("  scripts: {prolog: crlf.sh}\n", "", "slurm.scripts.prolog"),
        ("  scripts: {prolog: [a.sh, env.py]}\n", "", "slurm.scripts.prolog[1]"),
        ("  scripts: {prolog: relative.sh}\n", "", "slurm.scripts.prolog"),
        ("  scripts: {prolog: {path: opt/x}}\n", "", "slurm.scripts.prolog"),
        ("  scripts: {prolog: {file: a.sh, path: /x}}\n", "", "slurm.scripts.prolog"),
        ("  scripts: {job_submit: [x.lua, x.lua]}\n", "", "slurm.scripts.job_submit"),
        ("  scripts: {job_submit: {path: /x.lua}}\n", "", "slurm.scripts.job_submit"),
        ("  scripts: {prologue: a.sh}\n", "", "slurm.scripts.prologue"),
        ("  scripts: {prolog: a.sh}\n", "    prolog: /x\n", "slurm.options.prolog"),
        ("", "    ResumeProgram: x.sh\n", "slurm.options.ResumeProgram"),
        ("", "    HealthCheckProgram: /opt/*\n", "slurm.options.HealthCheckProgram"),
        ("", "    Epilog: epilog.d/*\n", "slurm.options.Epilog"),
    ],
)
def test_a_mistake_is_named_with_its_line(site, block, options, where):
    site.script("binary", b"\x7fELF\xff\xfe")
    site.script("empty", "")
    site.script("crlf.sh", "#!/bin/sh\r\nexit 0\r\n")
    site.script("env.py", "#!/usr/bin/env python3 -u\n")
    site.script("relative.sh", "#!sh\n")
    found = site.mistakes(block, options)
    assert [place for place, _line in found] == [where]
    lines = (site.directory / "lab.bedplate.yml").read_text().splitlines()
    assert where.split(".")[-1].partition("[")[0] in lines[found[0][1] - 1]


@pytest.mark.parametrize(
    ("name", "refused"),
    [("run.sh", True), ("Scripts/run.sh", True), ("scripts/run.sh", False), ("more/scripts/run.sh", False)],
)
def test_a_script_that_ansible_would_run_as_an_inventory_is_refused(site, name, refused):
    (site.directory / name).parent.mkdir(parents=True, exist_ok=True)
    site.script(name, "#!/bin/sh\n")
    block = f"  scripts: {{prolog: {name}}}\n"
    site.load(block)
    (site.directory / name).chmod(0o755)
    if refused:
        assert [where for where, _ in site.mistakes(block)] == ["slurm.scripts.prolog"]
    else:
        site.load(block)


def test_a_relative_prolog_reaches_nodes_from_its_release_on_and_lies_on_the_controller(site):
    cluster = site.load(options="    Prolog: prolog.sh\n")
    assert [(one["option"], one["path"], one["glob"]) for one in scripts.expected(cluster, "ctl1")] == [
        ("Prolog", "prolog.sh", True)
    ]
    assert scripts.expected(cluster, "gpu01") == []


def row_of(option: str, path: Path) -> dict[str, Any]:
    """Return the row of a path that the site installs, as scripts.expected makes it."""
    row = script_table.by_option()[option.lower()]
    fields = {name: getattr(row, name) for name in ("option", "glob", "user", "search", "by_shell", "strict_mode")}
    return {**fields, "path": str(path)}


# Linux agrees: what it runs has no finding, and what it does not run has one.
@pytest.mark.parametrize(
    "content",
    [
        b"#!/bin/sh\n",
        b"#! /bin/sh -e \n",
        b"#!/usr/bin/env sh\n",
        b"#!/usr/bin/env -S sh -e\n",
        b"#!/usr/bin/env -S A=1 sh\n",
        b"#!/usr/bin/env sh -e\n",
        b"#!/usr/bin/env nosuch\n",
        b"#!/usr/bin/env sh\r\n",
        b"#!/bin/sh\r\n",
        b"#!/bin/sh -e\r\n",
        b"#!sh\n",
        b"#!\n",
        b"#!/tmp\n",
        b"exit 0\n",
        b"",
    ],
)
def test_linux_runs_what_has_no_finding(tmp_path, content):
    path = tmp_path / "script"
    path.write_bytes(content)
    path.chmod(0o755)
    try:
        done = subprocess.run([path], env={}, cwd="/", stderr=subprocess.DEVNULL, check=False).returncode == 0
    except OSError:
        done = False
    assert (findings_of([row_of("Prolog", path)], tmp_path) == []) == done


def test_a_user_may_have_an_interpreter_that_no_daemon_finds(site):
    site.script("u.py", "#!/usr/bin/env nosuch\n")
    cluster = site.load("  scripts: {prolog: u.py, task_prolog: u.py}\n")
    found = findings_of(scripts.expected(cluster, "gpu01"), site.directory)
    assert [one.where for one in found] == ["Prolog"]


def test_system_runs_text_without_an_interpreter(tmp_path):
    path = tmp_path / "script"
    path.write_text("reboot\n")
    path.chmod(0o755)
    assert findings_of([row_of("RebootProgram", path)], tmp_path) == []


def test_system_runs_no_empty_file(tmp_path):
    path = tmp_path / "script"
    path.touch(0o755)
    (row,) = findings_of([row_of("RebootProgram", path)], tmp_path)
    assert (row.kind, row.where) == ("slurm-script", "RebootProgram")
    sentences.check(SENTENCES, "a script that is empty", [str(row).replace(str(path), "/a")])


def test_a_path_with_brackets_is_no_pattern_where_slurm_takes_none(tmp_path):
    path = tmp_path / "reboot[1]"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    assert findings_of([row_of("RebootProgram", path)], tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="the script is to be root's")
@pytest.mark.parametrize(
    ("option", "mode", "content", "found"),
    [
        ("Prolog", 0o700, "#!/bin/sh\n", ""),
        ("Prolog", 0o777, "#!/bin/sh\n", ""),
        ("TaskProlog", 0o755, "#!/bin/sh\n", ""),
        ("TaskProlog", 0o750, "#!/bin/sh\n", ""),
        ("TaskProlog", 0o700, "#!/bin/sh\n", "(mode 0700), but TaskProlog"),
        ("TaskEpilog", 0o711, "#!/bin/sh\n", "(mode 0711), but TaskEpilog"),
        ("SrunProlog", 0o711, "\x7fELF", ""),
        ("PrologSlurmctld", 0o700, "#!/bin/sh\n", "user slurm"),
        ("ResumeProgram", 0o755, "#!/bin/sh\n", ""),
        ("ResumeProgram", 0o775, "#!/bin/sh\n", "(mode 0775)"),
        ("SuspendProgram", 0o757, "#!/bin/sh\n", "(mode 0757)"),
        ("MailProg", 0o777, "#!/bin/sh\n", ""),
    ],
)
def test_the_user_that_runs_a_script_must_reach_it(tmp_path, option, mode, content, found):
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if folder.stat().st_uid == 0 and folder.name.startswith(("pytest-", "popen-", "test_")):
            folder.chmod(0o755)
    path = tmp_path / "script"
    path.write_text(content)
    path.chmod(mode)
    rows = findings_of([row_of(option, path)], tmp_path)
    assert [found in row.found for row in rows] == ([True] if found else [])


@pytest.mark.skipif(os.geteuid() != 0, reason="the directory is to be root's")
def test_a_directory_of_root_alone_is_named(tmp_path):
    path = tmp_path / "private" / "script"
    path.parent.mkdir(mode=0o700)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    (tmp_path / "link").symlink_to(path)
    for name in (path, tmp_path / "link"):
        (row,) = findings_of([row_of("TaskProlog", name)], tmp_path)
        assert row.found.startswith(f"{path.parent} ")


@pytest.mark.skipif(os.geteuid() != 0, reason="another user owns the script")
def test_a_script_of_its_user_alone_runs(tmp_path):
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    path = tmp_path / "script"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o700)
    os.chown(path, 1, 1)
    assert findings_of([row_of("PrologSlurmctld", path)], tmp_path) == []


def test_the_interpreter_of_an_own_script_is_looked_for_on_the_machines_that_run_it(site):
    site.script("p.sh", "#!/opt/none/sh\n")
    site.script("r.py", "#!/usr/bin/env nosuch\n")
    cluster = site.load("  scripts: {prolog: [a.sh, p.sh, {path: /bin/true}], resume: r.py}\n")
    node, controller = (findings_of(scripts.expected(cluster, host), site.directory) for host in ("gpu01", "ctl1"))
    assert [(one.where, "/opt/none/sh" in one.found) for one in node] == [("Prolog", True)]
    text = str(node[0]).replace(f"{site.directory}", "")
    sentences.check(SENTENCES, "an interpreter that is missing", [text])
    assert f"{site.directory}/p.sh" in node[0].expected
    assert [one.where for one in controller] == ["ResumeProgram"]
    assert "nosuch in /usr/local/sbin:" in controller[0].found
    text = script_guard.refuse(
        cluster, {"gpu01": {"findings": to_json(node)}, "ctl1": {"findings": to_json(controller)}}, conf(cluster)
    )
    for line, kind, host in zip(text.splitlines(), ("prolog", "resume"), ("gpu01", "ctl1"), strict=True):
        place, _, _ = line.partition(": ")
        path, _, number = place.rpartition(":")
        assert kind in Path(path).read_text().splitlines()[int(number) - 1]
        assert f" on {host}; " in line


# what is at the path: how it is made, and the value in what is found, or None
@pytest.mark.parametrize(
    ("content", "mode", "found"),
    [
        (b"#!/bin/sh\n", 0o755, None),
        (b"\x7fELF", 0o755, None),
        (b"#!/bin/sh\n", 0o644, "0644"),
        (b"#!/opt/none\n", 0o755, "/opt/none"),
        (b"#!/opt\n", 0o755, "/opt"),
        (b"#!/etc/passwd\n", 0o755, "/etc/passwd"),
        # What env does with them is not read.
        (b"#!/usr/bin/env -S -i nosuch\n", 0o755, None),
        (b"#!/usr/bin/env -S ${HOME}/nosuch\n", 0o755, None),
        (b"#! /bin/sh -e\n", 0o755, None),
        (b"#!/usr/bin/env nosuch\n", 0o755, "nosuch in /bin:/usr/bin"),
        (b"#!/usr/bin/env -S A=1 nosuch -u\n", 0o755, "nosuch in /bin:/usr/bin"),
        (b"#!/usr/bin/env /opt/none\n", 0o755, "/opt/none"),
        (b"#!/usr/bin/env -S sh -e\n", 0o755, None),
        (b"#!/usr/bin/env -i sh\n", 0o755, None),
        (b"#!/usr/bin/env sh -e\n", 0o755, ""),
        (b"#!/bin/sh\r\n", 0o755, "CR LF"),
        (b"#!\n", 0o755, ""),
        (b"", 0o755, ""),
        (b"exit 0\n", 0o755, "#!"),
        (b"PK\x03\x04\0\0", 0o755, None),
        (None, 0, ""),
        ("directory", 0, ""),
    ],
)
def test_a_script_must_be_an_executable_regular_file(tmp_path, content, mode, found):
    path = tmp_path / "script"
    if content == "directory":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
        path.chmod(mode)
    rows = findings_of([row_of("Prolog", path)], Path("/etc/slurm"))
    assert [(found or "") in row.found for row in rows] == [True] * (found is not None)
    assert all(row.remedy for row in rows)
    if found is not None and not found.startswith(("/", "nosuch")):
        text = [f"{row.found}; {row.remedy}".replace(str(path), "/a") for row in rows]
        sentences.check(SENTENCES, f"a script, {content!r} {mode:o}", text)


def test_each_match_of_a_pattern_counts_and_none_is_a_finding(tmp_path):
    for name, mode in (("1", 0o755), ("2", 0o644)):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(mode)
    one = {"option": "Prolog", "glob": True}
    assert len(findings_of([{**one, "path": f"{tmp_path}/*"}], tmp_path)) == 1
    assert findings_of([{**one, "path": f"{tmp_path}/1*"}], tmp_path) == []
    assert len(findings_of([{**one, "path": f"{tmp_path}/x*"}], tmp_path)) == 1


def test_the_options_in_force_are_those_of_the_file():
    assert in_force(parse("prolog=/a\nMailProg=/b\n"), ["Prolog", "Epilog"]) == {"Prolog": "/a"}


NOTHING: dict[str, Any] = {"findings": []}


def lacks(path: str = "/opt/p") -> dict[str, Any]:
    row = {"where": "Prolog", "expected": f"{path} to be there", "found": "absent"}
    return {"findings": [row]}


@pytest.mark.parametrize(
    ("answers", "in_force", "refused"),
    [
        # Every host has it; one lacks it; one was not asked, failed, or skipped its task.
        ({}, {}, []),
        ({"gpu02": lacks()}, {}, ["gpu02"]),
        ({"gpu02": lacks(), "gpu03": lacks()}, {"Prolog": "/opt/p"}, ["gpu[02-03]"]),
        ({"gpu02": None}, {}, ["gpu02 not reached"]),
        ({"gpu02": {"unreachable": True}}, {}, ["gpu02 not reached"]),
        ({"gpu02": {"skipped": True, "changed": False}}, {}, ["gpu02 not reached"]),
        ({"gpu02": {**NOTHING, "failed": True}}, {}, ["gpu02 not reached"]),
        # What is in force already needs no proof of who was not asked.
        ({"gpu02": None}, {"Prolog": "/opt/p"}, []),
        ({"gpu02": None}, {"Prolog": "/opt/other"}, ["gpu02 not reached"]),
        # Nobody reads slurm.conf in this run, so nothing comes into force by it; what lacks a script is named all the same.
        ({"gpu02": None}, None, []),
        ({"gpu02": lacks()}, None, ["gpu02"]),
    ],
)
def test_an_option_is_refused_while_a_host_has_not_proved_its_script(site, answers, in_force, refused):
    cluster = site.load(options="    Prolog: /opt/p\n")
    every = {node.name: NOTHING for node in cluster.nodes} | answers
    text = script_guard.refuse(cluster, every, in_force)
    assert bool(text) == bool(refused)
    if answers == {"gpu02": None} and text:
        sentences.check(SENTENCES, "a host that has not proved its scripts", [text.partition(": ")[2]])
    for one in refused:
        assert one in text
        assert f"{cluster.path}:" in text


def test_a_node_that_is_planned_down_need_not_prove_anything(site):
    cluster = site.load(options="    Prolog: /opt/p\n")
    first, *others = cluster.nodes
    answers = {node.name: NOTHING for node in others}
    assert first.name in script_guard.refuse(cluster, answers, {})
    planned = replace(cluster, nodes=[replace(first, state="down"), *others])
    assert script_guard.refuse(planned, answers, {}) == ""


def test_the_table_and_the_schema_name_the_same_kinds():
    from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster.schema.cluster_file import CLUSTER_FILE

    known = {**script_table.script_options(), **script_table.files_beside()}
    assert set(CLUSTER_FILE.fields["slurm"].fields["scripts"].fields) == set(known)


def test_every_option_of_the_table_is_one_of_slurm():
    from ansible_collections.bedplate.cluster.plugins.plugin_utils.slurm.tables import options

    for row in [*script_table.script_options().values(), *script_table.files_beside().values()]:
        if row.option:
            assert options.canonical("slurm", row.option) == row.option


def test_the_mode_on_the_machines_is_not_that_of_the_control_node(site):
    (site.directory / "a.sh").chmod(0o600)
    assert scripts.files(site.load("  scripts: {prolog: a.sh}\n"), "gpu01")[0]["mode"] == "0755"


def test_a_relative_name_lies_in_the_directory_of_slurm(tmp_path):
    (tmp_path / "prolog").write_text("#!/bin/sh\n")
    (tmp_path / "prolog").chmod(0o755)
    row = row_of("Prolog", Path("prolog"))
    assert findings_of([row], tmp_path) == []
    assert len(findings_of([row], tmp_path / "other")) == 1


def test_scripts_of_clients_are_installed_where_jobs_are_submitted(site):
    cluster = site.load("  scripts: {srun_prolog: a.sh}\n")
    cluster = replace(cluster, services=replace(cluster.services, login=["login1"]))
    assert cluster.client_hosts == ("login1",)
    for host in ("gpu01", "login1", "ctl1"):
        assert [one["path"].rpartition("/")[2] for one in scripts.files(cluster, host)] == ["a.sh"], host
    assert scripts.hosts(cluster) == [*(node.name for node in cluster.nodes), "login1"]
    assert list(scripts.node_options(cluster)) == ["SrunProlog"]


def test_scripts_of_controllers_are_no_option_of_nodes(site):
    cluster = site.load("  scripts: {prolog_slurmctld: a.sh}\n", "    MailProg: /bin/true\n")
    assert scripts.node_options(cluster) == {}
    assert scripts.hosts(cluster) == []


def test_none_is_no_path(site):
    cluster = site.load(options="    HealthCheckProgram: None\n")
    assert scripts.expected(cluster, "gpu01") == scripts.expected(cluster, "ctl1") == []


def test_a_path_with_a_blank_is_one_word_of_the_runner(site):
    site.script("two words.sh", "#!/bin/sh\n")
    (runner,) = [
        one["content"]
        for one in scripts.files(site.load('  scripts: {resume: ["two words.sh", a.sh]}\n'), "ctl1")
        if one["path"].endswith("/run")
    ]
    assert 'two words.sh\' "$@" || exit\n' in runner
