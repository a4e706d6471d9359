#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Set keys in the settings of container engines, and restart idle engines."""

from __future__ import annotations

DOCUMENTATION = r"""
module: container_settings
short_description: Set keys in the settings of container engines, and restart idle engines
version_added: 0.1.0
description:
  - Sets single keys in JSON and TOML files that belong to the site, such as C(/etc/docker/daemon.json). All other keys stay, in TOML
    also comments and order.
  - Each changed text is judged by the engine itself, where it can, before it replaces the file.
  - An engine whose daemon was started before its settings changed is restarted if it runs no container. A busy engine
    keeps running with the old settings, and O(note) names it until it has been restarted.
options:
  settings:
    description: The files.
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: The file. It is created if it is missing., type: path, required: true}
      format: {description: How it is written., type: str, choices: [json, toml], required: true}
      values: {description: 'Keys with their values; a mapping is an object or a table, a list has texts.', type: dict, required: true}
      validate: {description: 'Command, word by word, that judges the file in place of C(%s).', type: list, elements: str, default: []}
      unit: {description: Unit of the engine's daemon., type: str}
      engine: {description: The engine., type: str, choices: [docker, containerd, crio]}
  note:
    description: File with the daemons that need a restart, and the reasons; removed when no daemon needs one.
    type: path
    default: /run/bedplate/reboot-wanted/container_runtime
  state_directory:
    description: Where the machine keeps the record of what daemons have read.
    type: path
    default: /var/lib/bedplate
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: Predicts files and restarts.}
  diff_mode: {support: full, description: The diffs of the files.}
"""

EXAMPLES = r"""
- name: Have docker read CDI specifications
  bedplate.cluster.container_settings:
    settings:
      - path: /etc/docker/daemon.json
        format: json
        values: {features: {cdi: true}}
        validate: [dockerd, --validate, --config-file, "%s"]
        unit: docker.service
        engine: docker
# => changed_files: [/etc/docker/daemon.json], changes: ["docker.service: restarted"]
# => waiting: ["docker.service runs with settings from before /etc/docker/daemon.json changed, and has 2 containers: ..."]
"""

RETURN = r"""
changed_files: {description: Files that were changed., type: list, elements: str, returned: success}
changes: {description: Daemons that were restarted., type: list, elements: str, returned: success}
waiting: {description: Daemons that still run with older settings., type: list, elements: str, returned: success}
"""

import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command as node_command
from ansible_collections.bedplate.cluster.plugins.module_utils.common.files import atomic_write
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.containers import engines
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.containers.engine_settings import (
    FORMATS,
    SettingsError,
    edited_text,
    read,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives import reboot_notes
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import STATE_DIRECTORY
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.write_problem import write_problem
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.units.applied_files import Applied

_SETTLE = 1.0  # seconds after which a daemon that was restarted is looked at


class ContainerSettings:
    """Write the settings of one machine, and restart the daemons that read them."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.texts: dict[str, tuple[str, str]] = {}
        self.restarted: list[str] = []
        self.waiting: list[str] = []

    def plan(self) -> list[str]:
        """Make the texts of all files that change, have them judged, and return everything that is wrong."""
        problems = []
        for number, entry in enumerate(self.module.params["settings"]):
            path = Path(entry["path"])
            try:
                before = read(path)
                after = edited_text(path, entry["format"], entry["values"], before)
                if after != before:
                    self.texts[entry["path"]] = (before, after)
                    self._judge(entry, after, number)
            except SettingsError as error:
                problems.append(str(error))
        return problems

    def _judge(self, entry: dict[str, Any], text: str, number: int) -> None:
        command = entry["validate"]
        if not command or (self.module.check_mode and not node_command.find(command[0])):
            return
        copy = Path(self.module.tmpdir) / f"{number}-{Path(entry['path']).name}"
        copy.write_text(text, encoding="utf-8")
        outcome = node_command.run([word.replace("%s", str(copy)) for word in command], 30.0)
        if outcome.code != 0:
            raise SettingsError(
                f"{entry['path']} would be refused, so it stays as it is. {' '.join(command)}: "
                f"{outcome.text or f'ended with {outcome.code}'}. bedplate sets {entry['values']}; is the rest of it right?"
            )

    def write(self) -> None:
        """Write what changed, each file as a whole."""
        for path, (_before, after) in self.texts.items():
            try:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                atomic_write(Path(path), after)
            except OSError as error:
                raise SettingsError(f"{write_problem(path, error)}. Nothing was restarted") from error

    def restart(self) -> None:
        """Restart daemons that run on older settings and have no container."""
        applied = Applied(Path(self.module.params["state_directory"]))
        units = {entry["unit"]: entry["engine"] for entry in self.module.params["settings"] if entry["unit"]}
        for unit, engine in units.items():
            paths = [entry["path"] for entry in self.module.params["settings"] if entry["unit"] == unit]
            started = _started(unit)
            changed = applied.changed(unit, started, paths)
            if self.module.check_mode and started:
                changed += [path for path in paths if path in self.texts and path not in changed]
            if not changed:
                continue
            count = engines.running(engine)
            if count:
                several = f"{count} containers" if count > 1 else "a container"
                self.waiting.append(
                    f"{unit} runs with settings from before {', '.join(changed)} changed, and has {several}: "
                    f"`systemctl restart {unit}` when nothing runs, or reboot"
                )
                continue
            self.restarted.append(unit)
            if not self.module.check_mode:
                self._restart(unit)
                applied.remember_start(unit, paths)

    def _restart(self, unit: str) -> None:
        outcome = node_command.run(["systemctl", "restart", unit])
        time.sleep(_SETTLE)
        if outcome.code != 0 or not _started(unit):
            journal = node_command.run(["journalctl", f"--unit={unit}", "--lines=20", "--no-pager", "--quiet"]).text
            self.module.fail_json(
                msg=f"{unit} does not run after its restart: {outcome.text}\n{journal}", **self.result()
            )

    def note(self) -> None:
        """Note the waiting daemons; the file is in memory, so a reboot removes it."""
        path = Path(self.module.params["note"])
        before = read(path)
        if reboot_notes.note(path, "\n".join(self.waiting), self.module.check_mode):
            self.texts[str(path)] = (before, "".join(f"{line}\n" for line in self.waiting))

    def result(self) -> dict[str, Any]:
        """Return the result of the module."""
        found: dict[str, Any] = {
            "changed": bool(self.texts or self.restarted),
            "changed_files": list(self.texts),
            "changes": [f"{unit}: restarted" for unit in self.restarted],
            "waiting": self.waiting,
        }
        if self.module._diff:
            found["diff"] = [
                {"before_header": path, "after_header": path, "before": before, "after": after}
                for path, (before, after) in self.texts.items()
            ]
        return found


def _started(unit: str) -> float:
    """Return when a unit that runs was started, in seconds of the monotonic clock; 0 when it does not run."""
    said = node_command.run(["systemctl", "show", "--property=ActiveState,ActiveEnterTimestampMonotonic", "--", unit])
    found = dict(line.split("=", 1) for line in said.stdout.splitlines() if "=" in line)
    if found.get("ActiveState") != "active":
        return 0.0
    return int(found.get("ActiveEnterTimestampMonotonic") or 0) / 1e6


def main() -> None:
    """Run the module."""
    entry = {
        "path": {"type": "path", "required": True},
        "format": {"type": "str", "choices": list(FORMATS), "required": True},
        "values": {"type": "dict", "required": True},
        "validate": {"type": "list", "elements": "str", "default": []},
        "unit": {"type": "str"},
        "engine": {"type": "str", "choices": ["docker", "containerd", "crio"]},
    }
    module = AnsibleModule(
        argument_spec={
            "settings": {"type": "list", "elements": "dict", "required": True, "options": entry},
            "note": {"type": "path", "default": "/run/bedplate/reboot-wanted/container_runtime"},
            "state_directory": {"type": "path", "default": STATE_DIRECTORY},
        },
        supports_check_mode=True,
    )
    settings = ContainerSettings(module)
    problems = settings.plan()
    if problems:
        module.fail_json(msg="\n".join(problems))
    if not module.check_mode:
        try:
            settings.write()
        except SettingsError as error:
            module.fail_json(msg=str(error))
    settings.restart()
    settings.note()
    for text in settings.waiting:
        module.warn(text)
    module.exit_json(**settings.result())


if __name__ == "__main__":
    main()
