# SPDX-License-Identifier: GPL-3.0-or-later
"""The unit that writes the CDI specification, and what starts it."""

from __future__ import annotations

from typing import Any

SPEC = "/var/run/cdi/nvidia.yaml"
UNIT = "bedplate-cdi.service"
_TOOL = "/usr/bin/nvidia-ctk"
_UNIT_PATH = f"/etc/systemd/system/{UNIT}"
_RULES = "/etc/udev/rules.d/71-bedplate-cdi.rules"

# The toolkit's own unit looks for module files of certain names, which those of Debian's open module are not, and older
# toolkits have none. What is loaded counts, whatever the file is called.
_TEXT = f"""\
[Unit]
Description=Write the CDI specification of the GPUs of this machine
Documentation=https://github.com/cncf-tags/container-device-interface
ConditionPathExists=/proc/driver/nvidia/version
After=systemd-modules-load.service systemd-udev-settle.service nvidia-persistenced.service nvidia-fabricmanager.service
Before=docker.service containerd.service crio.service slurmd.service

[Service]
Type=oneshot
RemainAfterExit=yes
# Whoever uses a GPU first makes its device files, and a specification names only those that are there.
ExecStart=-{_TOOL} system create-device-nodes --control-devices
# systemd finds a device by its number here: without the links, `systemctl daemon-reload` takes GPUs from running containers.
ExecStart=-{_TOOL} system create-dev-char-symlinks --create-all
ExecStart=/bin/mkdir --parents /var/run/cdi
ExecStart={_TOOL} cdi generate --output={SPEC}
Restart=on-failure
RestartSec=2
TimeoutStartSec=120

[Install]
WantedBy=multi-user.target
"""
# The event of the module itself comes before the driver is ready, that of its PCI driver after all GPUs were probed.
_RULE = f"""\
# A driver that is loaded later, or again, has other GPUs or libraries.
ACTION=="add", DEVPATH=="/bus/pci/drivers/nvidia", RUN+="/usr/bin/systemctl --no-block restart {UNIT}"
"""


def files() -> list[dict[str, Any]]:
    """Return the files, as entries of bedplate.cluster.files."""
    return [{"path": _UNIT_PATH, "content": _TEXT}, {"path": _RULES, "content": _RULE}]


def units_away() -> list[dict[str, Any]]:
    """Return the units as they are to be where the toolkit is no longer wanted: ours off, and its own as it came."""
    away = [{"name": name, "masked": False} for name in ("nvidia-cdi-refresh.path", "nvidia-cdi-refresh.service")]
    return [{"name": UNIT, "enabled": False, "state": "stopped"}, *away]


def units() -> list[dict[str, Any]]:
    """Return the units, as bedplate.cluster.units takes them."""
    return [
        # Where no driver is loaded there is nothing to write.
        {
            "name": UNIT,
            "enabled": True,
            "state": "started",
            "condition": "allowed",
            "restart_after": [_UNIT_PATH, _TOOL],
        },
        # One writer for one file. Not there before toolkit 1.18.
        {"name": "nvidia-cdi-refresh.path", "masked": True, "state": "stopped"},
        {"name": "nvidia-cdi-refresh.service", "masked": True},
    ]
