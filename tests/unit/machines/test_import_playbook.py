"""playbooks/import_machines.yml as an operator runs it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.kit.plays import play
from tests.unit.machines.sources.standing_server import standing

BASE = (Path(__file__).parents[1] / "cluster/base.yml").read_text()
pytestmark = pytest.mark.playbooks


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "lab.bedplate.yml").write_text(BASE)
        self.record = folder / "lab.machines.json"

    def run(self, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "m.csv").write_text(text)
        source = ["-e", f"import_from=csv:{self.folder / 'm.csv'}"]
        return play("-i", self.folder / "lab.bedplate.yml", "playbooks/import_machines.yml", *source, *arguments)


def recap(done: subprocess.CompletedProcess[str]) -> str:
    found = re.search(r"changed=([0-9]+)", done.stdout)
    return found[1] if found else done.stdout


def test_an_import_its_prediction_its_second_run_and_a_difference(tmp_path: Path):
    site = Site(tmp_path)
    text = "name,serial\ngpu01,S1\ngpu02,S2\n"
    predicted = site.run(text, "--check", "--diff")
    assert (predicted.returncode, recap(predicted), site.record.exists()) == (0, "1", False), predicted.stdout
    assert '+  "gpu01": {"serial": "S1"}' in predicted.stdout
    done = site.run(text)
    assert (done.returncode, recap(done)) == (0, "1"), done.stdout
    assert "S1" in site.record.read_text()
    before = site.record.stat()
    again = site.run(text)
    assert (again.returncode, recap(again), site.record.stat()) == (0, "0", before), again.stdout
    other = site.run(text.replace("S2", "S9"))
    assert other.returncode != 0
    assert "gpu02: serial: expected S2, found S9" in other.stdout
    assert site.record.stat() == before
    replaced = site.run(text.replace("S2", "S9"), "-e", "import_replace=gpu02", "--limit", "gpu02")
    assert replaced.returncode == 0, replaced.stdout
    assert '"S9"' in site.record.read_text()


def test_a_misspelt_variable_writes_nothing(tmp_path: Path):
    site = Site(tmp_path)
    done = site.run("name,serial\ngpu01,S1\n", "-e", "import_replaced=gpu01")
    assert done.returncode != 0
    assert "did you mean import_replace?" in done.stdout
    assert not site.record.exists()


def test_a_token_is_in_no_output(tmp_path: Path):
    site, token = Site(tmp_path), "nbt_canary.0123456789abcdef"
    (tmp_path / "token").write_text(token)
    devices = [{"id": 1, "name": "gpu01", "serial": "S1"}]
    with standing(tmp_path) as server:
        server.answer = lambda path, *_rest: (
            200,
            {"results": devices if path.endswith("/devices/") else [], "next": None},
        )
        options = {
            "import_from": f"netbox:{server.url}",
            "import_token_file": tmp_path / "token",
            "import_ca": server.ca,
        }
        arguments = [one for name, value in options.items() for one in ("-e", f"{name}={value}")]
        done = play(
            "-i",
            tmp_path / "lab.bedplate.yml",
            "playbooks/import_machines.yml",
            *arguments,
            "-vvvv",
            "--diff",
            no_proxy="*",
        )
    assert (done.returncode, recap(done)) == (0, "1"), done.stdout
    assert [headers["Authorization"] for _path, _query, headers in server.requests] == [f"Bearer {token}"] * 2
    assert "canary" not in done.stdout
    assert "canary" not in site.record.read_text()
