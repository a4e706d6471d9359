# SPDX-License-Identifier: GPL-3.0-or-later
"""What bedplate.cluster.files does in real runs of ansible-playbook, on paths below a temporary directory."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[4]
pytestmark = [pytest.mark.playbooks, pytest.mark.ansible_core]
ANSIBLE_PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
BIG = base64.b64encode(os.urandom(1_500_000))  # hardly compressible

ENTRIES = """
- {path: "{{ node }}/etc/one.conf", template: one.conf.j2, notify: Restart one}
- {path: "{{ node }}/etc/two.conf", content: "two {{ word }}", mode: "0640", notify: [Restart two, Restart one too]}
- {path: "{{ node }}/etc/key", secret: munge_key, mode: "0400", notify: Restart key}
- {path: "{{ node }}/etc/db.conf", content: "Password={{ lookup('bedplate.cluster.secret', 'db') }}", sensitive: true}
- {path: "{{ node }}/etc/big", src: big}
- {path: "{{ node }}/spool", state: directory, mode: "0700"}
- {path: "{{ node }}/link", state: link, target: etc/one.conf}
"""
HANDLERS = ["Restart one", "Restart one too", "Restart two", "Restart key", "Restart other"]


@dataclass(frozen=True)
class Run:
    """How one run of ansible-playbook ended."""

    code: int
    output: str

    @property
    def handlers(self) -> list[str]:
        return re.findall(r"^RUNNING HANDLER \[(.+?)\]", self.output, re.MULTILINE)

    def result(self, host: str = "h0") -> dict[str, Any]:
        found = re.search(rf"^(?:ok|changed): \[{host}\] => ", self.output, re.MULTILINE)
        assert found, self.output
        result: dict[str, Any] = json.JSONDecoder().raw_decode(self.output, found.end())[0]
        return result


class Site:
    """A playbook with one role, its inventory, and directories that stand for nodes."""

    def __init__(self, base: Path, hosts: int = 1) -> None:
        self.base = base
        self.nodes = base / "nodes"
        self.secrets = base / "secrets"
        self.role = base / "roles" / "demo"
        for directory in ("tasks", "templates", "files"):
            (self.role / directory).mkdir(parents=True)
        variables = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "bedplate_cluster": "pod",
            "bedplate_secrets_dir": str(self.secrets),
            "node": f"{self.nodes}/{{{{ inventory_hostname }}}}",
            "state": f"{base}/state/{{{{ inventory_hostname }}}}",
            "word": "of all",
        }
        self.write("hosts.json", {"all": {"vars": variables, "hosts": {f"h{n}": {"of_host": n} for n in range(hosts)}}})
        self.play("demo")
        (base / "ansible.cfg").touch()

    def write(self, name: str, document: object) -> None:
        (self.base / name).write_text(json.dumps(document))

    def play(self, *roles: str | dict[str, str]) -> None:
        handlers = [{"name": name, "ansible.builtin.debug": {"msg": "here"}} for name in HANDLERS]
        self.write("play.json", [{"hosts": "all", "gather_facts": False, "roles": roles, "handlers": handlers}])

    def template(self, name: str, text: str) -> None:
        (self.role / "templates" / name).write_text(text)

    def tasks(self, entries: str) -> None:
        listed = "\n".join(f"      {line}" for line in entries.strip().splitlines())
        (self.role / "tasks" / "main.yml").write_text(
            "- name: Files\n  bedplate.cluster.files:\n    manifest: demo\n"
            f'    state_directory: "{{{{ state }}}}"\n    files:\n{listed}\n  notify: {json.dumps(HANDLERS)}\n'
        )

    def run(self, *arguments: str) -> Run:
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")},
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
            "ANSIBLE_HOME": str(self.base / "ansible"),
            "ANSIBLE_REMOTE_TEMP": str(self.base / "remote"),
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_INJECT_INVOCATION": "true",
            "ANSIBLE_NOCOLOR": "true",
            "LC_ALL": "C.UTF-8",
        }
        done = subprocess.run(
            [ANSIBLE_PLAYBOOK, "-v", "-i", "hosts.json", "play.json", *arguments],
            cwd=self.base,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return Run(done.returncode, done.stdout + done.stderr)

    def written(self) -> dict[str, tuple[int, int]]:
        """Return everything on the nodes with what tells a write."""
        paths = [path for name in ("nodes", "state", "remote") for path in (self.base / name).rglob("*")]
        return {str(path): (path.lstat().st_ino, path.lstat().st_ctime_ns) for path in paths}


@dataclass(frozen=True)
class Story:
    """A node from its first run on."""

    site: Site
    check: Run
    after_check: list[Path]
    first: Run
    again: Run
    written: tuple[dict[str, tuple[int, int]], dict[str, tuple[int, int]]]
    edited: Run


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    site = Site(tmp_path_factory.mktemp("files"))
    site.template(
        "one.conf.j2", "# {{ ansible_managed }}\none {{ word }} {{ inventory_hostname }} {{ template_path }}\n"
    )
    (site.role / "files" / "big").write_bytes(BIG)
    site.tasks(ENTRIES)
    check = site.run("--check", "--diff")
    after_check = [path for path in (site.nodes, site.base / "state", site.secrets) if path.exists()]
    first = site.run("--diff", "-vv")
    before = site.written()
    again = site.run()
    written = (before, site.written())
    site.template("one.conf.j2", "edited\n")
    site.tasks("\n".join(line for line in ENTRIES.splitlines() if "db.conf" not in line))
    return Story(site, check, after_check, first, again, written, site.run("--diff"))


def test_check_on_a_fresh_node_writes_nothing_and_predicts_the_run(story: Story) -> None:
    assert story.check.code == 0, story.check.output
    assert story.after_check == []
    for key in ("changed_files", "removed", "kept", "notify"):
        assert story.check.result()[key] == story.first.result()[key]
    assert story.check.handlers == story.first.handlers


def test_the_first_run_writes_all(story: Story) -> None:
    assert story.first.code == 0, story.first.output
    node = story.site.nodes / "h0"
    names = ["etc", "etc/one.conf", "etc/two.conf", "etc/key", "etc/db.conf", "etc/big", "spool", "link"]
    expected = [story.site.nodes, node, *(node / name for name in names)]
    assert story.first.result()["changed_files"] == [str(path) for path in expected]
    assert (node / "etc/two.conf").read_text() == "two of all"
    assert (node / "etc/key").read_bytes() == (story.site.secrets / "munge_key").read_bytes()
    assert (node / "etc/big").read_bytes() == BIG


def test_a_second_run_writes_nothing_and_notifies_nobody(story: Story) -> None:
    assert story.again.code == 0, story.again.output
    assert story.again.result()["changed"] is False
    assert story.written[0] == story.written[1]
    assert story.again.handlers == []


def test_only_the_handlers_of_changed_files_run(story: Story) -> None:
    assert story.first.handlers == ["Restart one", "Restart one too", "Restart two", "Restart key"]
    assert story.edited.handlers == ["Restart one"]


def test_the_diff_shows_content_but_no_secret(story: Story) -> None:
    assert "-one of all h0 one.conf.j2\n+edited\n" in story.edited.output
    # Of the key and the file with the password, before and after.
    assert len(re.findall(r"^[-+].*\bsensitive\b", story.first.output, re.MULTILINE)) >= 2


def test_a_file_no_longer_wanted_goes(story: Story) -> None:
    path = story.site.nodes / "h0/etc/db.conf"
    assert story.edited.result()["removed"] == [str(path)]
    assert not path.exists()


def test_no_output_holds_a_secret(story: Story) -> None:
    password = (story.site.secrets / "db").read_text()
    key = (story.site.secrets / "munge_key").read_bytes()
    for run in (story.check, story.first, story.again, story.edited):
        assert password not in run.output
        assert base64.b64encode(key).decode()[:60] not in run.output
        assert repr(key)[2:30] not in run.output
    # A payload that is shown would be a word of two million letters.
    assert max(len(word) for word in story.first.output.split()) < 1000
    assert '"payload": "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"' in story.first.output


def test_a_cluster_template_is_rendered_once_for_all_hosts(tmp_path: Path) -> None:
    site = Site(tmp_path, hosts=10)
    site.template(
        "c.j2", "{{ lookup('ansible.builtin.pipe', 'echo >> " + f"{tmp_path}/count" + "; date +%N') }} {{ word }}\n"
    )
    site.tasks('- {path: "{{ node }}/c.conf", template: c.j2, scope: cluster}')
    run = site.run("--forks", "5")
    assert run.code == 0, run.output
    assert (tmp_path / "count").read_text() == "\n"
    contents = {(site.nodes / f"h{number}" / "c.conf").read_text() for number in range(10)}
    assert len(contents) == 1
    assert contents.pop().endswith(" of all\n")


def test_a_cluster_template_is_rendered_anew_for_other_parameters_of_its_role(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.play({"role": "demo", "word": "first"}, {"role": "demo", "word": "second"})
    site.template("c.j2", "{{ word }}\n")
    site.tasks('- {path: "{{ node }}/c.conf", template: c.j2, scope: cluster}')
    run = site.run()
    assert run.code == 0, run.output
    assert (site.nodes / "h0/c.conf").read_text() == "second\n"


def test_a_cluster_template_has_no_variables_of_a_host(tmp_path: Path) -> None:
    site = Site(tmp_path)
    names = ["inventory_hostname", "of_host", "ansible_facts", "ansible_host", "hostvars", "group_names"]
    for name in names:
        site.template(f"{name}.j2", f"{{{{ {name} }}}}\n")
    site.tasks("\n".join(f'- {{path: "{{{{ node }}}}/{name}", template: {name}.j2, scope: cluster}}' for name in names))
    run = site.run()
    assert run.code != 0
    for name in names:
        assert f"{name}.j2: " in run.output
        assert f"'{name}' is undefined" in run.output
    assert run.output.count("scope: cluster") >= len(names)
    assert not site.nodes.exists()


def test_all_mistakes_come_at_once_and_before_any_connection(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.tasks("""
- {path: /etc/a, content: x, contents: y}
- {path: /etc/b, content: x, template: y.j2}
- {path: /etc/c}
- {path: etc/d, content: x}
- {path: /etc/e, content: x, mode: 644}
- {path: /etc/f, content: x, notify: Restart nobody}
- {path: /etc/g, content: x}
- {path: /etc/g, content: y}
- {path: /etc/h, content: x, validate: "visudo -c"}
""")
    run = site.run("-e", "ansible_connection=ssh", "-e", "ansible_host=127.0.0.1", "-e", "ansible_port=1")
    assert run.code == 2
    assert "UNREACHABLE" not in run.output
    for text in (
        r"files\[0\] /etc/a: .*'contents'.* 'content'",
        r"files\[1\] /etc/b: .*content and template",
        r"files\[2\] /etc/c: .*content",
        r"files\[3\] etc/d: .*path",
        r"files\[4\] /etc/e: mode 644;",
        r"files\[5\] /etc/f: notify .*'Restart nobody'",
        r"/etc/g: .*\b2\b",
        r"files\[8\] /etc/h: validate 'visudo -c';",
    ):
        assert re.search(text, run.output)
