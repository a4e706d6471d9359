# SPDX-License-Identifier: GPL-3.0-or-later
"""What brings a node's GPUs to their MIG layout: the layout as a file, the program, and the unit that runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import mig_program
from ansible_collections.bedplate.cluster.plugins.plugin_utils.cluster import Profile

UNIT = "bedplate-mig.service"
LAYOUT = "/etc/bedplate/mig.json"
PROGRAM = "/usr/local/lib/bedplate/mig.py"
# The module comes with udev's coldplug, and slurmd ends where a GPU in MIG mode has no instances. A CDI specification that was written
# before, names instances that are no more.
_UNIT = f"""\
[Unit]
Description=MIG layout of the GPUs, as the cluster file has it
Wants=systemd-udev-settle.service
After=systemd-modules-load.service systemd-udev-settle.service
Before=nvidia-persistenced.service nvidia-dcgm.service bedplate-cdi.service slurmd.service
ConditionPathExists=/proc/driver/nvidia/version

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/python3 {PROGRAM} {LAYOUT}
ExecStartPost=-/usr/bin/systemctl --no-block try-restart bedplate-cdi.service
TimeoutStartSec=900

[Install]
WantedBy=multi-user.target
"""


def is_wanted(profile: Profile) -> bool:
    """Return whether the file says of a profile how its GPUs are split."""
    return profile.gpus is not None and bool(profile.gpus.mig)


def files(profile: Profile) -> list[dict[str, str]]:
    """Return the files as entries of bedplate.cluster.files; none where the file says nothing of MIG."""
    if profile.gpus is None or not profile.gpus.mig:
        return []
    layout = json.dumps({"gpus": profile.gpus.mig}, indent=2) + "\n"
    program = Path(mig_program.__file__).read_text(encoding="utf-8")
    unit = f"/etc/systemd/system/{UNIT}"
    return [
        {"path": LAYOUT, "content": layout},
        {"path": PROGRAM, "content": program},
        {"path": unit, "content": _UNIT},
        # That it is enabled is a file as well, so that it goes with the others; nothing can disable a unit that is gone.
        {"path": f"/etc/systemd/system/multi-user.target.wants/{UNIT}", "state": "link", "target": unit},
    ]


def is_whole(profile: Profile) -> bool:
    """Return whether the GPUs of a profile are given to jobs as whole ones, by their device files."""
    return profile.gpus is not None and not profile.gpus.mig and profile.gpus.detect == "explicit"


def unit(runs: bool) -> dict[str, Any]:
    """Return the unit as an entry of bedplate.cluster.units; `runs`: the driver is loaded."""
    found: dict[str, Any] = {"name": UNIT, "enabled": True}
    return {**found, "state": "started", "restart_after": [LAYOUT, PROGRAM]} if runs else found
