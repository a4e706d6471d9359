#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Build pyxis against the installed Slurm, and again when Slurm is upgraded."""

from __future__ import annotations

DOCUMENTATION = r"""
module: container_pyxis
short_description: Build pyxis against the installed Slurm, and again when Slurm is upgraded
version_added: 0.1.0
description:
  - Verifies the checksum of the archive, unpacks it into its own directory, compiles it against the installed headers of Slurm
    and puts the plugin into C(lib/slurm) of O(prefix). If one of these steps fails, the old plugin stays.
  - The machine records the archive and the release of Slurm of each build. So a second run compiles nothing, and a run after an
    upgrade of Slurm compiles again.
  - Headers of another release than Slurm's are refused, for Slurm would refuse the plugin.
options:
  archive:
    description: The archive of pyxis' sources, on the node.
    type: path
    required: true
  sha256:
    description: Its SHA-256.
    type: str
    required: true
  prefix:
    description: Where it is installed, as C(make prefix=) has it.
    type: path
    default: /usr/local
  state_directory:
    description: Where the machine keeps the record of what was built.
    type: path
    default: /var/lib/bedplate
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: 'Says whether it would be built and why, and builds nothing.'}
  diff_mode: {support: none, description: It has no diff.}
notes:
  - A compiler, make and the headers of Slurm must be installed.
"""

EXAMPLES = r"""
- name: Build pyxis
  bedplate.cluster.container_pyxis:
    archive: /var/lib/bedplate/archives/pyxis.tar.gz
    sha256: 5f0e...
# => changed: true, plugin: /usr/local/lib/slurm/spank_pyxis.so, slurm: 24.11.5, message: "it was never built here"
"""

RETURN = r"""
plugin: {description: The plugin., type: str, returned: success}
slurm: {description: 'The release of the installed Slurm, empty without one.', type: str, returned: success}
message: {description: 'Reason of the build; empty if no build is needed.', type: str, returned: success}
slurmd: {description: 'Whether slurmd runs here, which loads plugins when it starts.', type: bool, returned: success}
"""

import tempfile
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.containers.pyxis_build import Pyxis, PyxisError
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import STATE_DIRECTORY


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "archive": {"type": "path", "required": True},
            "sha256": {"type": "str", "required": True},
            "prefix": {"type": "path", "default": "/usr/local"},
            "state_directory": {"type": "path", "default": STATE_DIRECTORY},
        },
        supports_check_mode=True,
    )
    asked = module.params
    pyxis = Pyxis(Path(asked["state_directory"]) / "pyxis.json", Path(asked["prefix"]))
    slurmd = command.run(["systemctl", "is-active", "--quiet", "slurmd.service"]).code == 0
    told = {"plugin": str(pyxis.plugin), "slurm": pyxis.slurm(), "slurmd": slurmd}
    if pyxis.is_built(asked["sha256"].lower()):
        module.exit_json(changed=False, message="", **told)
    why = pyxis.why(asked["sha256"].lower())
    if module.check_mode:
        module.exit_json(changed=True, message=why, **told)
    try:
        with tempfile.TemporaryDirectory(dir=module.tmpdir) as scratch:
            pyxis.build(Path(asked["archive"]), asked["sha256"].lower(), Path(scratch))
    except PyxisError as error:
        module.fail_json(msg=str(error), **told)
    module.exit_json(changed=True, message=why, **told)


if __name__ == "__main__":
    main()
