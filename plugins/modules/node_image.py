#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Build the image of nodes, and the installer's kernel and initramfs."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_image
short_description: Build a disk image of Debian for nodes, and the boot files of its installer
version_added: 0.2.0
description:
  - Installs Debian with mmdebstrap, and writes one compressed disk with a GPT, signed shim and GRUB, BIOS boot, and an ext4 root.
  - The folder has C(image.img.zst), C(image.json) and C(boot). An image of the same recipe is not built again.
options:
  recipe:
    description: Release, kernel package, further packages, C(words) of the kernel's command line, C(units) to mask.
    type: dict
    default: {}
  folder:
    description: Where the image is written.
    type: path
    required: true
  installer:
    description: Folder with the sources of the installer, C(finish.sh), C(hooks), C(scripts) and C(lib).
    type: path
    required: true
  served:
    description: Folder that the order server serves. The image gets a second name there, C(images/SHA256.img.zst), on the same file system.
    type: path
  key:
    description: Secret key of minisign without a password. Without it, the image is not signed.
    type: path
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It predicts whether the image is built.}
"""

EXAMPLES = r"""
- name: Build the image
  bedplate.cluster.node_image:
    recipe: {release: bookworm, packages: [chrony]}
    folder: /var/lib/bedplate/provision/images/bookworm
    installer: /usr/local/share/bedplate/installer
"""

RETURN = r"""
image: {description: 'Content of image.json: hashes and sizes.', type: dict, returned: when the image exists}
"""

import json
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common.files import atomic_place
from ansible_collections.bedplate.cluster.plugins.module_utils.image.build_image import build
from ansible_collections.bedplate.cluster.plugins.module_utils.image.recipe import Recipe
from ansible_collections.bedplate.cluster.plugins.module_utils.image.tools import BuildError
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.order_server import image_path


def existing(folder: Path, recipe: Recipe) -> dict[str, Any] | None:
    """Return image.json of an image of this recipe, or None."""
    try:
        found = json.loads((folder / "image.json").read_text())
    except (OSError, ValueError):
        return None
    is_same = isinstance(found, dict) and found.get("recipe") == recipe.digest and (folder / "image.img.zst").exists()
    return found if is_same else None


def serve(folder: Path, served: str | None, image: dict[str, Any]) -> bool:
    """Give image and signature their names below `served`. Return True if a name is new. Raises OSError."""
    if not served:
        return False
    target = Path(served) / image_path(image["sha256"])[1:]
    target.parent.mkdir(parents=True, exist_ok=True)
    is_new = not target.exists()
    for end in ("", ".minisig"):
        source = folder / f"image.img.zst{end}"
        if source.exists():
            atomic_place(source, target.with_name(f"{target.name}{end}"), 0o644)
    return is_new


def main() -> None:
    """Build the image if the folder has no image of the recipe."""
    module = AnsibleModule(
        argument_spec={
            "recipe": {"type": "dict", "default": {}},
            "folder": {"type": "path", "required": True},
            "installer": {"type": "path", "required": True},
            "served": {"type": "path"},
            "key": {"type": "path", "no_log": False},
        },
        supports_check_mode=True,
    )
    folder, installer, key = Path(module.params["folder"]), Path(module.params["installer"]), module.params["key"]
    try:
        given: dict[str, Any] = module.params["recipe"]
        row: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in given.items()}
        recipe = Recipe(**row)
        found = existing(folder, recipe)
        if found is None and not module.check_mode:
            made = build(recipe, folder, installer, Path(key) if key else None)
            serve(folder, module.params["served"], made)
            module.exit_json(changed=True, image=made)
        placed = bool(found) and not module.check_mode and serve(folder, module.params["served"], found or {})
    except (BuildError, OSError, TypeError) as error:
        module.fail_json(msg=f"The image was not built. {error}")
    module.exit_json(changed=found is None or placed, image=found or {})


if __name__ == "__main__":
    main()
