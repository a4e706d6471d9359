# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role cuda brings to a node: the toolkits of the set side by side, NCCL, and how users find the first of them."""

from __future__ import annotations

from typing import Any

from ...common.deploy_arguments import arguments
from .part_plan import GpuSoftware, deploy, expected

PART = "cuda"
PROFILE = "/etc/profile.d/bedplate-cuda.sh"
_SHELL = """\
# CUDA {version}, the first of the cluster file. Another one: PATH=/usr/local/cuda-X.Y/bin:$PATH
case ":$PATH:" in
  *:{directory}/bin:*) ;;
  *) PATH={directory}/bin:$PATH; export PATH ;;
esac
"""


def deployment(wanted: GpuSoftware) -> dict[str, Any]:
    """Return what to bring to a node: nothing, and no sources, where the file names no toolkit and no NCCL, or no longer does."""
    versions = wanted.file.cuda
    told = {
        "versions": list(versions),
        "sources": wanted.sources(PART) if wanted.packages(PART) else [],
        "files": _files(wanted),
        "expected": expected(wanted, PART, "cuda"),
        **deploy(wanted, PART),
    }
    return {**told, "deploy": arguments(told, "cuda")}


def _files(wanted: GpuSoftware) -> list[dict[str, str]]:
    # A distribution's own toolkit is in /usr/bin.
    if not wanted.file.cuda or wanted.file.source != "nvidia":
        return []
    version = wanted.file.cuda[0]
    directory = f"/usr/local/cuda-{version}"
    return [
        {"path": PROFILE, "content": _SHELL.format(version=version, directory=directory)},
        # For whatever looks in the place without a version, as build scripts do; alternatives would choose the newest.
        {"path": "/usr/local/cuda", "state": "link", "target": directory},
    ]
