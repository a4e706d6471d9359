# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold the settings of the probes. This module imports little, because each child imports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

ADVICE = "advice:"
"""Start of the kinds that read the verdict of another tool."""
LIBRARY = "libnvidia-ml.so.1"
MODULE = "sys/module/nvidia/version"
"""File of a loaded driver. /dev/nvidiactl is not a proof of it: nvmlInit creates that."""


@dataclass(frozen=True)
class ProbeSettings:
    """Hold the settings of all probes, as in the JSON file that a child reads.

    `has_gpus`, `has_rails`: the profile expects them. `library` and `smi`: NVML and nvidia-smi. `exclude`: HCAs that are not for jobs.
    `sizes`: sizes of huge pages. `mounts`: mount points. `checks`: folder of foreign checks. `dcgm`: dcgmi, "" without DCGM. `gpud`: URL
    of its states. `validation`: file with a NodeVerdict.
    """

    sysroot: str = "/"
    has_gpus: bool = False
    has_rails: bool = False
    library: str = LIBRARY
    smi: str = "nvidia-smi"
    exclude: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    checks: str = "/etc/bedplate/health/checks.d"
    dcgm: str = ""
    gpud: str = ""
    validation: str = ""

    def data(self) -> dict[str, Any]:
        """Return the settings as a JSON object."""
        return asdict(self)


def settings_from(data: Mapping[str, Any]) -> ProbeSettings:
    """Return the settings of a JSON object. TypeError: an unknown key."""
    values: dict[str, Any] = {key: tuple(one) if isinstance(one, list) else one for key, one in data.items()}
    return ProbeSettings(**values)
