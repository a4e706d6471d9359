# SPDX-License-Identifier: GPL-3.0-or-later
"""List (verify) and carry out (bedplate.cluster.dkms_proof) the steps that prove a machine's kernel modules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...primitives.files.manifest import STATE_DIRECTORY
from .dkms_build import DkmsError, Prover
from .dkms_packages import MANAGERS
from .dkms_record import CompiledModule
from .next_kernel import BootError, boot_problem, next_kernel

# On disk, since a build is large.
SCRATCH = Path("/var/tmp")
# Options of the module to prove, as Ansible's modules declare their options.
PROOF: dict[str, dict[str, Any]] = {
    "manager": {"type": "str", "choices": sorted(MANAGERS), "default": "apt"},
    "packages": {"type": "dict", "required": True},
    "module_version": {"type": "str", "required": True},
    "kernel": {"type": "str"},
    "further": {
        "type": "list",
        "elements": "dict",
        "options": {"name": {"type": "str", "required": True}, "packages": {"type": "dict", "required": True}},
        "default": [],
    },
}


def prover_of(asked: Mapping[str, Any]) -> Prover:
    """Return the prover for the arguments of dkms_proof."""
    record = Path(asked.get("state_directory") or STATE_DIRECTORY) / "dkms.json"
    return Prover(record, packages=MANAGERS[asked["manager"]])


def kernel_of(asked: Mapping[str, Any]) -> str:
    """Return the kernel for which the module must compile. Raises BootError if that is unknown, or if it would not boot."""
    kernel = asked.get("kernel")
    if not kernel:
        return next_kernel()
    # Before the kernel is installed, the stated kernel is the only source; before a reboot that is not enough.
    boot_problem(kernel, asked["manager"], installed=False)
    return str(kernel)


def pending(asked: Mapping[str, Any]) -> list[str]:
    """Return what dkms_proof would do or refuse on this machine, without a change; empty if all is proven.

    What cannot be read is for the proof to fail with.
    """
    prover = prover_of(asked)
    try:
        still = ["DKMS must be resumed"] if prover.is_kept_still() else []
        return [*still, *work(prover, asked, kernel_of(asked), check=True)]
    except (BootError, DkmsError, OSError) as error:
        return [str(error)]


def work(prover: Prover, asked: Mapping[str, Any], kernel: str, check: bool) -> list[str]:
    """Return the steps that were done, or with `check` the steps to do. Raises DkmsError if the module does not compile."""
    done = []
    if not check:
        prover.clean_up()
    if prover.lacks_headers(kernel):
        if check:
            return ["the headers must be installed, and the module compiled"]
        prover.install_headers(kernel)
        done.append("headers installed")
    if check and not prover.has_headers(kernel):
        return ["the headers are not installed yet; then the module must be compiled"]
    proof = CompiledModule(dict(asked["packages"]), "", asked["module_version"], kernel, prover.headers_of(kernel))
    if asked.get("compile", True):
        further = [
            # The driver's packages are those of its proof: built against another driver it is another module.
            replace(proof, name=one["name"], module_version="", packages={**proof.packages, **one["packages"]})
            for one in asked.get("further") or ()
        ]
        done += _proofs(prover, proof, further, check)
    for module in prover.left_out(proof):
        if not check:
            prover.build(module, kernel)
        done.append(f"the installed {module.name} {module.version} {'needs a build' if check else 'was built'}")
    return done


def _proofs(prover: Prover, proof: CompiledModule, further: Sequence[CompiledModule], check: bool) -> list[str]:
    """Compile each unproven module, and return a text for each; with `check` only the texts."""
    named = {one.name for one in further}
    others = [*further, *(one for one in prover.others(proof) if one.name not in named)]
    todo = [one for one in (proof, *others) if not prover.record.find(one)]
    if proof not in todo and (any(one in further for one in todo) or prover.built_against_driver(todo)):
        todo = [proof, *todo]
    texts = [f"{one} {'needs a compilation' if check else 'compiles'}" for one in todo]
    if todo and not check:
        texts = [f"{one} compiles" for one in prover.prove(todo, SCRATCH)]
    also = prover.built_as_well(proof)
    if also and not prover.record.find(also):
        if not check:
            prover.prove_as_well(also, proof.kernel, SCRATCH)
        verb = "needs a compilation" if check else "compiles"
        texts.append(f"{prover.record.find(also) or also} {verb} for kernel {also.kernel}, which runs, and")
    lost = [one for one in prover.further_as_well(proof, further) if not prover.record.find(one)]
    if lost:
        if not check:
            prover.prove([replace(proof, kernel=lost[0].kernel, headers=lost[0].headers), *lost], SCRATCH)
        verb = "needs a compilation" if check else "compiles"
        texts += [f"{one} {verb} for kernel {one.kernel}, which runs, and" for one in lost]
    return texts
