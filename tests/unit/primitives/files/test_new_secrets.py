"""A lost directory of secrets gives a running cluster no new keys: real runs of ansible-playbook on stand-ins for nodes."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kit.plays import play

pytestmark = pytest.mark.playbooks
NEW = ("-e", "bedplate_new_secrets=true")


@dataclass(frozen=True)
class Run:
    """How a run ended, and what was on the nodes then."""

    code: int
    output: str
    files: dict[str, bytes]

    @property
    def keys(self) -> list[bytes]:
        return [content for name, content in self.files.items() if name.endswith("/key")]

    @property
    def text(self) -> str:
        return " ".join(self.output.split())

    def changed(self, host: str) -> bool:
        return f"changed: [{host}]" in self.output


class Site:
    """A playbook that writes a key and another file on each of two nodes."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.secrets = base / "secrets"
        self.word = 0
        variables = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "bedplate_secrets_dir": str(self.secrets),
        }
        self.hosts = {"all": {"vars": variables, "hosts": {"h0": {}, "h1": {}}}}
        arguments = {
            "manifest": "demo",
            "state_directory": f"{base}/state/{{{{ inventory_hostname }}}}",
            "files": [
                {"path": f"{base}/nodes/{{{{ inventory_hostname }}}}/conf", "content": "{{ word }}"},
                {"path": f"{base}/nodes/{{{{ inventory_hostname }}}}/key", "secret": "munge_key", "mode": "0400"},
            ],
        }
        entry = {"hosts": "all", "gather_facts": False, "tasks": [{"bedplate.cluster.files": arguments}]}
        (base / "play.json").write_text(json.dumps([entry]))

    def run(self, *arguments: str) -> Run:
        """Run with a new word, so that every run has something to write."""
        self.word += 1
        (self.base / "hosts.json").write_text(json.dumps(self.hosts))
        done = play("-i", "hosts.json", "play.json", "-e", f"word={self.word}", *arguments, cwd=self.base)
        nodes = self.base / "nodes"
        files = {str(path.relative_to(nodes)): path.read_bytes() for path in sorted(nodes.rglob("*")) if path.is_file()}
        return Run(done.returncode, done.stdout, files)

    def lose(self) -> None:
        self.secrets.rename(self.base / "lost")


@dataclass(frozen=True)
class Story:
    """A cluster whose directory of secrets is lost, twice."""

    site: Site
    runs: dict[str, Run]
    made_by_check: bool


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    site = Site(tmp_path_factory.mktemp("site"))
    runs = {"fresh": site.run()}
    (site.secrets / "munge_key").unlink()
    runs["rotated"] = site.run("--limit", "h0")
    # This one was down meanwhile.
    runs["back"] = site.run("--limit", "h1")
    site.lose()
    runs["check"] = site.run("--check")
    made_by_check = site.secrets.exists()
    # A node that is new takes whatever key there is, and makes the key no more right for the others.
    site.hosts["all"]["hosts"] = {"a_new_one": {}, "h0": {}, "h1": {}}
    runs["lost"] = site.run("--forks", "1")
    runs["lost again"] = site.run()
    shutil.rmtree(site.secrets)
    (site.base / "lost").rename(site.secrets)
    site.hosts["all"]["hosts"] = {"h0": {}, "h1": {}}
    runs["restored"] = site.run()
    site.lose()
    runs["misspelt"] = site.run("-e", "bedplate_new_secrets=yess")
    runs["on purpose, check"] = site.run("--check", *NEW)
    runs["on purpose"] = site.run(*NEW)
    runs["after"] = site.run()
    return Story(site, runs, made_by_check)


def test_a_fresh_cluster_gets_one_key_everywhere(story: Story) -> None:
    run = story.runs["fresh"]
    assert run.code == 0, run.output
    assert len(run.keys) == 2
    assert len(set(run.keys)) == 1


def test_a_secret_that_was_removed_is_replaced_also_on_a_node_that_was_down(story: Story) -> None:
    for name in ("rotated", "back"):
        assert story.runs[name].code == 0, story.runs[name].output
    before, rotated, back = (story.runs[name].files for name in ("fresh", "rotated", "back"))
    assert rotated["h0/key"] != before["h0/key"]
    assert rotated["h1/key"] == before["h1/key"]
    assert back["h1/key"] == back["h0/key"] == rotated["h0/key"]


@pytest.mark.parametrize("name", ["check", "lost", "lost again"])
def test_without_its_directory_a_node_keeps_all_it_has(story: Story, name: str) -> None:
    run = story.runs[name]
    assert run.code == 2
    for host in ("h0", "h1"):
        assert f"fatal: [{host}]: FAILED!" in run.output
        assert {kind: run.files[f"{host}/{kind}"] for kind in ("key", "conf")} == {
            "key": story.runs["back"].files[f"{host}/key"],
            "conf": story.runs["rotated" if host == "h0" else "back"].files[f"{host}/conf"],
        }
    user = os.environ.get("USER") or f"uid {os.getuid()}"
    for said in (
        f"{story.site.base}/nodes/h0/key: bedplate wrote this munge_key, but not from the secrets directory "
        f"{story.site.secrets} of {user} on {os.uname().nodename}, which has never had it",
        "Restore the directory, or copy munge_key into it",
        "run with -e bedplate_new_secrets=true",
    ):
        assert said in run.text


def test_check_mode_refuses_and_makes_nothing(story: Story) -> None:
    assert story.runs["check"].code == 2
    assert not story.made_by_check


def test_a_node_that_is_new_gets_a_key_and_the_others_still_refuse_it(story: Story) -> None:
    for name in ("lost", "lost again"):
        run = story.runs[name]
        assert run.changed("a_new_one"), run.output
        assert run.files["a_new_one/key"] not in (run.files["h0/key"], run.files["h1/key"])


def test_with_the_directory_back_all_goes_on(story: Story) -> None:
    run = story.runs["restored"]
    assert run.code == 0, run.output
    assert run.files["h0/key"] == story.runs["back"].files["h0/key"]


def test_new_secrets_on_purpose_reach_all(story: Story) -> None:
    assert story.runs["on purpose, check"].code == 0, story.runs["on purpose, check"].output
    run = story.runs["on purpose"]
    assert run.code == 0, run.output
    assert run.files["h0/key"] == run.files["h1/key"] != story.runs["restored"].files["h0/key"]
    assert story.runs["after"].code == 0, story.runs["after"].output
    assert story.runs["after"].files["h0/key"] == run.files["h0/key"]


def test_a_misspelt_purpose_is_none(story: Story) -> None:
    run = story.runs["misspelt"]
    assert run.code == 2
    assert "bedplate_new_secrets 'yess'" in run.text
    assert run.files == story.runs["restored"].files
