# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of the cluster file about GPUs: `gpus` of a profile, and the section `gpu_stack` for the cluster and for one profile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from .fields import Field
from .text_rules import NAME, TEXT, WORD

_MIG_PROFILE: dict[str, Any] = {
    "pattern": r"[1-9]g\.[1-9][0-9]*gb(\+me)?",
    "allowed": "Allowed: a profile as `nvidia-smi mig -lgip` names it, such as 1g.10gb.",
}

_SETTINGS = {
    "power_limit_watts": Field("Power limit of each GPU in watts.", "int", minimum=50, maximum=3000),
    "graphics_clock_min_mhz": Field(
        "Lower end of the locked graphics clock in MHz; needs graphics_clock_max_mhz. By default 0.",
        "int",
        minimum=0,
        maximum=5000,
    ),
    "graphics_clock_max_mhz": Field("Upper end of the locked graphics clock in MHz.", "int", minimum=100, maximum=5000),
    "memory_clock_mhz": Field("Locked memory clock in MHz.", "int", minimum=100, maximum=30000),
    "ecc": Field("Whether the memory has ECC; a change needs a reboot.", "bool"),
    "compute_mode": Field(
        "Whether several processes may use a GPU (default), or one at a time (exclusive_process).",
        choices=("default", "exclusive_process"),
    ),
}

GPUS = {
    "model": Field("GRES type and group name, such as h100.", required=True, **NAME),
    "count": Field("GPUs per node.", "int", required=True, minimum=1, maximum=1024),
    "devices": Field("Device files as a hostlist, in the order of `numa.gpus`; by default /dev/nvidia[0-<count - 1>]."),
    "cores": Field(
        "Slurm's logical core ids near each GPU, one entry per GPU; by default as `numa` says.",
        "list",
        item=Field("core ids", "ranges"),
    ),
    "detect": Field(
        "Source of Slurm's GPUs: this file (explicit), or the driver (nvidia: Slurm 24.11 or newer; nvml: MIG).",
        default="explicit",
        choices=("explicit", "nvidia", "nvml"),
    ),
    "settings": Field(
        "Settings of every GPU, which the role gpu_driver applies at every boot, and verify reads back. A key without a value is not "
        "managed.",
        "section",
        fields=_SETTINGS,
    ),
    "mig": Field(
        "MIG instances: number of each profile on every GPU, such as {1g.10gb: 7}; or a list of these, one for each GPU in the order of "
        "PCI addresses, where {} is a whole GPU. Needs `detect: nvml`. Without it MIG is not managed.",
        "list",
        item=Field(
            "a layout",
            "map",
            keys=Field("a MIG profile", **_MIG_PROFILE),
            item=Field("number of instances", "int", minimum=1, maximum=7),
        ),
    ),
    "mig_types": Field(
        "GRES types of MIG profiles that slurmd finds under another name, as `slurmd -G` ends it: {3g.40gb: 3g.39gb} on an A100 of 80 GB, "
        "since slurmd rounds the memory that the driver leaves.",
        "map",
        keys=Field("a MIG profile", **_MIG_PROFILE),
        item=Field(
            "a GRES type", pattern=r"[a-z0-9][a-z0-9_.-]*", allowed="Allowed: small letters, digits and '_', '.', '-'."
        ),
    ),
}

_KEY = "armored public key (PGP), a path beside the cluster file or an absolute one"
KEY_FILE: dict[str, Any] = {
    "pattern": r'(?![a-z]+://)[^\n\r"#]+',
    "allowed": 'Allowed: the path of a file, one line without " and #. bedplate downloads no key.',
}
URL: dict[str, Any] = {
    "pattern": r"(https?|file)://\S+",
    "allowed": "Allowed: an address with http, https or file.",
    "hides": ".*(?=@)",
}

FINGERPRINT: dict[str, Any] = {
    "pattern": r"(0x)?([0-9A-Fa-f][ :]*){40}(([0-9A-Fa-f][ :]*){24})?",
    "allowed": "Allowed: the 40 hexadecimal digits of a key's fingerprint (64 of a key of version 6), in quotes.",
}

_MIRROR = {
    "url": Field(
        "Its address; of each system's packages below it, in a directory of the system's name.", required=True, **URL
    ),
    "key": Field(f"The key that signs it: {_KEY}.", required=True, **KEY_FILE),
    "fingerprint": Field(
        "The fingerprint of that key: another one in the file is a mistake. Several in a list.",
        "list",
        item=Field("a fingerprint", **FINGERPRINT),
    ),
}

GPU_STACK = {
    "os": Field("Operating system of the GPU nodes and its release, such as debian-13.", required=True, **WORD),
    "source": Field(
        "Whose packages of the driver: the distribution's own (debian, canonical), or NVIDIA's repository (nvidia).",
        required=True,
        choices=("debian", "canonical", "nvidia"),
    ),
    "driver": Field(
        "Branch, whose latest version in the lock is taken (without a lock: in bedplate's table), or exact version; in quotes.",
        required=True,
        pattern=r"[0-9]{3}(\.[0-9]+){0,2}",
        allowed='Allowed: a branch such as "550", or a whole version of three numbers.',
    ),
    "module": Field("Kernel module; by default what fits the GPUs.", choices=("open", "proprietary")),
    "platform": Field(
        "How the GPUs are connected, if model and number do not decide it: on an HGX board, in an NVL72, or as PCIe cards.",
        choices=("hgx", "nvl72", "pcie"),
    ),
    "model": Field(
        "What the GPUs are, such as h100 or h100-nvl, where the profile's `model` is a name of the site's own.",
        pattern="[a-z][a-z0-9-]*",
        allowed="Allowed: a GPU model of bedplate's table, such as h100-nvl.",
    ),
    "kernel": Field(
        "Kernel that the nodes run, such as 6.12.117+deb13-amd64, for which the driver is proven before it is installed; by default the "
        "newest that is installed.",
        pattern=r"[0-9]+\.[0-9]+[A-Za-z0-9._+~-]*",
        allowed="Allowed: a kernel's release as uname -r prints it.",
    ),
    "cuda": Field(
        'CUDA toolkits, side by side, such as ["12.9", "13.0"]; the first is /usr/local/cuda.',
        "list",
        item=Field("a version of CUDA", **TEXT),
    ),
    "nccl": Field(
        'Version of NCCL, such as "2.28.9", or "2.28" for its latest; built with the CUDA of the first toolkit, else of the driver. '
        "In quotes.",
        pattern=r"[0-9]+(\.[0-9]+){1,2}",
        allowed='Allowed: a version such as "2.28.9" or "2.28".',
    ),
    "container_toolkit": Field(
        'Version of the NVIDIA container toolkit, such as "1.18.2"; in quotes.',
        pattern=r"[0-9]+(\.[0-9]+){1,2}",
        allowed='Allowed: a version such as "1.18.2".',
    ),
    "dcgm": Field(
        'Version of DCGM, such as "4.5.3", or "4" for its latest in the table; in quotes.',
        pattern=r"[0-9]+(\.[0-9]+){0,2}(-cuda[0-9]+)?",
        allowed='Allowed: a version such as "4.5.3" or "4".',
    ),
    "dcgm_proprietary": Field(
        "Install NVIDIA's proprietary modules of DCGM: without them there are no profiling metrics (`DCGM_FI_PROF_*`).",
        "bool",
        default=True,
    ),
    "packages": Field(
        "Further packages, such as [libnvidia-encode-580], installed with the driver and held; a name, or name=version. They are of the "
        "repositories of the node.",
        "list",
        item=Field(
            "a package",
            pattern=r"[A-Za-z0-9][A-Za-z0-9+._-]+(=[A-Za-z0-9.:+~^*-]+)?",
            allowed="Allowed: a name, or name=version, where the version may end with '*'.",
        ),
    ),
    "gpudirect": Field(
        "Kernel modules through which adapters and storage reach the memory of GPUs: peermem (nvidia_peermem), nvidia-fs (GPUDirect "
        "Storage), gdrcopy; a name, or name=version, such as [peermem, nvidia-fs=2.26.6, gdrcopy=2.5.1]. They are proven with the driver, "
        "installed after it, held and loaded.",
        "list",
        item=Field(
            "a module of GPUDirect",
            pattern=r"[a-z][a-z-]*(=[0-9][A-Za-z0-9.+~-]*)?",
            allowed="Allowed: a name, or name=version.",
        ),
    ),
    "module_options": Field(
        "Options of the kernel module, such as {NVreg_RestrictProfilingToAdminUsers: 0}.",
        "map",
        keys=Field("an option", pattern="[A-Za-z][A-Za-z0-9_]*", allowed="Allowed: letters, digits and '_'."),
        item=Field("a value", pattern=r'[^\s"#]+', allowed="Allowed: text without blanks, in quotes."),
    ),
    "mirror": Field(
        "One signed repository with all of it, as playbooks/mirror.yml builds it, instead of all others.",
        "section",
        fields=_MIRROR,
    ),
    "urls": Field(
        "Where a repository is, instead of at its owner's: a copy with the owner's signature. Repositories by name, such as debian.",
        "map",
        keys=Field("a repository", **WORD),
        item=Field("an address", **URL),
    ),
    "foreign_sources": Field(
        "What a run does with package sources on a node that name a repository of this section in another way, so that apt refuses both: "
        "`vendor` sets aside the files that NVIDIA's own packages install and refuses others, `take_over` sets all aside, `refuse` none.",
        default="vendor",
        choices=("vendor", "refuse", "take_over"),
    ),
    "keys": Field(
        f"The keys of repositories that are not the distribution's own, by name: nvidia, container-toolkit. Each is an {_KEY}.",
        "map",
        keys=Field("a repository", **WORD),
        item=Field("a path", **KEY_FILE),
    ),
    "fingerprints": Field(
        "The fingerprints of these keys, by name of the repository: another key in the file is a mistake. By default NVIDIA's published "
        "fingerprints, where `urls` names no other address. Several for one repository in a list.",
        "map",
        keys=Field("a repository", **WORD),
        item=Field("fingerprints", "list", item=Field("a fingerprint", **FINGERPRINT)),
    ),
}  # fmt: skip

# What a profile says replaces what the cluster says, key by key.
PROFILE_GPU_STACK = {name: replace(field, required=False, default=None) for name, field in GPU_STACK.items()}
