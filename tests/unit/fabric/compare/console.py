"""A planted World on ibsim: nodes by the netfile, cables and GUIDs by the console, while it runs; asked by the real ibnetdiscover."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.discovery import CA, SWITCH, Discovery
from ansible_collections.bedplate.cluster.plugins.module_utils.fabric.ibnetdiscover import parse
from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import Plan
from tests.unit.fabric.compare.faulty import End, World

TOOLS = ("ibsim", "ibsim-run", "ibnetdiscover")
# ibsim's bits of widths and of speeds above QDR.
_WIDTHS = {"1x": 1, "4x": 2, "2x": 16}
_EXTENDED = {"EDR": 2, "HDR": 4}
_PROMPT = b"sim> "


def netfile(world: World) -> str:
    """Return the nodes of a world with the cables of its plan, which the console changes afterwards; GUIDs are the first ones."""
    planned = _planned(world.plan)
    # 1x, 2x and 4x; SDR to QDR; FDR10 to HDR.
    lines = ["width=19", "speed=7", "extspeed=7"]
    for name, node in world.nodes.items():
        word, about = ("switchguid", "Switch") if node.kind == SWITCH else ("caguid", "Ca")
        # Where there is nothing, ibsim takes the node's id.
        description = world.rename.get(name, node.description) or " "
        lines += ["", f"{word}=0x{node.guid}", f'{about} {node.ports} {_id(world, (name, 0), "")} # "{description}"']
        for port, far in sorted(planned.get(name, {}).items()):
            lines.append(f"[{port}] {_id(world, far)}{_rate(world, (name, port))}")
    return "\n".join(lines) + "\n"


def _planned(plan: Plan) -> dict[str, dict[int, End]]:
    found: dict[str, dict[int, End]] = {}
    for link in plan.present:
        for (name, port), far in (link.ends, link.ends[::-1]):
            found.setdefault(name, {})[port] = far
    return found


def _id(world: World, end: End, port: str = "[{}]") -> str:
    node = world.nodes[end[0]]
    return f'"{"S" if node.kind == SWITCH else "H"}-{node.guid}"' + port.format(end[1])


def _rate(world: World, end: End) -> str:
    """Return what a port is allowed to do, if that is less than planned."""
    cable = world.nodes[end[0]].cables.get(end[1])
    if not cable or (cable.width, cable.speed) == (world.plan.width, world.plan.speed):
        return ""
    speed = f" e={_EXTENDED[cable.speed]}" if cable.speed in _EXTENDED else " s=1 e=0"
    return f" w={_WIDTHS[cable.width]}{speed}"


def cables(world: World) -> set[frozenset[End]]:
    """Return all cables there are."""
    names = {node.guid: name for name, node in world.nodes.items()}
    return {
        frozenset(((name, port), (names[cable.guid], cable.port)))
        for name, node in world.nodes.items()
        for port, cable in node.cables.items()
    }


class Simulator:
    """One ibsim after the other: it is started again only where a world has other nodes than the last."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.process: subprocess.Popen[bytes] | None = None
        self.text = ""
        self.starts = self.commands = 0
        self.cables: set[frozenset[End]] = set()
        self.guids: dict[str, str] = {}

    def become(self, world: World) -> None:
        """Make the fabric that of a world."""
        text = netfile(world)
        if text != self.text:
            self.start(text)
            self.cables = {frozenset(link.ends) for link in world.plan.present}
            self.guids = {}
        wanted = cables(world)
        for cable in sorted(map(sorted, self.cables - wanted)):
            self.say(f"Unlink {_id(world, cable[0])}")
        for cable in sorted(map(sorted, wanted - self.cables)):
            self.say(f"Link {_id(world, cable[0])} {_id(world, cable[1])}")
        self.cables = wanted
        for name in sorted({*self.guids, *world.new_guid} & set(world.nodes)):
            guid = world.new_guid.get(name, world.nodes[name].guid)
            if self.guids.get(name, world.nodes[name].guid) != guid:
                self.say(f"Guid {_id(world, (name, 0), '')} 0x{guid}")
                self.say(f"Guid {_id(world, (name, 1))} 0x{int(guid, 16) + 1:016x}")
        self.guids = dict(world.new_guid)

    def start(self, text: str) -> None:
        self.stop()
        self.text = text
        self.starts += 1
        (self.directory / "net").write_text(text)
        self.name = f"faults{os.getpid()}-{self.starts}"
        self.process = subprocess.Popen(
            ["ibsim", "-s", "net"], cwd=self.directory, env={**os.environ, "IBSIM_SOCKNAME": self.name},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0,
        )  # fmt: skip
        self.answer()

    def stop(self) -> None:
        if self.process:
            self.process.kill()
            self.process.communicate()

    def say(self, command: str) -> None:
        """Give the console a command and wait until it has answered, which it does with nothing but the prompt if all is well."""
        assert self.process
        assert self.process.stdin
        self.commands += 1
        self.process.stdin.write(f"{command}\n".encode())
        said = self.answer()
        assert not re.search(r"(?i)err|fail|can.?t|bad|not |no ", said), f"{command}: {said}"

    def answer(self) -> str:
        assert self.process
        assert self.process.stdout
        said, end = b"", time.monotonic() + 20
        while not said.endswith(_PROMPT):
            some = self.process.stdout.read(4096)
            assert some, f"ibsim has ended: {said.decode(errors='replace')[-500:]}"
            assert time.monotonic() < end
            said += some
        return said[: -len(_PROMPT)].decode(errors="replace")

    def discover(self, world: World) -> dict[str, Discovery]:
        """Ask each plane from one of its HCAs; as fabric_facts does, complaints come behind what was found."""
        return {plane: parse(text.split("\n")) for plane, text in self.texts(world).items()}

    def texts(self, world: World) -> dict[str, str]:
        """Return plane -> what ibnetdiscover prints there, with its complaints."""
        found = {}
        for plane in world.plan.planes:
            start = _start(world, plane)
            environment = {**os.environ, "IBSIM_SOCKNAME": self.name, "SIM_HOST": _id(world, (start, 0), "").strip('"')}
            result = subprocess.run(
                ["timeout", "20", "ibsim-run", "ibnetdiscover"],
                cwd=self.directory, env=environment, capture_output=True, timeout=30, check=False,
            )  # fmt: skip
            said = [line for line in result.stderr.decode(errors="replace").split("\n") if line.strip()]
            found[plane] = "\n".join([result.stdout.decode(errors="replace"), *said])
        return found


def _start(world: World, plane: str) -> str:
    """Return an HCA whose cable is as planned, at the largest part of the plane."""
    by_guid = {node.guid: node for node in world.nodes.values()}
    at = world.start(plane, by_guid)
    part = world.parts(by_guid)[at.description]
    return next(
        link.a
        for link in world.links
        if link.a in part and world.nodes[link.a].kind == CA and world.plan.hcas[link.a].plane == plane
        and link.a not in world.new_guid and world.nodes[link.a].guid not in world.new_guid.values()
        and frozenset(link.ends) in cables(world)
    )  # fmt: skip


@contextmanager
def simulator(directory: Path) -> Iterator[Simulator]:
    """Run ibsim with its console."""
    one = Simulator(directory)
    try:
        yield one
    finally:
        one.stop()
