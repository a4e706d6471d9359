# SPDX-License-Identifier: GPL-3.0-or-later
"""Check each shape of the simulator with DMTF's redfish-service-validator.

    python -m venv /tmp/validator && /tmp/validator/bin/pip install redfish-service-validator
    git clone --depth 1 https://github.com/DMTF/Redfish-Publications /tmp/publications
    python -m tests.kit.bmc.validate /tmp/validator/bin/rf_service_validator /tmp/publications/csdl

It prints passes, warnings and failures of each shape, and its exit code is 1 after a failure. The schemas are 8 MB, so they are not here.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from typing import Any

from tests.kit.bmc.simulation import Simulation

SHAPES: tuple[dict[str, Any], ...] = (
    {},
    {"second_system": True},
    {"settings_elsewhere": True},
    {"reset_info": "action-info"},
    {"nics_at": "chassis"},
    {"media_at": "system"},
    {"insert": "patch"},
    {"expand": True},
    {"twin": "SN-TWIN"},
    {"account_slots": 6},
    {"has_ntp": False, "has_ipmi": False},
    {"ntp_places": 4},
    {"certificate_service": False},
)


def main(validator: str, schemas: str) -> int:
    """Validate all shapes."""
    failures = 0
    with Simulation() as simulation, tempfile.TemporaryDirectory() as folder:
        for shape in SHAPES:
            simulated = simulation.add(**shape)
            url = f"https://{simulated.address}:{simulated.port}"
            command = [validator, "-u", simulated.user, "-p", simulated.password, "-r", url, "--authtype", "Session"]
            options = ["--skipschema", "--schema_directory", schemas, "--logdir", folder]
            ran = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
            found = re.findall(r"\|\s+(\d+)\s+\|\s+(\d+)\s+\|\s+(\d+)\s+\|\s+\d+\s+\|", ran.stdout)
            passed, warned, failed = (int(one) for one in found[-1]) if found else (0, 0, 1)
            failures += failed
            print(f"{shape or 'default'}: {passed} passed, {warned} warnings, {failed} failures", flush=True)
            if failed:
                print(ran.stdout[-3000:] + ran.stderr[-1000:])
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
