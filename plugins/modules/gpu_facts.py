#!/usr/bin/python
# SPDX-License-Identifier: GPL-3.0-or-later
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Read what a machine has of GPUs, NVSwitches and their driver."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_facts
short_description: Read what a machine has of GPUs, NVSwitches and their driver
version_added: 0.1.0
description:
  - Reads GPUs and NVSwitches by PCI address, the loaded driver and its user space, the modules on disk for each kernel, and the state
    of Secure Boot from sysfs, /proc and links, and runs C(nvidia-smi) for persistence, MIG, ECC and fabric state.
  - An unknown value is null, never 0 and never left out, and RV(gpu.problems) has the reason. The minor number of a GPU is read, and never
    taken from the order of the PCI addresses.
  - A driver that hangs does not hang this module. A command that has not answered in time is left behind, and C(nvidia-smi) does not run
    if the driver's files did not answer already.
  - With O(proof) it queries the package manager and DKMS as well, and reads C(/boot) and the boot loader's settings.
  - Judges nothing, fails for no state that it finds, and sets no variables. The only change is that C(nvidia-smi) may create device
    files, as for any user.
options:
  sysroot:
    description: Root directory of the machine. C(nvidia-smi) runs only with V(/).
    type: path
    default: /
  query:
    description: Whether to run C(nvidia-smi), if a driver is loaded.
    type: bool
    default: true
  early_file:
    description: A file that an initramfs contains; RV(gpu.initramfs_before) names older images.
    type: path
  users:
    description: >-
      Whether to look who uses the machine, for RV(gpu.in_use), and which notes it has, for RV(gpu.reboot_notes). It looks at every open
      file of every process.
    type: bool
    default: false
  proof:
    description: Options of M(bedplate.cluster.dkms_proof), for RV(gpu.unproven); only with O(sysroot) V(/).
    type: dict
    suboptions:
      manager: {description: What fetches the package., type: str, choices: [apt, dnf], default: apt}
      packages: {description: The packages with the sources and their versions., type: dict, required: true}
      module_version: {description: Version of the module in C(dkms status)., type: str, required: true}
      kernel: {description: The kernel; by default the kernel that boots next., type: str}
      further:
        description: Modules that are built against the driver.
        type: list
        elements: dict
        default: []
        suboptions:
          name: {description: The name of the module in C(dkms status)., type: str, required: true}
          packages: {description: 'The packages with its sources, name to version.', type: dict, required: true}
  timeout:
    description: Seconds that the driver may take, once for its files and once for C(nvidia-smi). At least 1.
    type: int
    default: 30
author: The bedplate authors (!UNKNOWN)
attributes:
  check_mode: {support: full, description: It reads in check mode as well since it changes nothing.}
"""

EXAMPLES = r"""
- name: Read the GPUs
  bedplate.cluster.gpu_facts:
  register: facts
# => facts.gpu.gpus: [{address: "0000:3b:00.0", minor: 4, model: NVIDIA H100 80GB HBM3, fabric_state: Completed, ...}, ...]

- name: Refuse a machine whose user space is not that of the loaded module
  ansible.builtin.assert:
    that: facts.gpu.driver.mismatch is not true
"""

RETURN = r"""
gpu:
  description: Facts of the machine.
  type: dict
  returned: always
  contains:
    gpus:
      description: The GPUs by PCI address. Each key except V(address) may be null.
      type: list
      elements: dict
      contains:
        address: {description: PCI address., type: str, sample: "0000:3b:00.0"}
        device: {description: Device id., type: str, sample: "0x2330"}
        subsystem_vendor: {description: Vendor id of the subsystem., type: str, sample: "0x10de"}
        subsystem_device: {description: Device id of the subsystem., type: str, sample: "0x16c1"}
        driver: {description: The driver that holds it., type: str, sample: nvidia}
        numa_node: {description: "Its NUMA node, null where the kernel knows none.", type: int, sample: 0}
        link_speed: {description: Current speed of its PCIe link in GT/s., type: float, sample: 32.0}
        max_link_speed: {description: Highest speed of its PCIe link in GT/s., type: float, sample: 32.0}
        link_width: {description: Current lanes., type: int, sample: 16}
        max_link_width: {description: Most lanes., type: int, sample: 16}
        minor: {description: "N of its /dev/nvidiaN.", type: int, sample: 4}
        model: {description: Its name., type: str, sample: NVIDIA H100 80GB HBM3}
        uuid: {description: "Its UUID, null as long as the driver has not set it up.", type: str, sample: GPU-5d3e...}
        excluded: {description: Whether the driver leaves it out., type: bool, sample: false}
        mig_instances: {description: GPU instances with their compute instances., type: list, sample: [{gi: 1, ci: [0]}]}
        persistence: {description: Whether persistence mode is on., type: bool, sample: true}
        mig: {description: "Whether MIG mode is on, null if the GPU lacks it.", type: bool, sample: false}
        mig_pending: {description: Whether MIG mode is on after the next reset., type: bool, sample: false}
        ecc: {description: Whether ECC is on., type: bool, sample: true}
        ecc_pending: {description: Whether ECC is on after the next reboot., type: bool, sample: true}
        fabric_state: {description: "State of its registration with the fabric, null without a fabric.", type: str, sample: Completed}
        fabric_status: {description: How its registration ended., type: str, sample: Success}
        failure: {description: "Failure that C(nvidia-smi) reports in place of values, null without one.", type: str, sample: GPU is lost}
    nvswitches:
      description: The NVSwitches by PCI address, with V(address) to V(max_link_width) as for GPUs.
      type: list
      elements: dict
    driver:
      description: The loaded driver and its user space.
      type: dict
      contains:
        version: {description: "Version of the loaded module, null if no module is loaded.", type: str, sample: 580.159.04}
        flavour: {description: V(open) or V(proprietary)., type: str, sample: open}
        parameters: {description: Parameters in force., type: dict, sample: {EnableGpuFirmware: 18}}
        libraries:
          description: Each C(libnvidia-ml.so.1) with the version of its target.
          type: list
          elements: dict
          sample: [{path: /usr/lib64/libnvidia-ml.so.1, version: 580.159.04}]
        mismatch: {description: Whether a library has another version than the loaded module., type: bool, sample: false}
    nouveau: {description: Whether nouveau is loaded., type: bool, sample: false}
    running_kernel: {description: Release of the running kernel., type: str, sample: 6.12.57+deb13-amd64}
    kernels:
      description: All kernels with an image in /boot or a directory below /lib/modules.
      type: list
      elements: dict
      contains:
        release: {description: Its release., type: str, sample: 6.12.57+deb13-amd64}
        running: {description: Whether it is the running one., type: bool, sample: true}
        image: {description: Whether /boot has its image., type: bool, sample: true}
        tree: {description: Whether /lib/modules has its directory., type: bool, sample: true}
        modules:
          description: Files of the nvidia module for it. The flavour is known if the file name has it, as Debian's does.
          type: list
          sample: [{path: /lib/modules/6.12.57+deb13-amd64/updates/dkms/nvidia-current.ko.xz, name: nvidia-current, flavour: proprietary}]
    initramfs_before: {description: Initramfs images older than O(early_file)., type: list, elements: str, sample: []}
    secure_boot: {description: "V(enabled), V(disabled), V(none) if the firmware lacks it, or null.", type: str, sample: disabled}
    in_use:
      description:
        - What a reboot, or another driver, would end, steps of jobs, containers and processes with a GPU open, and a slurmd, which may get
          a job. Null without O(users).
      type: list
      elements: str
      sample: ["GPUs are in use: python (1234)"]
    unproven:
      description:
        - What M(bedplate.cluster.dkms_proof) would do here with O(proof), or why it would refuse; empty where all is proven. Null without
          O(proof).
      type: list
      elements: str
      sample: ["the driver 550.163.01 needs a compilation"]
    reboot_notes:
      description: Names of the notes in C(/run/bedplate/reboot-wanted). Null without O(users).
      type: list
      elements: str
      sample: [gpu_settings]
    queried: {description: Whether C(nvidia-smi) ran and has answered., type: bool, sample: true}
    problems: {description: "What could not be read, and why.", type: list, elements: str, sample: []}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.driver.dkms_steps import PROOF, pending
from ansible_collections.bedplate.cluster.plugins.module_utils.gpu.gpu_inventory import nvidia_smi_query, read_facts
from ansible_collections.bedplate.cluster.plugins.module_utils.primitives.reboot_notes import NOTES, in_use, reasons


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "sysroot": {"type": "path", "default": "/"},
            "query": {"type": "bool", "default": True},
            "timeout": {"type": "int", "default": 30},
            "early_file": {"type": "path"},
            "users": {"type": "bool", "default": False},
            "proof": {"type": "dict", "options": PROOF},
        },
        supports_check_mode=True,
    )
    sysroot, seconds = module.params["sysroot"], module.params["timeout"]
    if seconds < 1:
        module.fail_json(msg=f"timeout: {seconds} is not a time to wait; give 1 second or more")
    ask = nvidia_smi_query(sysroot, module.params["query"])
    gpu = read_facts(sysroot, seconds, ask, module.params["early_file"] or "")
    gpu["in_use"] = in_use(Path(sysroot) / "proc") if module.params["users"] else None
    gpu["reboot_notes"] = sorted(reasons(Path(sysroot) / NOTES)) if module.params["users"] else None
    gpu["unproven"] = pending(proof) if (proof := module.params["proof"]) and sysroot == "/" else None
    module.exit_json(changed=False, gpu=gpu)


if __name__ == "__main__":
    main()
