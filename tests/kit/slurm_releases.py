"""Releases of Slurm from Debian's archive, each in a root file system of its own: its daemons run there, and judge configurations.

Run as a program, inside such a root, it reads candidates (name -> files) from stdin and prints what slurmctld says of each.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible_collections.bedplate.cluster.plugins.module_utils.slurm.conf import config_trial

REPOSITORY = Path(__file__).parents[2]
ROOTS = REPOSITORY / ".cache/slurm"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
MIRROR = "http://deb.debian.org/debian"
# In mount and process namespaces of their own, so that nothing of them is left.
INSIDE = """set -e
root=$1; repository=$2; copy=$3; shift 3
if [ -n "$copy" ]; then
    mount -t tmpfs tmpfs "$root/media"
    mkdir "$root/media/upper" "$root/media/work" "$root/media/root"
    mount -t overlay overlay -o "lowerdir=$root,upperdir=$root/media/upper,workdir=$root/media/work" "$root/media/root"
    root=$root/media/root
fi
mount --bind "$repository" "$root/mnt"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
if [ -n "$copy" ]; then
    # A process that enters another mount namespace would leave a mere chroot.
    mkdir "$root/media/outside"
    cd "$root"
    pivot_root . media/outside
    umount -l media/outside
    root=.
fi
PATH=/usr/sbin:/usr/bin:/sbin:/bin exec chroot "$root" \\
    env --chdir=/mnt PYTHONPATH=/mnt:/mnt/collections PYTHONDONTWRITEBYTECODE=1 python3 "$@"
"""
PACKAGES = "python3,python3-pytest,python3-yaml,slurmctld,slurmd,slurm-client"

Files = Mapping[str, str]


class UnavailableError(RuntimeError):
    """A release that cannot be had here, with the reason."""


def root_of(suite: str) -> Path:
    """Return the root file system of a suite of Debian with its Slurm; made once, which takes half a minute."""
    root = ROOTS / suite
    if (root / "usr/bin/py.test-3").exists():
        return root
    if os.geteuid() or not shutil.which("mmdebstrap"):
        raise UnavailableError(
            f"root and mmdebstrap are needed for Slurm of Debian {suite}: apt-get install mmdebstrap"
        )
    made = ROOTS / f"{suite}.new"
    shutil.rmtree(made, ignore_errors=True)
    ROOTS.mkdir(parents=True, exist_ok=True)
    # A mirror may be behind; what is in it is signed all the same.
    options = ['Acquire::Check-Valid-Until "false"', 'Acquire::Languages "none"']
    done = subprocess.run(
        [
            # Its mounts end with it, also when it is killed: what removes a root must find none below it.
            "unshare", "--mount", "mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory", f"--keyring={KEYRING}",
            f"--include={PACKAGES}", "--dpkgopt=force-unsafe-io",
            *(f"--aptopt={option}" for option in options), suite, str(made),
            os.environ.get("BEDPLATE_DEBIAN_MIRROR", MIRROR),
        ],
        capture_output=True, text=True, check=False, timeout=1200,
    )  # fmt: skip
    if done.returncode:
        said = " / ".join(line for line in done.stderr.splitlines() if line.startswith("E: "))
        raise UnavailableError(f"Debian {suite} cannot be had from the archive: {said}")
    # One that an earlier list of packages made.
    shutil.rmtree(root, ignore_errors=True)
    made.rename(root)
    return root


def inside(
    suite: str, *arguments: str, stdin: str = "", timeout: float = 600, copy: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run Python in the root of a suite, with the repository as working directory; processes that it leaves end with it.

    `copy`: it may write anywhere, because it runs in a copy of the root that ends with it.
    """
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", INSIDE, "sh"]
    return subprocess.run(
        [*command, str(root_of(suite)), str(REPOSITORY), "copy" if copy else "", *arguments],
        input=stdin, capture_output=True, text=True, check=False, timeout=timeout,
    )  # fmt: skip


def ask(suite: str, candidates: Mapping[str, Files]) -> dict[str, config_trial.Result]:
    """Return what the slurmctld of a suite says of each candidate, a slurm.conf with the files beside it."""
    texts = json.dumps({name: dict(files) for name, files in candidates.items()})
    done = inside(suite, "/mnt/tests/kit/slurm_releases.py", stdin=texts)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return {name: config_trial.Result(**result) for name, result in found.items()}


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    json.dump({name: asdict(config_trial.run(files)) for name, files in asked.items()}, sys.stdout)
