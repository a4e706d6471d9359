"""Count the RoCE packets that leave an interface by the ToS byte of their IP header, until a file is there."""

import collections
import json
import pathlib
import socket
import sys

ROCE = 4791
found = collections.Counter()
with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0003)) as sniffer:
    # Without room for all of them, a slow reader loses most.
    sniffer.setsockopt(socket.SOL_SOCKET, 33, 1 << 26)  # SO_RCVBUFFORCE
    sniffer.bind((sys.argv[1], 0x0003))
    sniffer.settimeout(0.5)
    pathlib.Path(f"{sys.argv[2]}.ready").touch()
    while not pathlib.Path(f"{sys.argv[2]}.stop").exists():
        try:
            packet, address = sniffer.recvfrom(128)
        except TimeoutError:
            continue
        header = (packet[0] & 15) * 4
        udp = packet[0] >> 4 == 4 and packet[9] == socket.IPPROTO_UDP
        if (
            udp
            and address[2] == socket.PACKET_OUTGOING
            and int.from_bytes(packet[header + 2 : header + 4], "big") == ROCE
        ):
            found[packet[1]] += 1
pathlib.Path(sys.argv[2]).write_text(json.dumps(found))
