"""What a packet costs through direct forwarding with 1,000 services, against one service; needs root, ip and nft.

python -m tests.bench.direct_cost

Two balancers in the network of examples/direct-routing get the same datagrams in turn. All of their way (the client's
system call, router, balancer, endpoint, which drops them) is work of one core, so a packet's time is its cost there.
`plain` is the same way without rules of lbgen's: the balancer forwards by its routes. Prints one JSON object: the least
time of a packet by balancer, the median ratio of 1,000 services to one of the whole way, and that of the rules alone.
Exit 1 when the ratio is above 1.3, or packets are lost.
"""

from __future__ import annotations

import ctypes
import json
import socket
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import lbgen

sys.path.insert(0, str(Path(__file__).parents[2] / "examples/direct-routing"))
import lab  # type: ignore[import-not-found]

SERVICES = 1_000
LIMIT = 1.3
ROUNDS, PACKETS = 15, 10_000
BALANCERS = {"one": ("10.77.2.5", "10.77.2.101"), "many": ("10.77.2.6", "10.77.2.102"), "plain": ("10.77.2.7", "")}
PLAIN = "10.99.0.1"  # an address that the router reaches by the balancer without rules
SINK = (
    'table netdev sink { chain in { type filter hook ingress device "eth0" priority -500; meta l4proto udp drop; }\n}'
)


def topology(address: str, services: int) -> lbgen.Topology:
    """Each service on a port of its own, with an endpoint of its own."""
    names = {f"s{n}": 1_001 + n for n in range(services)}
    return lbgen.load(
        {
            "version": 1,
            "name": "cost",
            "profile": "internal-l4",
            "engines": {"nftables": {"forwarding": "direct"}},
            "listeners": {
                name: {"port": port, "mode": "l4", "protocol": "udp", "address": address}
                for name, port in names.items()
            },
            "pools": {name: {"endpoints": [{"address": f"10.77.2.11:{port}"}]} for name, port in names.items()},
            "routes": [{"name": name, "listeners": [name], "forward": name} for name in names],
        }
    )


def prepare(stack: ExitStack, folder: Path) -> dict[str, tuple[str, int]]:
    """Where datagrams go, by balancer."""
    lab.SEGMENT |= {name: own for name, (own, _) in BALANCERS.items()}
    lab.build(stack, "L3")
    lab.inside("end1", "nft", "-f", "-", text=SINK)
    lab.inside("router", "ip", "route", "add", PLAIN, "via", BALANCERS["plain"][0])
    for name, (_, service) in BALANCERS.items():
        lab.inside(name, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        lab.inside(name, "sh", "-c", "for f in /proc/sys/net/ipv4/conf/*/send_redirects; do echo 0 > $f; done")
        if not service:
            lab.inside(name, "ip", "route", "add", PLAIN, "via", lab.ENDS["end1"])
            continue
        lab.inside(name, "ip", "address", "add", f"{service}/32", "dev", "eth0")
        lab.inside("router", "ip", "route", "add", service, "via", BALANCERS[name][0])
        rules = folder / name
        count = SERVICES if name == "many" else 1
        lbgen.render(topology(service, count), engine="nftables", accept=("all",)).write(rules)
        lab.inside(name, "nft", "-f", "lbgen.nft", folder=rules)
    ports = {"one": 1_001, "many": 1_000 + SERVICES, "plain": 1_001}  # the last service
    return {name: (service or PLAIN, ports[name]) for name, (_, service) in BALANCERS.items()}


def microseconds(place: tuple[str, int]) -> float:
    """The time of one datagram of an open flow."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(place)
        send = client.send
        for _ in range(200):
            send(b"x" * 64)
        begun = time.perf_counter()
        for _ in range(PACKETS):
            send(b"x" * 64)
        return (time.perf_counter() - begun) / PACKETS * 1e6


def received() -> int:
    """How many packets the endpoint's side has received."""
    text = lab.inside("end1", "cat", "/sys/class/net/eth0/statistics/rx_packets")
    return int(text)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        places = prepare(stack, Path(folder))
        before = received()
        with Path(f"/run/netns/{lab.PREFIX}-client").open("rb") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), lab.NEWNET):
                raise OSError(ctypes.get_errno(), "the client's namespace cannot be entered")
        every = [{name: microseconds(place) for name, place in places.items()} for _ in range(ROUNDS)]
        arrived = received() - before
    found = {name: min(each[name] for each in every) for name in places}  # the rounds with the least other work
    own = (found["many"] - found["plain"]) / (found["one"] - found["plain"])
    ratio = statistics.median(each["many"] / each["one"] for each in every)
    lost = ROUNDS * len(places) * (PACKETS + 200) - arrived
    said = {
        "us": {name: round(value, 2) for name, value in found.items()},
        "ratio": round(ratio, 3),
        "ratio_of_rules": round(own, 2),
        "lost": max(lost, 0),
    }
    print(json.dumps(said, indent=1))  # noqa: T201
    return 0 if ratio <= LIMIT and lost <= 0.01 * arrived else 1


if __name__ == "__main__":
    sys.exit(main())
