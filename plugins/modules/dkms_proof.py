#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Prove that the kernel module of a DKMS package compiles, before the package replaces a working one."""

from __future__ import annotations

DOCUMENTATION = r"""
module: dkms_proof
short_description: Prove that the kernel module of a DKMS package compiles, before the package replaces a working one
version_added: 0.1.0
description:
  - Fetches the packages, unpacks them into their own directory and compiles the module with DKMS for the kernel that boots next. Packages,
    modules and DKMS's own trees of the machine stay as they are, also when the compiler fails.
  - With O(manager=apt) it installs the headers of that kernel first, if they are missing. DKMS builds nothing then, because it would
    build the old driver, which need not compile for that kernel, and leave apt's packages half configured.
  - The package builds it for the running kernel as well. If that is another kernel with headers, and the package is not installed yet, the
    module must compile for it, too.
  - Where the driver is installed already, and DKMS has not built it for that kernel, which is installed as well, it is built and installed
    for it once it is proven.
  - Other modules that DKMS has installed for the running kernel, such as a file system's, must compile for that kernel, too. Otherwise the
    node would boot without them.
  - What was proven is on record, by package, kernel and the version of its headers, so that a second run compiles nothing.
  - If it does not compile, the module fails with the compiler's first error line, and has installed only headers.
options:
  manager:
    description:
      - Program that fetches the package. With V(dnf) it is C(dnf download), from repositories C(bedplate-*) alone, whose lists are
        signed; locks and module streams of the running driver do not count.
    type: str
    choices: [apt, dnf]
    default: apt
  packages:
    description:
      - The packages with the sources, name to version, such as C(nvidia-kernel-dkms) to C(550.163.01-2). They are unpacked together, for
        Ubuntu has the settings of DKMS in one package and the sources in another.
      - A version is exact; with O(manager=dnf) it may end with C(*), as the release does not name the driver.
    type: dict
    required: true
  module_version:
    description: The version of the module in C(dkms status), such as V(550.163.01). Its name is read from the sources.
    type: str
    required: true
  kernel:
    description: The kernel, such as V(6.12.117+deb13-amd64); it may be missing. By default the kernel that boots
        next, which C(/boot) and GRUB's settings, menu and environment decide; if they do not, state the kernel.
    type: str
  further:
    description:
      - Modules that will be installed beside the driver and are built against it, such as nvidia-fs. Each must compile with these sources
        of the driver, for the same kernels.
    type: list
    elements: dict
    default: []
    suboptions:
      name: {description: The name of the module in C(dkms status)., type: str, required: true}
      packages: {description: 'The packages with its sources, name to version.', type: dict, required: true}
  compile:
    description: Whether to prove it. V(false) only installs headers and module for the kernel.
    type: bool
    default: true
  state_directory:
    description: Where the machine keeps the record of what was proven.
    type: path
    default: /var/lib/bedplate
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: 'Reports whether a compilation is needed, and compiles nothing.'}
  diff_mode: {support: none, description: It has no diff.}
notes:
  - DKMS and a compiler must be installed; with O(manager=dnf) the kernel's headers as well.
"""

EXAMPLES = r"""
- name: Prove the driver for the kernel that boots next
  bedplate.cluster.dkms_proof:
    packages: {nvidia-kernel-dkms: 550.163.01-2}
    module_version: 550.163.01
# => changed: true, kernel: 6.12.117+deb13-amd64, message: "nvidia-current 550.163.01 compiles for kernel 6.12.117+deb13-amd64"
# => nvidia-current-open 535.261.03 does not compile for kernel 6.1.0-56-amd64 (dkms build ended with 10):
#      nv-pci.c:223:9: error: too few arguments to function 'pci_resize_resource'
"""

RETURN = r"""
kernel: {description: The kernel for which it compiles., type: str, returned: success}
message: {description: The outcome in a line., type: str, returned: success}
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.dkms_build import DkmsError
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.dkms_steps import (
    PROOF,
    kernel_of,
    prover_of,
    work,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.next_kernel import BootError
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import STATE_DIRECTORY


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **PROOF,
            "compile": {"type": "bool", "default": True},
            "state_directory": {"type": "path", "default": STATE_DIRECTORY},
        },
        supports_check_mode=True,
    )
    asked = module.params
    try:
        kernel = kernel_of(asked)
        done = work(prover_of(asked), asked, kernel, module.check_mode)
    except (BootError, DkmsError) as error:
        module.fail_json(msg=str(error))
        raise
    what = f"driver {asked['module_version']}"
    known = f"{what} is known to compile" if asked["compile"] else f"{what} was not compiled (compile: false)"
    module.exit_json(changed=bool(done), kernel=kernel, message=f"{'; '.join(done) or known} for kernel {kernel}")


if __name__ == "__main__":
    main()
