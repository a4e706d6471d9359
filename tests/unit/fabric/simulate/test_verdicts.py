"""The verdict of a proof by what OpenSM, ibdmchk and slurmctld say: each of them alone turns it red. Nothing is simulated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from types import SimpleNamespace

import pytest

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.opensm.opensm_options import DEFAULTS
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate import (
    engine_trials,
    routing_proof,
    slurm_proof,
)
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.engine_trials import best, trials
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.simulate.routing_proof import RoutingProof, prove
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.topology.slurm_topology import shown, tree
from tests.unit.fabric.simulate.gate import SMALL, made, texts
from tests.unit.fabric.simulate.test_opensm_dumps import END

# Without tenants and storage no port is queried.
PLAN = replace(SMALL, partitions=[])
LOG = "x ucast_mgr_process: ftree tables configured on all switches\nx SUBNET UP\n"
CHECKED = "-I- no credit loops found\n"


def dumps(plan: Plan) -> tuple[str, str]:
    """Return opensm-subnet.lst and opensm.fdbs of even routes: the n-th HCA of a leaf is reached over the n-th spine."""
    lids = {name: number for number, name in enumerate((*plan.switches, *plan.hcas), 1)}

    def end(name: str, port: int) -> str:
        switch = plan.switches.get(name)
        guid = switch.guid if switch else plan.hcas[name].port_guid
        kind = f"SW Ports:{switch.ports:X}" if switch else "CA Ports:01"
        return f"{{ {kind} {END.format(guid, name, f'{lids[name]:04X}', f'{port:02X}')}"

    lines = [f"{end(link.a, link.a_port)} {end(link.b, link.b_port)} PHY=4x LOG=ACT SPD=50" for link in plan.links]
    at = {link.a: (link.b, link.b_port) for link in plan.links if link.a in plan.hcas}
    up = {(link.a, link.b): link for link in plan.links if link.a in plan.switches}
    spines = [one.name for one in plan.switches.values() if one.tier == 2]
    tables = []
    for one in plan.switches.values():
        tables.append(f"dump_ucast_routes: Switch 0x{one.guid}")
        for name, (leaf, port) in at.items():
            if one.tier == 2:
                out = up[leaf, one.name].b_port
            else:
                out = port if leaf == one.name else up[one.name, spines[port % len(spines)]].a_port
            tables.append(f"0x{lids[name]:04X} : {out:03}  : 01   : yes")
    return "\n".join(lines) + "\n", "\n".join(tables) + "\n"


SUBNET, TABLES = dumps(PLAN)
# The first switch has no way to the last HCA.
LOST = re.sub(r"(?m)^(0x\w+ : )\d+(  : 01   : yes\ndump_ucast)", r"\g<1>255\2", TABLES, count=1)


def replayed(log: str, tables: str, printed: str = "") -> Callable[..., AbstractContextManager[SimpleNamespace]]:
    """Return a simulation in which OpenSM says and writes what is given."""
    written = {"opensm-subnet.lst": SUBNET, "opensm.fdbs": tables}

    @contextmanager
    def simulated(*_given: object, **_more: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(
            opensm=lambda: (log, printed), text=lambda name: written.get(name, ""), environment={}, run=str
        )

    return simulated


def judged(
    monkeypatch: pytest.MonkeyPatch, log: str = LOG, tables: str = TABLES, checked: str = CHECKED, printed: str = ""
) -> RoutingProof:
    """Return the verdict on what the tools say."""
    monkeypatch.setattr(routing_proof, "missing_tools", lambda: "")
    monkeypatch.setattr(routing_proof, "simulated", replayed(log, tables, printed))
    monkeypatch.setattr(routing_proof, "execute", lambda *_given: checked)
    return prove(PLAN, "", made(PLAN), compare=False)


def test_what_is_right_is_proved(monkeypatch: pytest.MonkeyPatch):
    found = judged(monkeypatch)
    assert texts(found) == ""
    assert found.summary.startswith("proved: ftree routes 16 HCAs over 8 switches, busiest link 1.00 times the mean")


# What the tools say -> the kind of the finding, and a part of it.
SAID: dict[str, tuple[dict[str, str], str, str]] = {
    "the subnet is not up": ({"log": LOG.replace("SUBNET UP", "")}, routing_proof.SUBNET, "does not say SUBNET UP"),
    "an error": ({"log": f"{LOG}x ERR 7505: no\n"}, routing_proof.LOG, "OpenSM reports 1 error: ERR 7505: no"),
    "partitions are dropped": (
        {"log": f"{LOG}x Partition configuration in error; retrying with default config\n"},
        routing_proof.LOG, "OpenSM drops partitions.conf",
    ),
    "an unknown option": ({"printed": ' Unrecognized token: "lmcc"\n'}, routing_proof.LOG, "does not know the option lmcc"),
    "another engine": ({"log": LOG.replace("ftree", "updn")}, routing_proof.ENGINE, "engine ftree, found updn"),
    "no engine": ({"log": "x SUBNET UP\n"}, routing_proof.ENGINE, "engine ftree, found none"),
    "a dead end": ({"checked": f"Dead end at: s1\n{CHECKED}"}, routing_proof.LOOPS, "ibdmchk finds 1 dead end"),
    "a credit loop": ({"checked": "credit loops in routing\n"}, routing_proof.LOOPS, "ibdmchk finds credit loops"),
    "no forwarding tables": ({"tables": ""}, routing_proof.SUBNET, "OpenSM leaves no forwarding tables, so nothing was measured"),
    "nothing of ibdmchk": ({"checked": ""}, routing_proof.LOOPS, "ibdmchk gives no verdict: it says nothing"),
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_each_sign_alone_turns_the_verdict_red(monkeypatch: pytest.MonkeyPatch, name: str):
    said, kind, text = SAID[name]
    found = judged(monkeypatch, **said)
    assert {one.kind for one in found.findings} == {kind}
    assert text in texts(found, kind)


def test_a_pair_without_a_way_turns_the_verdict_red(monkeypatch: pytest.MonkeyPatch):
    lost = judged(monkeypatch, tables=LOST)
    assert "cannot reach each other" in texts(lost, routing_proof.ROUTES)


@pytest.mark.parametrize(
    ("log", "tables", "obstacle"),
    [
        (LOG, TABLES, ""),
        (LOG.replace("ftree", "minhop"), TABLES, "refuses the fabric, and OpenSM takes minhop"),
        ("x SUBNET UP\n", TABLES, "refuses the fabric, and OpenSM takes none"),
        (LOG, LOST, "leaves 4 pairs of HCAs without a way"),
        (LOG, "", "cannot be tried: these are not forwarding tables"),
    ],
    ids=["usable", "another engine", "no engine", "no way", "no tables"],
)
def test_an_engine_that_did_not_route_is_no_better_one(
    monkeypatch: pytest.MonkeyPatch, log: str, tables: str, obstacle: str
):
    monkeypatch.setattr(engine_trials, "ENGINES", ("ftree",))
    monkeypatch.setattr(engine_trials, "simulated", replayed(log, tables))
    (found,) = trials(PLAN, "", PLAN.managers[0], DEFAULTS, 1)
    assert found.obstacle.startswith(obstacle)
    assert best([found]) == (None if obstacle else found)


def test_errors_of_a_topology_that_slurmctld_takes_are_findings(monkeypatch: pytest.MonkeyPatch):
    topology = tree(SMALL)
    lines = [
        f"SwitchName={name} Level={level} Nodes={nodes} Switches={below}"
        for name, (level, nodes, below) in shown(topology).items()
    ]
    for errors in ([], ["error: topology.conf: no such node"]):
        trial = SimpleNamespace(tested=True, accepted=True, topology=lines, errors=errors, message="")
        monkeypatch.setattr(slurm_proof.config_trial, "run", lambda *_files, trial=trial, **_more: trial)
        found = slurm_proof.prove_topology("", shown(topology), topology.options)
        assert [one.found for one in found] == errors


def test_blocks_that_a_slurmctld_which_knows_them_refuses_are_a_finding(monkeypatch: pytest.MonkeyPatch):
    trial = SimpleNamespace(
        tested=True, accepted=False, version="24.11", topology=[], errors=[], message="no such block"
    )
    monkeypatch.setattr(slurm_proof.config_trial, "run", lambda *_files, **_more: trial)
    (found,), word = slurm_proof.prove_blocks("", {"b1": "n[1-2]"}, {})
    assert (found.kind, found.found, word) == ("slurm", "no such block", "")
