#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keep bedplate's own tokens on the kernel command line, and leave all others as they are."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kernel_cmdline
short_description: Keep bedplate's own tokens on the kernel command line, and leave all others as they are
version_added: 0.1.0
description:
  - Adds exactly O(tokens) to the command line of all installed and later kernels. Other tokens stay, in their order and to
    the byte; other tokens with a key of O(tokens) are left out as long as bedplate has that key.
  - On Debian and Ubuntu with GRUB it writes C(/etc/default/grub.d/zz-bedplate.cfg), runs C(update-grub), and reads C(grub.cfg) back.
    Where that fails, the old drop-in is put back. On EL and with systemd-boot it changes boot loader entries, and what later kernels'
    entries are made from. Other boot loaders are refused with what was found.
  - Refuses C(hugepages=) that would leave a NUMA node of this machine less memory than its floor, the larger of 5 % and 2 GiB, on a NUMA
    node of less than 8 GiB of 25 % and 512 MiB. Such a kernel might not boot.
  - Reboots nothing. RV(reboot_wanted) compares with the running kernel's command line, not with what this call changed.
options:
  tokens:
    description:
      - All tokens of bedplate, in their order. An empty list removes all of them and restores the files to the byte.
      - Blanks are allowed in double quotes, C(key="a b"). C(hugepages=) needs C(hugepagesz=) before it.
    type: list
    elements: str
    required: true
  boot:
    description:
      - C(loader) changes the files of this machine's boot loader. C(network) changes no file, for a machine that gets its command line
        from a boot server; it only compares with the running kernel.
    type: str
    choices: [loader, network]
    default: loader
  probe:
    description: Change nothing. Fail where the tokens could not be set, such as without a boot loader. C(hugepages=) is not checked.
    type: bool
    default: false
  note:
    description:
      - The name of the note in C(/run/bedplate/reboot-wanted) with the reason of a reboot, as long as one is needed. Without a name
        no note is written.
    type: str
  sysroot:
    description: Where the root of the machine is. Commands are run there with C(chroot) when it is not V(/).
    type: path
    default: /
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: Predicts all files and what GRUB's settings would become. Runs no command that writes.}
  diff_mode: {support: full, description: The diffs of the files.}
"""

EXAMPLES = r"""
- name: Set huge pages for each NUMA node and pass DMA through
  bedplate.cluster.kernel_cmdline:
    tokens: [iommu=pt, hugepagesz=2M, "hugepages=0:16,1:8", transparent_hugepage=madvise]
  register: cmdline
# => changed: true, reboot_wanted: true
# => reason: the running kernel lacks iommu=pt hugepagesz=2M hugepages=0:16,1:8, and has transparent_hugepage=always in place of ...

- name: Compare the command line of a machine that boots from the network
  bedplate.cluster.kernel_cmdline:
    tokens: [iommu=pt]
    boot: network

- name: Give the command line back
  bedplate.cluster.kernel_cmdline:
    tokens: []
"""

RETURN = r"""
tokens: {description: The desired tokens., type: list, elements: str, returned: success}
running: {description: The tokens that the running kernel was started with., type: list, elements: str, returned: success}
reboot_wanted: {description: Whether the running kernel has other tokens of these keys than it should., type: bool, returned: success}
reason:
  description: Reason of a reboot, naming tokens; empty if no reboot is needed.
  type: str
  returned: success
  sample: the running kernel lacks iommu=pt
loader: {description: 'V(grub), V(entries), V(network), or empty without a boot loader.', type: str, returned: success, sample: grub}
gave_way:
  description: Tokens of others that this call took off the command line, since bedplate has their keys now.
  type: list
  elements: str
  returned: success
  sample: [transparent_hugepage=always]
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.files.manifest import (
    STATE_DIRECTORY,
    NodeFilesError,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.reboot_notes import NOTES, note
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot.cmdline_change import (
    apply_tokens,
    compare_tokens,
    refuse,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.tuning.boot.cmdline_tokens import CmdlineError


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "tokens": {"type": "list", "elements": "str", "required": True, "no_log": False},
            "boot": {"type": "str", "choices": ["loader", "network"], "default": "loader"},
            "probe": {"type": "bool", "default": False},
            "note": {"type": "str"},
            "sysroot": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    sysroot, tokens = Path(module.params["sysroot"]), module.params["tokens"]
    state, is_network = sysroot / STATE_DIRECTORY.lstrip("/"), module.params["boot"] == "network"
    try:
        if module.params["probe"]:
            if not is_network:
                refuse(sysroot, tokens, state)
            module.exit_json(changed=False)
        result = (
            compare_tokens(sysroot, tokens) if is_network else apply_tokens(sysroot, tokens, state, module.check_mode)
        )
    except (CmdlineError, NodeFilesError) as error:
        module.fail_json(msg="\n".join(error.problems))
    if is_network and result["reboot_wanted"]:
        module.warn(f"{result['reason']}: its boot server must pass {' '.join(result['tokens'])}; then reboot")
    if name := module.params["note"]:
        noted = note(sysroot / NOTES / name, result["reason"], module.check_mode)
        result["changed"] = result["changed"] or noted
    if result["gave_way"]:
        module.warn(
            f"{' '.join(result['gave_way'])} is replaced by {' '.join(result['tokens'])} on the kernel command line"
        )
    if not module._diff:
        result.pop("diff")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
