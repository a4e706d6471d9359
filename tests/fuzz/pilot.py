# SPDX-License-Identifier: GPL-3.0-or-later
"""What is to hold for the pilot's readers: any text of any tool ends in a report, and a report has no secret that stood in the text."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest import mock

from ansible_collections.bedplate.cluster.plugins.module_utils.common.command import Outcome
from ansible_collections.bedplate.cluster.plugins.module_utils.report import smi_raw, software
from ansible_collections.bedplate.cluster.plugins.module_utils.report.hardware import read_hardware
from ansible_collections.bedplate.cluster.plugins.module_utils.report.smi_raw import Recorder
from ansible_collections.bedplate.cluster.plugins.module_utils.report.software import SoftwareReader
from ansible_collections.bedplate.cluster.plugins.plugin_utils.report.pilot_document import (
    Run,
    document_of,
    pseudonyms_of,
)

HOST = "gpu017"
NAMES = {
    "host": [HOST, "ctl1.west.corp"],
    "domain": ["west.corp"],
    "user": ["alice"],
    "serial": ["SN77AX"],
    "secret": ["hunter2hunter"],
}
PLANTED = (
    HOST,
    "ctl1.west.corp",
    "storage9.west.corp",
    "alice",
    "SN77AX",
    "hunter2hunter",
    "10.20.30.41",
    "2001:db8:77::17",
    "b8:59:9f:0a:1b:2c",
    "0x506b4b0300c2d3f0",
    "GPU-5d3e1234-98ab-1234-5678-1234567890ab",
    "carol@mail.invalid",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
)
"""Values of all kinds that identify a site; as they stand in none of the seeds."""
# Every file that the readers of software and hardware open by name, or that a directory they list has.
FILES = (
    *("etc/os-release", "etc/default/grub", "etc/apt/sources.list"),
    *("etc/apt/sources.list.d/x.list", "etc/apt/sources.list.d/x.sources", "etc/yum.repos.d/x.repo"),
    *("proc/cmdline", "proc/meminfo", "proc/cpuinfo", "proc/driver/nvidia/version", "proc/driver/nvidia/params"),
    *("proc/driver/nvidia/gpus/0000:3b:00.0/information", "proc/sys/kernel/osrelease", "proc/modules"),
    *("boot/grub/grubenv", "boot/grub/grub.cfg", "boot/vmlinuz-6.1", "boot/loader/entries/x.conf"),
    *("sys/module/nvidia/version", "sys/bus/pci/devices/0000:3b:00.0/class", "sys/bus/pci/devices/0000:3b:00.0/vendor"),
    *("sys/bus/pci/devices/0000:3b:00.0/device", "sys/bus/pci/devices/0000:3b:00.0/numa_node"),
    *("sys/class/infiniband/mlx5_0/fw_ver", "sys/class/infiniband/mlx5_0/ports/1/state"),
    *("usr/share/misc/pci.ids", "var/lib/dkms/x"),
)
# Files that say which names a report must not have.
_NAMED = {
    "etc/hosts": "127.0.0.1 localhost\n10.20.30.41 gpu017.west.corp gpu017 # rack 7\n",
    "etc/passwd": "root:x:0:0:root:/root:/bin/bash\nalice:x:1000:1000::/home/alice:/bin/bash\n",
    "etc/resolv.conf": "search west.corp\nnameserver 10.20.30.1\n",
    "sys/class/dmi/id/product_serial": "SN77AX\n",
}
_PROGRAMS = (("nvidia-smi", "dkms", "dpkg-query"), ("nvidia-smi", "dkms", "rpm"))
_PARTS = 8
# An error that no reader documents: the reader met something that it was not written for.
_TRACEBACK = re.compile(
    r"(?:(?:Key|Value|Index|Type|Attribute|Unicode\w+|Recursion|ZeroDivision|Overflow|Assertion|Name)Error|StopIteration): "
)


def pilot(text: str) -> None:
    """Read a machine on which every tool and every file has this text, with secrets between its lines, and write the report."""
    with_secrets = _planted(text)
    with _machine(with_secrets, _PROGRAMS[len(text) % len(_PROGRAMS)]) as top:
        reader = SoftwareReader(str(top), ["x"], 5.0, Recorder(5.0, _answers(with_secrets)))
        reader.is_live = True
        found = reader.read()
        hardware = read_hardware(str(top))
    wrong = [row for row in found["unread"] if _TRACEBACK.match(row["text"])]
    assert not wrong, str(wrong[0])
    assert len(found["found"]) == _PARTS, f"parts: {', '.join(found['found'])}"
    _redacted({"hardware": hardware, "software": found, "differences": [], "expected": {}})


def _redacted(result: Mapping[str, object]) -> None:
    """Write the report of a node, and of one that did not answer; fail where a secret is in it."""
    failed = {"msg": "\n".join(PLANTED), "unreachable": True}
    run = Run({HOST: json.loads(json.dumps(result)), "gpu018": failed}, NAMES)
    text = json.dumps(document_of(run, pseudonyms_of(run))).lower()
    leaked = [one for one in PLANTED if one.lower() in text]
    assert not leaked, f"in the report: {', '.join(leaked)}"


def _planted(text: str) -> str:
    """Return a text with a line of secrets after each of its first lines, alone and in a sentence."""
    lines = text.split("\n")
    for number, secret in enumerate(PLANTED):
        line = f"cannot read {secret}: refused" if number % 2 else secret
        lines.insert(min(len(lines), 2 * number + 1), line)
    return "\n".join(lines)


def _answers(text: str) -> object:
    def run(argv: Sequence[str], _seconds: float) -> Outcome:
        return Outcome(1 if argv[0].endswith("editenv") and "[" in text[:3] else 0, text, text[:200])

    return run


@contextmanager
def _machine(text: str, programs: Sequence[str]) -> Iterator[Path]:
    """Give the root of a machine with these programs, whose files have this text."""
    top = Path(_folder().name)
    for name, content in {**dict.fromkeys(FILES, text), **_NAMED}.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8", errors="replace")
    with (
        mock.patch.object(software, "find", lambda name: f"/usr/bin/{name}" if name in programs else None),
        mock.patch.object(smi_raw, "_is_device", return_value=True),
    ):
        yield top


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Return the one folder of this process: a folder for each text would cost more than the readers."""
    return tempfile.TemporaryDirectory(prefix="bedplate-pilot-")
