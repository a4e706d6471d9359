#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Install Debian packages from files, each with its checksum, in one transaction."""

from __future__ import annotations

DOCUMENTATION = r"""
module: container_debs
short_description: Install Debian packages from files, each with its checksum, in one transaction
version_added: 0.1.0
description:
  - For packages outside all repositories, such as enroot's releases. Files that depend on one another are installed together;
    their other dependencies are installed from the repositories.
  - No file is installed unless all of them have the checksum that was stated.
options:
  archives:
    description: The files, on the node.
    type: list
    elements: dict
    required: true
    suboptions:
      path: {description: The file., type: path, required: true}
      sha256: {description: Its SHA-256., type: str, required: true}
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: 'A missing file counts as a package to install, and RV(unchecked) has it.'}
  diff_mode: {support: none, description: It has no diff.}
"""

EXAMPLES = r"""
- name: Install enroot
  bedplate.cluster.container_debs:
    archives:
      - {path: /var/lib/bedplate/archives/enroot_4.1.2-1_amd64.deb, sha256: 1c9d...}
# => changed: true, installed: ["enroot=4.1.2-1"]
"""

RETURN = r"""
installed: {description: 'Packages that were installed, or would be in check mode.', type: list, elements: str, returned: success}
unchecked: {description: What check mode could not look into yet., type: list, elements: str, returned: success}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.containers.archives import ArchiveError
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.containers.local_debs import (
    DebsError,
    install,
    missing_packages,
)


def main() -> None:
    """Run the module."""
    entry = {"path": {"type": "path", "required": True}, "sha256": {"type": "str", "required": True}}
    module = AnsibleModule(
        argument_spec={"archives": {"type": "list", "elements": "dict", "required": True, "options": entry}},
        supports_check_mode=True,
    )
    files = [(Path(one["path"]), str(one["sha256"])) for one in module.params["archives"]]
    absent = [str(path) for path, _unused in files if not path.exists()]
    if absent and module.check_mode:
        module.exit_json(changed=True, installed=[], unchecked=[f"{path} does not exist yet" for path in absent])
    try:
        lacks = missing_packages(files)
        if lacks and not module.check_mode:
            install([path for path, _unused in files])
    except (ArchiveError, DebsError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(lacks), installed=lacks, unchecked=[])


if __name__ == "__main__":
    main()
