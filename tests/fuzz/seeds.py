# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts as they are in order, for each property, and what can be done to their lines and words."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

from ansible_collections.bedplate.cluster.plugins.plugin_utils.fabric.core.fabric_model import by_switch
from tests.fuzz.properties import PLAN, ROCE

UNIT = Path(__file__).parents[1] / "unit" / "fabric"
_WORD = re.compile(r'"[^"]*"|0x[0-9a-fA-F]+|[0-9a-fA-F]{6,16}|\d+x[A-Z]+\d*|\d+|[^\s\w]|\w+')
_ODD = (
    *(
        "",
        "0",
        "-1",
        "99999999999999999999",
        "²",
        "\0",
        "\r",
        '"',
        "[",
        "#",
        "\u2028",
        "{",
        "[]",
        "null",
        "both",
        "ALL",
    ),
    *("MT4129 ConnectX7   Mellanox Technologies", "Mellanox Technologies Aggregation Node", "localhost HCA-1"),
    *("1xSDR", "4x???", "UNREACHABLE"),
)
_PARTITIONS = """\
Default=0x7fff, ipoib, defmember=limited : ALL, SELF=full ;
# a
t1=0x0001,mtu=4,rate=16,sl=1,indx0 :
  {} ;
g=0x12,ipoib:
mgid=ff12:401b::ffff:ffff,sl=1,mtu=4
ALL_CAS=full,ALL_SWITCHES=limited;
"""

_GPUS = (
    """\
00000000:18:00.0, GPU-6d9b1e0c-2f4a, NVIDIA H100 80GB HBM3, Enabled, Disabled, Disabled, Enabled, Enabled, Completed, Success
00000000:2A:00.0, GPU-0f, NVIDIA H100 80GB HBM3, [N/A], [Not Supported], N/A, [Unknown Error], ERR!, In Progress, [N/A]
""",
    'Field "fabric.state" is not a valid field to query.\n\nfabric.status : not a valid field to query.\n',
    "Unable to determine the device handle for GPU0000:5D:00.0: Unknown Error\n",
    # Up to 570, and a GPU that fell off the bus.
    """\
00000000:18:00.0, GPU-0, NVIDIA H100 80GB HBM3, Enabled, Disabled, Disabled, Enabled, Enabled, state  Completed, status Success
00000000:2A:00.0, GPU-1, NVIDIA H100 80GB HBM3, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [N/A], [N/A]
""",
)
_SOURCES = (
    """\
# deb http://m.example.org/d trixie main
deb [ arch=amd64 signed-by=/k.gpg ] http://m.example.org/d trixie main # a comment
deb-src "http://m.example.org/a%20b" ./
""",
    """\
# A comment.
Types: deb deb-src
URIs: http://m.example.org/d http://m.example.org/e/
Suites: trixie trixie-updates
Enabled: yes
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDME
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb
URIs: file:/srv/m
Suites: /
""",
    """\
[main]
gpgcheck=1
[cuda-rhel9-x86_64]
name=cuda
baseurl=https://m.example.org/rhel9/$basearch/
  https://n.example.org/rhel9
enabled=1
; off
[off]
enabled = 0
""",
)
_SETTINGS = """\
00000000:18:00.0, 700.00, 700.00, Default, Enabled, Enabled, 1980, 2619
00000000:2A:00.0, [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost], [GPU is lost]
00000000:3B:00.0, [N/A], [Not Supported], Exclusive_Process, [N/A], [N/A], [Unknown Error], 405
"""

# What a machine of a pilot prints: nvidia-smi, DKMS, the package managers, the boot loader.
_PILOT = (
    """\
==============NVSMI LOG==============
Driver Version                            : 580.126.09
GPU 00000000:3B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Serial Number                         : N/A
    GPU UUID                              : N/A
    Processes
        GPU instance ID                   : N/A
        Process ID                        : 4711
            Name                          : /home/bob/train
    Fabric
        State                             : Completed
""",
    """\
nvidia/580.126.09, 6.8.0-90-generic, x86_64: installed
lustre/2.15.5: added
nvidia-fs/2.24, 6.8.0-90-generic, x86_64: built (WARNING! Diff between built and installed module!)
Deprecated feature: REMAKE_INITRD (/var/lib/dkms/nvidia/580/source/dkms.conf)
""",
    "nvidia-smi\t580.126.09-1\tinstalled\nlibcuda1\t1:580-2\tconfig-files\nlibnvidia-ml\t3:580.65.06-1.el9\n",
    """\
# GRUB Environment Block
saved_entry=Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux 6.12.57-amd64
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-x' {
	linux	/boot/vmlinuz-6.12.57-amd64 root=UUID=x ro  quiet
}
title Rocky Linux (5.14.0-503.11.1.el9_5.x86_64) 9.5 (Blue Onyx)
options root=/dev/mapper/rl-root ro crashkernel=1G-4G:192M
GRUB_DEFAULT=saved
ID="rocky"
VERSION_ID="9.5"
""",
)

_RECORDS = (
    """\
{
 "format": 1,
 "about": "x",
 "machines": {
  "gpu001": {"serial": "S1", "bmc_mac": "3c:ec:ef:00:01:01", "boot_mac": "3c:ec:ef:00:01:02", "disk_serial": "D1"},
  "gpu002": {"serial": "S2", "bmc_fingerprint": "abababababababababababababababababababababababababababababababab"}
 }
}
""",
)


def seeds() -> list[tuple[str, str]]:
    """Return properties and texts as they are in order."""
    captures = [path.read_text() for path in sorted((UNIT / "captures").glob("*.txt"))]
    found = [(name, text) for name in ("ibnetdiscover", "compared") for text in captures]
    dumps = UNIT / "simulate" / "data" / "opensm"
    order = "opensm-ftree-ca-order.dump"
    found += [("tables", _joined(path, "opensm.fdbs", order)) for path in sorted(dumps.iterdir())]
    found.append(("tables", _joined(dumps / "two", "opensm-lfts.dump", order)))
    guids = [hca.port_guid for hca in PLAN.hcas.values()]
    members = (f"0x{guid}={how}" for guid, how in zip(guids, ("full", "limited") * 4, strict=True))
    found.append(("partitions", _PARTITIONS.format(",\n  ".join(members))))
    found += [("neighbours", json.dumps(_answers(listed), indent=1)) for listed in (False, True)]
    found += [("gpus", text) for text in _GPUS]
    found += [("package_sources", text) for text in _SOURCES]
    found += [("settings", text) for text in (_SETTINGS, *_GPUS)]
    found += [("pilot", text) for text in (*_PILOT, _GPUS[0], *_SOURCES)]
    found += [("written", "gpu1\ngpu2"), ("written", "o'brien #2\n" + "g" * 58)]
    found += [("imported", text) for text in _exports()]
    found += [("recorded", text) for text in _RECORDS]
    return found


def _exports() -> list[str]:
    """Return exports of other systems: the kind in the first line, then each file after a line with ====."""
    folder = UNIT.parent / "machines/sources/exports"
    return [
        "\n====\n".join([kind, *((folder / name).read_text() for name in names)])
        for kind, names in (
            ("netbox", ["netbox-devices.json", "netbox-interfaces.json"]),
            ("netbox.csv", ["netbox-devices.csv", "netbox-interfaces.csv"]),
            ("maas", ["maas-machines.json"]),
            ("warewulf", ["warewulf-nodes.conf"]),
            ("ironic", ["ironic-nodes.json", "ironic-ports.json", "gpu002.json"]),
        )
    ] + ["csv\n====\nname;serial;bmc mac\ngpu001;S1;3C-EC-EF-00-01-01\n'gpu002';S2;\n"]


def _joined(directory: Path, *names: str) -> str:
    paths = [directory / name for name in ("opensm-subnet.lst", *names)]
    return "\n====\n".join(path.read_text() for path in paths if path.exists())


def _answers(listed: bool) -> dict[str, object]:
    """Return what two leaves say, as `-f json0` has it if `listed`."""
    planned = by_switch(ROCE.present)
    found: dict[str, object] = {}
    for box in ("leaf-a0", "leaf-a1"):
        told = {"interface": [_interface(port, far, listed) for port, far in planned[box].items()]}
        found[box] = {"lldp": [told] if listed else told}
    return found


def _interface(port: int, far: tuple[str, int], listed: bool) -> dict[str, object]:
    host, _, device = far[0].partition(" ")
    of_far = device or f"swp{far[1]}"
    identity = {"type": "mac", "value": "9c:05:91:00:ab:01"}
    name = {"type": "ifname", "value": of_far}
    if listed:
        return {
            "name": f"swp{port}",
            "chassis": [{"id": [identity], "name": [{"value": host}]}],
            "port": [{"id": [name], "descr": [{"value": of_far}]}],
        }
    return {f"swp{port}": {"chassis": {host: {"id": identity}}, "port": {"id": name, "descr": of_far}}}


def change(text: str, rng: random.Random) -> str:
    """Change lines or words, which keeps a text readable enough to come far."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        text = rng.choice((_lines, _words, _words))(text, rng)
    return text


def _lines(text: str, rng: random.Random) -> str:
    lines = text.split("\n")
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    what = rng.randrange(6)
    if what == 0:
        del lines[one]
    elif what == 1:
        lines.insert(one, lines[other])
    elif what == 2:
        lines[one], lines[other] = lines[other], lines[one]
    elif what == 3:
        lines[one] = lines[one][: rng.randrange(len(lines[one]) + 1)]
    elif what == 4:
        lines = lines[:one] if rng.random() < 0.3 else lines[: min(one, other)] + lines[max(one, other) :]
    else:
        lines[one] += rng.choice((lines[other], *_ODD))
    return "\n".join(lines)


def _words(text: str, rng: random.Random) -> str:
    """Put one word of the text in another's place, everywhere or once."""
    words = list(_WORD.finditer(text))
    if not words:
        return text + rng.choice(_ODD)
    old = rng.choice(words)
    new = rng.choice(_ODD) if rng.random() < 0.25 else rng.choice(words)[0]
    if rng.random() < 0.2:
        return text.replace(old[0], new)
    return text[: old.start()] + new + text[old.end() :]
