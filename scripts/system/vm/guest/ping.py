"""Sends CTAPHID PING messages through a hidraw node, and prints the result of each size.

Usage: ping.py NODE SIZE…
"""
import os
import select
import struct
import sys
import time

node = os.open(sys.argv[1], os.O_RDWR)


def read():
    return os.read(node, 64) if select.select([node], [], [], 20)[0] else sys.exit("no answer within 20 s")


def write(packet):
    os.write(node, b"\0" + packet.ljust(64, b"\0"))


nonce = os.urandom(8)
write(struct.pack(">IBH", 0xFFFFFFFF, 0x86, 8) + nonce)
packet = read()
while packet[7:15] != nonce:
    packet = read()
channel = struct.unpack(">I", packet[15:19])[0]
for size in map(int, sys.argv[2:]):
    data, started = os.urandom(size), time.monotonic()
    write(struct.pack(">IBH", channel, 0x81, size) + data[:57])
    for sequence, start in enumerate(range(57, size, 59)):
        write(struct.pack(">IB", channel, sequence) + data[start:start + 59])
    packet = read()
    answer = packet[7:]
    while len(answer) < size:
        answer += read()[5:]
    result = "the same bytes" if answer[:size] == data else "OTHER BYTES"
    print(f"ping {size}: {result} after {(time.monotonic() - started) * 1000:.0f} ms", flush=True)
