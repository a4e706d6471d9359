# SPDX-License-Identifier: GPL-3.0-or-later
"""Abilities of this machine, and podman's options for containers on it."""

from __future__ import annotations

import ipaddress
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab.shell import LabError, capture, say, succeeds

CAP_SYS_RESOURCE = 24
NEEDED = {
    "podman": "podman",
    "runc": "runc",
    "crun": "crun",
    "iptables": "iptables",
    "nft": "nftables",
    "mmdebstrap": "mmdebstrap",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "ibsim": "ibsim-utils",
    "ibnetdiscover": "infiniband-diags",
    "gpg": "gpg",
}
"""Command to look for -> Debian and Ubuntu package that brings it."""
GUESTS_NEED = {
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mke2fs": "e2fsprogs",
    "mmdebstrap": "mmdebstrap",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
}
"""The same, for virtual machines, which need no containers."""
METAL_NEEDS = {
    **GUESTS_NEED,
    "xorriso": "xorriso",
    "mcopy": "mtools",
    "mkfs.vfat": "dosfstools",
    "sfdisk": "fdisk",
    "zstd": "zstd",
    "curl": "curl",
    "minisign": "minisign",
    "dnsmasq": "dnsmasq-base",
}
"""The same, for bare machines: virtual machines with UEFI that install an image."""
FIRMWARE = Path("/usr/share/OVMF/OVMF_CODE_4M.ms.fd")
"""UEFI with Secure Boot and Microsoft's keys, of the package ovmf."""
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
NETWORK_HELPERS = ("/usr/lib/podman/netavark", "/usr/libexec/podman/netavark", "/usr/lib/cni/bridge")


BROKEN_PODMAN = (
    "podman is installed and does not work here. If it says that overlay is not supported, this machine is itself a container: "
    "mount a volume on /var/lib/containers, or name another driver in /etc/containers/storage.conf."
)


@dataclass(frozen=True)
class Choice:
    """Way to run containers on this machine: options of `podman` and of `podman run`, and the reasons."""

    podman: tuple[str, ...]
    run: tuple[str, ...]
    reasons: tuple[str, ...]


def choose(cgroups: str, may_raise_limits: bool) -> Choice:
    """Pick runtime and limits. Pure, so that every kind of host is tested on any host."""
    podman: tuple[str, ...] = ()
    run: tuple[str, ...] = ("--systemd=always", "--privileged")
    reasons = []
    if cgroups == "v2":
        reasons.append("cgroup v2: podman's default runtime")
    else:
        podman = ("--runtime", "runc", "--cgroup-manager", "cgroupfs")
        reasons.append(f"cgroups are {cgroups}: runc, which gives every node its own part of each v1 controller")
    if may_raise_limits:
        reasons.append("limits may be raised: podman's defaults")
    else:
        run += ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096")
        reasons.append("no CAP_SYS_RESOURCE: limits that need not be raised (nofile 1024, nproc 4096)")
    return Choice(podman, run, tuple(reasons))


def inspect() -> Choice:
    """Look at this machine and choose."""
    return choose(cgroup_mode(), has_capability(CAP_SYS_RESOURCE, Path("/proc/self/status").read_text()))


def cgroup_mode(root: Path = Path("/sys/fs/cgroup")) -> str:
    """Return v2, hybrid (v1 controllers beside a v2 tree) or v1."""
    if (root / "cgroup.controllers").exists():
        return "v2"
    return "hybrid" if (root / "unified" / "cgroup.controllers").exists() else "v1"


def has_capability(number: int, status: str) -> bool:
    """Return True if /proc/self/status lists the capability as effective."""
    for line in status.splitlines():
        if line.startswith("CapEff:"):
            return bool(int(line.split()[1], 16) >> number & 1)
    return False


def require_root() -> None:
    """Refuse what cannot work: containers with systemd and device nodes need the real root."""
    if os.geteuid() != 0:
        raise LabError("The lab makes device nodes and networks and must run as root. Run it again with sudo.")
    if Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]:
        raise LabError(
            "This root is only root of a user namespace (a rootless or unprivileged container), "
            "which may not make device nodes.\n"
            "Run the lab on the machine itself, in a VM, or in a privileged container."
        )


def has_podman() -> bool:
    """Return True if podman is installed."""
    return shutil.which("podman") is not None


def missing_packages(guests: bool = False, metal: bool = False) -> list[str]:
    """Return the packages that the lab needs and this machine lacks; with `guests` or `metal` those for virtual or bare machines alone."""
    # A login shell of a plain user, and `su`, leave the sbin folders out.
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
    needed = METAL_NEEDS if metal else GUESTS_NEED if guests else NEEDED
    missing = {package for command, package in needed.items() if not shutil.which(command, path=path)}
    if not KEYRING.exists():
        missing.add("debian-archive-keyring")
    if metal and not FIRMWARE.exists():
        missing.add("ovmf")
    if not guests and not metal and not any(Path(helper).exists() for helper in NETWORK_HELPERS):
        has_netavark = succeeds(["apt-cache", "show", "netavark"])
        missing.add("netavark" if has_netavark else "containernetworking-plugins")
    return sorted(missing)


def install_missing(guests: bool = False, metal: bool = False) -> None:
    """Install what is missing by apt; on a machine that has everything, do nothing. `guests` and `metal` as for missing_packages."""
    os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", "/usr/bin:/bin"), "/usr/sbin", "/sbin"])
    missing = missing_packages(guests, metal)
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise LabError(
            f"missing here: {', '.join(missing)}. The lab installs them by apt, and this machine has no apt-get.\n"
            "Supported: Debian 12, Debian 13, Ubuntu 24.04. Elsewhere, install them yourself and run it again."
        )
    apt = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-o", "DPkg::Lock::Timeout=300"]
    capture([*apt, "update"], why="The package lists could not be read.", timeout=300)
    # Only fresh lists tell which network helper this release has.
    missing = missing_packages(guests, metal)
    say("host", f"installing {', '.join(missing)}")
    capture(
        [*apt, "install", "-y", "--no-install-recommends", *missing],
        why=f"Could not install {', '.join(missing)}. On Ubuntu the component `universe` must be enabled.",
        timeout=900,
    )
    if still := missing_packages(guests, metal):
        raise LabError(f"apt installed everything without an error, but still missing: {', '.join(still)}")


def prepare() -> Choice:
    """Make this machine ready and say how containers will be run on it."""
    require_root()
    install_missing()
    choice = inspect()
    version = capture(["podman", *choice.podman, "info", "--format", "{{.Version.Version}}"], why=BROKEN_PODMAN).strip()
    say("host", f"podman {version}; " + "; ".join(choice.reasons))
    return choice


def routes(table: str) -> list[tuple[str, ipaddress.IPv4Network]]:
    """Read /proc/net/route: (interface, network) of everything but default routes."""
    found = []
    for line in table.splitlines()[1:]:
        fields = line.split()
        address, mask = (ipaddress.IPv4Address(bytes.fromhex(fields[i])[::-1]) for i in (1, 7))
        network = ipaddress.IPv4Network(f"{address}/{mask}", strict=False)
        if network.prefixlen:
            found.append((fields[0], network))
    return found


def clash(subnet: ipaddress.IPv4Network, table: str, own_interface: str = "") -> str | None:
    """Return the route of this machine that a lab network would replace, if any."""
    for interface, network in routes(table):
        if interface != own_interface and subnet.overlaps(network):
            return f"{network} dev {interface}"
    return None
