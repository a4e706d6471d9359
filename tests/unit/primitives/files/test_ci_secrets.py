"""Secrets from `bedplate_secrets` in CI: ansible-runner with an empty home directory each time, on stand-ins for nodes."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ansible_runner
import pytest
import yaml

from tests.unit.primitives.files.test_secrecy import readable

ROOT = Path(__file__).parents[4]
BIN = Path(sys.executable).parent
pytestmark = pytest.mark.playbooks
KEY, OTHER = bytes(range(256)), bytes(reversed(range(256)))
PASSWORD, FROM_VAULT = "Xq7-from-the-environment", "Zr9-from-a-vault"


@dataclass(frozen=True)
class Run:
    code: int
    stats: dict[str, dict[str, int]]
    # All that ansible-runner keeps of the run, except `command`, into which it writes the environment of its caller.
    text: str
    home: list[str]


class Site:
    """A node of a local connection, whose files hold each form of a secret."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.count = 0
        (base / "project").mkdir()
        (base / "password").write_text("opens the vault")
        (base / "munge.key").write_bytes(KEY)
        (base / "munge.key").chmod(0o400)
        encrypted = subprocess.run(
            [BIN / "ansible-vault", "encrypt_string", "--vault-password-file", base / "password", FROM_VAULT, "--name", "vaulted"],
            capture_output=True, text=True, check=True, env=self.environment(base / "vault home"),
        )  # fmt: skip
        self.variables = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "bedplate_cluster": "pod",
            "bedplate_secrets_make": False,
            "bedplate_secrets": {
                "munge_key": {"file": str(base / "munge.key")},
                "jwt_key": {"base64": base64.b64encode(OTHER).decode()},
                "token": "{{ lookup('env', 'CI_TOKEN') }}",
                "vaulted": "{{ vaulted }}",
            },
        }
        self.encrypted = encrypted.stdout
        node = f"{base}/node"
        files = [
            {"path": f"{node}/munge.key", "secret": "munge_key", "mode": "0400"},
            {"path": f"{node}/jwt.key", "secret": "jwt_key", "mode": "0400"},
            {"path": f"{node}/token", "content": "t=@token@\n", "secrets": {"@token@": "token"}},
            {
                "path": f"{node}/vaulted",
                "content": "v={{ lookup('bedplate.cluster.secret', 'vaulted') }}\n",
                "sensitive": True,
            },
        ]
        task = {"bedplate.cluster.files": {"manifest": "demo", "state_directory": f"{base}/state", "files": files}}
        (base / "project/play.yml").write_text(
            yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [task]}])
        )

    @staticmethod
    def environment(home: Path) -> dict[str, str]:
        home.mkdir(exist_ok=True)
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "XDG_", "BEDPLATE_"))
        }
        collections = {
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        }
        return {**kept, **collections, "HOME": str(home), "PATH": f"{BIN}:{os.environ['PATH']}"}

    def run(self, cmdline: str = "", **secrets: Any) -> Run:
        """Run with an empty home directory."""
        self.count += 1
        home = self.base / f"home{self.count}"
        variables = {**self.variables, "bedplate_secrets": {**self.variables["bedplate_secrets"], **secrets}}  # type: ignore[dict-item]
        inventory = self.base / "hosts.yml"
        inventory.write_text(yaml.safe_dump({"all": {"vars": variables, "hosts": {"n0": {}}}}))
        # A whole vault file would do as well.
        group = self.base / "group_vars"
        group.mkdir(exist_ok=True)
        (group / "all.yml").write_text(self.encrypted)
        done = ansible_runner.run(
            private_data_dir=str(self.base),
            playbook="play.yml",
            inventory=str(inventory),
            ident=str(self.count),
            cmdline=f"--diff --vault-password-file {self.base}/password {cmdline}",
            envvars={**self.environment(home), "CI_TOKEN": PASSWORD},
            verbosity=5,
            quiet=True,
        )
        artifacts = self.base / "artifacts" / str(self.count)
        kept = [path for path in artifacts.rglob("*") if path.is_file() and path.name != "command"]
        left = sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())
        text = "".join(path.read_text(errors="replace") for path in kept)
        return Run(done.rc, done.stats or {}, text, left)

    @property
    def files(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (self.base / "node").iterdir()}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("ci"))


@pytest.fixture(scope="module")
def runs(site: Site) -> tuple[Run, Run]:
    return site.run(), site.run()


def test_each_source_reaches_the_node(site: Site, runs: tuple[Run, Run]) -> None:
    assert runs[0].code == 0, runs[0].text[-3000:]
    assert site.files == {
        "munge.key": KEY,
        "jwt.key": OTHER,
        "token": f"t={PASSWORD}\n".encode(),
        "vaulted": f"v={FROM_VAULT}\n".encode(),
    }


def test_the_second_run_changes_nothing(runs: tuple[Run, Run]) -> None:
    assert runs[0].stats["changed"] == {"n0": 1}
    assert runs[1].code == 0, runs[1].text[-3000:]
    assert runs[1].stats["changed"] == {}
    assert runs[1].stats["ok"] == {"n0": 1}


def test_no_secret_is_in_the_artifacts_or_in_the_home(runs: tuple[Run, Run]) -> None:
    for run in runs:
        text = readable(run.text)
        assert "n0" in text
        for secret in (PASSWORD, FROM_VAULT, base64.b64encode(KEY).decode(), base64.b64encode(OTHER).decode()):
            assert secret not in text
        assert not [name for name in run.home if "bedplate" in name or "known" in name]


def test_another_key_is_refused_unless_on_purpose(site: Site, runs: tuple[Run, Run]) -> None:
    assert runs[1].code == 0
    before = site.files
    other = {"base64": base64.b64encode(OTHER).decode()}
    refused = site.run(munge_key=other)
    assert refused.code == 2
    assert "bedplate wrote another munge_key" in " ".join(refused.text.split())
    assert site.files == before
    listed = site.run(munge_key={**other, "replaces": [hashlib.sha256(KEY).hexdigest()]})
    assert listed.code == 0, listed.text[-3000:]
    assert site.files["munge.key"] == OTHER
    back = site.run("-e bedplate_new_secrets=true")
    assert back.code == 0, back.text[-3000:]
    assert site.files["munge.key"] == KEY


def test_a_missing_secret_is_not_made(site: Site, runs: tuple[Run, Run]) -> None:
    assert runs[1].code == 0
    before, values = site.files, site.variables["bedplate_secrets"]
    site.variables["bedplate_secrets"] = {name: one for name, one in values.items() if name != "jwt_key"}  # type: ignore[attr-defined]
    try:
        run = site.run()
    finally:
        site.variables["bedplate_secrets"] = values
    assert run.code == 2
    assert "secret jwt_key: not found in bedplate_secrets" in " ".join(run.text.split())
    assert site.files == before
    assert not [name for name in run.home if "jwt_key" in name]


def test_a_key_that_a_node_has_already_is_taken_over_as_it_is(tmp_path: Path) -> None:
    site = Site(tmp_path)
    (tmp_path / "node").mkdir()
    key = tmp_path / "node/munge.key"
    key.write_bytes(KEY)
    key.chmod(0o400)
    before = key.stat()
    run = site.run()
    assert run.code == 0, run.text[-3000:]
    after = key.stat()
    # Not written again, so nothing that reads it is restarted.
    assert (after.st_ino, after.st_mtime_ns, after.st_mode) == (before.st_ino, before.st_mtime_ns, before.st_mode)
