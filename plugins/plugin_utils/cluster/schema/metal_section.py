# SPDX-License-Identifier: GPL-3.0-or-later
"""Fields about bare metal: `bmc`, `boot`, `system_disk` and the images of a profile, and the sections `images` and `provision`."""

from __future__ import annotations

from typing import Any

from .fields import Field, with_values
from .text_rules import TEXT, WORD

# Part of the names of files and addresses.
IMAGE_NAME: dict[str, Any] = {
    "pattern": "[a-z0-9][a-z0-9._-]{0,62}",
    "allowed": "Allowed: at most 63 small letters, digits and . _ -, starting with a letter or digit.",
}
BIOS_FOLDER, FIRMWARE_FOLDER = "bios", "firmware"
"""Folders beside the cluster file with what `bios` and `firmware` of a profile name."""

BOOT = {
    "tokens": Field(
        "Where its nodes get the kernel command line from: `loader`, their own boot loader; `network`, a boot server, to which "
        "playbooks/boot_tokens.yml prints the tokens; `none`, bedplate sets and compares no token.",
        default="loader",
        choices=("loader", "network", "none"),
    ),
    "firmware": Field("Firmware that the machine boots with.", default="uefi", choices=("uefi", "bios")),
    "method": Field(
        "How the installer reaches the machine: `media`, virtual media of the BMC; `http`, UEFI HTTP boot; `pxe`, in clear over the "
        "provisioning network.",
        default="media",
        choices=("media", "http", "pxe"),
    ),
    "secure_boot": Field("Whether Secure Boot is on; absent: it is neither set nor compared.", "bool"),
}

_BMC = {
    "protocol": Field(
        "How its BMC is commanded; `ipmi` has power and boot device alone.",
        default="redfish",
        choices=("redfish", "ipmi"),
    ),
}

_SYSTEM_DISK = {
    "size_gb": Field("Its size in GB (10^9 bytes), such as 900-1000; several ranges with commas.", "ranges"),
    "bus": Field("How it is attached.", choices=("nvme", "sata", "sas", "virtio")),
    "models": Field(
        'Patterns of its model, such as ["*PM9A3*"].',
        "list",
        item=Field("a pattern", **TEXT),
    ),
}

PROFILE_METAL = {
    "bmc": Field("Its BMC.", "section", fields=with_values(_BMC)),
    "boot": Field(
        "How its nodes boot; a text is `tokens`.", "section", default={}, fields=with_values(BOOT), short="tokens"
    ),
    "system_disk": Field(
        "The disk that the image is written to: exactly one disk of a machine may be like that, unless its serial number is on record.",
        "section",
        fields=with_values(_SYSTEM_DISK),
    ),
    "bios": Field(f"BIOS settings of its machines: {BIOS_FOLDER}/<name>.yml beside the cluster file.", **IMAGE_NAME),
    "firmware": Field(f"Firmware of its machines: {FIRMWARE_FOLDER}/<name>.yml beside the cluster file.", **IMAGE_NAME),
    "image": Field("The image that is installed on its nodes, one of `images`.", **IMAGE_NAME),
}

IMAGE = {
    "file": Field(
        "The image, compressed, such as trixie-gpu.img.zst: a path beside the cluster file or an absolute one.",
        required=True,
        **TEXT,
    ),
    "sha256": Field(
        "SHA-256 of that file.",
        required=True,
        pattern="[0-9a-f]{64}",
        allowed="Allowed: 64 hexadecimal digits in small letters, as `sha256sum FILE` prints them.",
    ),
    "os": Field("Its operating system, such as debian-13.", required=True, **WORD),
}

_PROVISION_BMC = {
    "at_once": Field("BMCs that get requests at the same time.", "int", default=256, minimum=1, maximum=1024),
    "per_bmc": Field("Requests to one BMC at the same time.", "int", default=1, minimum=1, maximum=4),
    "timeout": Field("Seconds that a request may take.", "int", default=60, minimum=5, maximum=600),
    "ca": Field(
        "Certificates (PEM) of the CA that signs the BMCs' certificates: a path beside the cluster file or an absolute one. Without "
        "it, the fingerprint on record alone is trusted.",
        **TEXT,
    ),
}

PROVISION = {
    "host": Field("The host that serves images and the installer.", required=True),
    "address": Field("Its address in the network `provision`; without that network, it is that in `management`."),
    "window_minutes": Field(
        "Minutes in which an armed node must have begun to install.", "int", default=120, minimum=5, maximum=1440
    ),
    "bmc": Field(
        "Limits of requests to BMCs, and the CA of their certificates.",
        "section",
        default={},
        fields=with_values(_PROVISION_BMC),
    ),
}
