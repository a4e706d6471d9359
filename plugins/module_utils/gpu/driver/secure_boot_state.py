# SPDX-License-Identifier: GPL-3.0-or-later
"""Determine whether the firmware accepts the driver's module under Secure Boot, and write the steps that a person must do if not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from ...common.command import Outcome
from ...common.finding import Finding

Run = Callable[[list[str]], Outcome]

# DKMS signs with this key unless it is configured otherwise; on Ubuntu it uses the system's existing key.
_DKMS, _UBUNTU = "/var/lib/dkms/mok.pub", "/var/lib/shim-signed/mok/MOK.der"
_CONFIGURATION = "etc/dkms/framework.conf"
# Last words of `mokutil --test-key` in mokutil 0.6.0; older versions have only the first two. The exit status is 0 for a key that is not
# enrolled.
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
    "Nothing is rebooted. DKMS makes a key and signs when it builds, or prints why it does not (`modules won't be signed`, mostly because "
    "sign-file or openssl is missing): `dkms build --force` and `dkms install --force` for the module of `dkms status`, then run this again"
)


def certificate(root: Path = Path("/")) -> str:
    """Return the path of the certificate of the key with which DKMS signs on a machine."""
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
    """Return a key's state from mokutil (absent, enrolled, requested, blocked, or "" for another answer) and mokutil's output."""
    outcome = run(["mokutil", "--test-key", path])
    said = " ".join(f"{outcome.stdout} {outcome.stderr}".split())
    for line in outcome.stdout.splitlines():
        if line.startswith(path) and (state := _ANSWERS.get(line.removeprefix(path).strip())):
            return state, said
    return "", said or f"ended with {outcome.code}"


def judge(state: str | None, run: Run, root: Path = Path("/"), module: str = "", kernel: str = "") -> Finding | None:
    """Return what prevents a module (a file such as nvidia.ko) from being loaded by a kernel; `state` is secure_boot of gpu_facts.

    The remedy is complete for a person. An unknown state is no finding: the caller must report it.
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
        again = "Nothing is rebooted. Make a new key, sign again, and repeat this run"
        return _finding("a forbidden key", f"{head} is on the firmware's list of forbidden keys ({said}). {again}")
    if not answer:
        text = (
            f"{head} may or may not be enrolled: `mokutil --test-key {path}` said: {said}. Nothing is rebooted. Install mokutil if it "
            f"is missing; otherwise a person must check"
        )
        return _finding("not known", text)
    if answer == "requested":
        return _finding("requested, not enrolled", f"{head} is requested but not enrolled yet. {_steps(path, 2)}")
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
