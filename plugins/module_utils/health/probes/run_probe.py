# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one probe in this process, and print its readings as JSON lines. The agent starts it as a disposable child.

Usage: python3 -m ...health.probes.run_probe KIND SETTINGS.json. Each line is written at once, so that the readings before a hang count.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ...common.sysfs import Root
from ..judge.node_facts import Reading
from . import advice, driver_probe, huge_pages_probe, nvml, pci_probe, rdma_probe, smi
from .all_probes import ADVICE, ProbeSettings, settings_from
from .reading_lines import end, line, unread

_LONGEST = 1 << 20


def read_gpus(settings: ProbeSettings, root: Root) -> Iterator[Reading]:
    """Yield the readings of NVML, or of nvidia-smi where NVML cannot be used. Without a loaded driver, neither is started."""
    try:
        library = nvml.open_library(root, settings.library)
        yield from nvml.read_gpus(library, root)
    except LookupError as error:
        yield from (unread(name, "", nvml.SOURCE, str(error)) for name in nvml.QUANTITIES)
    except nvml.NvmlUnusableError as error:
        yield from error.readings
        if not error.readings:
            yield unread("driver-match", "", nvml.SOURCE, str(error))
        yield from smi.read_gpus(settings.smi)


def read_advice(kind: str, settings: ProbeSettings) -> Iterator[Reading]:
    """Yield the readings of another tool's verdict."""
    source = kind[len(ADVICE) :]
    try:
        data = _SOURCES[source](settings)
    except (OSError, ValueError) as error:
        yield unread(advice.quantity(source), "", source, str(error))
        return
    yield from advice.parse(source, data)


def _dcgm(settings: ProbeSettings) -> str:
    """Return DCGM's report on all GPUs, without a new diagnosis."""
    outcome = smi.run_here([settings.dcgm, "health", "-g", "0", "-c", "-j"])
    if outcome.code != 0:
        raise ValueError(outcome.error_line)
    return outcome.stdout


def _gpud(settings: ProbeSettings) -> bytes:
    """Return gpud's states. Its certificate is self-signed, and only this machine is queried."""
    import ssl
    import urllib.request
    from urllib.parse import urlsplit

    if urlsplit(settings.gpud).hostname not in ("localhost", "127.0.0.1", "::1"):
        raise ValueError(f"{settings.gpud}: not a URL of this machine")
    trust = ssl.create_default_context()
    trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
    # Without handlers for proxies: the request must not leave this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust))
    with opener.open(settings.gpud, timeout=30) as answer:
        data: bytes = answer.read(_LONGEST)
    return data


def _validation(settings: ProbeSettings) -> bytes:
    return Path(settings.validation).read_bytes()[:_LONGEST]


_SOURCES: dict[str, Callable[[ProbeSettings], bytes | str]] = {
    advice.DCGM: _dcgm,
    advice.GPUD: _gpud,
    advice.VALIDATION: _validation,
}


def readings(kind: str, settings: ProbeSettings) -> Iterator[Reading]:
    """Return the readings of a kind. KeyError: an unknown kind."""
    root = Root(settings.sysroot)
    if kind.startswith(ADVICE):
        return read_advice(kind, settings)
    kinds: dict[str, Callable[[], Iterator[Reading]]] = {
        "nvml": lambda: read_gpus(settings, root),
        "driver": lambda: driver_probe.read_driver(root),
        "pci": lambda: pci_probe.read_pci(root),
        "rdma": lambda: rdma_probe.read_ports(root, settings.exclude),
        "huge-pages": lambda: huge_pages_probe.read_pages(root, settings.sizes),
    }
    return kinds[kind]()


def main(arguments: Sequence[str]) -> None:
    """Print the readings of one kind."""
    kind, path = arguments
    settings = settings_from(json.loads(Path(path).read_bytes()))
    count = 0
    for reading in readings(kind, settings):
        sys.stdout.write(line(reading))
        sys.stdout.flush()
        count += 1
    sys.stdout.write(end(count))


if __name__ == "__main__":
    main(sys.argv[1:])
