# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of the GPU stack and what comes of it: what is installed, or the rules that refuse it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ansible_collections.bedplate.cluster.plugins.plugin_utils.gpu_stack.resolve import DirectModule, Request


def ask(where: str, gpus: str, **more: Any) -> Request:
    """Return a request: `where` is "os source driver", gpus are separated by spaces."""
    system, source, driver = where.split()
    return Request(os=system, source=source, driver=driver, gpus=tuple(gpus.split()), **more)


@dataclass(frozen=True)
class Good:
    """A request that resolves. `has` is packages by name and version, `lacks` names that are not installed."""

    request: Request
    driver: str
    module: str
    has: dict[str, str] = field(default_factory=dict)
    lacks: tuple[str, ...] = ()
    more: dict[str, Any] = field(default_factory=dict)


P, O = "proprietary", "open"  # noqa: E741
DKMS_13 = {"nvidia-open-kernel-dkms": "550.163.01-2", "firmware-nvidia-gsp": "550.163.01-2", "libcuda1": "550.163.01-2"}
DKMS_12 = {"nvidia-kernel-dkms": "535.309.01-0+deb12u1", "nvidia-smi": "535.309.01-0+deb12u1"}
OLD_12 = {"nvidia-open-kernel-dkms": "535.261.03-1", "firmware-nvidia-gsp": "535.261.03-1", "libcuda1": "535.261.03-1"}
FABRIC = ("nvidia-fabricmanager", "libnvidia-nscq", "nvidia-imex", "nvlsm")
PERSISTENCE = ("nvidia-persistenced",)
FM = (*PERSISTENCE, "nvidia-fabricmanager")
NV_13 = "ubuntu-24.04 nvidia"

GOOD: dict[str, Good] = {
    "Debian 13": Good(
        ask("debian-13 debian 550", "h100"),
        "550.163.01",
        O,
        {**DKMS_13, "nvidia-persistenced": "550.163.01-1", "nvidia-modprobe": "570.133.07-1"},
        (*FABRIC, "nvidia-kernel-dkms", "nvidia-driver"),
        {
            "sources": ("nvidia-open-kernel-dkms",),
            "module_file": "nvidia-current-open.ko",
            "options_module": "nvidia-current-open",
            "options_file": "/etc/modprobe.d/bedplate-nvidia.conf",
            "services": PERSISTENCE,
            "stream": "",
        },
    ),
    "Debian 13, exact": Good(ask("debian-13 debian 550.163.01", "a100"), "550.163.01", O, DKMS_13),
    "Debian 13, proprietary": Good(
        ask("debian-13 debian 550", "a100", module=P),
        "550.163.01",
        P,
        {"nvidia-kernel-dkms": "550.163.01-2", "nvidia-kernel-support": "550.163.01-2"},
        ("nvidia-open-kernel-dkms",),
        {"sources": ("nvidia-kernel-dkms",), "module_file": "nvidia-current.ko", "options_module": "nvidia-current"},
    ),
    "Debian 13, V100": Good(ask("debian-13 debian 550", "v100", gpu_count=8), "550.163.01", P, {}, FABRIC),
    "Debian 13, eight L40S": Good(ask("debian-13 debian 550", "l40s", gpu_count=8), "550.163.01", O, {}, FABRIC),
    "Debian 13, H100 cards": Good(ask("debian-13 debian 550", "h100", gpu_count=8, platform="pcie"), "550.163.01", O),
    "Debian 13, its CUDA": Good(
        ask("debian-13 debian 550", "h100", cuda=("12.4",)),
        "550.163.01",
        O,
        {"nvidia-cuda-toolkit": "12.4.131~12.4.1-2", "libnccl2": "2.22.3-1-1"},
    ),
    "Debian 13, kernel": Good(
        ask("debian-13 debian 550", "h100", kernel="6.12.117+deb13-amd64"),
        "550.163.01",
        O,
        {"linux-headers-6.12.117+deb13-amd64": "6.12.117-1"},
    ),
    "Debian 12": Good(
        ask("debian-12 debian 535", "h100"),
        "535.309.01",
        P,
        {**DKMS_12, "nvidia-modprobe": "535.309.01-0+deb12u1", "nvidia-persistenced": "535.171.04-1~deb12u1"},
        ("nvidia-open-kernel-dkms",),
        {"sources": ("nvidia-kernel-dkms",)},
    ),
    "Debian 12, V100": Good(ask("debian-12 debian 535", "v100"), "535.309.01", P, DKMS_12),
    "Debian 12, new kernel": Good(
        ask("debian-12 debian 535", "a100", kernel="6.1.0-56-amd64"),
        "535.309.01",
        P,
        {"linux-headers-6.1.0-56-amd64": "6.1.192-2"},
    ),
    "Debian 12, open, pinned": Good(
        ask("debian-12 debian 535.261.03", "a100", module=O, kernel="6.1.0-50-amd64"),
        "535.261.03",
        O,
        {**OLD_12, "linux-headers-6.1.0-50-amd64": "6.1.176-1"},
        (),
        {"sources": ("nvidia-open-kernel-dkms",)},
    ),
    "Debian 12, GH200 at the pinned one": Good(ask("debian-12 debian 535.261.03", "gh200"), "535.261.03", O, OLD_12),
    "Debian 12, its CUDA": Good(
        ask("debian-12 debian 535", "a100", cuda=("11.8",)),
        "535.309.01",
        P,
        {"nvidia-cuda-toolkit": "11.8.89~11.8.0-5~deb12u1"},
    ),
    "CUDA repository, 580, suffix": Good(
        ask(f"{NV_13} 580", "h100"),
        "580.126.09",
        O,
        {"nvidia-dkms-580-open": "580.126.09-*", "libnvidia-compute-580": "580.126.09-*"},
        ("nvidia-dkms-open", "libnvidia-compute"),
        {
            "sources": ("nvidia-dkms-580-open", "nvidia-kernel-source-580-open"),
            "module_file": "nvidia.ko",
            "options_module": "nvidia",
        },
    ),
    "CUDA repository, 580, exact": Good(
        ask(f"{NV_13} 580.65.06", "h100"), "580.65.06", O, {"nvidia-dkms-580-open": "580.65.06-*"}
    ),
    "CUDA repository, 590, no suffix": Good(
        ask(f"{NV_13} 590", "h100"),
        "590.48.01",
        O,
        {"nvidia-dkms-open": "590.48.01-*", "libnvidia-compute": "590.48.01-*"},
        ("nvidia-dkms-590-open", "libnvidia-compute-590", "nvidia-utils"),
    ),
    "CUDA repository, 590, proprietary": Good(
        ask(f"{NV_13} 590", "h100", module=P), "590.48.01", P, {"nvidia-dkms": "590.48.01-*"}, ("nvidia-dkms-open",)
    ),
    "CUDA repository, 615": Good(ask(f"{NV_13} 615", "h200", gpu_count=8), "615.71.09", O, {}, (), {"services": FM}),
    "HGX H100": Good(
        ask(f"{NV_13} 580", "h100", gpu_count=8),
        "580.126.09",
        O,
        {"nvidia-fabricmanager": "580.126.09-*", "libnvidia-nscq": "580.126.09-*"},
        ("nvlsm", "nvidia-imex", "nvidia-fabricmanager-580"),
        {"services": FM, "modules_load": ()},
    ),
    "HGX H100 of 570, fabric with suffix": Good(
        ask(f"{NV_13} 570", "h100", gpu_count=8),
        "570.124.06",
        O,
        {"nvidia-fabricmanager-570": "570.124.06-*", "libnvidia-nscq-570": "570.124.06-*"},
        ("nvidia-fabricmanager",),
    ),
    "HGX H200 that says so": Good(
        ask(f"{NV_13} 580", "h200", platform="hgx"), "580.126.09", O, {}, (), {"services": FM}
    ),
    "four H100": Good(ask(f"{NV_13} 580", "h100", gpu_count=4), "580.126.09", O, {}, FABRIC, {"services": PERSISTENCE}),
    "HGX B200": Good(
        ask(f"{NV_13} 580", "b200", gpu_count=8),
        "580.126.09",
        O,
        {"nvidia-fabricmanager": "580.126.09-*", "libnvsdm": "580.126.09-*", "nvlsm": "*", "infiniband-diags": "*"},
        ("nvidia-imex",),
        {"services": FM, "modules_load": ("ib_umad",)},
    ),
    "HGX B300": Good(
        ask("rocky-9 nvidia 580", "b300", gpu_count=8),
        "580.126.09",
        O,
        {"nvlsm": "*", "libibumad": "*"},
        (),
        {"modules_load": ("ib_umad",)},
    ),
    "GB200 tray": Good(
        ask(f"{NV_13} 580", "gb200", gpu_count=4),
        "580.126.09",
        O,
        {"nvidia-imex": "580.126.09-*"},
        ("nvidia-fabricmanager", "nvlsm"),
        {"services": (*PERSISTENCE, "nvidia-imex"), "modules_load": ()},
    ),
    "GB300 tray on EL 10": Good(
        ask("rocky-10 nvidia 590", "gb300"), "590.48.01", O, {"nvidia-imex": "590.48.01-*"}, ("nvidia-fabricmanager",)
    ),
    "GH200": Good(ask(f"{NV_13} 580", "gh200"), "580.126.09", O, {}, FABRIC, {"architecture": "arm64"}),
    "H100 is x86_64": Good(ask(f"{NV_13} 580", "h100"), "580.126.09", O, {}, (), {"architecture": "x86_64"}),
    "Debian 13, GH200": Good(
        ask("debian-13 debian 550", "gh200", kernel="6.12.117+deb13-arm64"),
        "550.163.01",
        O,
        {**DKMS_13, "linux-headers-6.12.117+deb13-arm64": "6.12.117-1"},
        ("libnvidia-pkcs11-openssl3",),
        {
            "architecture": "arm64",
            "kernel_follows": ("linux-headers-arm64", "linux-headers-[!0-9]*", "linux-image-[!0-9]*"),
        },
    ),
    "Debian 13, H100 has what arm64 lacks": Good(
        ask("debian-13 debian 550", "h100"),
        "550.163.01",
        O,
        {"libnvidia-pkcs11-openssl3": "550.163.01-2"},
        (),
        {"kernel_follows": ("linux-headers-amd64", "linux-headers-[!0-9]*", "linux-image-[!0-9]*")},
    ),
    "GB200 on Debian 13, from the branch on that its sbsa has": Good(
        ask("debian-13 nvidia 595", "gb200", cuda=("13.0",)), "595.91.07", O, {"nvidia-imex": "595.91.07-*"}
    ),
    "GB200 on EL 9, with its kernel": Good(
        ask("rocky-9 nvidia 580", "gb200", kernel="5.14.0-503.el9.aarch64"),
        "580.126.09",
        O,
        {"kernel-devel": "5.14.0-503.el9", "nvidia-imex": "580.126.09-*"},
        (),
        {"nodes_file": "/etc/nvidia-imex/nodes_config.cfg"},
    ),
    "HGX B200 on Ubuntu 22.04 with a later kernel": Good(
        ask("ubuntu-22.04 nvidia 580", "b200", gpu_count=8, kernel="6.8.0-90-generic"),
        "580.126.09",
        O,
        {"linux-modules-extra-6.8.0-90-generic": "*", "linux-headers-6.8.0-90-generic": "*"},
        (),
        {"modules_load": ("ib_umad",), "nodes_file": ""},
    ),
    "HGX B200 on EL 9, whose kernel has it backported": Good(
        ask("rocky-9 nvidia 580", "b200", gpu_count=8, kernel="5.14.0-503.el9.x86_64"), "580.126.09", O
    ),
    "HGX H100 on Ubuntu 22.04 needs no such kernel, nor its modules": Good(
        ask("ubuntu-22.04 nvidia 580", "h100", gpu_count=8, kernel="5.15.0-160-generic"),
        "580.126.09",
        O,
        {},
        ("linux-modules-extra-5.15.0-160-generic",),
    ),
    "four B200 as cards, without the fabric": Good(
        ask("ubuntu-22.04 nvidia 580", "b200", gpu_count=4), "580.126.09", O
    ),
    "Canonical keeps its suffix": Good(
        ask("ubuntu-24.04 canonical 595", "h100", gpu_count=8),
        "595.71.05",
        O,
        {"nvidia-dkms-595-server-open": "595.71.05-*", "nvidia-fabricmanager-595": "595.71.05-*"},
        ("nvidia-fabricmanager", "nvidia-dkms-open"),
        {"sources": ("nvidia-dkms-595-server-open", "nvidia-kernel-source-595-server-open")},
    ),
    "Canonical, proprietary": Good(
        ask("ubuntu-22.04 canonical 580", "a100", module=P), "580.173.02", P, {"nvidia-dkms-580-server": "580.173.02-*"}
    ),
    "Canonical 590 without a fabric": Good(ask("ubuntu-24.04 canonical 590", "l40s"), "590.48.01", O),
    "Canonical, GB200": Good(
        ask("ubuntu-24.04 canonical 580", "gb200"), "580.173.02", O, {"nvidia-imex-580": "580.173.02-*"}
    ),
    "EL 9: stream and epoch": Good(
        ask("rocky-9 nvidia 580", "h100", gpu_count=8, kernel="5.14.0-503.el9.x86_64"),
        "580.126.09",
        O,
        {
            "kmod-nvidia-open-dkms": "3:580.126.09-*",
            "nvidia-driver-cuda": "3:580.126.09-*",
            "nvidia-fabricmanager": "580.126.09-*",
            "kernel-devel": "5.14.0-503.el9",
        },
        ("nvidia-open", "nvidia-driver"),
        {"stream": "nvidia-driver:580-open"},
    ),
    "EL 9, proprietary": Good(
        ask("rocky-9 nvidia 580", "v100"),
        "580.126.09",
        P,
        {"kmod-nvidia-latest-dkms": "3:580.126.09-*"},
        (),
        {"stream": "nvidia-driver:580-dkms"},
    ),
    "EL 9 of 570, old fabric name": Good(
        ask("rocky-9 nvidia 570", "h100", gpu_count=8), "570.124.06", O, {"nvidia-fabric-manager": "570.124.06-*"}
    ),
    "EL 10: no stream": Good(
        ask("rocky-10 nvidia 610", "h100"),
        "610.57.04",
        O,
        {"kmod-nvidia-open-dkms": "3:610.57.04-*"},
        (),
        {"stream": ""},
    ),
    "Debian 13 from the CUDA repository": Good(
        ask("debian-13 nvidia 595", "b200"),
        "595.91.07",
        O,
        {"nvidia-kernel-open-dkms": "595.91.07-*", "nvidia-driver-cuda": "595.91.07-*"},
        ("nvidia-open-kernel-dkms", "nvidia-smi"),
        {"sources": ("nvidia-kernel-open-dkms",), "module_file": "nvidia.ko"},
    ),
    "V100 from the CUDA repository": Good(
        ask("debian-12 nvidia 580", "v100"), "580.126.09", P, {"nvidia-kernel-dkms": "580.126.09-*"}
    ),
    "old and new in one node": Good(ask(f"{NV_13} 580", "v100 a100"), "580.126.09", P),
    "cards of two generations": Good(ask(f"{NV_13} 580", "l40s t4"), "580.126.09", O),
    "cards of two boards": Good(
        ask(f"{NV_13} 580", "h100 l40s", gpu_count=8, platform="pcie"), "580.126.09", O, {}, FABRIC
    ),
    "CUDA side by side": Good(
        ask(f"{NV_13} 580", "h100", cuda=("12.8", "13.0")),
        "580.126.09",
        O,
        {"cuda-toolkit-12-8": "12.8.1-1", "cuda-toolkit-13-0": "13.0.2-1"},
        ("cuda", "cuda-drivers"),
    ),
    "DCGM for CUDA 12": Good(
        ask(f"{NV_13} 570", "h100", dcgm="4"),
        "570.124.06",
        O,
        {
            "datacenter-gpu-manager-4-core": "1:4.6.0-*",
            "datacenter-gpu-manager-4-cuda12": "1:4.6.0-*",
            "datacenter-gpu-manager-4-proprietary": "1:4.6.0-*",
            "datacenter-gpu-manager-4-proprietary-cuda12": "1:4.6.0-*",
        },
        ("datacenter-gpu-manager-4-cuda13", "datacenter-gpu-manager-4-proprietary-cuda13"),
        {"services": (*PERSISTENCE, "nvidia-dcgm"), "remove": ("datacenter-gpu-manager",)},
    ),
    "DCGM for CUDA 13, though the toolkit is 12": Good(
        ask(f"{NV_13} 580", "h100", dcgm="4.5.3", cuda=("12.8",)),
        "580.126.09",
        O,
        {"datacenter-gpu-manager-4-cuda13": "1:4.5.3-*"},
        ("datacenter-gpu-manager-4-cuda12",),
    ),
    "DCGM for CUDA 12 with Volta, though the driver is of CUDA 13": Good(
        ask(f"{NV_13} 580", "v100", dcgm="4"),
        "580.126.09",
        P,
        {"datacenter-gpu-manager-4-cuda12": "1:4.6.0-*"},
        ("datacenter-gpu-manager-4-cuda13",),
    ),
    "DCGM without its proprietary modules": Good(
        ask(f"{NV_13} 580", "h100", dcgm="4", dcgm_proprietary=False),
        "580.126.09",
        O,
        {"datacenter-gpu-manager-4-cuda13": "1:4.6.0-*"},
        ("datacenter-gpu-manager-4-proprietary", "datacenter-gpu-manager-4-proprietary-cuda13"),
    ),
    "further packages": Good(
        ask(f"{NV_13} 580", "h100", packages=("nvtop", "dcgm-exporter=4.5-3", "libnvidia-encode-580")),
        "580.126.09",
        O,
        {"nvtop": "*", "dcgm-exporter": "4.5-3", "libnvidia-encode-580": "580.126.09-*"},
    ),
    "GPUDirect": Good(
        ask(f"{NV_13} 580", "h100", gpudirect=("peermem", "nvidia-fs", "gdrcopy=2.5.1")),
        "580.126.09",
        O,
        {"nvidia-fs-dkms": "2.26.6-*", "gdrdrv-dkms": "2.5.1-*", "libgdrapi": "2.5.1-*"},
        (),
        {
            "gpudirect": (
                DirectModule("nvidia-peermem", "nvidia_peermem", ""),
                DirectModule("nvidia-fs", "nvidia_fs", "", "nvidia-fs", (("nvidia-fs-dkms", "2.26.6-*"),)),
                DirectModule("gdrdrv", "gdrdrv", "/dev/gdrdrv", "gdrdrv", (("gdrdrv-dkms", "2.5.1-*"),)),
            )
        },
    ),
    "GPUDirect with Debian's own driver": Good(
        ask("debian-13 debian 550", "h100", module=P, gpudirect=("peermem", "nvidia-fs")),
        "550.163.01",
        P,
        {"nvidia-fs-dkms": "2.19.7~12.4.1-2"},
        (),
        {
            "gpudirect": (
                DirectModule("nvidia-current-peermem", "nvidia_peermem", ""),
                DirectModule("nvidia-fs", "nvidia_fs", "", "nvidia-fs", (("nvidia-fs-dkms", "2.19.7~12.4.1-2"),)),
            )
        },
    ),
    "GPUDirect on EL": Good(
        ask("rocky-9 nvidia 580", "h100", gpudirect=("nvidia-fs=2.24.2", "gdrcopy=2.5.1-1")),
        "580.126.09",
        O,
        {"nvidia-fs-dkms": "2.24.2-*", "gdrcopy-kmod": "2.5.1-1", "gdrcopy": "2.5.1-1"},
    ),
    "an nvidia-fs that takes the proprietary module": Good(
        ask("debian-12 debian 535", "v100", gpudirect=("nvidia-fs",)),
        "535.309.01",
        P,
        {"nvidia-fs-dkms": "2.13.5~11.8.0-5~deb12u1"},
    ),
    "DCGM's variant with Volta, rightly": Good(ask(f"{NV_13} 580", "v100", dcgm="4-cuda12"), "580.126.09", P),
    "the first CUDA of Blackwell": Good(ask(f"{NV_13} 580", "b200", gpu_count=4, cuda=("12.8",)), "580.126.09", O),
    "the last CUDA of Volta": Good(ask(f"{NV_13} 580", "v100", cuda=("12.9",)), "580.126.09", P),
    "DCGM's variant, rightly": Good(ask(f"{NV_13} 580", "h100", dcgm="4-cuda13"), "580.126.09", O),
    "NCCL of the first toolkit's CUDA": Good(
        ask(f"{NV_13} 580", "h100", cuda=("12.8", "13.0"), nccl="2.28"),
        "580.126.09",
        O,
        {"libnccl2": "2.28.9-1+cuda12.9", "libnccl-dev": "2.28.9-1+cuda12.9"},
    ),
    "NCCL of the driver's CUDA, on EL": Good(
        ask("rocky-9 nvidia 580", "h100", nccl="2.30.7"),
        "580.126.09",
        O,
        {"libnccl": "2.30.7-1+cuda13.3", "libnccl-devel": "2.30.7-1+cuda13.3"},
        ("libnccl2",),
    ),
    "container toolkit beside Debian's driver": Good(
        ask("debian-12 debian 535", "h100", toolkit="1.20.0"),
        "535.309.01",
        "proprietary",
        {"nvidia-container-toolkit": "1.20.0-1"},
    ),
    "container toolkit": Good(
        ask("rocky-9 nvidia 580", "h100", toolkit="1.18.2"),
        "580.126.09",
        O,
        {
            "nvidia-container-toolkit": "1.18.2-1",
            "nvidia-container-toolkit-base": "1.18.2-1",
            "libnvidia-container-tools": "1.18.2-1",
            "libnvidia-container1": "1.18.2-1",
        },
    ),
}

# Name: request and exactly the rules that refuse it.
BAD: dict[str, tuple[Request, set[str]]] = {
    "unknown system": (ask("debain-13 debian 550", "h100"), {"unknown-os"}),
    "unknown source": (ask("debian-13 debin 550", "h100"), {"unknown-source"}),
    "Debian's packages on Ubuntu": (ask("ubuntu-24.04 debian 550", "h100"), {"source-os"}),
    "Canonical's packages on EL": (ask("rocky-9 canonical 580", "h100"), {"source-os"}),
    "unknown model": (ask("debian-13 debian 550", "h10O"), {"unknown-model"}),
    "no model": (ask("debian-13 debian 550", ""), {"no-gpu"}),
    "unknown branch": (ask("debian-13 nvidia 585", "h100"), {"unknown-driver"}),
    "a branch that another source has": (ask("debian-13 debian 580", "h100"), {"unknown-driver"}),
    "unknown version": (ask("debian-13 debian 550.54.14", "h100"), {"unknown-driver"}),
    "no driver at all": (ask("debian-13 debian x", "h100"), {"unknown-driver"}),
    "unknown platform": (ask(f"{NV_13} 580", "h100", platform="dgx"), {"unknown-platform"}),
    "a further package with a driver": (
        ask(f"{NV_13} 580", "h100", packages=("cuda-drivers",)),
        {"package-with-driver"},
    ),
    "a further package of the driver in another version": (
        ask(f"{NV_13} 580", "h100", packages=("nvtop", "libnvidia-encode-580=580.65.06-1")),
        {"package-version"},
    ),
    "an unknown module of GPUDirect": (ask(f"{NV_13} 580", "h100", gpudirect=("gdscopy",)), {"unknown-gpudirect"}),
    "a module of GPUDirect that Canonical lacks": (
        ask("ubuntu-24.04 canonical 580", "h100", gpudirect=("nvidia-fs",)),
        {"gpudirect-source"},
    ),
    "a module of GPUDirect without a version": (
        ask(f"{NV_13} 580", "h100", gpudirect=("gdrcopy",)),
        {"gpudirect-version"},
    ),
    "peermem in a version of its own": (
        ask(f"{NV_13} 580", "h100", gpudirect=("peermem=1.0",)),
        {"gpudirect-version"},
    ),
    "a module of GPUDirect in two versions": (
        ask(f"{NV_13} 580", "h100", gpudirect=("gdrcopy=2.5.1", "gdrcopy=2.4")),
        {"gpudirect-twice"},
    ),
    "nvidia-fs with a proprietary module": (
        ask(f"{NV_13} 580", "h100", module=P, gpudirect=("nvidia-fs",)),
        {"gpudirect-open"},
    ),
    "nvidia-fs with a GPU that takes no open module": (
        ask(f"{NV_13} 580", "v100", gpudirect=("nvidia-fs",)),
        {"gpudirect-open"},
    ),
    "a further package twice": (
        ask(f"{NV_13} 580", "h100", packages=("nvtop", "dcgm-exporter", "nvtop=3.0")),
        {"package-twice"},
    ),
    "a further package of another branch": (
        ask("ubuntu-24.04 nvidia 580", "h100", packages=("libnvidia-compute-570",)),
        {"package-of-other-branch"},
    ),
    "unknown module": (ask(f"{NV_13} 580", "h100", module="closed"), {"unknown-module"}),
    "fewer than no GPUs": (ask(f"{NV_13} 580", "h100", gpu_count=-1), {"gpu-count"}),
    "no kernel release": (ask(f"{NV_13} 580", "h100", kernel="latest"), {"unknown-kernel"}),
    "unknown CUDA": (ask(f"{NV_13} 580", "h100", cuda=("12.7",)), {"unknown-cuda"}),
    "unknown DCGM": (ask(f"{NV_13} 580", "h100", dcgm="4.9.9"), {"unknown-dcgm"}),
    "DCGM 5": (ask(f"{NV_13} 580", "h100", dcgm="5"), {"unknown-dcgm"}),
    "unknown container toolkit": (ask(f"{NV_13} 580", "h100", toolkit="1.18.0"), {"unknown-toolkit"}),
    "B200 with Debian 13's driver": (ask("debian-13 debian 550", "b200"), {"distribution-too-old"}),
    "B200 with Debian 12's driver": (
        ask("debian-12 debian 535", "b200"),
        {"distribution-too-old", "flavour-source"},
    ),
    "GB200 with Debian 13's driver": (ask("debian-13 debian 550", "gb200"), {"distribution-too-old", "fabric-source"}),
    "B300 with 570": (ask(f"{NV_13} 570", "b300"), {"gpu-branch"}),
    "V100 with 590": (ask(f"{NV_13} 590", "v100"), {"gpu-dropped"}),
    "V100, open": (ask(f"{NV_13} 580", "v100", module=O), {"flavour"}),
    "B200, proprietary": (ask(f"{NV_13} 580", "b200", module=P), {"flavour"}),
    "GH200, proprietary": (ask(f"{NV_13} 580", "gh200", module=P), {"flavour"}),
    "615, proprietary": (ask(f"{NV_13} 615", "h100", module=P), {"flavour-source"}),
    "Debian 12, open, with its security": (ask("debian-12 debian 535", "h100", module=O), {"flavour-source"}),
    "Debian 12, GH200": (ask("debian-12 debian 535", "gh200"), {"flavour-source"}),
    "Debian 12, old driver on new kernel": (
        ask("debian-12 debian 535.261.03", "h100", kernel="6.1.0-56-amd64"),
        {"kernel"},
    ),
    "the same, open": (ask("debian-12 debian 535.261.03", "gh200", kernel="6.1.0-60-arm64"), {"kernel"}),
    "GB200 on Debian 12's sbsa, too early a driver": (ask("debian-12 nvidia 580", "gb200"), {"architecture"}),
    "GH200 on Debian 13's sbsa, an exact driver": (ask("debian-13 nvidia 590.48.01", "gh200"), {"architecture"}),
    "GH200 on Debian 12's sbsa, too early a CUDA": (
        ask("debian-12 nvidia 590", "gh200", cuda=("12.8",)),
        {"architecture-cuda"},
    ),
    "GH200 with a kernel of x86_64": (
        ask("debian-13 debian 550", "gh200", kernel="6.12.117+deb13-amd64"),
        {"kernel-architecture"},
    ),
    "H100 with a kernel of arm64, on EL": (
        ask("rocky-9 nvidia 580", "h100", kernel="5.14.0-503.el9.aarch64"),
        {"kernel-architecture"},
    ),
    "GB200 with pages of 64 KiB, on EL": (
        ask("rocky-9 nvidia 580", "gb200", kernel="5.14.0-503.el9.aarch64+64k"),
        {"kernel-kind"},
    ),
    "a kernel of Ubuntu on EL": (ask("rocky-9 nvidia 580", "h100", kernel="6.8.0-generic"), {"kernel-kind"}),
    "a kernel of Debian on EL": (ask("rocky-9 nvidia 580", "h100", kernel="6.1.0-56-amd64"), {"kernel-kind"}),
    "a kernel of EL 9 on EL 10": (
        ask("rocky-10 nvidia 580", "h100", kernel="5.14.0-503.11.1.el9_5.x86_64"),
        {"kernel-kind"},
    ),
    "a kernel of EL on Ubuntu": (
        ask(f"{NV_13} 580", "h100", kernel="5.14.0-503.11.1.el9_5.x86_64"),
        {"kernel-kind"},
    ),
    "a kernel of Debian on Ubuntu": (ask(f"{NV_13} 580", "h100", kernel="6.12.117+deb13-amd64"), {"kernel-kind"}),
    "a kernel of Ubuntu on Debian": (
        ask("debian-13 debian 550", "h100", kernel="6.8.0-90-generic"),
        {"kernel-kind"},
    ),
    "B200 on Ubuntu's first kernel": (ask("ubuntu-22.04 nvidia 580", "b200", gpu_count=8), {"kernel-fabric"}),
    "B200 with too old a stated kernel": (
        ask(f"{NV_13} 580", "b200", gpu_count=8, kernel="5.15.0-160-generic"),
        {"kernel-fabric"},
    ),
    "GH200 beside H100": (ask(f"{NV_13} 580", "gh200 h100"), {"mixed-node"}),
    "V100 beside B200": (ask(f"{NV_13} 580", "v100 b200"), {"mixed-node"}),
    "HGX beside a card": (ask(f"{NV_13} 580", "h100 l40s", gpu_count=8), {"mixed-node"}),
    "NVL72 beside HGX": (ask(f"{NV_13} 580", "gb200 b200"), {"mixed-node"}),
    "L40S on HGX": (ask(f"{NV_13} 580", "l40s", platform="hgx", gpu_count=8), {"nvswitch"}),
    "four H100 on HGX": (ask(f"{NV_13} 580", "h100", platform="hgx", gpu_count=4), {"nvswitch"}),
    "GB200 on HGX": (ask(f"{NV_13} 580", "gb200", platform="hgx"), {"nvswitch"}),
    "H100 on NVL72": (ask(f"{NV_13} 580", "h100", platform="nvl72"), {"platform"}),
    "GB200 as a card": (ask(f"{NV_13} 580", "gb200", platform="pcie"), {"platform"}),
    "HGX H100 from Debian": (ask("debian-13 debian 550", "h100", gpu_count=8), {"fabric-source"}),
    "HGX A100 from Debian 12": (ask("debian-12 debian 535", "a100", gpu_count=16), {"fabric-source"}),
    "HGX B200 from Canonical": (ask("ubuntu-24.04 canonical 580", "b200", gpu_count=8), {"nvlsm"}),
    "a fabric manager of another version": (ask("ubuntu-24.04 canonical 590", "h100", gpu_count=8), {"coupled"}),
    "CUDA 13 with 570": (ask(f"{NV_13} 570", "h100", cuda=("13.0",)), {"cuda-driver"}),
    "CUDA 13 with Debian": (ask("debian-13 debian 550", "h100", cuda=("13.0",)), {"cuda-driver", "cuda-source"}),
    "another CUDA with a driver that Debian lacks": (
        ask("debian-13 debian 999", "h100", cuda=("12.8",)),
        {"unknown-driver"},
    ),
    "another CUDA with Debian": (ask("debian-13 debian 550", "h100", cuda=("12.8",)), {"cuda-source"}),
    "CUDA with Canonical": (ask("ubuntu-24.04 canonical 580", "h100", cuda=("12.8",)), {"cuda-source"}),
    "CUDA's metapackage": (ask(f"{NV_13} 580", "h100", cuda=("cuda",)), {"cuda-metapackage"}),
    "CUDA's metapackage of a release": (ask(f"{NV_13} 580", "h100", cuda=("cuda-13-0", "13.0")), {"cuda-metapackage"}),
    "cuda-drivers": (ask("debian-13 nvidia 590", "h100", cuda=("cuda-drivers-580",)), {"cuda-metapackage"}),
    "DCGM from Debian": (ask("debian-13 debian 550", "h100", dcgm="4"), {"dcgm-source"}),
    "DCGM from Canonical": (ask("ubuntu-24.04 canonical 580", "h100", dcgm="4"), {"dcgm-source"}),
    "DCGM of the wrong CUDA": (ask(f"{NV_13} 580", "h100", dcgm="4-cuda12"), {"dcgm-variant"}),
    "DCGM of CUDA 13 with Volta": (ask(f"{NV_13} 580", "v100", dcgm="4-cuda13"), {"dcgm-variant"}),
    "Volta with CUDA 13": (ask(f"{NV_13} 580", "v100", cuda=("13.0", "12.9")), {"cuda-gpu"}),
    "Blackwell with an early CUDA": (ask(f"{NV_13} 580", "b200", gpu_count=4, cuda=("12.6",)), {"cuda-gpu"}),
    "Volta beside Ampere with CUDA 13": (ask(f"{NV_13} 580", "v100 a100", cuda=("13.0",)), {"cuda-gpu"}),
    "HGX B200 with an early driver of its branch": (ask(f"{NV_13} 570", "b200", gpu_count=8), {"gpu-version"}),
    "GB200 with an early driver of its branch": (ask(f"{NV_13} 570", "gb200"), {"gpu-version"}),
    "B300 with an early driver of its branch": (ask(f"{NV_13} 580.65.06", "b300", gpu_count=8), {"gpu-version"}),
    "DCGM of CUDA 13 with 570": (ask(f"{NV_13} 570", "h100", dcgm="4.5.3-cuda13"), {"dcgm-variant"}),
    "unknown NCCL": (ask(f"{NV_13} 580", "h100", nccl="2.27"), {"unknown-nccl"}),
    "NCCL from Debian": (ask("debian-13 debian 550", "h100", nccl="2.28.9"), {"nccl-source"}),
    "NCCL that is not built with this CUDA": (
        ask(f"{NV_13} 580", "h100", cuda=("13.0",), nccl="2.29.7"),
        {"nccl-cuda"},
    ),
    "NCCL that is not built with the driver's CUDA": (ask(f"{NV_13} 580", "h100", nccl="2.25"), {"nccl-cuda"}),
    "DCGM 3": (ask(f"{NV_13} 580", "h100", dcgm="3"), {"dcgm-3"}),
    "DCGM 3, exactly": (ask(f"{NV_13} 580", "h100", dcgm="3.3.9"), {"dcgm-3"}),
    "a stream on EL 9": (ask("rocky-9 nvidia 580-open", "h100"), {"module-stream"}),
    "the stream that drifts": (ask("rocky-9 nvidia open-dkms", "h100"), {"module-stream"}),
    "a stream on EL 10": (ask("rocky-10 nvidia 580-open", "h100"), {"module-stream"}),
    "a stream on Ubuntu": (ask(f"{NV_13} latest-dkms", "h100"), {"module-stream"}),
    "a stream on an unknown system": (ask("debian-99 nvidia latest-dkms", "h100"), {"unknown-os", "module-stream"}),
    "an epoch on EL 9": (ask("rocky-9 nvidia 3:580.126.09", "h100"), {"epoch"}),
    "an epoch with a release": (ask("rocky-10 nvidia 3:610.57.04-1.el10", "h100"), {"epoch"}),
    "a package of 590 with a suffix": (ask(f"{NV_13} nvidia-dkms-590-open", "h100"), {"package-name"}),
    "Canonical's server branch": (ask("ubuntu-24.04 canonical 580-server", "h100"), {"package-name"}),
    "everything at once": (
        ask("debian-13 debian 550", "b200", gpu_count=8, module=P, cuda=("13.0", "cuda"), dcgm="3.3", toolkit="1.20.0"),
        {
            "flavour",
            "distribution-too-old",
            "fabric-source",
            "cuda-metapackage",
            "cuda-driver",
            "cuda-source",
            "dcgm-3",
            "dcgm-source",
        },
    ),
}
