#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Upgrade the packages of a machine to what its repositories offer."""

from __future__ import annotations

DOCUMENTATION = r"""
module: os_packages
short_description: Upgrade the packages of a machine to what its repositories offer
version_added: 0.2.0
description:
  - Upgrades with apt or dnf. Packages that are held or locked stay, such as the GPU software, and so do Slurm's. Nothing is removed, and
    changed files of C(/etc) stay. Fails if an upgrade needs a newer package of Slurm.
  - Where the cluster file has a promoted snapshot, the action of this name adds O(snapshot). Then the snapshot has the only repositories,
    packages that are newer than its own go down to its version, and dependencies that nothing needs any more and that it lacks are removed.
  - Writes C(/run/bedplate/reboot-wanted/packages) before it installs a kernel.
options:
  refresh:
    description: Whether the lists of the repositories are read first, also in check mode.
    type: bool
    default: true
  only:
    description:
      - The packages to install, each with its version, as in RV(installed) of a run in check mode. Left out, all that is offered.
    type: list
    elements: str
  note:
    description: The note for a reboot.
    type: path
    default: /run/bedplate/reboot-wanted/packages
  snapshot:
    description: The files of a snapshot's sources, by their path below C(/var/lib/bedplate/snapshot). The action sets it.
    type: dict
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: "It lists what would be installed, by the lists of now."}
"""

EXAMPLES = r"""
- name: Upgrade the packages
  bedplate.cluster.os_packages:
"""

RETURN = r"""
installed: {description: "Packages and their new versions.", type: list, elements: str, returned: success, sample: [zip 3.0-13+deb12u1]}
reboot_wanted: {description: Whether a kernel is among them., type: bool, returned: success}
security: {description: "Security updates among them.", type: list, elements: str, returned: success}
removed: {description: "Dependencies that only another snapshot has.", type: list, elements: str, returned: success}
newer: {description: "What is offered and not installed, because O(only) does not have it.", type: list, elements: str, returned: success}
"""

import shutil
from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.packages import snapshot_view, upgrades
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.reboot_notes import note


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "refresh": {"type": "bool", "default": True},
            "only": {"type": "list", "elements": "str"},
            "snapshot": {"type": "dict"},
            "note": {"type": "path", "default": "/run/bedplate/reboot-wanted/packages"},
        },
        supports_check_mode=True,
    )
    manager = "apt" if shutil.which("apt-get") else "dnf"
    files = module.params["snapshot"]
    run, exact = upgrades.patient, files is not None
    try:
        if files is not None:
            view = snapshot_view.SnapshotView(upgrades.patient)
            view.write(files)
            run = view.run
        if module.params["refresh"]:
            upgrades.refresh(manager, run)
        found, newer = upgrades.split(upgrades.offered(manager, run, exact=exact), module.params["only"])
        upgrades.refuse_own_upgrades(manager, found, run, without=newer)
        removed = upgrades.surplus(manager, found, run) if exact else []
        kernels = [str(one) for one in found if one.is_kernel]
        if kernels:
            # First: a run that is killed after the installation would find no upgrade the next time, and not write it.
            note(Path(module.params["note"]), f"{', '.join(kernels)} boots next", module.check_mode)
        if found and not module.check_mode:
            upgrades.install(manager, found, run, without=newer, exact=exact)
        if exact and not module.check_mode:
            # What dnf no longer needs is known only now.
            removed = upgrades.surplus(manager, [], run)
            upgrades.remove(manager, removed, run)
    except (upgrades.UpgradeError, OSError) as error:
        module.fail_json(msg=f"packages: {error}")
    module.exit_json(
        changed=bool(found or removed),
        installed=[str(one) for one in found],
        security=[str(one) for one in found if one.is_security],
        removed=removed,
        newer=[str(one) for one in newer],
        reboot_wanted=bool(kernels),
    )


if __name__ == "__main__":
    main()
