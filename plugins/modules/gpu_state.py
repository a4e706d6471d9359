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
  - Reads packages and holds, the kernel module on disk for the kernel that boots next, services, the driver that runs with its options,
    of each GPU persistence, fabric and MIG instances, and what NVLink takes (IMEX's list of the nodes of the domain, modules for the
    fabric manager), and compares them with one part of the set of the cluster file. Fails with a line for each difference.
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
    description:
      - Whether to look at what runs now. V(false) before a reboot that is to change that; then it is a difference, too, where nothing on
        the machine tells whether the stated kernel boots next. Otherwise RV(not_checked) says that.
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

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
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
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.boot import BootError, next_kernel, see_that_it_boots
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
        wanted = {**wanted, "driver": {}, "units": [], "mig": [], "whole": False}
    gpu = facts.gather("/", _SECONDS, facts.asker("/", bool(wanted.get("driver"))))
    try:
        boots = _boots(wanted.get("module") or {}, wanted["manager"], sure=not module.params["running"])
        findings = list(_findings(wanted, gpu, boots))
    except RpmError as error:
        module.fail_json(msg=str(error))
    left_out = state.not_checked(wanted.get("driver", {}), gpu, wanted["units"])
    if boots.unknown and not boots.findings:
        left_out.append(boots.unknown)
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


@dataclass(frozen=True)
class Boots:
    """The kernel that boots next, or why it is not the wanted one; `unknown`: why nothing tells whether it is."""

    kernel: str = ""
    findings: tuple[state.Finding, ...] = ()
    unknown: str = ""


def _boots(wanted: Mapping[str, Any], manager: str, sure: bool) -> Boots:
    """Return which kernel boots next; `sure`: what nothing tells is a finding, for after a reboot it is too late."""
    if not wanted:
        return Boots()
    stated = str(wanted.get("kernel") or "")
    try:
        kernel = stated or next_kernel()
        unknown = see_that_it_boots(kernel, manager, installed=True) if stated else ""
    except BootError as error:
        return Boots(
            findings=(
                state.Finding("kernel", stated or "one that boots next", "another, or none that is known", str(error)),
            )
        )
    if unknown and sure:
        fix = f"reboot this node yourself, at its console ({unknown})"
        return Boots(kernel, (state.Finding("kernel", f"{kernel} boots next", "nothing that tells", fix),))
    return Boots(kernel, unknown=unknown)


def _findings(wanted: dict[str, Any], gpu: dict[str, Any], boots: Boots) -> list[state.Finding]:
    reader = state.READERS[wanted["manager"]](node_command.run)
    kernel, version = boots.kernel, ""
    problems = list(boots.findings)
    if wanted.get("module") and not problems:
        version = reader.module(kernel, wanted["module"]["file"])
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
        *(state.gpus(wanted["units"], gpu) if wanted.get("driver") else ()),
        *_mig(wanted.get("mig") or [], gpu),
        *(mig_state.still_split(gpu) if wanted.get("whole") else ()),
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
