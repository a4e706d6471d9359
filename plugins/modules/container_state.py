#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compare what container engines, Slurm and the kernel say with what was wanted."""

from __future__ import annotations

DOCUMENTATION = r"""
module: container_state
short_description: Compare what container engines, Slurm and the kernel say with what was wanted
version_added: 0.1.0
description:
  - Reads the CDI specification and the GPUs that have a device file, asks each engine how it understands its settings, C(srun) for
    the options of pyxis and the kernel for the limits of namespaces. Fails with a line for each difference.
  - Where no driver is loaded there is no CDI specification, which RV(not_checked) says.
  - Changes nothing.
options:
  expected:
    description: What is to be, as C(asked) of what P(bedplate.cluster.container_runtime#filter) returns.
    type: dict
    required: true
author: The bedplate authors
attributes:
  check_mode: {support: full, description: "Differences are warnings there, since nothing was applied."}
"""

EXAMPLES = r"""
- name: Compare the engines with what was wanted
  bedplate.cluster.container_state:
    expected: "{{ (bedplate_cluster_file | bedplate.cluster.container_runtime(inventory_hostname, {'engines': ['podman']}))['asked'] }}"
# => fails: CDI specification /var/run/cdi/nvidia.yaml: wanted a device for nvidia1, found none; journalctl -b -u bedplate-cdi; ...
"""

RETURN = r"""
msg: {description: "That all is as wanted, or the differences, a line each.", type: str, returned: always}
findings: {description: 'The differences, each with what, wanted, found and fix.', type: list, elements: dict, returned: always}
not_checked: {description: What could not be looked at and why., type: list, elements: str, returned: always}
"""

from dataclasses import asdict
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.container_checks import Checker


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"expected": {"type": "dict", "required": True}}, supports_check_mode=True)
    wanted = module.params["expected"]
    checker = Checker()
    findings = checker.findings(wanted)
    lines = [str(one) for one in findings]
    if not findings:
        also = f"; not checked: {'; '.join(checker.not_checked)}" if checker.not_checked else ""
        lines = [f"container_runtime: {', '.join(one['name'] for one in wanted['engines'])} as wanted{also}"]
    result: dict[str, Any] = {
        "msg": "\n".join(lines),
        "findings": [asdict(one) for one in findings],
        "not_checked": checker.not_checked,
    }
    if findings and not module.check_mode:
        module.fail_json(**result)
    if findings:
        module.warn(result["msg"])
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
