# SPDX-License-Identifier: GPL-3.0-or-later
"""Values that Slurm's options take, where its code or manual names them all.

Kept by hand and short on purpose: a value missing here would refuse a good configuration. Names of plugins that sites write
themselves are not here; of the others, those that a test start leaves out (config_trial.py). A value maps to the first release
that takes it.
"""

from __future__ import annotations

ANY = "0"

_DEBUG = ["quiet", "fatal", "error", "info", "verbose", "debug", "debug2", "debug3", "debug4", "debug5"]


def _any(names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), ANY)


# (kind, option) -> value -> release. These take one value ...
ONE: dict[tuple[str, str], dict[str, str]] = {
    ("slurm", "ReturnToService"): _any("0 1 2"),
    ("slurm", "EnforcePartLimits"): _any("ALL ANY NO YES"),
    ("slurm", "SlurmctldDebug"): {**dict.fromkeys(_DEBUG, ANY), **_any("0 1 2 3 4 5 6 7 8 9")},
    ("slurm", "SlurmdDebug"): {**dict.fromkeys(_DEBUG, ANY), **_any("0 1 2 3 4 5 6 7 8 9")},
    ("slurm", "PriorityType"): _any("priority/basic priority/multifactor"),
    ("slurm", "PreemptType"): _any("preempt/none preempt/partition_prio preempt/qos"),
    ("slurmdbd", "DebugLevel"): {**dict.fromkeys(_DEBUG, ANY), **_any("0 1 2 3 4 5 6 7 8 9")},
    ("partition", "State"): _any("UP DOWN DRAIN INACTIVE"),
    ("cgroup", "CgroupPlugin"): {**_any("autodetect cgroup/v1 cgroup/v2"), "disabled": "24.05"},
    ("gres", "AutoDetect"): {**_any("off nvml oneapi rsmi"), "nrt": "23.11", "nvidia": "24.11", "full": "26.05"},
}
# ... and these a list, separated by commas.
MANY: dict[tuple[str, str], dict[str, str]] = {
    ("slurm", "HealthCheckNodeState"): {
        **_any("ALLOC ANY CYCLE IDLE MIXED"),
        "NONDRAINED_IDLE": "23.02",
        "START_ONLY": "25.11",
        "REBOOT_ONLY": "26.05",
    },
    ("slurm", "AccountingStorageEnforce"): _any("1 2 all associations limits none nojobs nosteps qos safe wckeys 0"),
    ("slurm", "PrologFlags"): {
        **_any("Alloc Contain DeferBatch NoHold Serial X11"),
        "ForceRequeueOnFail": "23.02",
        "RunInJob": "24.05",
    },
}
