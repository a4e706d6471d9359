#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Fetch a file by URL and keep it only with its checksum."""

from __future__ import annotations

DOCUMENTATION = r"""
module: container_archive
short_description: Fetch a file by URL and keep it only with its checksum
version_added: 0.1.0
description:
  - A file with this checksum needs no network. Any other file is replaced by the download, if the download has the checksum.
  - Unlike M(ansible.builtin.get_url) it predicts in check mode without a connection to the URL, and creates the directory.
options:
  path:
    description: The file on the node.
    type: path
    required: true
  url:
    description: Its origin.
    type: str
    required: true
  sha256:
    description: Its SHA-256.
    type: str
    required: true
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: 'Fetches nothing.'}
  diff_mode: {support: none, description: It has no diff.}
"""

EXAMPLES = r"""
- name: Fetch pyxis
  bedplate.cluster.container_archive:
    path: /var/lib/bedplate/archives/pyxis.tar.gz
    url: https://mirror.example.org/pyxis.tar.gz
    sha256: 5f0e...
# => changed: true, changed_files: [/var/lib/bedplate/archives/pyxis.tar.gz]
"""

RETURN = r"""
changed_files: {description: 'The file, if it was fetched, or would be in check mode.', type: list, elements: str, returned: success}
"""

import shutil
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

from ansible_collections.bedplate.cluster.plugins.module_utils.common.files import atomic_write
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.containers.archives import ArchiveError, verify
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.write_problem import write_problem

_SECONDS = 60


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "url": {"type": "str", "required": True},
            "sha256": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    path, url, sha256 = Path(module.params["path"]), module.params["url"], module.params["sha256"]
    try:
        verify(path, sha256)
        module.exit_json(changed=False, changed_files=[])
    except ArchiveError:
        pass  # it is not there, or another one is wanted now
    if not module.check_mode:
        new = Path(module.tmpdir) / path.name
        try:
            with open_url(url, timeout=_SECONDS) as answer, new.open("wb") as stream:
                shutil.copyfileobj(answer, stream)
            verify(new, sha256)
        # Whatever goes wrong between here and there: a name, a certificate, a status, a connection that ends.
        except Exception as error:
            module.fail_json(msg=f"{url}: {error}. {path} stays as it was")
        try:
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            atomic_write(path, new.read_bytes(), mode=0o644)
        except OSError as error:
            module.fail_json(msg=write_problem(path, error))
    module.exit_json(changed=True, changed_files=[str(path)])


if __name__ == "__main__":
    main()
