#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Stop if Secure Boot would keep the driver out, with the steps for a person."""

from __future__ import annotations

DOCUMENTATION = r"""
module: secure_boot
short_description: Stop if Secure Boot would keep the driver out, with the steps for a person
version_added: 0.1.0
description:
  - If Secure Boot is on, the kernel loads only modules that are signed with a key the firmware knows. Checks the signature of the module,
    and with C(mokutil --test-key) the key that DKMS signs with. If one of them fails, the module fails with all commands for the node
    and the keys at its console; a person enrolls a key, never a program.
  - It notes a needed reboot only if the module will be loaded. If Secure Boot is off or missing, it does nothing else.
  - Where the state of Secure Boot is not known it warns, and guesses nothing.
options:
  state:
    description: What P(bedplate.cluster.gpu_facts#module) returns as C(secure_boot). Absent or empty for not known.
    type: str
  file:
    description: The module's file, such as C(nvidia.ko), whose signature is checked. Without it no signature is.
    type: str
  kernel:
    description: The kernel that boots next. By default the newest that is installed.
    type: str
  reboot:
    description: Reason of a reboot; empty for no reason.
    type: str
    default: ''
  note:
    description: The file with the reason.
    type: path
    default: /run/bedplate/reboot-wanted/gpu_driver
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: "What would stop it is a warning there, since nothing was installed."}
"""

EXAMPLES = r"""
- name: Read what runs
  bedplate.cluster.gpu_facts: {query: false}
  register: runs

- name: See that the firmware lets the driver in
  bedplate.cluster.secure_boot:
    state: "{{ runs.gpu.secure_boot }}"
    file: nvidia.ko
# => or fails: Secure Boot is on, and the key that signs the driver (/var/lib/dkms/mok.pub) is not enrolled: ...
#      1. on the node, as root: `mokutil --import /var/lib/dkms/mok.pub`, and type a password of your choice twice; ...
"""

RETURN = r"""
msg: {description: "The obstacle and its remedy, or a line without one.", type: str, returned: always}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.common import command
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.next_kernel import BootError, next_kernel
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.secure_boot_state import judge
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.reboot_notes import note

_UNKNOWN = (
    "whether Secure Boot is on is not known (gpu_facts has the reason in `problems`), so the driver's key was not checked. "
    "Run `mokutil --sb-state` on the node"
)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str"},
            "file": {"type": "str"},
            "kernel": {"type": "str"},
            "reboot": {"type": "str", "default": ""},
            "note": {"type": "path", "default": "/run/bedplate/reboot-wanted/gpu_driver"},
        },
        supports_check_mode=True,
    )
    asked = module.params
    state = asked["state"] or None
    if state is None:
        module.warn(_UNKNOWN)
    file = asked["file"] or ""
    kernel = ""
    if state == "enabled" and file:
        try:
            kernel = asked["kernel"] or next_kernel()
        except BootError as error:
            module.fail_json(msg=f"Secure Boot is on, but the kernel that the module is signed for is unknown: {error}")
    obstacle = judge(state, command.run, module=file, kernel=kernel)
    if obstacle and not module.check_mode:
        module.fail_json(msg=obstacle.remedy)
    if obstacle:
        module.warn(obstacle.remedy)
    changed = bool(not obstacle and note(Path(asked["note"]), asked["reboot"], module.check_mode))
    good = {"enabled": "Secure Boot is on, and the firmware knows the driver's key", None: _UNKNOWN}
    module.exit_json(changed=changed, msg=obstacle.remedy if obstacle else good.get(state, "Secure Boot is off"))


if __name__ == "__main__":
    main()
