# SPDX-License-Identifier: GPL-3.0-or-later
"""`python -m lab guest`: a virtual machine for an operator, beside the tests' machines."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from lab import host
from lab.guest import image
from lab.guest.machine import Guest, known, remove_every
from lab.shell import LabError, say

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


def add(commands: Commands) -> None:
    """Add the command and its own commands."""
    guest = commands.add_parser("guest", help="a virtual machine with its own kernel and boot loader")
    verbs = guest.add_subparsers(required=True, metavar="COMMAND")
    verbs.add_parser("image", help="only build the disk image").set_defaults(run=_image)
    verbs.add_parser("status", help="which guests are there").set_defaults(run=_status)
    for verb, run, what in (
        ("start", _start, "boot a new one, in place of one of that name"),
        ("reboot", _reboot, "reboot it and wait"),
        ("console", _console, "what it printed on its console last"),
        ("stop", _stop, "end it and remove all of it"),
        ("ssh", _ssh, "log in, or run a command there"),
    ):
        parser = verbs.add_parser(verb, help=what)
        parser.add_argument("--name", default="guest")
        parser.set_defaults(run=run)
        if verb == "stop":
            parser.add_argument("--every", action="store_true", help="all guests of this checkout")
        if verb == "ssh":
            parser.add_argument("command", nargs=argparse.REMAINDER)


def prepare() -> None:
    """Make this machine ready for guests."""
    host.require_root()
    host.install_missing(guests=True)


def _image(_options: argparse.Namespace) -> int:
    prepare()
    say("guest", str(image.ensure()))
    return 0


def _status(_options: argparse.Namespace) -> int:
    guests = known()
    for guest in guests:
        say("guest", f"{guest.name:<8} {'running' if guest.is_running else 'ended'}")
    if not guests:
        say("guest", "no guest found. `python3 -m lab guest start` boots one")
    return 0 if guests else 1


def _start(options: argparse.Namespace) -> int:
    prepare()
    Guest(options.name).start()
    say("guest", f"`python3 -m lab guest ssh{_option(options.name)}` logs in, `... guest stop` removes it")
    return 0


def _reboot(options: argparse.Namespace) -> int:
    say("guest", f"{options.name} rebooted in {_present(options.name).reboot():.0f} s")
    return 0


def _console(options: argparse.Namespace) -> int:
    print(_present(options.name).console(200), flush=True)
    return 0


def _stop(options: argparse.Namespace) -> int:
    if options.every:
        remove_every()
    else:
        say("guest", f"{options.name} {'removed' if Guest(options.name).remove() else 'was not there'}")
    return 0


def _ssh(options: argparse.Namespace) -> int:
    command = _present(options.name).login(*options.command)
    os.execvp(command[0], command)


def _present(name: str) -> Guest:
    guest = Guest(name)
    if not guest.is_running:
        raise LabError(f"The guest `{name}` does not run. `python3 -m lab guest start{_option(name)}` boots one.")
    return guest


def _option(name: str) -> str:
    return "" if name == "guest" else f" --name {name}"
