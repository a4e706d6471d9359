#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Build kernel modules again that are built against a driver which has changed."""

from __future__ import annotations

DOCUMENTATION = r"""
module: dkms_rebuild
short_description: Build kernel modules again that are built against a driver which has changed
version_added: 0.2.0
description:
  - DKMS builds nvidia-fs and gdrdrv when their packages are installed, and not when the driver changes, whose symbols they use. For each
    kernel that DKMS has the driver for, this module builds those again whose build is older than the driver's, or missing.
options:
  modules:
    description: Names of the modules in C(dkms status). A module without sources on the machine is left out.
    type: list
    elements: str
    required: true
  driver:
    description: Version of the requested driver. In check mode, modules beside another one count as changed.
    type: str
    required: true
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: 'Reports whether a module needs a build, and builds nothing.'}
  diff_mode: {support: none, description: It has no diff.}
"""

EXAMPLES = r"""
- name: Build nvidia-fs again after the driver has changed
  bedplate.cluster.dkms_rebuild: {modules: [nvidia-fs], driver: 580.126.09}
# => changed: true, built: ["nvidia-fs 2.26.6 for kernel 6.8.0-90-generic"]
"""

RETURN = r"""
built: {description: Modules that were built, type: list, elements: str, returned: success}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.dkms_build import DkmsError
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.dkms_rebuild import rebuild, replaced, stale


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "modules": {"type": "list", "elements": "str", "required": True},
            "driver": {"type": "str", "required": True},
        },
        supports_check_mode=True,
    )
    names = module.params["modules"]
    try:
        # Check mode on a new machine.
        todo = stale(names, command.run) if command.find("dkms") else []
        if not module.check_mode:
            for one, kernel in todo:
                rebuild(one, kernel, command.run)
    except DkmsError as error:
        module.fail_json(msg=str(error))
        raise
    built = [f"{one.name} {one.version} for kernel {kernel}" for one, kernel in todo]
    if module.check_mode:
        built = built or replaced(names, module.params["driver"])
    module.exit_json(changed=bool(built), built=built)


if __name__ == "__main__":
    main()
