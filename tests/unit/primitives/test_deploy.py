"""What bedplate.cluster.deploy does where apt has nothing to install; molecule's primitives show the rest on real machines.

`deploy` runs the action plugin and the module in this process; it fails when another module is called, such as apt. `play` runs
ansible-playbook, for what only that shows: connections, the module as it is sent to a node, and what apt says.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible.module_utils.testing import patch_module_args
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.play_context import PlayContext
from ansible.playbook.task import Task
from ansible.template import Templar

from ansible_collections.bedplate.cluster.plugins.action.deploy import ActionModule
from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages import dpkg
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages.dnf_check import DnfCheck
from ansible_collections.bedplate.cluster.plugins.modules import deploy as module

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.playbooks
# The installed packages are this machine's. The repositories are none, so that apt reads no list and downloads nothing.
APT = """\
Dir::State "{base}/apt";
Dir::State::status "/var/lib/dpkg/status";
Dir::Cache "{base}/apt";
Dir::Etc::sourcelist "/dev/null";
Dir::Etc::sourceparts "{base}/apt";
"""


@pytest.fixture(autouse=True)
def _apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "apt/lists/partial").mkdir(parents=True)
    (tmp_path / "apt/archives/partial").mkdir(parents=True)
    (tmp_path / "apt.conf").write_text(APT.format(base=tmp_path))
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    # Which packages came with others differs from machine to machine.
    monkeypatch.setattr(dpkg, "EXTENDED_STATES", tmp_path / "apt/extended_states")


def play(base: Path, arguments: dict[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
    """Run a playbook with this one task."""
    task = {"name": "Deploy", "bedplate.cluster.deploy": {"state_directory": str(base / "state"), **arguments}}
    (base / "play.yml").write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    return subprocess.run(
        [
            str(Path(sys.executable).with_name("ansible-playbook")), "-v", "-i", "n0,", "play.yml",
            "-e", f"ansible_python_interpreter={sys.executable}", *options,
        ],
        cwd=base,
        env={
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "HOME": str(base),
            "APT_CONFIG": str(base / "apt.conf"),
        },
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


class Action(ActionModule):
    """The action plugin, with a module that runs in this process on this machine."""

    def _execute_module(
        self, module_name: str, module_args: dict[str, Any], task_vars: dict[str, Any]
    ) -> dict[str, Any]:
        if module_name == "ansible.builtin.command":
            done = subprocess.run(module_args["argv"], capture_output=True, text=True, check=False)
            return {"stdout": done.stdout, "rc": done.returncode}
        assert module_name == "bedplate.cluster.deploy"
        internal = {"_ansible_check_mode": self._task.check_mode, "_ansible_remote_tmp": module_args["state_directory"]}
        said = io.StringIO()
        with (
            patch_module_args({**module_args, **internal}),
            contextlib.redirect_stdout(said),
            pytest.raises(SystemExit),
        ):
            module.main()
        return dict(json.loads(said.getvalue()))


def deploy(base: Path, arguments: dict[str, Any], *, check: bool = False) -> dict[str, Any]:
    """Run this one task in this process and return its result; AnsibleActionFail: its arguments are wrong."""
    told = {"state_directory": str(base / "state"), **arguments}
    task = Task.load({"name": "Deploy", "bedplate.cluster.deploy": told, "check_mode": check})
    loader = DataLoader()
    shell = SimpleNamespace(tmpdir=str(base))
    action = Action(
        task=task,
        connection=SimpleNamespace(_shell=shell),
        play_context=PlayContext(),
        loader=loader,
        templar=Templar(loader=loader, variables={}),
        shared_loader_obj=None,
    )
    return dict(action.run(task_vars={}))


def refused(base: Path, arguments: dict[str, Any]) -> str:
    """Return what is wrong with the arguments, of which the action plugin sends nothing to a machine."""
    with pytest.raises(AnsibleActionFail) as caught:
        deploy(base, arguments)
    return str(caught.value)


def test_all_mistakes_of_all_lists_come_at_once_and_before_any_connection(tmp_path: Path) -> None:
    arguments = {
        "manifest": "demo",
        "repositories": ["https://example.org/debian"],
        "packages": ["munge", 7],
        "start_installed": "perhaps",
        "files": [{"path": "etc/d", "content": "x"}],
        "units": [{"name": "munge", "enabled": True}, {"name": "a.service", "state": "up"}],
    }
    run = play(tmp_path, arguments, "-e", "ansible_host=127.0.0.1", "-e", "ansible_port=1")
    assert run.returncode == 2
    assert "UNREACHABLE" not in run.stdout
    for text in (
        "repositories: 'https://example.org/debian';",
        "packages: 7;",
        "start_installed: 'perhaps';",
        "files[0] etc/d: path",
        "units[0] munge: name 'munge';",
        "units[1] a.service: state 'up';",
    ):
        assert text in run.stdout


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"only": "files"}, "only: 'files'; allowed: a list of packages, files, services"),
        ({"only": []}, "only: []; allowed"),
        ({"only": ["file"]}, "only: ['file']; allowed"),
        ({"only": ["files"], "take_back": True}, "only: with take_back, files and services go together"),
        ({"only": ["services"], "state": "absent"}, "only: with state, files and services go together"),
        ({"only": ["packages"], "state": "absent"}, "only: packages has nothing to remove"),
    ],
)
def test_phases_that_cannot_be_deployed_alone_are_refused(tmp_path: Path, arguments: dict[str, Any], text: str) -> None:
    assert text in refused(tmp_path, {"manifest": "demo", **arguments})


def test_what_is_no_list_is_told_and_null_takes_nothing_away(tmp_path: Path) -> None:
    keys = ("repositories", "packages", "units", "touched", "keep_below")
    for value, shown in (("munge", "'munge'"), (None, "None"), ({}, "{}")):
        said = refused(tmp_path, {"manifest": "demo", "files": value, **dict.fromkeys(keys, value)})
        assert "files: " in said
        for key in keys:
            assert f"{key}: {shown}; " in said


def test_files_need_a_manifest_and_without_one_none_is_looked_at(tmp_path: Path) -> None:
    entry = {"path": f"{tmp_path}/node/etc/one.conf", "content": "one\n"}
    assert "manifest: None; " in refused(tmp_path, {"files": [entry]})
    assert play(tmp_path, {"files": [entry], "manifest": "demo"}, "-e", "ansible_connection=local").returncode == 0
    assert deploy(tmp_path, {})["changed"] is False
    assert Path(entry["path"]).read_text() == "one\n"
    assert deploy(tmp_path, {"manifest": "demo", "files": []})["changed"] is True
    assert not Path(entry["path"]).exists()


def test_what_apt_reads_is_there_before_packages_are_looked_at(tmp_path: Path) -> None:
    source = {"path": f"{tmp_path}/node/etc/x.sources", "content": "Types: deb\n"}
    entry = {"path": f"{tmp_path}/node/etc/one.conf", "content": "one\n"}
    wanted = {"manifest": "demo", "sources": [source], "files": [entry], "packages": ["dpkg", "bedplate-nowhere=1.*"]}
    said = refused(tmp_path, {**wanted, "sources": [{"path": "etc/x", "content": ""}]})
    assert "sources[0] etc/x: path" in said
    done = play(tmp_path, wanted, "-e", "ansible_connection=local")
    # apt does not have the package, and was asked with the source in its place.
    assert done.returncode == 2
    assert re.search(r"bedplate-nowhere=1\.\*: [^;]*\bnone\b", " ".join(done.stdout.split()))
    assert Path(source["path"]).read_text() == "Types: deb\n"
    assert not Path(entry["path"]).exists()
    fine = {**wanted, "packages": ["dpkg=1*"]}
    done = deploy(tmp_path, fine)
    assert done["changed"] is True
    assert done["installed"] == []
    assert entry["path"] in done["changed_files"]
    assert source["path"] not in done["changed_files"]
    assert deploy(tmp_path, fine)["changed"] is False
    # Another task of the manifest that says nothing of them leaves them; an empty list takes them away.
    assert deploy(tmp_path, {key: fine[key] for key in ("manifest", "files")})["changed"] is False
    assert deploy(tmp_path, {**fine, "sources": []})["changed"] is True
    assert not Path(source["path"]).exists()


def test_a_new_source_in_check_mode_leaves_open_what_it_offers(tmp_path: Path) -> None:
    source = {"path": f"{tmp_path}/node/etc/x.sources", "content": "Types: deb\n"}
    wanted = {"manifest": "demo", "sources": [source], "files": [], "packages": ["bedplate-nowhere=1"]}
    done = deploy(tmp_path, wanted, check=True)
    assert not done.get("failed")
    assert done["changed"] is True
    assert " bedplate-nowhere=1" in " ".join(done["unchecked"])
    assert done["changed_files"].count(source["path"]) == 1
    assert not Path(source["path"]).exists()


def test_a_version_that_apt_has_not_read_yet_is_left_open_in_check_mode(tmp_path: Path) -> None:
    done = deploy(tmp_path, {"packages": ["dpkg", "bash=0.0-bedplate"]}, check=True)
    assert not done.get("failed")
    assert done["changed"] is True
    assert " bash=0.0-bedplate" in " ".join(done["unchecked"])


def test_what_is_no_longer_wanted_is_taken_away_once_and_only_where_it_was_brought(tmp_path: Path) -> None:
    source = {"path": f"{tmp_path}/node/etc/x.sources", "content": "Types: deb\n"}
    entry = {"path": f"{tmp_path}/node/etc/one.conf", "content": "one\n"}
    away = {"manifest": "demo", "state": "absent", "units": [{"name": "bedplate-no-such.service", "drop_ins": {}}]}
    # Nothing is on record, so nothing is done to a unit either: this one cannot be brought to any state.
    nothing = deploy(tmp_path, away)
    assert nothing["changed"] is False
    assert [note.split()[0] for note in nothing["notes"]] == ["demo"]
    assert deploy(tmp_path, {"manifest": "demo", "sources": [source], "files": [entry]})["changed"] is True
    # Units come first: their files are still there when that fails.
    assert deploy(tmp_path, away)["failed"] is True
    assert Path(entry["path"]).exists()
    for check in (True, False):
        assert deploy(tmp_path, {**away, "units": []}, check=check)["changed"] is True
        assert [Path(one["path"]).exists() for one in (source, entry)] == [check, check]
    assert deploy(tmp_path, away)["changed"] is False
    wrong = refused(tmp_path, {"state": "absent", "packages": ["dpkg"], "files": []})
    assert all(
        re.search(part, wrong, re.MULTILINE) for part in (r"packages: .*state: absent", r"state: absent .*manifest")
    )


def test_installed_packages_are_not_handed_to_apt(tmp_path: Path) -> None:
    done = deploy(tmp_path, {"packages": ["dpkg"]})
    assert not done.get("failed")
    assert done["installed"] == []
    assert done["changed"] is False


def test_what_apt_does_not_have_is_its_error(tmp_path: Path) -> None:
    run = play(tmp_path, {"packages": ["dpkg", "no-such-package-here"]}, "-e", "ansible_connection=local", "--check")
    assert run.returncode == 2, run.stdout
    assert "'no-such-package-here'" in run.stdout


def test_a_file_that_was_written_before_a_unit_failed_is_seen(tmp_path: Path) -> None:
    entry = {"path": f"{tmp_path}/node/etc/one.conf", "content": "one\n"}
    units = [{"name": "bedplate-no-such.service", "state": "started"}]
    done = deploy(tmp_path, {"manifest": "demo", "files": [entry], "units": units})
    assert done["failed"] is True
    assert re.search(r"bedplate-no-such\.service|systemctl is-system-running", done["msg"])
    assert done["changed"] is True
    assert entry["path"] in done["changed_files"]


def test_what_is_apts_alone_is_refused_with_dnf(tmp_path: Path) -> None:
    arguments = {"manifest": "demo", "hold": ["a"], "repositories": [{"name": "x"}], "packages": ["a"]}
    said = refused(tmp_path, {**arguments, "manager": "dnf"})
    assert re.search(r"hold: .* /etc/dnf/plugins/versionlock\.list", said)
    assert "repositories: " in said
    assert "manager: 'yum'; " in refused(tmp_path, {**arguments, "manager": "yum"})


@pytest.mark.parametrize("check", [False, True], ids=["run", "check"])
def test_another_version_of_a_fixed_package_is_refused_before_anything_changes(tmp_path: Path, check: bool) -> None:
    source = {"path": f"{tmp_path}/node/etc/x.sources", "content": "Types: deb\n"}
    wanted = {"manifest": "demo", "sources": [source], "packages": ["dpkg"]}
    fixed = {"packages": ["dpk*"], "version": "0.1*", "advice": "Do it by hand."}
    done = deploy(tmp_path, {**wanted, "fixed": fixed}, check=check)
    assert done["failed"] is True
    assert re.fullmatch(r".*\bdpkg 1\.[^;]+;.* 0\.1\*\. " + fixed["advice"], done["msg"])
    assert "dpkg" in done["others"]
    assert not Path(source["path"]).exists()
    assert not deploy(tmp_path, {**wanted, "fixed": {**fixed, "version": "1.*"}}, check=check).get("failed")


@pytest.mark.parametrize("check", [False, True], ids=["run", "check"])
def test_an_installed_package_that_the_wanted_ones_exclude_is_refused_before_anything_changes(
    tmp_path: Path, check: bool
) -> None:
    source = {"path": f"{tmp_path}/node/etc/x.sources", "content": "Types: deb\n"}
    wanted = {"manifest": "demo", "sources": [source], "packages": ["dpkg"]}
    conflicts = {"packages": ["dpk*"], "expected": "other packages", "advice": "Do it by hand."}
    done = deploy(tmp_path, {**wanted, "conflicts": conflicts}, check=check)
    assert done["failed"] is True
    assert "dpkg" in done["conflicting"]
    assert re.fullmatch(r"installed: dpkg[^;]*; allowed: other packages\. Do it by hand\.", done["msg"])
    assert not Path(source["path"]).exists()
    other = {**conflicts, "packages": ["bedplate-no-such*"]}
    assert not deploy(tmp_path, {**wanted, "conflicts": other}, check=check).get("failed")


@pytest.mark.parametrize("check", [False, True], ids=["run", "check"])
def test_a_package_of_a_repository_that_is_not_enabled_is_refused_before_anything_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    asked: list[list[str]] = []

    def run(argv: list[str]) -> Outcome:
        asked.append(argv)
        return Outcome(0, "", "")

    monkeypatch.setattr(module, "DnfCheck", lambda: DnfCheck(tmp_path, tmp_path, run))
    monkeypatch.setattr(module.DeployedPackages, "installed", lambda _self, names: sorted({*names} & {"there"}))
    source = {"path": f"{tmp_path}/node/etc/x.repo", "content": "[x]\n"}
    available = {"packages": ["there", "dkms"], "addresses": ["http://m.example.org/x"], "advice": "Enable it."}
    wanted = {"manifest": "demo", "manager": "dnf", "sources": [source], "available": available}
    done = deploy(tmp_path, wanted, check=check)
    assert done["failed"] is True
    assert re.fullmatch(r"dkms: [^.]+\. [^.]+\. Enable it\.", done["msg"])
    assert len(done["lacking"]) == 1
    assert not Path(source["path"]).exists()
    assert [word for argv in asked for word in argv if "m.example.org" in word] == [
        "--repofrompath=bedplate-0,http://m.example.org/x"
    ]
    # apt's distributions have it, and an installed one comes from somewhere.
    for other in ({"packages": ["there"]}, None):
        assert not deploy(tmp_path, {**wanted, "available": other}, check=True).get("failed")


@pytest.mark.parametrize("check", [False, True], ids=["run", "check"])
def test_users_are_made_before_packages_and_refused_before_anything_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    made: list[str] = []
    monkeypatch.setattr(module.accounts, "make", lambda wanted, _names: made.extend(one.name for one in wanted))
    source = {"path": f"{tmp_path}/node/etc/x.sources", "content": "Types: deb\n"}
    wanted = {"manifest": "demo", "sources": [source], "packages": ["dpkg"]}
    mine = {"name": "bedplate-demo", "uid": 4294960000, "gid": 4294960000}
    done = deploy(tmp_path, {**wanted, "accounts": [{"name": "root", "uid": 5, "gid": 5}, mine]}, check=check)
    assert done["failed"] is True
    assert "user root has uid 0" in done["msg"]
    assert not Path(source["path"]).exists()
    done = deploy(tmp_path, {**wanted, "accounts": [mine]}, check=check)
    assert done["changed"] is True
    assert done["accounts"] == ["bedplate-demo"]
    assert made == ([] if check else ["bedplate-demo"])
    # Without packages they are compared alone.
    made.clear()
    assert (
        deploy(tmp_path, {"manifest": "demo", "accounts": [mine], "only": ["services"]}, check=check)["accounts"] == []
    )
    assert made == []
