# SPDX-License-Identifier: GPL-3.0-or-later
"""Recipe of a guest: Debian with its generic kernel and its real GRUB, and nothing that makes a boot under emulation slow."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from lab.machines import DEFAULT_RELEASE

RELEASE = DEFAULT_RELEASE
UUID = "9b1a6a3e-52b5-4f0c-8d55-0bed91a7e000"
"""Of the root file system: GRUB's own scripts name it, and every guest has a disk of its own."""
DISK_MIB = 3072
ADDRESS = "10.0.2.15"
"""Of the guest in QEMU's own network, which nobody else is in."""

PACKAGES = (
    "systemd-sysv",
    "udev",
    "dbus",
    "openssh-server",
    "python3",
    "python3-apt",
    "iproute2",
    "procps",
    "kmod",
    "initramfs-tools",
    # The cloud kernel has no rdma_rxe.
    "linux-image-amd64",
    "grub-pc",
    # For RoCE that the kernel makes of any network card.
    "rdma-core",
    "ibverbs-utils",
    "perftest",
)

DOWNLOADED = ("slurmd", "slurm-client", "munge", "libpam-slurm-adopt", "chrony")
"""What roles install on a node of Slurm. The .deb files lie in apt's cache: the installation is real and needs no network."""

MASKED = (
    # A test must not race with an upgrade, or with housekeeping.
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    # Nobody sits at a console, and nobody is asked for a password there.
    "getty.target",
    "serial-getty@ttyS0.service",
    "systemd-ask-password-console.path",
    "systemd-ask-password-wall.path",
    "systemd-logind.service",
    "systemd-vconsole-setup.service",
    # Under emulation each of these takes a second or more of every boot, for what nobody looks at.
    "grub-common.service",
    "ldconfig.service",
    "modprobe@dm_mod.service",
    "modprobe@drm.service",
    "modprobe@efi_pstore.service",
    "modprobe@fuse.service",
    "modprobe@loop.service",
    "proc-sys-fs-binfmt_misc.automount",
    "sys-fs-fuse-connections.mount",
    "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount",
    "systemd-binfmt.service",
    "systemd-hwdb-update.service",
    "systemd-journal-catalog-update.service",
    "systemd-network-generator.service",
    "systemd-pstore.service",
    "systemd-random-seed.service",
    "systemd-rfkill.socket",
    "systemd-udev-load-credentials.service",
    "systemd-update-done.service",
)
_NOT_LOADED = (
    "aesni_intel",
    "crc32_pclmul",
    "crct10dif_pclmul",
    "evdev",
    "ghash_clmulni_intel",
    "iTCO_wdt",
    "kvm",
    "kvm_amd",
    "kvm_intel",
    "lpc_ich",
    "pcspkr",
    "serio_raw",
    "sha1_ssse3",
    "sha256_ssse3",
    "sha512_ssse3",
    "vga16fb",
    "vmw_vsock_vmci_transport",
)
"""Drivers of what the virtual machine has and nobody uses there; a role that wants one loads it all the same."""

_SETTINGS = "usr/share/initramfs-tools"
FILES = {
    "etc/dpkg/dpkg.cfg.d/lab": (
        "force-unsafe-io\n"
        + "".join(f"path-exclude=/usr/share/{name}/*\n" for name in ("doc", "info", "locale", "man"))
    ),
    # An initramfs for this machine alone: unpacking all drivers would take longer than the rest of the boot.
    "etc/initramfs-tools/conf.d/lab": "MODULES=list\n",
    f"{_SETTINGS}/modules.d/lab": "virtio_pci\nvirtio_blk\nvirtio_net\next4\ncrc32c_generic\n",
    "etc/modprobe.d/lab.conf": "".join(f"blacklist {name}\n" for name in _NOT_LOADED),
    "etc/fstab": f"UUID={UUID} / ext4 noatime 0 0\n",
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n",
    # The network card is there before the first unit, since the initramfs has its driver.
    "etc/systemd/system/lab-network.service": (
        "[Unit]\nDefaultDependencies=no\nBefore=network.target\n"
        "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/sh -c 'ip link set lo up; ip link set eth0 up; "
        f"ip address add {ADDRESS}/24 dev eth0'\n[Install]\nWantedBy=sysinit.target\n"
    ),
    "etc/systemd/journald.conf.d/lab.conf": "[Journal]\nStorage=volatile\n",
    "etc/ssh/sshd_config.d/lab.conf": (
        "HostKey /etc/ssh/ssh_host_ed25519_key\nPermitRootLogin prohibit-password\nUseDNS no\n"
    ),
}
"""There before the packages are, so that these are configured with it."""

FINISH = Path(__file__).parent / "tree" / "finish"
"""Run in the new root when all packages are there; MASKED and UUID are its arguments."""


def hooks(overlay: Path, finish: Path) -> list[str]:
    """Return mmdebstrap's options for the steps of this recipe; each step runs with $1 = the new root."""
    answer = "grub-pc grub-pc/install_devices_empty boolean true"
    arguments = " ".join((UUID, *MASKED))
    return [
        f"--essential-hook=tar-in {overlay} /",
        f'--essential-hook=echo "{answer}" | chroot "$1" debconf-set-selections',
        # Before mmdebstrap's own settings of apt are removed, which it cleans up after the hooks.
        f'--customize-hook=chroot "$1" apt-get install --yes --download-only {" ".join(DOWNLOADED)}',
        f'--customize-hook=chroot "$1" sh -s {arguments} <{finish}',
        '--customize-hook=rm -f "$1"/usr/sbin/policy-rc.d "$1"/etc/apt/apt.conf.d/99mmdebstrap "$1"/etc/resolv.conf "$1"/etc/hostname',
    ]


def recipe_hash() -> str:
    """Return the name of this recipe: any change of the image's content gives another name."""
    recipe = [
        RELEASE,
        PACKAGES,
        DOWNLOADED,
        FILES,
        DISK_MIB,
        FINISH.read_text(),
        hooks(Path("overlay"), Path("finish")),
    ]
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:12]
