# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the fake libnvidia-ml.so.1. The libraries are cached below .cache/fake-nvml, by their source and the symbols that they lack."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

SOURCE = Path(__file__).parent / "fake_nvml.c"
CACHE = Path(__file__).parents[3] / ".cache/fake-nvml"
OLD_535 = ("nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetMarginTemperature")
"""Symbols that libnvidia-ml.so.1 of driver 535 lacks."""


def library(missing: Iterable[str] = ()) -> Path:
    """Return the path of the library without some of its symbols. CalledProcessError: gcc fails."""
    names = sorted(set(missing))
    digest = hashlib.sha256(SOURCE.read_bytes() + " ".join(names).encode()).hexdigest()[:16]
    built = CACHE / digest / "libnvidia-ml.so.1"
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        # Each process links its own file, and the last rename counts: tests run in parallel.
        script, own = built.with_name(f"hide.{os.getpid()}"), built.with_name(f"own.{os.getpid()}")
        hidden = "".join(f" {name};" for name in names)
        script.write_text(f"{{ global: nvml*;{f' local:{hidden}' if hidden else ''} }};\n")
        options = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", f"-Wl,--version-script={script}"]
        subprocess.run(["gcc", *options, "-o", str(own), str(SOURCE)], check=True)
        script.unlink()
        own.replace(built)
    return built
