# SPDX-License-Identifier: GPL-3.0-or-later
"""What brings a node's GPUs to their MIG layout: the layout as a file, the program, and the unit that runs it."""

from __future__ import annotations

import json
from typing import Any

from ...cluster import Profile
from ...common import shipped

UNIT = "bedplate-mig.service"
LAYOUT = "/etc/bedplate/mig.json"
_PROGRAM = "gpu.mig_program"
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
Environment=PYTHONPATH={shipped.library(_PROGRAM)} PYTHONDONTWRITEBYTECODE=1
ExecStart={shipped.command(_PROGRAM)} {LAYOUT}
ExecStartPost=-/usr/bin/systemctl --no-block try-restart bedplate-cdi.service
TimeoutStartSec=900

[Install]
WantedBy=multi-user.target
"""


def has_split(profile: Profile) -> bool:
    """Return whether the file says of a profile how its GPUs are split."""
    return profile.gpus is not None and bool(profile.gpus.mig)


def files(profile: Profile) -> list[dict[str, str]]:
    """Return the files as entries of bedplate.cluster.files; none where the file says nothing of MIG."""
    if profile.gpus is None or not profile.gpus.mig:
        return []
    layout = json.dumps({"gpus": profile.gpus.mig}, indent=2) + "\n"
    unit = f"/etc/systemd/system/{UNIT}"
    return [
        {"path": LAYOUT, "content": layout},
        *shipped.entries(_PROGRAM),
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
    library = [path for path, _text in shipped.files(_PROGRAM)]
    return {**found, "state": "started", "restart_after": [LAYOUT, *library]} if runs else found
