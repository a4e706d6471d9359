# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels with Ubuntu's package names, files and relations; modules for them are compiled against other headers of the node."""

from __future__ import annotations

from collections.abc import Iterator

from lab.vendor.standins import UBUNTU, Content, StandIn

HEADERS = "/usr/src/stand-in-headers"
"""Headers of a kernel that a node can have; whoever dresses the node makes this link."""
BUILDS = {"ubuntu-22.04": ("5.15.0-130.140", "5.15.0-140.150"), "ubuntu-24.04": ("6.8.0-90.91", "6.8.0-100.102")}
"""System -> versions of its two kernels, the older first."""
# A container makes no initramfs, so of the hooks only DKMS' runs.
_HOOK = '#!/bin/sh\nset -e\nif [ "$1" = configure ] && [ -x /etc/kernel/{hook}/dkms ]; then /etc/kernel/{hook}/dkms {kernel}; fi\n'


def kernels(system: str) -> list[StandIn]:
    """Return the packages of two kernels of a system, and the metapackages that follow the newer one."""
    builds = BUILDS[system]
    return [*(one for build in builds for one in _kernel(build)), *_metapackages(builds[-1])]


def _name(version: str) -> str:
    """Return the name of a kernel: that of its version without the last number, which counts its uploads."""
    return f"{version.rpartition('.')[0]}-generic"


def _kernel(version: str) -> Iterator[StandIn]:
    kernel = _name(version)
    modules = f"lib/modules/{kernel}"
    yield StandIn(
        f"linux-image-{kernel}",
        version,
        UBUNTU,
        depends=(f"linux-modules-{kernel}",),
        provides=("linux-image",),
        files={f"boot/vmlinuz-{kernel}": Content("stand-in\n")},
        scripts={"postinst": _HOOK.format(hook="postinst.d", kernel=kernel)},
    )
    empty = {
        f"{modules}/{name}": Content("") for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo")
    }
    # DKMS updates a list of modules that is there, and makes none.
    depmod = f'#!/bin/sh\nset -e\nif [ "$1" = configure ]; then depmod {kernel}; fi\n'
    yield StandIn(f"linux-modules-{kernel}", version, UBUNTU, files=empty, scripts={"postinst": depmod})
    image = f"linux-image-{kernel} | linux-image-unsigned-{kernel}"
    yield StandIn(f"linux-modules-extra-{kernel}", version, UBUNTU, depends=(image,))
    yield StandIn(
        f"linux-headers-{kernel}",
        version,
        UBUNTU,
        provides=("linux-headers", "linux-headers-3.0"),
        files={
            f"usr/src/linux-headers-{kernel}": Content(HEADERS, 0o777, link=True),
            f"{modules}/build": Content(f"/usr/src/linux-headers-{kernel}", 0o777, link=True),
        },
        scripts={"postinst": _HOOK.format(hook="header_postinst.d", kernel=kernel)},
    )


def _metapackages(version: str) -> Iterator[StandIn]:
    kernel = _name(version)
    parts = {
        "image": (f"linux-image-{kernel} (= {version})", f"linux-modules-extra-{kernel} (= {version})"),
        "headers": (f"linux-headers-{kernel} (= {version})",),
    }
    for name, depends in parts.items():
        yield StandIn(f"linux-{name}-generic", version, UBUNTU, depends=depends)
    both = tuple(f"linux-{name}-generic (= {version})" for name in parts)
    yield StandIn("linux-generic", version, UBUNTU, depends=both)
