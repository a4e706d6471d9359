# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the firmware lets the driver's module in, where Secure Boot is on, and what a person has to do where it does not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from ...common.command import Outcome
from ...common.finding import Finding

Run = Callable[[list[str]], Outcome]

# What DKMS signs with unless its configuration says otherwise; on Ubuntu it asks for the key that the system has already.
_DKMS, _UBUNTU = "/var/lib/dkms/mok.pub", "/var/lib/shim-signed/mok/MOK.der"
_CONFIGURATION = "etc/dkms/framework.conf"
# What `mokutil --test-key` ends its line with, as mokutil 0.6.0 has it; older ones know the first two. Its exit status is 0 for a key
# that is not enrolled.
_ANSWERS = {
    "is not enrolled": "absent",
    "is already enrolled": "enrolled",
    "is already in db": "enrolled",
    "is already in the built-in trusted keyring": "enrolled",
    "is already in the enrollment request": "requested",
    "is blocked in dbx": "blocked",
    "is blocked in MokListX": "blocked",
    "is blocked in MokListXRT": "blocked",
}
_UNSIGNED = (
    "Nothing is rebooted. DKMS makes a key and signs when it builds, or prints why it does not (`modules won't be signed`, mostly for "
    "want of sign-file or openssl): `dkms build --force` and `dkms install --force` for the module of `dkms status`, then run this again"
)


def certificate(root: Path = Path("/")) -> str:
    """Return the path of the certificate with which DKMS signs on a machine."""
    settings: dict[str, str] = {}
    directory = root / f"{_CONFIGURATION}.d"
    for path in [root / _CONFIGURATION, *sorted(directory.glob("*.conf"))]:
        try:
            text = path.read_text(errors="replace")
        except OSError:
            continue
        settings.update(re.findall(r"""^\s*(mok_certificate|mok_signing_key)=["']?([^"'#\s]+)""", text, re.MULTILINE))
    if "mok_certificate" in settings:
        return settings["mok_certificate"]
    try:
        release = (root / "etc/os-release").read_text(errors="replace")
    except OSError:
        release = ""
    ubuntu = re.search(r"^ID=[\"']?ubuntu\b", release, re.MULTILINE)
    return _UBUNTU if ubuntu and "mok_signing_key" not in settings else _DKMS


def enrolment(path: str, run: Run) -> tuple[str, str]:
    """Ask mokutil for a key: absent, enrolled, requested, blocked, or "" for no such answer; and what it said."""
    outcome = run(["mokutil", "--test-key", path])
    said = " ".join(f"{outcome.stdout} {outcome.stderr}".split())
    for line in outcome.stdout.splitlines():
        if line.startswith(path) and (state := _ANSWERS.get(line.removeprefix(path).strip())):
            return state, said
    return "", said or f"ended with {outcome.code}"


def judge(state: str | None, run: Run, root: Path = Path("/"), module: str = "", kernel: str = "") -> Finding | None:
    """Return what is in the way of a module (a file such as nvidia.ko) for a kernel; `state` is what gpu_facts calls secure_boot.

    The remedy says everything to a person. An unknown state is no finding: whoever asks is to say that it is unknown.
    """
    if state != "enabled":
        return None
    path = certificate(root)
    if not (root / path.lstrip("/")).exists():
        return _finding(
            f"no key at {path}",
            f"Secure Boot is on, and DKMS has no key at {path}: it did not sign the module, and the kernel would refuse it. {_UNSIGNED}",
        )
    if module and not _signer(module, kernel, run):
        return _finding(
            f"{module} is not signed",
            f"Secure Boot is on, and {module} for kernel {kernel} has no signature: the kernel would refuse it. {_UNSIGNED}",
        )
    answer, said = enrolment(path, run)
    if answer == "enrolled":
        return None
    head = f"Secure Boot is on, and the key that signs the driver ({path})"
    if answer == "blocked":
        again = "Nothing is rebooted. Make a new key, sign anew, and run this again"
        return _finding("a forbidden key", f"{head} is on the firmware's list of forbidden keys ({said}). {again}")
    if not answer:
        text = (
            f"{head} may or may not be enrolled: `mokutil --test-key {path}` said: {said}. Nothing is rebooted. Install mokutil where "
            "it is not there, else a person has to look"
        )
        return _finding("not known", text)
    if answer == "requested":
        return _finding("asked for, not enrolled", f"{head} is asked for and not enrolled yet. {_steps(path, 2)}")
    return _finding("not enrolled", f"{head} is not enrolled: the kernel would refuse the module. {_steps(path, 1)}")


def _finding(found: str, remedy: str) -> Finding:
    return Finding("secure-boot", "Secure Boot", "a module that is signed with an enrolled key", found, remedy)


def _signer(module: str, kernel: str, run: Run) -> str:
    said = run(["modinfo", "--set-version", kernel, "--field", "signer", module.removesuffix(".ko")])
    return said.stdout.strip() if said.code == 0 else ""


def _steps(path: str, first: int) -> str:
    steps = [
        f"on the node, as root: `mokutil --import {path}`, and type a password of your choice twice; it is for step 3 alone. "
        "`mokutil --timeout -1` makes the screen of step 3 wait instead of going on after ten seconds",
        "drain the node, open its console (the BMC's, for no network is up then), and on the node: `systemctl reboot`",
        "at the blue screen press a key, then choose: Enroll MOK, Continue, Yes; type the password; Reboot",
        f"run this again. `mokutil --test-key {path}` says `is already enrolled` then",
    ]
    lines = [f"  {number}. {step}" for number, step in enumerate(steps, 1) if number >= first]
    return "\n".join(["Nothing is rebooted. No program can do this; a person does it once on this node:", *lines])
