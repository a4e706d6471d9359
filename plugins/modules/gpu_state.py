#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Compare the GPU software of a machine with what was wanted."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_state
short_description: Compare the GPU software of a machine with what was wanted
version_added: 0.1.0
description:
  - Reads packages and holds, the kernel module on disk for the kernel that boots next, services, the driver that runs, the MIG
    instances of each GPU, and what NVLink takes (IMEX's list of the nodes of the domain, modules for the fabric manager), and compares
    them with one part of the set of the cluster file. Fails with a line for each difference.
  - Where C(expected) says that its manager is V(dnf), packages are read from rpm's records and held ones from the lines of dnf's
    versionlock; a package is held there when it is locked to the wanted version.
  - Where the machine has no GPU on its PCI bus nothing of a running driver can be read, which RV(not_checked) says.
  - Changes nothing.
options:
  expected:
    description: The part, as C(expected) of what P(bedplate.cluster.gpu_part#filter) returns.
    type: dict
    required: true
  running:
    description: Whether to look at what runs now. V(false) before a reboot that is to change that.
    type: bool
    default: true
author: The bedplate authors
attributes:
  check_mode: {support: full, description: "Differences are warnings there, since nothing was applied."}
"""

EXAMPLES = r"""
- name: Compare the driver with the cluster file
  bedplate.cluster.gpu_state:
    expected: "{{ (bedplate_cluster_file | bedplate.cluster.gpu_part(inventory_hostname, 'driver'))['expected'] }}"
# => msg: gpu_driver: 10 packages of driver 550.163.01 as wanted; not checked: the running driver and its services: no GPU is ...
# => or fails: package libcuda1: wanted held, found not held, so the next upgrade may change it; run the role gpu_driver again
"""

RETURN = r"""
msg: {description: "That all is as wanted, or the differences, a line each.", type: str, returned: always}
findings:
  description: The differences.
  type: list
  elements: dict
  returned: always
  contains:
    what: {description: What differs., type: str, sample: package libcuda1}
    wanted: {description: What the cluster file wants., type: str, sample: 550.163.01-2}
    found: {description: What is there., type: str, sample: not installed}
    fix: {description: What to do about it., type: str, sample: run the role gpu_driver again}
not_checked: {description: What could not be looked at and why., type: list, elements: str, returned: always}
"""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils import node_command
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu import (
    facts,
    mig_state,
    secure_boot,
    smi,
    state,
    state_nvlink,
)
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.dkms import DkmsError, next_kernel, see_that_it_boots
from ansible_collections.bedplate.cluster.plugins.module_utils.node_rpm import NONE, RpmError

_SECONDS = 30.0


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "expected": {"type": "dict", "required": True},
            "running": {"type": "bool", "default": True},
        },
        supports_check_mode=True,
    )
    wanted = module.params["expected"]
    if not module.params["running"]:
        wanted = {**wanted, "driver": {}, "units": [], "mig": []}
    gpu = facts.gather("/", _SECONDS, None)
    try:
        findings = list(_findings(wanted, gpu))
    except RpmError as error:
        module.fail_json(msg=str(error))
    left_out = state.not_checked(wanted.get("driver", {}), gpu)
    if wanted.get("signed") and gpu["secure_boot"] is None:
        left_out.append("whether Secure Boot lets the module in: its state is not known (`mokutil --sb-state`)")
    lines = [str(one) for one in findings]
    if not findings:
        also = f"; not checked: {'; '.join(left_out)}" if left_out else ""
        lines = [f"{wanted['role']}: {len(wanted['packages'])} packages {wanted['about']} as wanted{also}"]
    result: dict[str, Any] = {
        "msg": "\n".join(lines),
        "findings": [asdict(one) for one in findings],
        "not_checked": left_out,
    }
    if findings and not module.check_mode:
        module.fail_json(**result)
    if findings:
        module.warn(result["msg"])
    module.exit_json(changed=False, **result)


def _findings(wanted: dict[str, Any], gpu: dict[str, Any]) -> list[state.Finding]:
    reader = state.READERS[wanted["manager"]](node_command.run)
    kernel, version = "", ""
    problems = []
    if wanted.get("module"):
        try:
            kernel = wanted["module"].get("kernel") or next_kernel()
            see_that_it_boots(kernel, manager=wanted["manager"])
            version = reader.module(kernel, wanted["module"]["file"])
        except DkmsError as error:
            problems.append(state.Finding("kernel", "one that boots next", "not known", str(error)))
    follow, others = wanted.get("follow") or [], wanted.get("others") or []
    pinned = {**wanted["pinned"], **dict.fromkeys(follow, "*")}
    stated = {**wanted["pinned"], **wanted["packages"]}
    seen = state.Seen(
        packages=reader.packages({**dict.fromkeys(others, "*"), **pinned, **wanted["packages"]}),
        held=reader.held({**stated, **dict.fromkeys(wanted["none"], NONE)}, follow),
        kernel=kernel,
        module=version,
        units=reader.units(wanted["units"]),
    )
    runs = gpu["driver"]["version"] is not None
    return [
        *problems,
        *state.packages(wanted["packages"], pinned, seen, wanted["role"], wanted["several"]),
        *(state.leftovers(others, wanted["module"]["version"], stated, seen, reader.remove) if others else ()),
        *(state.module(wanted.get("module") or {}, seen) if not problems else ()),
        *state.units(wanted["units"], runs, seen),
        *state_nvlink.findings(wanted.get("nvlink") or {}, "" if problems else kernel, node_command.run),
        *state.driver(wanted.get("driver") or {}, gpu),
        *_mig(wanted.get("mig") or [], gpu),
        *(_secure_boot(wanted, seen, gpu["secure_boot"]) if wanted.get("signed") and not problems else ()),
    ]


def _secure_boot(wanted: dict[str, Any], seen: state.Seen, boots: str | None) -> Iterator[state.Finding]:
    # What is missing on disk is a finding already.
    file = wanted["module"]["file"] if seen.module else ""
    verdict = secure_boot.judge(boots, node_command.run, module=file, kernel=seen.kernel)
    if verdict.found:
        again = f"do not reboot; the role {wanted['role']} says what a person has to do"
        yield state.Finding("Secure Boot", "a module that is signed with an enrolled key", verdict.found, again)


def _mig(wanted: list[list[str]], gpu: dict[str, Any]) -> Iterator[state.Finding]:
    listed = None
    if wanted and gpu["driver"]["version"] is not None:
        said = mig_state.listing(lambda command: smi.run(command, _SECONDS))
        if isinstance(said, str):
            yield state.Finding("MIG", "profiles by name", said, "what is compared is their number alone")
        else:
            listed = said
    yield from mig_state.findings(wanted, gpu, listed)


if __name__ == "__main__":
    main()
