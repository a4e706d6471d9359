# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the images that a provision host serves with the cluster file: verify's reader of the role image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..common.finding import Finding
from ..common.remedies import run_role_again
from .medium import BOOT_FILES
from .served_image import ImageError, read_image


def findings(root: str, expected: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield the findings: an image that is not served whole or not signed, another image, boot files that its installer needs.

    `expected`: `directory` of the provision host, `images`, name to SHA-256, and `public_key`, the path of a key of minisign or "".
    """
    directory = Path(root, str(expected["directory"]).lstrip("/"))
    key = Path(root, expected["public_key"].lstrip("/")) if expected["public_key"] else None
    for name, sha256 in expected["images"].items():
        where, remedy = f"image {name}", run_role_again("image")
        try:
            found = read_image(directory, name, key)
        except (ImageError, OSError) as error:
            yield Finding("image", where, "to be served whole", str(error), remedy)
            continue
        if found["sha256"] != sha256:
            yield Finding("image", where, f"sha256 {sha256}", str(found["sha256"]), f"correct images.{name}.sha256")
        boot = directory / "images" / name / "boot"
        if missing := [one for one in BOOT_FILES if not (boot / one).is_file()]:
            yield Finding(
                "image", f"{where}: {boot}", "the boot files of its installer", f"no {', '.join(missing)}", remedy
            )
