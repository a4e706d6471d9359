# SPDX-License-Identifier: GPL-3.0-or-later
"""Results that all hosts of a run share: one fork computes them, the others read them."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path

from ansible import constants

from ansible_collections.bedplate.cluster.plugins.module_utils.common.files import atomic_write


def once_a_run(key: str, make: Callable[[], bytes]) -> bytes:
    """Return the result for a key, computed by the first fork of this run that needs it. `key` is a file name."""
    with _place(key) as result:
        if not result.exists():
            atomic_write(result, make(), mode=0o600, sync=False)
        return result.read_bytes()


@contextlib.contextmanager
def _place(key: str) -> Iterator[Path]:
    """Lend the place of a result to one fork at a time.

    Ansible's own directory for the temporary files of this run: private, the same in all forks, removed at the end.
    """
    directory = Path(constants.DEFAULT_LOCAL_TMP) / "bedplate-once"
    directory.mkdir(mode=0o700, exist_ok=True)
    with (directory / f"{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield directory / key
