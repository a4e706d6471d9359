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
  sha256:
    description: SHA-256 that the image must have. Another one is an error that names both. Without it, a warning has the SHA-256.
    type: str
    default: ""
  stated_in:
    description: Place of that SHA-256, such as a line of the cluster file, for the error.
    type: str
    default: ""
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

from ansible_collections.bedplate.cluster.plugins.module_utils.image.build_image import build, sign
from ansible_collections.bedplate.cluster.plugins.module_utils.image.recipe import Recipe
from ansible_collections.bedplate.cluster.plugins.module_utils.image.tools import BuildError
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.served_image import serve_image


def existing(folder: Path, recipe: Recipe) -> dict[str, Any] | None:
    """Return image.json of an image of this recipe, or None."""
    try:
        found = json.loads((folder / "image.json").read_text())
    except (OSError, ValueError):
        return None
    is_same = isinstance(found, dict) and found.get("recipe") == recipe.digest and (folder / "image.img.zst").exists()
    return found if is_same else None


def judged(module: AnsibleModule, image: dict[str, Any]) -> None:
    """End with an error if an image is not the stated one, and warn without a stated one."""
    stated, place, folder = module.params["sha256"], module.params["stated_in"], module.params["folder"]
    if not stated:
        text = f"{folder}: the image has sha256 {image['sha256']}. State it under `images` of the cluster file to install it."
        module.warn(text)
    elif stated != image["sha256"]:
        text = f"{place} is {stated}, and the image in {folder} has {image['sha256']}. Write {image['sha256']} there to install this image"
        module.fail_json(msg=f"{text}, or restore the recipe of the other image.")


def main() -> None:
    """Build the image if the folder has no image of the recipe."""
    module = AnsibleModule(
        argument_spec={
            "recipe": {"type": "dict", "default": {}},
            "folder": {"type": "path", "required": True},
            "installer": {"type": "path", "required": True},
            "served": {"type": "path"},
            "key": {"type": "path", "no_log": False},
            "sha256": {"type": "str", "default": ""},
            "stated_in": {"type": "str", "default": ""},
        },
        supports_check_mode=True,
    )
    folder, installer, key = Path(module.params["folder"]), Path(module.params["installer"]), module.params["key"]
    try:
        given: dict[str, Any] = module.params["recipe"]
        row: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in given.items()}
        recipe = Recipe(**row)
        found = existing(folder, recipe)
        if module.check_mode:
            module.exit_json(changed=found is None, image=found or {})
        image = found or dict(build(recipe, folder, installer, Path(key) if key else None))
        if found and key and not (folder / "image.img.zst.minisig").exists():
            sign(folder / "image.img.zst", Path(key))
        is_new = bool(module.params["served"]) and serve_image(folder, Path(module.params["served"]), image)
    except (BuildError, OSError, TypeError) as error:
        module.fail_json(msg=f"The image was not built. {error}")
    judged(module, image)
    module.exit_json(changed=found is None or is_new, image=image)


if __name__ == "__main__":
    main()
