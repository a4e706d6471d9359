"""No secret that bedplate.cluster.files or bedplate.cluster.deploy writes is shown anywhere, however much is asked to be shown."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ansible_runner
import pytest
import yaml

from tests.kit.packed import readable

ROOT = Path(__file__).parents[4]
pytestmark = pytest.mark.playbooks
BIN = Path(sys.executable).parent
SECRET = "Xq7-the-secret-content"
# Hashes hardly compress: two megabytes stay a megabyte and more on the wire.
BIG = "".join(f"{hashlib.sha256(str(number).encode()).hexdigest()}\n" for number in range(30_000))
ENVIRONMENT = {
    "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
    "PATH": f"{BIN}:{os.environ['PATH']}",
    "BEDPLATE_REPORT": os.environ.get("BEDPLATE_REPORT", ""),
}


@dataclass
class Site:
    """A playbook with one task, and a directory that stands for the node."""

    base: Path
    plugin: str

    @property
    def node(self) -> Path:
        return self.base / "node"

    @property
    def secrets(self) -> list[str]:
        return [SECRET, *(path.read_text() for path in (self.base / "secrets").iterdir())]

    def write(self, name: str, text: str) -> None:
        path = self.base / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def prepare(self, files: dict[str, dict[str, Any]]) -> None:
        arguments = {
            "manifest": "demo",
            "state_directory": f"{self.base}/state",
            "files": [{"path": f"{self.node}/{name}", **entry} for name, entry in files.items()],
        }
        if self.plugin == "bedplate.cluster.deploy":
            source = {
                "path": f"{self.node}/source",
                "content": "password @mark@\n",
                "secrets": {"@mark@": "source_secret"},
            }
            arguments["sources"] = [source]
        play = {"hosts": "all", "gather_facts": False, "tasks": [{self.plugin: arguments}]}
        variables = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "bedplate_secrets_dir": f"{self.base}/secrets",
        }
        (self.base / "secrets").mkdir(mode=0o700, exist_ok=True)
        password = self.base / "secrets/source_secret"
        if not password.exists():
            password.touch(0o600)
            password.write_text(f"{SECRET} of a source")
        self.write("hosts.yml", yaml.safe_dump({"all": {"vars": variables, "hosts": {"n0": {}}}}))
        self.write("play.yml", yaml.safe_dump([play]))

    def play(self, files: dict[str, dict[str, Any]], **environment: str) -> subprocess.CompletedProcess[str]:
        self.prepare(files)
        return subprocess.run(
            [str(BIN / "ansible-playbook"), "-i", "hosts.yml", "play.yml", "--diff", "-vvvvv"],
            cwd=self.base / "project",
            env={**os.environ, **ENVIRONMENT, **environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


def test_what_is_packed_is_seen():
    word = base64.b64encode(zlib.compress(f"{BIG[:200]} {SECRET}".encode())).decode()
    assert SECRET in readable(f"... {word!r} ...")


@pytest.fixture(params=["files", "deploy"])
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Site:
    return Site(tmp_path, f"bedplate.cluster.{request.param}")


@pytest.mark.ansible_core
def test_no_output_shows_a_secret(site: Site):
    """Without pipelining, where the payload travels as a file, and with all that Ansible can say."""
    site.write("templates/pw.j2", "{{ lookup('bedplate.cluster.secret', 'in_template') }}" + SECRET)
    site.write("files/plain", SECRET)
    site.write("files/big", BIG)
    files = {
        "whole": {"secret": "whole_secret", "mode": "0400"},
        "template": {"template": "pw.j2", "sensitive": True},
        "src": {"src": "plain", "secret": True, "validate": "cat %s"},
        "big": {"src": "big"},
    }
    done = site.play(files, ANSIBLE_PIPELINING="false", ANSIBLE_DEBUG="true")
    assert done.returncode == 0, done.stdout[-3000:]
    assert (site.node / "whole").read_text() in site.secrets
    assert (site.node / "template").read_text().endswith(SECRET)
    assert (site.node / "template").stat().st_mode & 0o777 == 0o600
    assert (site.node / "big").read_text() == BIG

    site.write("files/plain", f"{SECRET} 2")
    refused = site.play({**files, "src": {"src": "plain", "secret": True, "validate": "grep -c nothing %s"}})
    assert refused.returncode == 2
    assert "ended with 1" in refused.stdout

    said = readable("".join([done.stdout, done.stderr, refused.stdout, refused.stderr]))
    for secret in site.secrets:
        assert len(secret) > 10
        assert secret not in said


def test_no_artifact_of_ansible_runner_holds_a_secret(site: Site):
    site.write("files/plain", SECRET)
    site.prepare({"whole": {"secret": "whole_secret", "mode": "0400"}, "src": {"src": "plain", "sensitive": True}})
    hosts = str(site.base / "project/hosts.yml")
    options = {"inventory": hosts, "cmdline": "--diff", "verbosity": 4, "quiet": True, "envvars": ENVIRONMENT}
    done = ansible_runner.run(private_data_dir=str(site.base), playbook="play.yml", **options)
    artifacts = [path for path in (site.base / "artifacts").rglob("*") if path.is_file()]
    text = readable("".join(path.read_text() for path in artifacts))
    assert done.rc == 0, text[-3000:]
    assert "sensitive" in text
    for secret in site.secrets:
        assert len(secret) > 10
        assert secret not in text
