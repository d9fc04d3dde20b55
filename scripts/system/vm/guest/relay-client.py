"""Connects to the relay as the current user, for the scenario passkeys-relay.

Usage: relay-client.py echo           answers CTAPHID INIT and PING until the relay closes the connection
       relay-client.py send NUMBER    sends a message of that many bytes, and prints whether the relay closed the connection
"""
import socket
import struct
import sys

BROADCAST = 0xFFFFFFFF
connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
connection.connect("/run/latchkey/uhid.sock")
connection.settimeout(60)


def packets(channel, command, data):
    yield struct.pack(">IBH", channel, 0x80 | command, len(data)) + data[:57]
    rest, sequence = data[57:], 0
    while rest:
        yield struct.pack(">IB", channel, sequence) + rest[:59]
        rest, sequence = rest[59:], sequence + 1


def answer(channel, command, data):
    for packet in packets(channel, command, data):
        connection.send(packet.ljust(64, b"\0"))


if sys.argv[1] == "send":
    connection.send(b"\x0b".ljust(int(sys.argv[2]), b"\0"))
    print("closed" if connection.recv(64) == b"" else "open", flush=True)
    sys.exit()
message = b""
while packet := connection.recv(65):
    # The last program has closed the device.
    if packet == b"\0":
        continue
    if len(packet) != 64:
        sys.exit(f"a message of {len(packet)} bytes")
    channel, command = struct.unpack(">IB", packet[:5])
    if command & 0x80:
        length = struct.unpack(">H", packet[5:7])[0]
        message, kind = packet[7:], command & 0x7F
    else:
        message += packet[5:]
    if len(message) >= length:
        if kind == 6:
            answer(BROADCAST, 6, message[:8] + struct.pack(">IBBBBB", 0x01020304, 2, 1, 0, 0, 0))
        else:
            answer(channel, kind, message[:length])
print("closed", flush=True)
