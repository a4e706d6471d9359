# SPDX-License-Identifier: GPL-3.0-or-later
"""The node images: a Debian with systemd, SSH and Python; the packages of the roles downloaded, not installed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
import time
from pathlib import Path

from lab.host import KEYRING
from lab.machines import DEFAULT_RELEASE
from lab.paths import image_cache
from lab.podman import Podman
from lab.shell import capture, say, succeeds

REPOSITORY = "localhost/bedplate-node"
MIRROR = "http://deb.debian.org/debian"
SECURITY_MIRROR = "http://deb.debian.org/debian-security"

ARCHIVES = "archives-"
"""Folders beside the images, by their tags: see lab/archives.py."""
KEPT = 3
"""Archives of a release that stay in the cache: checkouts of different versions take turns without building again."""

INSTALLED = (
    "systemd-sysv",
    "dbus",
    "openssh-server",
    "python3",
    "python3-apt",
    "iproute2",
    "procps",
    "ca-certificates",
)
"""What a node has before the first role runs: what an installer leaves, no more."""

DOWNLOADED = {
    "trixie": (
        "slurmctld",
        "slurmd",
        "slurmdbd",
        "slurmrestd",
        "slurm-client",
        "munge",
        "mariadb-server",
        "python3-pymysql",
        "libpam-slurm-adopt",
        "chrony",
        "opensm",
        "logrotate",
        # For molecule/opensm, whose fabric is simulated.
        "ibsim-utils",
    ),
    # For nodes of its GPU stack; no scenario has a cluster of it.
    "bookworm": ("chrony", "logrotate"),
}
"""Release -> what the roles install. The .deb files lie in apt's cache: the installation is real, quick, and needs no network."""

MASKED = (
    # These reach through to the machine that runs the container: its kernel, its devices, its clock's leap file.
    "systemd-modules-load.service",
    "systemd-sysctl.service",
    "systemd-udevd.service",
    "systemd-udev-trigger.service",
    "systemd-udevd-control.socket",
    "systemd-udevd-kernel.socket",
    "systemd-timesyncd.service",
    "systemd-binfmt.service",
    "sys-kernel-config.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "dev-hugepages.mount",
    "proc-sys-fs-binfmt_misc.automount",
    # No consoles and no disks here.
    "console-getty.service",
    "getty.target",
    "systemd-remount-fs.service",
    # A test must not race with an upgrade.
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
)

NODE_FILES = {
    "usr/local/sbin/lab-node": ("lab-node", 0o755),
    "etc/systemd/system/lab-node.service": ("lab-node.service", 0o644),
}
INLINE_FILES = {
    # dpkg's fsync per file is most of the time of an installation, and a lab node has nothing to lose.
    "etc/dpkg/dpkg.cfg.d/lab": "force-unsafe-io\n",
    # apt would otherwise delete the downloaded packages as soon as they are installed or the lists are old.
    "etc/apt/apt.conf.d/99lab": 'APT::Keep-Downloaded-Packages "true";\nAcquire::Languages "none";\n',
    "etc/ssh/sshd_config.d/lab.conf": (
        "HostKey /etc/ssh/ssh_host_ed25519_key\nPermitRootLogin prohibit-password\nUseDNS no\n"
    ),
    # The nodes share the clock of the machine that runs them: chrony may measure it there, not set it.
    "etc/systemd/system/chrony.service.d/lab.conf": (
        "[Service]\nExecStart=\nExecStart=/usr/sbin/chronyd $DAEMON_OPTS -x\n"
    ),
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n",
}


def sources(release: str, mirror: str, security: str) -> list[str]:
    """Return the lines of sources.list."""
    return [
        f"deb {mirror} {release} main",
        f"deb {mirror} {release}-updates main",
        f"deb {security} {release}-security main",
    ]


def hooks(release: str, overlay: Path) -> list[str]:
    """Return the steps that make a node out of a bare Debian; each runs with $1 = the new root."""
    inside = 'chroot "$1" '
    return [
        f"tar-in {overlay} /",
        inside + "systemctl enable --quiet lab-node.service ssh.service",
        inside + "systemctl mask --quiet " + " ".join(MASKED),
        'rm -f "$1"/etc/ssh/ssh_host_*',
        ': > "$1/etc/machine-id"',
        inside + "apt-get clean",
        # mmdebstrap turns recommended packages off while it works; a node's apt, and so a role, has them on.
        inside + "apt-get install -y --download-only -o APT::Install-Recommends=true " + " ".join(DOWNLOADED[release]),
        'rm -f "$1"/usr/sbin/policy-rc.d "$1"/etc/apt/apt.conf.d/99mmdebstrap "$1"/etc/resolv.conf "$1"/etc/hostname',
        'touch "$1"/etc/resolv.conf "$1"/etc/hostname',
        'rm -rf "$1"/var/log/apt "$1"/var/log/dpkg.log',
    ]


def node_files() -> dict[str, tuple[bytes, int]]:
    """Return the files of the lab in the image: path -> content and mode."""
    folder = Path(__file__).parent / "node"
    files = {path: ((folder / name).read_bytes(), mode) for path, (name, mode) in NODE_FILES.items()}
    files.update({path: (text.encode(), 0o644) for path, text in INLINE_FILES.items()})
    return files


def recipe_hash(release: str) -> str:
    """Return the name of this recipe: any change of the image's content gives another name."""
    recipe = {
        "suite": release,
        "installed": INSTALLED,
        "hooks": hooks(release, Path("overlay")),
        "files": {path: [content.decode(), mode] for path, (content, mode) in sorted(node_files().items())},
    }
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:12]


def tag(release: str) -> str:
    """Return the tag of this checkout's image of a release, in podman and in the name of its archive."""
    return recipe_hash(release) if release == DEFAULT_RELEASE else f"{release}-{recipe_hash(release)}"


def ensure(podman: Podman, release: str = DEFAULT_RELEASE) -> str:
    """Build the image of a release if neither podman nor the cache has it; return its reference."""
    wanted = f"{REPOSITORY}:{tag(release)}"
    if podman.has_image(wanted):
        return wanted
    archive = image_cache() / f"node-{tag(release)}.tar"
    if archive.exists():
        say("image", f"taken from {archive}")
    else:
        _build(release, archive)
    changes = ("--change", 'CMD ["/sbin/init"]', "--change", "STOPSIGNAL SIGRTMIN+3")
    podman("import", *changes, str(archive), wanted, why="podman could not take the node image.", timeout=600)
    for outdated in _images(podman):
        # Refused by podman, and rightly so, while a container runs it.
        if outdated != wanted and release_of(outdated.rpartition(":")[2]) == release:
            succeeds(["podman", *podman.choice.podman, "rmi", outdated])
    return wanted


def release_of(tag: str) -> str:
    """Return the release of an image's tag.

    >>> release_of("0123456789ab"), release_of("bookworm-0123456789ab")
    ('trixie', 'bookworm')
    """
    return tag.rpartition("-")[0] or DEFAULT_RELEASE


def _build(release: str, archive: Path) -> None:
    """Make the root file system of a node as a tar archive."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    mirror = os.environ.get("BEDPLATE_DEBIAN_MIRROR", MIRROR)
    security = os.environ.get("BEDPLATE_DEBIAN_SECURITY_MIRROR", SECURITY_MIRROR)
    say("image", f"building Debian {release} from {mirror} (some minutes; once per recipe)")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=archive.parent) as scratch:
        overlay = Path(scratch) / "overlay.tar"
        overlay.write_bytes(tar(node_files()))
        unfinished = Path(scratch) / "node.tar"
        command = ["mmdebstrap", "--mode=root", "--variant=minbase", f"--keyring={KEYRING}"]
        command += [f"--include={','.join(INSTALLED)}", "--skip=cleanup/apt"]
        command += [f"--customize-hook={hook}" for hook in hooks(release, overlay)]
        command += [release, str(unfinished), *sources(release, mirror, security)]
        capture(
            command,
            why="The node image could not be built. If the mirror cannot be reached, set BEDPLATE_DEBIAN_MIRROR "
            "(and BEDPLATE_DEBIAN_SECURITY_MIRROR) to a reachable mirror.",
            timeout=1800,
        )
        # Only a whole image gets the name that says it is there.
        unfinished.rename(archive)
    same = [
        path for path in archive.parent.glob("node-*.tar") if release_of(path.stem.removeprefix("node-")) == release
    ]
    for outdated in sorted(same, key=lambda path: path.stat().st_mtime)[:-KEPT]:
        outdated.unlink()
    say("image", f"built in {time.monotonic() - started:.0f} s: {archive} ({archive.stat().st_size >> 20} MiB)")


def _images(podman: Podman) -> list[str]:
    """Return the node images of every recipe."""
    return podman("images", "--filter", f"reference={REPOSITORY}", "--format", "{{.Repository}}:{{.Tag}}").split()


def tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    """Pack files only, without their folders: the image's folders keep their modes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path, (content, mode) in sorted(files.items()):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def remove_all(podman: Podman) -> list[str]:
    """Remove every node image that no container runs, and the archives of all others; return the images that are kept."""
    # Those that were made of others first.
    images = sorted(_images(podman), key=lambda one: "compiler-" not in one)
    kept = [image for image in images if not succeeds(["podman", *podman.choice.podman, "rmi", image])]
    # Another checkout whose nodes run an image takes it from its archive when it makes one again.
    used = {
        f"{kind}{image.rpartition(':')[2]}{end}" for image in kept for kind, end in (("node-", ".tar"), (ARCHIVES, ""))
    }
    cache = image_cache()
    for path in (*cache.glob("node-*.tar"), *cache.glob(f"{ARCHIVES}*")):
        if path.name not in used:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if cache.is_dir() and not any(cache.iterdir()):
        cache.rmdir()
    return kept
