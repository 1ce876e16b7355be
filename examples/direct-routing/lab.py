"""Direct routing in network namespaces: a client, a router, a balancer and three endpoints; needs root, ip and nft.

python examples/direct-routing/lab.py

It prints what happened in each form, L3 and L2, as one JSON object; the exit status is 1 when something is wrong.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import lbgen

HERE = Path(__file__)
SERVICE, CLIENT = "10.77.2.100", "10.77.1.2"
PREFIX = f"lab{os.getpid()}"
ENDS = {"end1": "10.77.2.11", "end2": "10.77.2.12", "end3": "10.77.2.13"}
SEGMENT = {"balancer": "10.77.2.4", **ENDS}
CONNECTIONS = 40
FORMS: dict[str, dict[str, str]] = {"L3": {}, "L2": {"device": "eth0"}}
COUNTERS = f"""
table netdev lab {{
  counter requests {{
  }}
  counter replies {{
  }}
  chain in {{
    type filter hook ingress device "eth0" priority -400; policy accept;
    ip saddr {CLIENT} counter name requests
    ip saddr {{ {SERVICE}, {", ".join(ENDS.values())} }} ip daddr {CLIENT} counter name replies
  }}
}}
"""
NEWNET = 0x40000000


def run(*words: str, text: str = "", folder: Path | None = None, seconds: float = 30) -> str:
    """The output of a command; CalledProcessError when it fails."""
    done = subprocess.run(words, input=text, cwd=folder, capture_output=True, text=True, check=False, timeout=seconds)
    if done.returncode:
        sys.stderr.write(done.stderr)
        done.check_returncode()
    return done.stdout


def inside(name: str, *words: str, text: str = "", folder: Path | None = None) -> str:
    """The output of a command in a namespace of the lab."""
    return run("ip", "netns", "exec", f"{PREFIX}-{name}", *words, text=text, folder=folder)


def build(stack: ExitStack, form: str) -> None:
    """Make the namespaces, which are removed when `stack` ends."""
    for name in ("client", "router", *SEGMENT):
        run("ip", "netns", "add", f"{PREFIX}-{name}")
        stack.callback(run, "ip", "netns", "delete", f"{PREFIX}-{name}")
        inside(name, "ip", "link", "set", "lo", "up")
    inside("router", "ip", "link", "add", "br0", "type", "bridge")
    inside("router", "ip", "link", "set", "br0", "up")
    inside("router", "ip", "address", "add", "10.77.2.1/24", "dev", "br0")
    for name, address in {"client": CLIENT, **SEGMENT}.items():
        peer = ("peer", "name", "eth0", "netns", f"{PREFIX}-{name}")
        inside("router", "ip", "link", "add", name, "type", "veth", *peer)
        if name == "client":
            inside("router", "ip", "address", "add", "10.77.1.1/24", "dev", name)
        else:
            inside("router", "ip", "link", "set", name, "master", "br0")
        inside("router", "ip", "link", "set", name, "up")
        inside(name, "ip", "address", "add", f"{address}/24", "dev", "eth0")
        inside(name, "ip", "link", "set", "eth0", "up")
        inside(name, "ip", "route", "add", "default", "via", f"{address.rpartition('.')[0]}.1")
    inside("balancer", "ip", "address", "add", f"{SERVICE}/32", "dev", "eth0")
    for name in ("router", "balancer") if form == "L3" else ("router",):
        inside(name, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
    inside("balancer", "sh", "-c", "for f in /proc/sys/net/ipv4/conf/*/send_redirects; do echo 0 > $f; done")


def load(topology: lbgen.Topology, folder: Path) -> None:
    """Render the topology into `folder`, and load the balancer's rules and those of each endpoint."""
    lbgen.render(topology, engine="nftables", accept=("all",)).write(folder)
    inside("balancer", "nft", "-f", "lbgen.nft", folder=folder)
    for name, address in ENDS.items():
        if (rules := folder / "direct" / f"{address}.nft").is_file():
            inside(name, "nft", "-f", str(rules))


def start(stack: ExitStack, name: str, *words: str) -> subprocess.Popen[bytes]:
    """A process in a namespace, killed when `stack` ends."""
    process = subprocess.Popen(("ip", "netns", "exec", f"{PREFIX}-{name}", *words), stderr=subprocess.DEVNULL)
    stack.callback(process.wait)
    stack.callback(process.kill)
    return process


async def serve(name: str) -> None:
    """An endpoint: each line over TCP, and each datagram, comes back behind its name."""

    class Echo(asyncio.DatagramProtocol):
        def connection_made(self, transport: asyncio.DatagramTransport) -> None:
            self.transport = transport

        def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
            self.transport.sendto(name.encode() + b" " + data, addr)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(name.encode() + b" " + line)
            await writer.drain()
        writer.close()

    await asyncio.get_running_loop().create_datagram_endpoint(Echo, ("0.0.0.0", 7000))  # noqa: S104 - in a namespace
    async with await asyncio.start_server(talk, "0.0.0.0", 8000, backlog=512) as server:  # noqa: S104
        await server.serve_forever()


def connect(port: int = 0) -> socket.socket:
    """A connection to the service, from a port of the client if one is given."""
    made = socket.socket()
    made.settimeout(2)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset, so that ports are free
    if port:
        made.bind((CLIENT, port))
    made.connect((SERVICE, 80))
    return made


def ask(connection: socket.socket) -> str:
    """Which endpoint answers on the connection; "" for none."""
    try:
        connection.sendall(b"hello\n")
        answer = connection.recv(100)
    except OSError:
        return ""
    name, _, rest = answer.decode().partition(" ")
    return name if rest == "hello\n" else ""


def tcp(count: int, port: int = 0) -> Counter[str]:
    """Who answers `count` new connections."""
    found: Counter[str] = Counter()
    for _ in range(count):
        try:
            with connect(port) as connection:
                found[ask(connection)] += 1
        except OSError:
            found[""] += 1
    return found


def udp(count: int) -> Counter[str]:
    """Who answers the flows of `count` clients."""
    found: Counter[str] = Counter()
    for _ in range(count):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(2)
            client.connect((SERVICE, 7))
            names = {ask(client) for _ in range(3)}
            found[names.pop() if len(names) == 1 else "several"] += 1
    return found


def packets(kind: str) -> int:
    """How many packets of requests or replies the balancer has received."""
    listed = json.loads(inside("balancer", "nft", "-j", "list", "counter", "netdev", "lab", kind))
    return int(listed["nftables"][1]["counter"]["packets"])


def until(holds: Callable[[], bool], seconds: float) -> float:
    """After how many seconds it holds; -1 when it does not."""
    begun = time.monotonic()
    while not holds():
        if time.monotonic() - begun > seconds:
            return -1
        time.sleep(0.02)
    return round(time.monotonic() - begun, 2)


def drill(stack: ExitStack, folder: Path, form: str) -> dict[str, object]:
    """Everything that is tried, and what came of it."""
    data = lbgen.load(HERE.parent / "topology.yaml").model.model_dump(exclude_unset=True, mode="json")
    topology = lbgen.load({**data, "engines": {"nftables": {"forwarding": "direct", **FORMS[form]}}})
    build(stack, form)
    inside("balancer", "nft", "-f", "-", text=COUNTERS)
    servers = {name: start(stack, name, sys.executable, str(HERE), "serve", name) for name in ENDS}
    load(topology, folder)
    with Path(f"/run/netns/{PREFIX}-client").open("rb") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), NEWNET):
            raise OSError(ctypes.get_errno(), "the client's namespace cannot be entered")
    until(lambda: set(tcp(6)) == {"end1", "end2"}, 20)
    found: dict[str, object] = {"tcp": tcp(30), "udp": udp(30), "one port again and again": tcp(12, 40_000)}

    held = [stack.enter_context(connect()) for _ in range(CONNECTIONS)]
    before = [ask(each) for each in held]
    found["open"] = Counter(before)
    ends = [{"address": f"{ENDS['end1']}:8000", "weight": 0}, {"address": f"{ENDS['end2']}:8000", "weight": 1}]
    other = topology.with_pool(
        "web", {**topology.model.pools["web"].model_dump(exclude_unset=True, mode="json"), "endpoints": ends}
    )
    load(other, folder)  # other weights, and without the third endpoint
    found["open that stayed"] = sum(ask(each) == name for each, name in zip(held, before, strict=True))
    found["new ones then"] = tcp(10)

    load(topology, folder)
    agent = start(stack, "balancer", sys.executable, "-m", "lbgen", "agent", str(folder))
    until(lambda: set(tcp(6)) == {"end1", "end2"}, 20)
    until((folder / "agent.state.json").is_file, 20)
    servers["end1"].kill()
    found["out after"] = until(lambda: tcp(6).keys() == {"end2"}, 10)
    servers["end1"] = start(stack, "end1", sys.executable, str(HERE), "serve", "end1")
    until(lambda: "end1" in tcp(6), 20)
    found["back"] = tcp(30)
    found["open of others"] = sum(ask(each) == name for each, name in zip(held, before, strict=True) if name != "end1")
    found["agent runs"] = agent.poll() is None
    found["packets"] = {"requests": packets("requests"), "replies": packets("replies")}
    return found


def judge(found: dict[str, object]) -> list[str]:
    """What is wrong."""
    expected = {
        "tcp": {"end1": 20, "end2": 10},
        "udp": {"end1": 15, "end2": 15},
        "one port again and again": {"end1": 8, "end2": 4},
        "open that stayed": CONNECTIONS,
        "new ones then": {"end2": 10},
        "back": {"end1": 20, "end2": 10},
        "agent runs": True,
    }
    wrong = [f"{key}: {found[key]}, expected {value}" for key, value in expected.items() if found[key] != value]
    if not 0 <= float(str(found["out after"])) < 2:
        wrong.append(f"the dead endpoint is out after {found['out after']} s")
    seen = found["packets"]
    assert isinstance(seen, dict)  # noqa: S101 - made above
    if seen["replies"] or not seen["requests"]:
        wrong.append(f"the balancer saw {seen}, expected requests and no replies")
    return wrong


def main() -> int:
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve(sys.argv[2]))
        return 0
    if sys.argv[1:2] == ["run"]:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            found = drill(stack, Path(folder), sys.argv[2])
        print(json.dumps(found, indent=1))
        return 0
    # A process each, as it enters the client's namespace.
    every = {form: json.loads(run(sys.executable, str(HERE), "run", form, seconds=100)) for form in FORMS}
    print(json.dumps(every, indent=1))
    wrong = [f"{form}: {each}" for form, found in every.items() for each in judge(found)]
    for each in wrong:
        print(each, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
