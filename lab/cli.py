# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands of the lab."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from lab import fabric, host, image, machines, nodes, scenarios, showcase, ssh
from lab.guest import commands as guest_commands
from lab.guest import image as guest_image
from lab.guest import machine as guests
from lab.paths import ROOT, ssh_config_of, state_of
from lab.podman import Podman
from lab.shell import LabError, say, stream
from lab.vendor import inventory as stand_ins

INVENTORY = ROOT / "inventories" / "lab"


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return the exit status."""
    options = _parser().parse_args(arguments)
    own_programs_first()
    os.environ.setdefault("BEDPLATE_REPORT", str(scenarios.LOGS / "report"))
    try:
        return int(options.run(options) or 0)
    except LabError as problem:
        print(f"\nlab: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "\nlab: interrupted. `make lab` continues where it was; `make lab-down` removes everything.",
            file=sys.stderr,
        )
        return 130


def own_programs_first() -> None:
    """Find ansible-playbook and molecule beside this Python: its environment need not be active."""
    if sys.prefix != sys.base_prefix:
        os.environ["PATH"] = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    up = commands.add_parser("up", help="boot the lab, run playbooks/site.yml on it, show the cluster at work")
    up.set_defaults(run=_up)
    down = commands.add_parser("down", help="remove the lab: containers, network, keys, secrets")
    down.add_argument(
        "--all", action="store_true", help="also every scenario's containers, the node image and the caches"
    )
    down.set_defaults(run=_down)
    commands.add_parser("status", help="nodes and their answers by SSH").set_defaults(run=_status)
    login = commands.add_parser("ssh", help="log in to a node, or run a command there")
    login.add_argument("--name", default="lab", help="another lab than `lab`")
    login.add_argument("node")
    login.add_argument("command", nargs=argparse.REMAINDER)
    login.set_defaults(run=_ssh)
    molecule = commands.add_parser("molecule", help="run molecule scenarios: named ones, or all except the long ones")
    molecule.add_argument("scenario", nargs="*")
    molecule.add_argument("--on-request", action="store_true", help="run the long scenarios")
    molecule.add_argument("--jobs", type=int, default=1, help="scenarios at a time; use one for long scenarios")
    molecule.add_argument("--keep", action="store_true", help="leave the nodes of a failed scenario for a look")
    molecule.add_argument("-v", "--verbose", action="store_true", help="molecule's output on the terminal, too")
    molecule.set_defaults(run=_molecule)

    create = commands.add_parser("create", help="only boot the machines of an inventory")
    create.add_argument("--inventory", type=Path, default=INVENTORY)
    create.add_argument("--name", default="lab")
    create.set_defaults(run=_create)
    destroy = commands.add_parser(
        "destroy", help="remove the machines of one lab, or of every lab and all guests of this checkout"
    )
    destroy.add_argument("--name", default="lab")
    destroy.add_argument("--every", action="store_true")
    destroy.set_defaults(run=_destroy)
    vendor = commands.add_parser(
        "vendor", help="only build the stand-ins for NVIDIA's packages of an inventory, and write their keys"
    )
    vendor.add_argument("--inventory", type=Path, default=INVENTORY)
    vendor.add_argument("--name", default="lab")
    vendor.set_defaults(run=_vendor)
    commands.add_parser("image", help="only prepare this machine and the node image").set_defaults(run=_image)
    guest_commands.add(commands)
    return parser


def _up(_options: argparse.Namespace) -> int:
    podman = Podman(host.prepare())
    nodes.create(
        podman, "lab", machines.read(INVENTORY, stand_ins.prepare(INVENTORY, "lab"), stand_ins.has_compiler(INVENTORY))
    )
    fabric.discover_topology(INVENTORY, machines.cluster_file(INVENTORY), state_of("lab") / "fabric")
    log = state_of("lab") / "site.log"
    say("ansible", f"playbooks/site.yml on inventories/lab (log: {log.relative_to(ROOT)})")
    if stream(["ansible-playbook", "-i", str(INVENTORY), str(ROOT / "playbooks" / "site.yml")], log=log):
        raise LabError(
            f"playbooks/site.yml failed; the reason is in the lines above and in {log}.\n"
            "The nodes are left running: look with `python3 -m lab ssh NODE`, fix, and run `make lab` again."
        )
    showcase.show("lab", machines.read(INVENTORY))
    say("lab", "ready. `python3 -m lab ssh ctl1` logs in; `make lab-down` removes every trace")
    return 0


def _down(options: argparse.Namespace) -> int:
    if options.all:
        guests.remove_every()
        guest_image.remove_all()
    podman = _present_podman()
    if podman is None:
        say("lab", "podman is not installed, so there is nothing to remove")
        return 0
    for lab in nodes.labs_here(podman) if options.all else ["lab"]:
        say(lab, "removed" if nodes.destroy(podman, lab) else "was not there")
    if options.all:
        kept = image.remove_all(podman)
        shutil.rmtree(scenarios.LOGS, ignore_errors=True)
        say("image", _removed(kept))
    return 0


def _removed(kept: list[str]) -> str:
    """Return the report of `down --all` about images; some may be kept."""
    stay = "packages that apt installed here stay"
    if not kept:
        return f"node image, caches and logs removed; {stay}"
    return f"logs removed; {', '.join(kept)} and its archive are kept: another checkout's nodes run it; {stay}"


def _status(_options: argparse.Namespace) -> int:
    podman = _present_podman()
    containers = podman.containers() if podman else []
    if not containers:
        say("lab", "no node is there. `make lab` boots them")
        return 1
    for container in sorted(containers, key=lambda c: (c.lab, c.machine)):
        reached = container.running and ssh.answers(container.lab, container.machine)
        words = ("running" if container.running else "stopped") + (", answers by SSH" if reached else "")
        say(container.lab, f"{container.machine:<8} {words}")
    return 0


def _ssh(options: argparse.Namespace) -> int:
    if not ssh_config_of(options.name).exists():
        raise LabError(f"The lab `{options.name}` does not exist. `make lab` boots the lab.")
    command = ssh.login(options.name, options.node, *options.command)
    os.execvp(command[0], command)


def _create(options: argparse.Namespace) -> int:
    podman = Podman(host.prepare())
    # Its keys are wanted by the cluster file, so it comes first.
    shared = stand_ins.prepare(options.inventory, options.name)
    nodes.create(
        podman, options.name, machines.read(options.inventory, shared, stand_ins.has_compiler(options.inventory))
    )
    return 0


def _destroy(options: argparse.Namespace) -> int:
    if options.every:
        guests.remove_every()
    podman = _present_podman()
    if podman is None:
        return 0
    for lab in nodes.labs_here(podman) if options.every else [options.name]:
        say(lab, "removed" if nodes.destroy(podman, lab) else "was not there")
    return 0


def _vendor(options: argparse.Namespace) -> int:
    if stand_ins.prepare(options.inventory, options.name) is None:
        raise LabError(f"{options.inventory} needs no stand-ins: there is no vendor.json beside its cluster file.")
    return 0


def _image(_options: argparse.Namespace) -> int:
    podman = Podman(host.prepare())
    say("image", image.ensure(podman))
    return 0


def _molecule(options: argparse.Namespace) -> int:
    podman = Podman(host.prepare())
    image.ensure(podman)
    names = options.scenario or (
        sorted(set(scenarios.ON_REQUEST) & set(scenarios.known())) if options.on_request else []
    )
    return scenarios.run(podman, names, keep=options.keep, verbose=options.verbose, jobs=options.jobs)


def _present_podman() -> Podman | None:
    host.require_root()
    return Podman(host.inspect()) if host.has_podman() else None
