# SPDX-License-Identifier: GPL-3.0-or-later
"""Read when slurmctld wrote job_state and which id the next job gets, and raise that id.

The header has been the same since Slurm 14.03 (src/slurmctld/job_mgr.c, dump_all_job_state and load_last_job_id): a text with its length,
the protocol's version, the time, the next id, all in network order. slurmctld takes the larger of this id and FirstJobId. There is no
checksum.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_MARK = b"PROTOCOL_VERSION\0"
_HEAD = struct.Struct(f">I{len(_MARK)}sHQI")
SIZE = _HEAD.size
"""Bytes of the header."""
LARGEST = 67_043_327
"""Slurm's default of MaxJobId, less one."""


class HeaderError(ValueError):
    """The data is not the beginning of a job_state."""


@dataclass(frozen=True)
class JobHeader:
    """Header of a job_state: version of the protocol, when it was written, in seconds since 1970, and the id of the next job."""

    protocol: int
    saved_at: int
    next_id: int

    def packed(self) -> bytes:
        """Return the bytes of the header."""
        return _HEAD.pack(len(_MARK), _MARK, self.protocol, self.saved_at, self.next_id)


def read(data: bytes) -> JobHeader:
    """Return the header at the beginning of these bytes. Raises HeaderError."""
    if len(data) < SIZE:
        raise HeaderError(f"job_state has {len(data)} bytes, and its header alone {SIZE}")
    length, mark, protocol, saved_at, next_id = _HEAD.unpack_from(data)
    if (length, mark) != (len(_MARK), _MARK):
        raise HeaderError("job_state does not begin with the version of Slurm's protocol")
    return JobHeader(protocol, saved_at, next_id)


def raised(data: bytes, next_id: int) -> bytes:
    """Return a job_state whose next id is at least this one. Raises HeaderError, also for an id that Slurm refuses."""
    header = read(data)
    if next_id <= header.next_id:
        return data
    if next_id > LARGEST:
        raise HeaderError(f"the next job would have the id {next_id}; allowed: at most {LARGEST}")
    return JobHeader(header.protocol, header.saved_at, next_id).packed() + data[SIZE:]
