"""What bedplate.cluster.deploy does before any machine is asked; molecule's primitives show the rest on real ones."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.playbooks


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
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "HOME": str(base)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


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
        "repositories: 'https://example.org/debian'; allowed: a mapping",
        "packages: 7; allowed: text",
        "start_installed: 'perhaps'; allowed: true, false",
        "files[0] etc/d: path is relative",
        "units[0] munge: name 'munge'; allowed: the full name of a unit with its type",
        "units[1] a.service: state 'up'; allowed:",
    ):
        assert text in run.stdout


def test_what_is_no_list_is_told_and_null_takes_nothing_away(tmp_path: Path) -> None:
    elsewhere = ("-e", "ansible_host=127.0.0.1", "-e", "ansible_port=1")
    keys = ("repositories", "packages", "units", "touched")
    for value, shown in (("munge", "'munge'"), (None, "None"), ({}, "{}")):
        run = play(tmp_path, {"manifest": "demo", "files": value, **dict.fromkeys(keys, value)}, *elsewhere)
        assert run.returncode == 2
        assert "files: is" in run.stdout
        for key in keys:
            assert f"{key}: {shown}; allowed: a list" in run.stdout


def test_files_need_a_manifest_and_without_one_none_is_looked_at(tmp_path: Path) -> None:
    entry = {"path": f"{tmp_path}/node/etc/one.conf", "content": "one\n"}
    local = ("-e", "ansible_connection=local")
    assert "manifest: None; allowed: a name" in play(tmp_path, {"files": [entry]}, *local).stdout
    assert play(tmp_path, {"files": [entry], "manifest": "demo"}, *local).returncode == 0
    assert play(tmp_path, {}, *local).returncode == 0
    assert Path(entry["path"]).read_text() == "one\n"
    gone = play(tmp_path, {"manifest": "demo", "files": []}, *local)
    assert gone.returncode == 0
    assert "changed=1" in gone.stdout
    assert not Path(entry["path"]).exists()


def test_what_apt_reads_is_there_before_packages_are_looked_at(tmp_path: Path) -> None:
    source = {"path": f"{tmp_path}/node/etc/x.sources", "content": "Types: deb\n"}
    entry = {"path": f"{tmp_path}/node/etc/one.conf", "content": "one\n"}
    wanted = {"manifest": "demo", "sources": [source], "files": [entry], "packages": ["dpkg", "bedplate-nowhere=1"]}
    local = ("-e", "ansible_connection=local")
    assert (
        "sources[0] etc/x: path is relative"
        in play(tmp_path, {**wanted, "sources": [{"path": "etc/x", "content": ""}]}, *local).stdout
    )
    done = play(tmp_path, wanted, *local)
    # apt does not have the package, and was asked with the source in its place.
    assert done.returncode == 2
    assert Path(source["path"]).read_text() == "Types: deb\n"
    assert not Path(entry["path"]).exists()
    fine = {**wanted, "packages": ["dpkg=1*"]}
    done = play(tmp_path, fine, *local)
    assert "changed=1" in done.stdout
    assert "one.conf" in done.stdout
    assert "x.sources" not in done.stdout
    assert "changed=0" in play(tmp_path, fine, *local).stdout
    # Another task of the manifest that says nothing of them leaves them; an empty list takes them away.
    assert "changed=0" in play(tmp_path, {key: fine[key] for key in ("manifest", "files")}, *local).stdout
    assert "changed=1" in play(tmp_path, {**fine, "sources": []}, *local).stdout
    assert not Path(source["path"]).exists()


def test_a_new_source_in_check_mode_leaves_open_what_it_offers(tmp_path: Path) -> None:
    source = {"path": f"{tmp_path}/node/etc/x.sources", "content": "Types: deb\n"}
    wanted = {"manifest": "demo", "sources": [source], "files": [], "packages": ["bedplate-nowhere=1"]}
    done = play(tmp_path, wanted, "-e", "ansible_connection=local", "--check")
    assert done.returncode == 0, done.stdout
    assert "changed=1" in done.stdout
    assert "nothing is known of bedplate-nowhere=1" in done.stdout
    assert done.stdout.count("x.sources") == 1
    assert not Path(source["path"]).exists()


def test_a_version_that_apt_has_not_read_yet_is_left_open_in_check_mode(tmp_path: Path) -> None:
    wanted = {"packages": ["dpkg", "bash=0.0-bedplate"]}
    done = play(tmp_path, wanted, "-e", "ansible_connection=local", "--check")
    assert done.returncode == 0, done.stdout
    assert "changed=1" in done.stdout
    assert "do not have all versions, so nothing is known of bash=0.0-bedplate" in " ".join(done.stdout.split())


def test_what_is_no_longer_wanted_is_taken_away_once_and_only_where_it_was_brought(tmp_path: Path) -> None:
    source = {"path": f"{tmp_path}/node/etc/x.sources", "content": "Types: deb\n"}
    entry = {"path": f"{tmp_path}/node/etc/one.conf", "content": "one\n"}
    away = {"manifest": "demo", "state": "absent", "units": [{"name": "bedplate-no-such.service", "drop_ins": {}}]}
    local = ("-e", "ansible_connection=local")
    # Nothing is on record, so nothing is done to a unit either: this one cannot be brought to any state.
    nothing = play(tmp_path, away, *local)
    assert "changed=0" in nothing.stdout
    assert "demo has brought nothing here" in nothing.stdout
    assert play(tmp_path, {"manifest": "demo", "sources": [source], "files": [entry]}, *local).returncode == 0
    # Units come first: their files are still there when that fails.
    assert play(tmp_path, away, *local).returncode == 2
    assert Path(entry["path"]).exists()
    for options, there in (("--check",), True), ((), False):
        assert "changed=1" in play(tmp_path, {**away, "units": []}, *local, *options).stdout
        assert [Path(one["path"]).exists() for one in (source, entry)] == [there, there]
    assert "changed=0" in play(tmp_path, away, *local).stdout
    wrong = play(tmp_path, {"state": "absent", "packages": ["dpkg"], "files": []}, *local).stdout
    assert "packages: not with state: absent" in wrong
    assert "state: absent needs a manifest" in wrong


def test_installed_packages_are_not_handed_to_apt(tmp_path: Path) -> None:
    run = play(tmp_path, {"packages": ["dpkg"]}, "-e", "ansible_connection=local")
    assert run.returncode == 0, run.stdout
    assert "installed: []" in run.stdout
    assert "changed=0" in run.stdout


def test_what_apt_does_not_have_is_its_error(tmp_path: Path) -> None:
    run = play(tmp_path, {"packages": ["dpkg", "no-such-package-here"]}, "-e", "ansible_connection=local", "--check")
    assert run.returncode == 2, run.stdout
    assert "No package matching 'no-such-package-here' is available" in run.stdout


def test_a_file_that_was_written_before_a_unit_failed_is_seen(tmp_path: Path) -> None:
    entry = {"path": f"{tmp_path}/node/etc/one.conf", "content": "one\n"}
    units = [{"name": "bedplate-no-such.service", "state": "started"}]
    run = play(tmp_path, {"manifest": "demo", "files": [entry], "units": units}, "-e", "ansible_connection=local")
    assert run.returncode == 2
    assert "bedplate-no-such.service" in run.stdout or "systemd on this machine cannot be asked" in run.stdout
    failed = run.stdout[run.stdout.index("fatal: [n0]") :]
    assert "changed: true" in failed
    assert re.search(rf"changed_files:\n(    - .*\n)*    - {re.escape(entry['path'])}\n", failed)


def test_what_is_apts_alone_is_refused_with_dnf(tmp_path: Path) -> None:
    elsewhere = ("-e", "ansible_host=127.0.0.1", "-e", "ansible_port=1")
    arguments = {"manifest": "demo", "hold": ["a"], "repositories": [{"name": "x"}], "packages": ["a"]}
    run = play(tmp_path, {**arguments, "manager": "dnf"}, *elsewhere)
    assert run.returncode == 2
    assert "hold: dnf holds by lines in /etc/dnf/plugins/versionlock.list" in run.stdout
    assert "repositories: are apt's" in run.stdout
    assert "manager: 'yum'; allowed: apt, dnf" in play(tmp_path, {**arguments, "manager": "yum"}, *elsewhere).stdout


@pytest.mark.parametrize("options", [(), ("--check",)], ids=["run", "check"])
def test_another_version_of_a_fixed_package_is_refused_before_anything_changes(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    source = {"path": f"{tmp_path}/node/etc/x.sources", "content": "Types: deb\n"}
    wanted = {"manifest": "demo", "sources": [source], "packages": ["dpkg"]}
    local = ("-e", "ansible_connection=local")
    fixed = {"packages": ["dpk*"], "version": "0.1*", "advice": "Do it by hand."}
    run = play(tmp_path, {**wanted, "fixed": fixed}, *local, *options)
    assert run.returncode == 2
    assert re.search(r"installed: dpkg 1\.[^;]+; allowed: 0\.1\*\. Do it by hand\.", " ".join(run.stdout.split()))
    assert not Path(source["path"]).exists()
    fine = play(tmp_path, {**wanted, "fixed": {**fixed, "version": "1.*"}}, *local, *options)
    assert fine.returncode == 0, fine.stdout


def test_versions_that_the_repositories_have_are_told_of_one_that_they_lack(tmp_path: Path) -> None:
    run = play(tmp_path, {"packages": ["bedplate-nowhere=1.*"]}, "-e", "ansible_connection=local")
    assert run.returncode == 2
    assert "bedplate-nowhere=1.*: the repositories of this machine have none" in " ".join(run.stdout.split())
