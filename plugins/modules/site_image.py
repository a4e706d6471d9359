#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Place an image that was built elsewhere on the provision host, and serve it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: site_image
short_description: Place an image that was built elsewhere on the provision host
version_added: 0.2.0
description:
  - Copies the image from the control node if the host does not serve it yet, writes its C(image.json), and serves it by its SHA-256.
  - The SHA-256 of O(source) is compared before the copy.
options:
  source:
    description: The compressed image, a path on the control node.
    type: path
    required: true
  sha256:
    description: SHA-256 of that file.
    type: str
    required: true
  stated_in:
    description: Place of that SHA-256, such as a line of the cluster file, for the error.
    type: str
    default: ""
  folder:
    description: Folder of the image on the host.
    type: path
    required: true
  served:
    description: Folder that the host serves, on the same file system.
    type: path
    required: true
  boot:
    description: Folder on the host with kernel and initramfs of the installer, as M(bedplate.cluster.node_image) made it for another image.
    type: path
    required: true
  key:
    description: Secret key of minisign without a password, a path on the host. Without it, the image is not signed.
    type: path
  upload:
    description: The copy on the host. The action plugin sets it.
    type: path
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It predicts whether the image is placed.}
"""

EXAMPLES = r"""
- name: Serve the image of the site
  bedplate.cluster.site_image:
    source: /srv/images/noble.img.zst
    sha256: 5f2b...
    folder: /var/lib/bedplate/provision/images/noble
    served: /var/lib/bedplate/provision/served
    boot: /var/lib/bedplate/provision/images/trixie/boot
"""

RETURN = r"""
image: {description: 'Content of image.json: hashes and sizes.', type: dict, returned: when the image exists}
is_missing: {description: Whether the image must be copied first., type: bool, returned: always}
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common.files import (
    atomic_link,
    atomic_write,
    temporary_of,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.image.build_image import sign
from ansible_collections.bedplate.cluster.plugins.module_utils.image.site_image import facts
from ansible_collections.bedplate.cluster.plugins.module_utils.image.tools import BuildError
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.medium import BOOT_FILES
from ansible_collections.bedplate.cluster.plugins.module_utils.provision.served_image import serve_image


def placed(folder: Path, sha256: str) -> dict[str, Any] | None:
    """Return image.json if the folder has this image."""
    try:
        found = json.loads((folder / "image.json").read_text())
        size = (folder / "image.img.zst").stat().st_size
    except (OSError, ValueError):
        return None
    is_same = isinstance(found, dict) and (found.get("sha256"), found.get("bytes")) == (sha256, size)
    return found if is_same else None


def place(folder: Path, upload: Path, sha256: str) -> dict[str, Any]:
    """Move a copy to its place, and return its image.json, which is written last. Raises BuildError, OSError."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    image = folder / "image.img.zst"
    copy = temporary_of(image)
    try:
        shutil.move(str(upload), str(copy))
        copy.chmod(0o644)
        # The user who logs in may be another one.
        os.chown(copy, os.geteuid(), os.getegid())
        made = facts(copy)
        if made["sha256"] != sha256:
            raise BuildError(f"the copy has sha256 {made['sha256']}, and the file had {sha256}. Run this again.")
        # A signature of the image before is none of this one.
        (folder / "image.img.zst.minisig").unlink(missing_ok=True)
        copy.rename(image)
    finally:
        copy.unlink(missing_ok=True)
    atomic_write(folder / "image.json", json.dumps(made, indent=2) + "\n")
    return made


def link_boot(folder: Path, boot: Path, check: bool) -> bool:
    """Use the boot files of another image. Return whether that changes anything. Raises BuildError, OSError."""
    if missing := [name for name in BOOT_FILES if not (boot / name).is_file()] if not check else []:
        raise BuildError(f"{boot}: {', '.join(missing)} not found. Build the image that `image_boots` names first.")
    link = folder / "boot"
    if link.is_symlink() and link.readlink() == boot:
        return False
    if not check:
        atomic_link(link, str(boot))
    return True


def main() -> None:
    """Place the image if the host does not have it."""
    module = AnsibleModule(
        argument_spec={
            "source": {"type": "path", "required": True},
            "sha256": {"type": "str", "required": True},
            "stated_in": {"type": "str", "default": ""},
            "folder": {"type": "path", "required": True},
            "served": {"type": "path", "required": True},
            "boot": {"type": "path", "required": True},
            "key": {"type": "path", "no_log": False},
            "upload": {"type": "path"},
        },
        supports_check_mode=True,
    )
    given = module.params
    folder, check = Path(given["folder"]), module.check_mode
    changed = False
    try:
        found = placed(folder, given["sha256"])
        if found is None and (check or not given["upload"]):
            module.exit_json(changed=check, is_missing=True)
        if found is None:
            found, changed = place(folder, Path(given["upload"]), given["sha256"]), True
        changed |= link_boot(folder, Path(given["boot"]), check)
        if not check:
            if given["key"] and not (folder / "image.img.zst.minisig").exists():
                sign(folder / "image.img.zst", Path(given["key"]))
            changed |= serve_image(folder, Path(given["served"]), found)
    except (BuildError, OSError) as error:
        module.fail_json(msg=f"The image {folder.name} was not placed. {error}")
    module.exit_json(changed=changed, is_missing=False, image=found)


if __name__ == "__main__":
    main()
