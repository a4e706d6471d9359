# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of a site's own rows of the table of GPU software, the file <site>.gpu-table.yml beside the cluster file."""

from __future__ import annotations

from typing import Any

from ..cluster.schema.fields import Field
from ..cluster.schema.text_rules import TEXT, WORD

_BRANCH: dict[str, Any] = {"pattern": "[0-9]{3,4}", "allowed": 'Allowed: a branch in quotes, such as "580".'}
_VERSION: dict[str, Any] = {
    "pattern": r"[0-9]{3,4}\.[0-9]+(\.[0-9]+)?",
    "allowed": "Allowed: a whole driver version of two or three numbers, in quotes.",
}
_KERNEL: dict[str, Any] = {
    "pattern": r"[0-9]+\.[0-9]+[A-Za-z0-9._+~-]*",
    "allowed": "Allowed: a kernel release, or the beginning of one, such as 6.1.0-56.",
}
_MODULE = ("open", "proprietary")

_MODEL = {
    "generation": Field("GPU generation, which decides kernel module and CUDA, such as hopper.", required=True, **WORD),
    "board": Field(
        "What eight or more of it sit on: an HGX board, an NVL72, or PCIe cards.",
        required=True,
        choices=("hgx", "nvl72", "pcie"),
    ),
    "lowest": Field("Lowest driver branch.", "int", required=True, minimum=300, maximum=9998),
    "least": Field("Lowest version of that branch, in quotes; by default any.", **_VERSION),
    "highest": Field("Last driver branch; by default none.", "int", minimum=300, maximum=9998),
    "architecture": Field("CPU beside the GPUs.", default="x86_64", choices=("x86_64", "arm64")),
}

GPU_TABLE = Field(
    "A site's own rows.",
    "section",
    fields={
        "models": Field(
            "GPU models, each for `gpus.model` or `gpu_stack.model`. One of bedplate's table is replaced.",
            "map",
            keys=Field(
                "a GPU model",
                pattern="[a-z][a-z0-9_-]{0,40}",
                allowed="Allowed: small letters, digits, '_' and '-', starting with a letter.",
            ),
            item=Field("a GPU model", "section", fields=_MODEL),
        ),
        "branches": Field(
            "Driver branches with the month of their end of life.",
            "map",
            keys=Field("a branch", **_BRANCH),
            item=Field(
                "a branch",
                "section",
                fields={
                    "ends": Field(
                        "Month of the end of life, in quotes.",
                        required=True,
                        pattern="20[0-9]{2}-(0[1-9]|1[0-2])",
                        allowed='Allowed: year and month in quotes, such as "2028-06".',
                    ),
                    "source": Field("Where this was read.", required=True, **TEXT),
                },
            ),
        ),
        "installed": Field(
            "Drivers that the site has installed: the notice that no test has done so ends.",
            "list",
            item=Field(
                "a driver",
                "section",
                fields={
                    "os": Field("Operating system, such as debian-13.", required=True, **WORD),
                    "source": Field(
                        "Source of the packages.", required=True, choices=("debian", "canonical", "nvidia")
                    ),
                    "driver": Field("Driver version, in quotes.", required=True, **_VERSION),
                    "module": Field("Kernel module.", required=True, choices=_MODULE),
                },
            ),
        ),
        "breaks": Field(
            "Kernels for which a driver does not compile: the combination is refused.",
            "list",
            item=Field(
                "a driver and its kernels",
                "section",
                fields={
                    "os": Field("Operating system, such as debian-13.", required=True, **WORD),
                    "driver": Field("Driver version, in quotes.", required=True, **_VERSION),
                    "works": Field("Kernel for which it compiles.", required=True, **_KERNEL),
                    "fails": Field("First kernel for which it does not compile.", required=True, **_KERNEL),
                    "why": Field("The compiler's error, for the message.", required=True, **TEXT),
                },
            ),
        ),
    },
)
