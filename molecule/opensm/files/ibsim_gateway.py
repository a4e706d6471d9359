#!/usr/bin/python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""ibsim for programs on other machines, and with what it lacks for two subnet managers.

Stands between ibsim in remote mode (`ibsim -r -l 7170`) and its clients, which find it at port 7070. It passes everything on, and

- a TrapRepress reaches who sent the trap. ibsim drops it, and the OpenSM that has told of its priority would wait for it for ever;
- a request without an answer times out after three seconds, as the kernel has it after its retries. ibsim's clients would wait for ever;
- an SM that was killed makes room for the next one on its node.
"""

from __future__ import annotations

import select
import socket
import struct
import sys
import time

CLIENTS = 10
CONNECT, DISCONNECT, SET_ISSM = 1, 2, 9
# struct sim_ctl and struct sim_client_info of ibsim.h.
CONTROL, INFO = struct.Struct("=4I"), struct.Struct("=3I32s")
# struct sim_request: what it says of a packet, then the MAD.
STATUS, MAD = 16, 32
TIMED_OUT = struct.pack("!I", 110)
GET, SET, TRAP, TRAP_REPRESS, GET_TABLE = 1, 2, 5, 7, 18
ASKING = (GET, SET, TRAP, GET_TABLE)
# An answer of ibsim that comes later, as on a busy machine, makes OpenSM take the node for gone.
PATIENCE = 3.0


class Client:
    """A program on a node of the fabric."""

    def __init__(self, address: tuple[str, int], node: bytes) -> None:
        self.address, self.node, self.manages = address, node, False
        self.socket = udp("127.0.0.1", 0)


class Gateway:
    """All clients; `near` is the first port of this program, `far` that of ibsim."""

    def __init__(self, near: int, far: int) -> None:
        self.far = far
        self.control = udp("0.0.0.0", near)
        self.data = [udp("0.0.0.0", near + 1 + number) for number in range(CLIENTS)]
        self.upstream = udp("127.0.0.1", 0)
        # On a busy machine ibsim gets its turn late.
        self.upstream.settimeout(60)
        self.clients: dict[int, Client] = {}
        # Client and transaction -> when it times out, and the packet.
        self.pending: dict[tuple[int, bytes], tuple[float, bytes]] = {}

    def run(self) -> None:
        """Pass packets on, for ever."""
        while True:
            sockets = [self.control, *self.data, *(client.socket for client in self.clients.values())]
            for ready in select.select(sockets, [], [], PATIENCE / 4)[0]:
                self.read(ready)
            now = time.monotonic()
            for key in [key for key, (end, _packet) in self.pending.items() if end < now]:
                _end, packet = self.pending.pop(key)
                self.deliver(key[0], packet[:STATUS] + TIMED_OUT + packet[STATUS + 4 :])

    def read(self, ready: socket.socket) -> None:
        """Read a packet, and pass it on."""
        try:
            packet, address = ready.recvfrom(65536)
        except ConnectionError:
            return
        if ready is self.control:
            self.command(packet, address)
        elif ready in self.data:
            self.leaves(self.data.index(ready), packet)
        else:
            number = next((number for number, client in self.clients.items() if client.socket is ready), None)
            if number is not None:
                self.pending.pop((number, transaction(packet)), None)
                self.deliver(number, packet)

    def command(self, packet: bytes, address: tuple[str, int]) -> None:
        """Have ibsim carry out a client's command."""
        magic, number, kind, _length = CONTROL.unpack_from(packet)
        if kind == CONNECT:
            port, qp, manages, node = INFO.unpack_from(packet, CONTROL.size)
            client = Client((address[0], port), node.rstrip(b"\0"))
            own = client.socket.getsockname()[1]
            packet = packet[: CONTROL.size] + INFO.pack(own, qp, manages, node) + packet[CONTROL.size + INFO.size :]
            answer = self.ask(packet)
            if CONTROL.unpack_from(answer)[2] == CONNECT:
                number = INFO.unpack_from(answer, CONTROL.size)[0]
                client.socket.connect(("127.0.0.1", self.far + 1 + number))
                self.clients[number] = client
        else:
            if kind == SET_ISSM and number in self.clients:
                self.manages(magic, number)
            answer = self.ask(packet)
            if kind == DISCONNECT:
                self.forget(number)
        self.control.sendto(answer, address)

    def manages(self, magic: int, number: int) -> None:
        """Note an SM; one that was there on its node before is gone."""
        node = self.clients[number].node
        for other in [one for one, client in self.clients.items() if client.node == node and client.manages]:
            self.ask(CONTROL.pack(magic, other, DISCONNECT, 0) + bytes(64))
            self.forget(other)
        if number in self.clients:
            self.clients[number].manages = True

    def ask(self, packet: bytes) -> bytes:
        """Return ibsim's answer to a command."""
        self.upstream.sendto(packet, ("127.0.0.1", self.far))
        return self.upstream.recv(65536)

    def forget(self, number: int) -> None:
        """Forget a client that has gone."""
        if client := self.clients.pop(number, None):
            client.socket.close()
        for key in [key for key in self.pending if key[0] == number]:
            del self.pending[key]

    def leaves(self, number: int, packet: bytes) -> None:
        """Pass on what a client sends."""
        if number not in self.clients:
            return
        method, name = packet[MAD + 3], transaction(packet)
        if method == TRAP_REPRESS:
            for key in [key for key in self.pending if key[1] == name and key[0] != number]:
                del self.pending[key]
                self.deliver(key[0], packet)
            return
        if method in ASKING:
            self.pending[number, name] = (time.monotonic() + PATIENCE, packet)
        try:
            self.clients[number].socket.send(packet)
        except ConnectionError:
            self.forget(number)

    def deliver(self, number: int, packet: bytes) -> None:
        """Pass on what comes for a client."""
        if client := self.clients.get(number):
            self.data[number].sendto(packet, client.address)


def transaction(packet: bytes) -> bytes:
    """Return what tells a transaction from others; ibsim keeps who has begun it in the upper half."""
    return packet[MAD + 12 : MAD + 16]


def udp(host: str, port: int) -> socket.socket:
    """Return a socket at an address."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind((host, port))
    return made


if __name__ == "__main__":
    Gateway(int(sys.argv[1]), int(sys.argv[2])).run()
