# SPDX-License-Identifier: GPL-3.0-or-later
"""What there is to do until a machine's kernel module is proven: told by who only reads, and done by bedplate.cluster.dkms_proof."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...primitives.files.manifest import STATE_DIRECTORY
from .dkms_build import CompiledModule, DkmsError, Prover
from .dkms_packages import MANAGERS
from .next_kernel import BootError, boot_problem, next_kernel

# On disk, for what is compiled is large.
SCRATCH = Path("/var/tmp")
# What is to be proven, as Ansible's modules declare their options.
PROOF: dict[str, dict[str, Any]] = {
    "manager": {"type": "str", "choices": sorted(MANAGERS), "default": "apt"},
    "package": {"type": "str", "required": True},
    "version": {"type": "str", "required": True},
    "name": {"type": "str", "required": True},
    "module_version": {"type": "str", "required": True},
    "kernel": {"type": "str"},
}


def prover_of(asked: Mapping[str, Any]) -> Prover:
    """Return who proves what dkms_proof is asked; `asked` is its arguments."""
    record = Path(asked.get("state_directory") or STATE_DIRECTORY) / "dkms.json"
    return Prover(record, packages=MANAGERS[asked["manager"]])


def kernel_of(asked: Mapping[str, Any]) -> str:
    """Return the kernel for which the module is to compile; raises BootError where nothing tells or it would not boot."""
    kernel = asked.get("kernel")
    if not kernel:
        return next_kernel()
    # Where nothing tells, the statement is all that there is; before a reboot that is not enough.
    boot_problem(kernel, asked["manager"], installed=False)
    return str(kernel)


def pending(asked: Mapping[str, Any]) -> list[str]:
    """Return what dkms_proof would do or refuse on this machine, changing nothing; empty where all is proven.

    What cannot be read is for the proof to fail with.
    """
    prover = prover_of(asked)
    try:
        still = ["DKMS is to build by itself again"] if prover.is_kept_still() else []
        return [*still, *work(prover, asked, kernel_of(asked), check=True)]
    except (BootError, DkmsError, OSError) as error:
        return [str(error)]


def work(prover: Prover, asked: Mapping[str, Any], kernel: str, check: bool) -> list[str]:
    """Return what was done, or with `check` is to be done; raises DkmsError where the module is not proven."""
    done = []
    compiles = asked.get("compile", True)
    if not check:
        prover.clean_up()
    if prover.lacks_headers(kernel):
        if check:
            return ["the headers are to be installed, and the module compiled"]
        prover.install_headers(kernel)
        done.append("headers installed")
    if check and not prover.has_headers(kernel):
        return ["the headers are not there yet, and the module is to be compiled"]
    headers = prover.headers_of(kernel)
    proof = CompiledModule(asked["package"], asked["version"], asked["name"], asked["module_version"], kernel, headers)
    what = f"{proof.name} {proof.module_version}"
    if compiles and not prover.is_proven(proof):
        if not check:
            prover.prove(proof, SCRATCH)
        done.append(f"{what} {'is to be compiled' if check else 'compiles'}")
    if compiles and (also := prover.built_as_well(proof)) and not prover.is_proven(also):
        if not check:
            prover.prove_as_well(also, kernel, SCRATCH)
        done.append(f"{what} {'is to be compiled' if check else 'compiles'} for kernel {also.kernel}, which runs, and")
    if prover.is_left_out(proof):
        if not check:
            prover.build(proof)
        done.append(f"the installed {what} {'is to be built' if check else 'was built'}")
    return done
