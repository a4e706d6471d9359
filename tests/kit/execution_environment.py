# SPDX-License-Identifier: GPL-3.0-or-later
"""The execution environment of the CI example, built on the image of the lab's nodes."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

from lab import image
from lab.paths import ROOT
from lab.podman import Podman
from lab.shell import capture

NAME = "localhost/bedplate-environment:test"


def build(podman: Podman, context: Path) -> str:
    """Build the collection and examples/ci/Containerfile in an empty folder; return the name of the image."""
    galaxy = str(Path(sys.executable).with_name("ansible-galaxy"))
    capture(
        [galaxy, "collection", "build", str(ROOT), "--output-path", str(context)], why="The collection was not built."
    )
    base = ("--build-arg", f"BASE={image.ensure(podman)}", "--network=host", "--isolation=chroot")
    file = ("--file", str(ROOT / "examples/ci/Containerfile"))
    podman("build", *base, *file, "--tag", NAME, str(context), why="The image was not built.", timeout=900)
    return NAME


def wrap(podman: Podman, folder: Path) -> None:
    """Write a `podman` into a folder that has the options of this machine; ansible-runner finds it by PATH."""
    program = folder / "podman"
    options = shlex.join([shutil.which("podman") or "podman", *podman.choice.podman])
    program.write_text(f'#!/bin/sh\nexec {options} "$@"\n')
    program.chmod(0o755)
