"""Run in a network namespace: `python refusing_network.py HAPROXY FOLDER PORT` starts HAProxy beside a network (a TUN
device) whose hosts refuse every connection a moment later, and says how many seconds an answer takes."""

import fcntl
import os
import socket
import struct
import subprocess
import sys
import threading
import time

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
_LATER = 0.005  # seconds


def _checksum(data: bytes) -> int:
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _refusal(packet: bytes) -> bytes | None:
    """A reset for the first packet of a TCP connection over IPv4."""
    if packet[0] != 0x45 or packet[9] != socket.IPPROTO_TCP or not packet[33] & 0x02:
        return None
    source, target, number = packet[12:16], packet[16:20], struct.unpack(">I", packet[24:28])[0]
    ports = packet[22:24] + packet[20:22]
    reset = ports + struct.pack(">IIBBHHH", 0, (number + 1) & 0xFFFFFFFF, 5 << 4, 0x14, 0, 0, 0)
    total = _checksum(target + source + struct.pack(">BBH", 0, socket.IPPROTO_TCP, 20) + reset)
    head = struct.pack(">BBHHHBBH", 0x45, 0, 40, 0, 0, 64, socket.IPPROTO_TCP, 0) + target + source
    head = head[:10] + struct.pack(">H", _checksum(head)) + head[12:]
    return head + reset[:16] + struct.pack(">H", total) + reset[18:]


def _refuse(device: int) -> None:
    while True:
        if (answer := _refusal(os.read(device, 2048))) is not None:
            time.sleep(_LATER)
            os.write(device, answer)


def _seconds(port: int) -> float:
    for _ in range(200):
        try:
            sock = socket.create_connection(("127.0.0.1", port))
            break
        except OSError:
            time.sleep(0.02)
    with sock:
        begun = time.monotonic()
        sock.sendall(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        assert sock.recv(12) == b"HTTP/1.1 502"
        return time.monotonic() - begun


def main() -> None:
    program, folder, port = sys.argv[1:]
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH", b"afar", _IFF_TUN | _IFF_NO_PI))
    subprocess.run(
        ["sh", "-c", "ip link set lo up; ip addr add 10.99.0.1/24 dev afar; ip link set afar up"], check=True
    )
    threading.Thread(target=_refuse, args=(device,), daemon=True).start()
    process = subprocess.Popen([program, "-db", "-f", "haproxy.cfg"], cwd=folder)
    try:
        sys.stdout.write(f"{_seconds(int(port))}\n")
    finally:
        process.kill()
        process.wait()


main()
