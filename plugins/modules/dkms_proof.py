#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Prove that the kernel module of a DKMS package compiles, before the package replaces the one that works."""

from __future__ import annotations

DOCUMENTATION = r"""
module: dkms_proof
short_description: Prove that the kernel module of a DKMS package compiles, before the package replaces the one that works
version_added: 0.1.0
description:
  - Fetches the package, unpacks it into a directory of its own and has DKMS compile it there for the kernel that boots next. Packages,
    modules and DKMS's own trees of the machine stay as they are, also when the compiler fails.
  - What was proven is on record, by package, kernel and the version of its headers, so that a second run compiles nothing.
  - When it does not compile, the module fails with the compiler's first error line.
options:
  manager:
    description:
      - What fetches the package. With V(dnf) it is C(dnf download), from repositories of the name C(bedplate-*) alone, whose lists are
        signed; locks and module streams, which are those of the driver that runs, do not count.
    type: str
    choices: [apt, dnf]
    default: apt
  package:
    description: The package with the sources, such as V(nvidia-kernel-dkms).
    type: str
    required: true
  version:
    description: Its version, exactly; with O(manager=dnf) it may end with C(*), as the release does not name the driver.
    type: str
    required: true
  name:
    description: The name of the module in C(dkms status), such as V(nvidia-current).
    type: str
    required: true
  module_version:
    description: Its version there, such as V(550.163.01).
    type: str
    required: true
  kernel:
    description: The kernel, such as V(6.12.117+deb13-amd64). By default the newest in C(/boot), if GRUB boots that;
        where it boots by entries of its own or one that was saved, as on EL, the kernel has to be stated.
    type: str
  state_directory:
    description: Where the machine keeps the record of what was proven.
    type: path
    default: /var/lib/bedplate
author: The bedplate authors
attributes:
  check_mode: {support: full, description: 'Says whether it would have to be compiled, and compiles nothing.'}
  diff_mode: {support: none}
notes:
  - DKMS, a compiler and the kernel's headers must be installed.
"""

EXAMPLES = r"""
- name: Prove the driver for the kernel that boots next
  bedplate.cluster.dkms_proof:
    package: nvidia-kernel-dkms
    version: 550.163.01-2
    name: nvidia-current
    module_version: 550.163.01
# => changed: true, kernel: 6.12.117+deb13-amd64, message: "nvidia-current 550.163.01 compiles for kernel 6.12.117+deb13-amd64"
# => nvidia-current-open 535.261.03 does not compile for kernel 6.1.0-56-amd64 (dkms build ended with 10):
#      nv-pci.c:223:9: error: too few arguments to function 'pci_resize_resource'
"""

RETURN = r"""
kernel: {description: The kernel for which it compiles., type: str, returned: success}
message: {description: The outcome in a line., type: str, returned: success}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.dkms import (
    DkmsError,
    Proof,
    Prover,
    next_kernel,
    see_that_it_boots,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.dkms_packages import MANAGERS
from ansible_collections.bedplate.cluster.plugins.module_utils.node_manifest import STATE_DIRECTORY


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "manager": {"type": "str", "choices": ["apt", "dnf"], "default": "apt"},
            "package": {"type": "str", "required": True},
            "version": {"type": "str", "required": True},
            "name": {"type": "str", "required": True},
            "module_version": {"type": "str", "required": True},
            "kernel": {"type": "str"},
            "state_directory": {"type": "path", "default": STATE_DIRECTORY},
        },
        supports_check_mode=True,
    )
    asked = module.params
    packages = MANAGERS[asked["manager"]]
    prover = Prover(Path(asked["state_directory"]) / "dkms.json", packages=packages)
    try:
        kernel = asked["kernel"] or next_kernel()
        if asked["kernel"] and not module.check_mode:
            see_that_it_boots(kernel, manager=asked["manager"])
        if module.check_mode and not prover.has_headers(kernel):
            module.exit_json(changed=True, kernel=kernel, message=f"the headers of kernel {kernel} are not there yet")
        headers = prover.headers_of(kernel)
        proof = Proof(asked["package"], asked["version"], asked["name"], asked["module_version"], kernel, headers)
        what = f"{proof.name} {proof.module_version}"
        if prover.is_proven(proof):
            module.exit_json(changed=False, kernel=kernel, message=f"{what} is known to compile for kernel {kernel}")
        if module.check_mode:
            module.exit_json(changed=True, kernel=kernel, message=f"{what} is to be compiled for kernel {kernel}")
        # On disk, for it is large.
        prover.prove(proof, Path("/var/tmp"))
    except DkmsError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True, kernel=kernel, message=f"{what} compiles for kernel {kernel}")


if __name__ == "__main__":
    main()
