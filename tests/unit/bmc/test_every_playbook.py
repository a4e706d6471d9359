"""Each playbook from an export to an installed node: a prediction and a second run write nothing, and no secret is anywhere else."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ansible_runner
import pytest

from tests.kit import ROOT, canaries
from tests.unit.machines.sources.standing_server import Standing, standing
from tests.unit.provision.site import NODES, InstalledSite, services

pytestmark = [pytest.mark.playbooks, pytest.mark.tools("xorriso")]
# Other tests of this machine have other canaries in the arguments of their processes.
_THIS = secrets.token_hex(8)
FACTORY, OWN, NETBOX = f"factory-canary-{_THIS}", f"own-canary-{_THIS}", f"nbt_canary.{_THIS}"
SECRETS = (FACTORY, OWN, "canary-token-", NETBOX)
"""BMC passwords of the factory and of a machine's own account, the begin of each session token, and the token of NetBox."""
_SESSION = re.compile(r"(POST \S+/SessionService/Sessions|DELETE \S+/SessionService/Sessions/\d+|(GET|HEAD) \S+) \d+")

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Shop:
    """A site, and an export of its machines that needs a token."""

    folder: Path
    installed: InstalledSite
    netbox: Standing

    def imports(self) -> dict[str, Any]:
        """Return the variables of an import from NetBox."""
        token = self.folder / "netbox-token"
        return {
            "import_from": f"netbox:{self.netbox.url}",
            "import_token_file": str(token),
            "import_ca": self.netbox.ca,
        }


PLAYBOOKS: dict[str, Callable[[Shop], dict[str, Any]]] = {
    "import_machines": Shop.imports,
    "bmc_discover": lambda _shop: {"bmc_record": True},
    "bmc_commission": lambda _shop: {"bmc_nodes": "gpu[01-02]", "bmc_ntp": "10.0.0.1"},
    "firmware": lambda _shop: {},
    "bios": lambda _shop: {},
    "provision": lambda shop: shop.installed.variables,
    "power": lambda _shop: {"power": "off", "power_nodes": "gpu02", "power_graceful": 0},
}
"""Playbook -> its variables, in the order in which a site needs them."""
WRITES = ("bmc_commission", "provision", "power")
"""Playbooks whose first run writes to BMCs."""
READ_ONLY = ("firmware", "bios")
"""Playbooks that change nothing at all, the control node included, except for their report."""


@dataclass
class Ran:
    """The three runs of a playbook: a prediction, the run with -vvvv by ansible-runner, and the run after it."""

    outputs: list[str] = field(default_factory=list)
    codes: list[int] = field(default_factory=list)
    logs: list[list[str]] = field(default_factory=list)
    """Requests to all BMCs."""
    states: list[Any] = field(default_factory=list)
    """Power, boots and resets of all BMCs, and the record of machines, after each run."""


@dataclass
class Story:
    """All runs, and what was seen beside them."""

    shop: Shop
    ran: dict[str, Ran]
    processes: canaries.Processes
    folders: list[Path]

    @property
    def secrets(self) -> list[str]:
        """Return the secrets that are in no place but their own, with those that were made: accounts, and what machines have received."""
        received = [path.read_text().split("\n") for path in self.shop.installed.machines.glob("*.secrets")]
        # Accounts are USER:PASSWORD.
        files = (path for path in self.shop.installed.site.secrets.rglob("*") if path.is_file())
        made = {path.read_text().strip().partition(":")[2] for path in files} - {""}
        texts = {text for lines in [*received, made] for text in lines if text}
        return [*SECRETS, *sorted(texts - set(SECRETS))]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    base = tmp_path_factory.mktemp("story")
    folders = [base / name for name in ("services", "site", "runner", "report", "tmp", "netbox")]
    for folder in folders:
        folder.mkdir()
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("BEDPLATE_REPORT", str(base / "report"))
        patch.setenv("TMPDIR", str(base / "tmp"))
        given = stack.enter_context(services(base / "services"))
        installed = InstalledSite(base / "site", given)
        shop = Shop(base, installed, stack.enter_context(standing(base / "netbox")))
        prepare(shop)
        processes = stack.enter_context(canaries.Processes())
        yield Story(shop, {name: three_runs(shop, name) for name in PLAYBOOKS}, processes, folders)


def prepare(shop: Shop) -> None:
    """Write what a person writes: accounts, profiles and a token; no machine is on record."""
    site = shop.installed.site
    (shop.folder / "netbox-token").write_text(NETBOX)
    specs = {number: site.spec(node) for number, node in enumerate(NODES, start=1)}
    devices = [
        {"id": number, "name": node, "serial": specs[number]["serial"]} for number, node in enumerate(NODES, start=1)
    ]
    # Both NICs of a machine have a link; the tag says which one boots.
    nics = [
        {
            "id": number,
            "device": {"id": number},
            "name": "eno1",
            "mac_address": spec["nics"][0],
            "tags": [{"slug": "pxe"}],
        }
        for number, spec in specs.items()
    ]
    answers = {"devices": devices, "interfaces": nics}
    shop.netbox.answer = lambda path, *_rest: (
        200,
        {"results": answers.get(path.strip("/").rpartition("/")[2], []), "next": None},
    )
    site.record_file.unlink()
    site.secret("bmc_factory", f"root:{FACTORY}")
    site.secret("bmc/gpu01", f"root:{OWN}")
    for node, password in zip(NODES, (OWN, FACTORY), strict=True):
        site.bmcs[node].change(password=password)
    texts = {"firmware": "components: {BMC: '2.0.1', BIOS: '1.2.3'}\n"}
    texts["bios"] = "bios_version: '1.2*'\nattributes: {ProcHyperthreading: Enabled}\n"
    for folder, text in texts.items():
        (site.folder / folder).mkdir()
        (site.folder / folder / "sim.yml").write_text(text)
    shop.installed.write_cluster(firmware="sim", bios="sim")


def three_runs(shop: Shop, playbook: str) -> Ran:
    """Predict, run with all output by ansible-runner, and run again."""
    site, variables, ran = shop.installed.site, PLAYBOOKS[playbook](shop), Ran()

    def predict() -> subprocess.CompletedProcess[str]:
        return site.play(playbook, "--check", "--diff", **variables)

    def run() -> subprocess.CompletedProcess[str]:
        return by_runner(shop, playbook, variables)

    def again() -> subprocess.CompletedProcess[str]:
        return site.play(playbook, **variables)

    for one in (predict, run, again):
        site.forget()
        done = one()
        ran.outputs.append(done.stdout)
        ran.codes.append(done.returncode)
        found = {node: bmc.state() for node, bmc in site.bmcs.items()}
        ran.logs.append([line for state in found.values() for line in state["log"]])
        kept = [{key: state[key] for key in ("power", "boots", "resets", "boot", "media")} for state in found.values()]
        ran.states.append((kept, site.record_file.read_text() if site.record_file.exists() else ""))
    return ran


def by_runner(shop: Shop, playbook: str, variables: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run a playbook with -vvvv by ansible-runner, which keeps artifacts of it."""
    site = shop.installed.site
    ssh = {name: value for name, value in shop.installed.variables.items() if name.startswith("ansible_ssh_")}
    # It would keep the variables of the playbook before.
    (shop.folder / "runner/env/extravars").unlink(missing_ok=True)
    done = ansible_runner.run(
        private_data_dir=str(shop.folder / "runner"),
        ident=playbook,
        playbook=str(ROOT / f"playbooks/{playbook}.yml"),
        inventory=str(site.cluster_file),
        # By SSH, which shows with -vvv what modules print.
        extravars={**site.variables(playbook, **variables), **ssh, "ansible_connection": "ssh"},
        verbosity=4,
        quiet=True,
        envvars={
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / "collections"),
            "ANSIBLE_CALLBACKS_ENABLED": "bedplate.cluster.report",
            "PATH": f"{site.programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
    )
    return subprocess.CompletedProcess([playbook], done.rc, _COLOUR.sub("", done.stdout.read()), "")


def _a_prediction_reads_only_and_a_second_run_changes_nothing(playbook: str, story: Story) -> None:
    ran = story.ran[playbook]
    assert ran.codes == [0, 0, 0], "\n".join(ran.outputs)
    for log in (ran.logs[0], ran.logs[2]):
        assert [line for line in log if not _SESSION.fullmatch(line)] == []
    before, first, second = (_changed(text) for text in ran.outputs)
    assert second == 0, ran.outputs[2]
    assert (before > 0) == (first > 0) == (playbook not in READ_ONLY), ran.outputs[:2]
    assert ran.states[1] == ran.states[2]
    written = [line for line in ran.logs[1] if not _SESSION.fullmatch(line)]
    assert bool(written) == (playbook in WRITES)


def _a_prediction_changes_no_machine(story: Story) -> None:
    """The state before a prediction is the state after the playbook before it."""
    for before, after in zip(list(PLAYBOOKS)[:-1], list(PLAYBOOKS)[1:], strict=True):
        assert story.ran[before].states[2] == story.ran[after].states[0], after


def _changed(output: str) -> int:
    """Return the number of changed tasks of all hosts."""
    return sum(map(int, re.findall(r"\bchanged=(\d+)", output)))


def _the_nodes_are_installed(story: Story) -> None:
    installed = story.shop.installed
    for node in NODES:
        assert [line.split()[0] for line in installed.events(node)].count("write") == 1
    assert "State=IDLE\n" in installed.slurm
    assert "127.0.0" not in (installed.site.folder / "known_hosts").read_text()
    assert [bmc.state()["power"] for bmc in installed.site.bmcs.values()] == ["On", "Off"]


def _no_secret_is_beside_its_place(story: Story) -> None:
    known, host = story.secrets, story.shop.installed.host
    # A path of a medium, a token, and two lines of a private key for each node, and the password of gpu02's new account.
    assert len(known) == len(SECRETS) + 4 * len(NODES) + 1
    found = story.processes.having(known)
    for playbook, ran in story.ran.items():
        found += [line for text in ran.outputs for line in canaries.in_text(f"the output of {playbook}", text, known)]
    spared = [story.shop.installed.site.secrets, story.shop.installed.machines]
    # The provision host keeps the path of a medium with its order, so that a further run removes the medium.
    spared += (host.folder / "orders/orders").glob("*/note-medium")
    found += canaries.in_files(story.folders, known, spared)
    assert found == []


def _the_searched_places_have_something(story: Story) -> None:
    """A search in empty places would find nothing."""
    runner, host = story.shop.folder / "runner/artifacts", story.shop.installed.host
    for playbook in PLAYBOOKS:
        assert len(list((runner / playbook / "job_events").glob("*.json"))) > 5
    assert "SSH: EXEC" in story.ran["provision"].outputs[1]
    assert {path.stem for path in (host.folder / "states").glob("*.json")} == set(NODES)
    assert json.loads(host.log.read_text().splitlines()[-1])["status"] == 200
    assert list((story.shop.folder / "report").rglob("*.json"))
    assert {path.stem for path in story.shop.installed.site.reports.glob("*.json")} >= {"bmc_discover", *READ_ONLY}
    assert any("xorriso" in words for words in story.processes.seen)


def test_every_playbook(story: Story) -> None:
    """All in one test: processes of pytest-xdist would each run the story."""
    for playbook in PLAYBOOKS:
        _a_prediction_reads_only_and_a_second_run_changes_nothing(playbook, story)
    _a_prediction_changes_no_machine(story)
    _the_nodes_are_installed(story)
    _the_searched_places_have_something(story)
    _no_secret_is_beside_its_place(story)


def test_a_leak_is_found(tmp_path: Path) -> None:
    """Each kind of place that is searched, with a leak in it."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/log").write_bytes(b"\0\xff.." + OWN.encode())
    (tmp_path / "a/canary-token-1.json").write_text("")
    assert canaries.in_files([tmp_path], SECRETS) == [
        f"canary-token- in {tmp_path}/a/canary-token-1.json",
        f"{OWN} in {tmp_path}/a/log",
    ]
    assert canaries.in_files([tmp_path], SECRETS, [tmp_path / "a"]) == []
    sleep = shutil.which("sleep")
    with canaries.Processes() as processes:
        subprocess.run(["sh", "-c", f"{sleep} 0.3 # {NETBOX}"], check=True)
    assert len(processes.having(SECRETS)) >= 1
