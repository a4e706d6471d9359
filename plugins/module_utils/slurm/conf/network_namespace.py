# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a process in a network namespace with only the loopback interface."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct

_CLONE_NEWNET = 0x40000000
_SIOCSIFADDR = 0x8916
_SIOCSIFFLAGS = 0x8914
_IFF_UP_RUNNING = 0x1 | 0x40
# An address from the documentation block: with loopback addresses only, the resolver would find no address, not even 127.0.0.1.
_ADDRESS = "192.0.2.1"


class NetworkNamespace:
    """Network namespace, if this process may create one, and the functions that enter it."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.network = self._possible()

    def _possible(self) -> bool:
        """Return whether a namespace can be created. A child process tries it, since a process cannot return."""
        child = os.fork()
        if child == 0:
            try:
                self._unshare()
                os._exit(0)
            except BaseException:
                os._exit(1)
        return os.waitpid(child, 0)[1] == 0

    def port(self) -> int:
        """Return a free port: any port in a separate namespace."""
        if self.network:
            return 6817
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port: int = free.getsockname()[1]
            return port

    def enter(self) -> None:
        """Move the calling process, between fork and exec, into a new network namespace."""
        if self.network:
            self._unshare()

    def join(self, pid: int) -> None:
        """Move the calling process, between fork and exec, into the network namespace of another process."""
        if self.network:
            handle = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
            if self._libc.setns(handle, _CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
            os.close(handle)

    def _unshare(self) -> None:
        if self._libc.unshare(_CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")

        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP_RUNNING))
            address = struct.pack("16sHH4s8x", b"lo:0", socket.AF_INET, 0, socket.inet_aton(_ADDRESS))
            fcntl.ioctl(control, _SIOCSIFADDR, address)
