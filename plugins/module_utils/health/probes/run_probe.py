# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one probe in this process, and print its readings as JSON lines. The agent starts it as a disposable child.

Usage: python3 -m ...health.probes.run_probe KIND SETTINGS.json. Each line is written at once, so that the readings before a hang count.
A kind imports its own modules only: the start of the children is most of what the agent costs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ...common.sysfs import Root
from ..facts.node_facts import Reading
from .probe_settings import ADVICE, ProbeSettings, settings_from
from .reading_lines import end, line, unread

_LONGEST = 1 << 20


def read_gpus(settings: ProbeSettings, root: Root) -> Iterator[Reading]:
    """Yield the readings of NVML, or of nvidia-smi where NVML cannot be used. Without a loaded driver, neither is started."""
    from . import nvml, smi

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
    from . import advice

    source = kind[len(ADVICE) :]
    try:
        data = _SOURCES[source](settings)
    except (OSError, ValueError) as error:
        yield unread(advice.quantity(source), "", source, str(error))
        return
    yield from advice.parse(source, data)


def _dcgm(settings: ProbeSettings) -> str:
    """Return DCGM's report on all GPUs, without a new diagnosis."""
    from . import smi

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
    "dcgm": _dcgm,
    "gpud": _gpud,
    "validation": _validation,
}


def readings(kind: str, settings: ProbeSettings) -> Iterator[Reading]:
    """Return the readings of a kind. KeyError: an unknown kind."""
    root = Root(settings.sysroot)
    if kind.startswith(ADVICE):
        return read_advice(kind, settings)
    return _KINDS[kind](settings, root)


def _read_driver(_settings: ProbeSettings, root: Root) -> Iterator[Reading]:
    from .driver_probe import read_driver

    return read_driver(root)


def _read_pci(_settings: ProbeSettings, root: Root) -> Iterator[Reading]:
    from .pci_probe import read_pci

    return read_pci(root)


def _read_rdma(settings: ProbeSettings, root: Root) -> Iterator[Reading]:
    from .rdma_probe import read_ports

    return read_ports(root, settings.exclude)


def _read_huge_pages(settings: ProbeSettings, root: Root) -> Iterator[Reading]:
    from .huge_pages_probe import read_pages

    return read_pages(root, settings.sizes)


_KINDS: dict[str, Callable[[ProbeSettings, Root], Iterator[Reading]]] = {
    "nvml": read_gpus,
    "driver": _read_driver,
    "pci": _read_pci,
    "rdma": _read_rdma,
    "huge-pages": _read_huge_pages,
}


def main(arguments: Sequence[str]) -> None:
    """Print the readings of one kind."""
    kind, path = arguments
    write(kind, settings_from(json.loads(Path(path).read_bytes())))


def write(kind: str, settings: ProbeSettings) -> None:
    """Print the readings of one kind, and the last line."""
    count = 0
    for reading in readings(kind, settings):
        sys.stdout.write(line(reading))
        sys.stdout.flush()
        count += 1
    sys.stdout.write(end(count))


if __name__ == "__main__":
    main(sys.argv[1:])
