# SPDX-License-Identifier: GPL-3.0-or-later
"""Check plugins that slurmctld does not load itself: slurmd's, and the cli_filter and SPANK plugins of Slurm's commands."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Protocol

from ...common.command import NOT_STARTED, Outcome
from .conf_reader import read

_PLUGIN_OPTION = re.compile(r"(?:Type|Types|Plugin|Plugins)\Z", re.IGNORECASE)
_PLUGIN = re.compile(r"(?P<type>[a-z_]+)/(?P<name>[A-Za-z0-9_]+)\Z")
# Names that mean no plugin, or a choice between plugins.
_NO_FILE = ("none", "autodetect")
_SAYS = re.compile(r"^\w+: (?:error|fatal): (?P<text>.*)$", re.MULTILINE)
_PATIENCE = 20.0


class Controller(Protocol):
    """A running slurmctld with the candidate configuration."""

    conf: Path

    def ask(self, *arguments: str, until: float) -> str | None:
        """Run scontrol on it."""

    def call(self, *words: str, until: float) -> Outcome:
        """Run one of Slurm's commands on it."""


def missing_plugins(controller: Controller) -> list[str]:
    """Return the options whose plugin is not installed on this machine, which has slurmd's plugins as well."""
    found = []
    shown = controller.ask("show", "config", until=time.monotonic() + _PATIENCE) or ""
    directory = re.search(r"^PluginDir\s*=\s*(\S+)", shown, re.MULTILINE)
    if not directory:
        return []
    places = [Path(one) for one in directory[1].split(":")]
    # Authentication and options that need slurmdbd were rewritten or left out, so they are not in this file.
    for pairs in [*read(controller.conf).lines, *read(controller.conf.with_name("cgroup.conf")).lines]:
        for key, value in pairs.items():
            if _PLUGIN_OPTION.search(key):
                found += [
                    f"{key}={word}: {file} is not in {directory[1]}"
                    for word in value.split(",")
                    if (file := _file(word)) and not any((place / file).exists() for place in places)
                ]
    return found


def _file(word: str) -> str:
    """Return the file name of a plugin, or nothing."""
    match = _PLUGIN.match(word.strip())
    return f"{match['type']}_{match['name']}.so" if match and match["name"] not in _NO_FILE else ""


def client_errors(controller: Controller, until: float) -> list[str]:
    """Return why Slurm's commands would not start: all of them load cli_filter plugins and plugstack.conf."""
    stack = controller.conf.with_name("plugstack.conf")
    has_stack = stack.exists() and bool(_code(stack.read_text(encoding="utf-8", errors="replace")))
    if not (has_stack or read(controller.conf).option("CliFilterPlugins")):
        return []
    done = controller.call("sbatch", "--version", until=until)
    if done.code in (None, 0, NOT_STARTED):
        return []
    said = (done.stdout + done.stderr).replace(f"{controller.conf.parent}/", "")
    return [match["text"] for match in _SAYS.finditer(said)] or [said.strip()]


def _code(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
