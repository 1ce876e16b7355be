"""Network namespaces with a veth pair to this host, for kernel engines and for topologies that keep their addresses."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv4Interface, IPv4Network, ip_address
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.plan.addresses import is_every_address
from lbgen.plan.model import Plan
from lbgen.runtime.common.processes import CLONE_NEWNET, set_netns
from lbgen.runtime.local.spawn import Process, User, spawn, stop
from lbgen.system_errors import to_diagnostic

_R = TypeVar("_R")
ADDRESSES = IPv4Network("10.213.0.0/16")
_INSIDE = "lb0"
_LOOPBACK_CLIENTS: set[str] = set()
_COMMAND_SECONDS = 20


class Network(Struct, frozen=True):
    """A namespace: `host` is this host's address on the veth pair, `inside` the namespace's. The kernel removes the
    namespace, the pair and the rules when the process `holder` ends."""

    host: str
    inside: str
    holder: Process
    device: str  # this host's end

    def run_command(self, argv: Sequence[str], directory: Path = Path("/")) -> None:
        """Run a command inside to its end; EngineError LB403 with what it said when it fails."""
        run_to_end(argv, directory, self.holder.pid)

    def ip(self, *commands: str) -> None:
        """Commands of `ip` inside, in this order; EngineError LB403 with what it said of the first that fails."""
        self.run_inside(lambda: ip(*commands))

    def set_sysctls(self, settings: Collection[tuple[str, str]]) -> None:
        """Set names and values inside; EngineError LB425 when the kernel refuses one."""

        def write() -> None:
            for name, value in settings:
                path = Path("/proc/sys", *name.split("."))
                try:
                    path.write_text(f"{value}\n", encoding="ascii")
                except OSError as error:
                    raise EngineError(to_diagnostic(error, str(path))) from None

        if settings:
            self.run_inside(write)

    def admit_loopback_clients(self) -> None:
        """Let clients of 127.0.0.0/8 on this host reach `inside`; the namespace loses its own loopback addresses."""
        admit_loopback_clients(self.holder.pid, self.host, self.inside)

    def run_inside(self, errand: Callable[[], _R]) -> _R:
        """Call `errand` in a thread inside the namespace, and return or raise what it does."""
        return run_inside(self.holder.pid, errand)


def run_inside(pid: int, errand: Callable[[], _R]) -> _R:
    """Call `errand` in a thread in the network namespace of a process, and return or raise what it does."""

    def enter() -> None:
        with Path(f"/proc/{pid}/ns/net").open("rb") as namespace:
            set_netns(namespace.fileno())

    with ThreadPoolExecutor(1) as thread:
        thread.submit(enter).result()
        return thread.submit(errand).result()


def admit_loopback_clients(pid: int, host: str, inside: str) -> None:
    """Let clients of 127.0.0.0/8 on this host reach `inside`, an address in the network namespace of process `pid`;
    `host` is this host's address on the same link. The namespace loses its own loopback addresses."""
    outside = _device_of(host)
    _set(outside, "route_localnet", 1)
    _set(outside, "arp_announce", 2)  # ARP from a loopback address is not answered

    def admit() -> None:
        _set(_device_of(inside), "route_localnet", 1)
        ip("address delete 127.0.0.1/8 dev lo", f"route add 127.0.0.0/8 via {host}")

    run_inside(pid, admit)
    _LOOPBACK_CLIENTS.add(inside)


def _device_of(address: str) -> str:
    """The interface of this network namespace that has the address."""
    return next(words[1] for words in _addresses() if words[words.index("inet") + 1].startswith(f"{address}/"))


def _addresses() -> list[list[str]]:
    """The words of each line of `ip address` about IPv4."""
    listing = subprocess.run(
        ("ip", "-4", "-o", "address", "show"),  # noqa: S607 - from PATH, as `which` found it
        capture_output=True,
        text=True,
        check=True,
        timeout=_COMMAND_SECONDS,
    ).stdout
    return [words for line in listing.splitlines() if "inet" in (words := line.split())]


def reaches(client: str, address: str) -> bool:
    """Whether a client of that address on this host can ask `address`: loopback asks loopback, others ask others."""
    loopback = client.startswith("127.")
    return loopback == address.startswith("127.") or (loopback and address in _LOOPBACK_CLIENTS)


def _set(device: str, name: str, value: int) -> None:
    Path(f"/proc/sys/net/ipv4/conf/{device}/{name}").write_text(f"{value}\n", encoding="ascii")


@contextmanager
def network(death: signal.Signals | None = signal.SIGKILL, directory: Path = Path("/")) -> Iterator[Network]:
    """A namespace that forwards IPv4, reachable from this host at `inside`. Its holder works in `directory` and
    receives the signal `death` (None = none) when this process ends.

    Raises EngineError LB407 without root, LB403 when the kernel or `ip` refuse.
    """
    made = make_network(death, directory)
    try:
        yield made
    finally:
        stop(made.holder, signal.SIGKILL, 1.0)


def make_network(death: signal.Signals | None = signal.SIGKILL, directory: Path = Path("/")) -> Network:
    """As `network`, but the caller ends `holder`."""
    if os.geteuid() != 0:
        message = "nftables needs root: it works in a network namespace with rules of its own"
        raise EngineError(Diagnostic("LB407", message, hint="run as root, or leave nftables out"))
    if shutil.which("ip") is None:
        raise EngineError(Diagnostic("LB402", "no executable of ip was found", hint="install iproute2"))
    holder = spawn((), user=User(), directory=directory, output=subprocess.PIPE, death=death, hold=True)
    try:
        assert holder.stdout is not None  # noqa: S101 - PIPE was asked for
        said = holder.stdout.readline()
        if said != b"ready\n":
            raise EngineError(Diagnostic("LB403", f"no network namespace: {said.decode('utf-8', 'replace').strip()}"))
        return _add_veth(holder)
    except BaseException:
        stop(holder, signal.SIGKILL, 1.0)
        raise


def _add_veth(holder: Process) -> Network:
    outside = f"lbg{holder.pid}"
    pid = holder.pid
    host, inside = free_pair(pid)
    ip(
        f"link add {outside} type veth peer name {_INSIDE} netns {pid}",
        f"address add {host}/30 dev {outside}",
        f"link set {outside} up",
    )
    made = Network(str(host), str(inside), holder, outside)
    made.ip(
        f"address add {inside}/30 dev {_INSIDE}",
        "link set lo up",
        f"link set {_INSIDE} up",
        f"route add default via {host}",
    )
    return made


def free_pair(seed: int) -> tuple[IPv4Address, IPv4Address]:
    """Two addresses of a /30 that no interface of this host uses; `seed` keeps concurrent callers apart."""
    used = [IPv4Interface(x[x.index("inet") + 1]).network for x in _addresses()]
    count = ADDRESSES.num_addresses // 4
    for step in range(count):
        base = ADDRESSES.network_address + 4 * ((seed + step) % count)
        block = IPv4Network((base, 30))
        if not any(block.overlaps(each) for each in used):
            return base + 1, base + 2
    raise EngineError(Diagnostic("LB403", f"all of {ADDRESSES} is in use on this host"))


def ip(*commands: str) -> None:
    """Commands of `ip` in one process, in this order; EngineError LB403 with what it said of the first that fails."""
    words = ("ip", "-batch", "-")
    asked = subprocess.run(  # noqa: S603 - from PATH, as `which` found it
        words, input="\n".join(commands), capture_output=True, text=True, check=False, timeout=_COMMAND_SECONDS
    )
    if asked.returncode != 0:
        raise EngineError(Diagnostic("LB403", f"`ip` failed at `{'; '.join(commands)}`: {asked.stderr.strip()}"))


def run_to_end(argv: Sequence[str], directory: Path, netns: int | None = None) -> None:
    """Run a command to its end, in the network of process `netns` (None = ours); EngineError LB403 when it fails."""
    process = spawn(argv, user=User(), directory=directory, output=subprocess.PIPE, netns=netns)
    try:
        said, _ = process.communicate(timeout=_COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        stop(process, signal.SIGKILL, 1.0)
        raise EngineError(Diagnostic("LB403", f"`{' '.join(argv)}` did not end")) from None
    if process.returncode != 0:
        text = said.decode("utf-8", "replace").strip()
        raise EngineError(Diagnostic("LB403", f"`{' '.join(argv)}` failed: {text}"))


BUFFERS = ("tcp_rmem", "tcp_wmem")
SMALL_BUFFERS = "4096 65536 131072"  # bytes of a TCP socket: least, at first, most
_OUTSIDE6, _INSIDE6 = "fd6c:6267::1", "fd6c:6267::2"


def why_unavailable() -> str:
    """ "" when this process can create network namespaces, else the reason."""
    if os.geteuid() != 0:
        return "it needs root"
    pid = os.fork()
    if not pid:
        code = 1
        try:
            code = ctypes.CDLL(None).unshare(CLONE_NEWNET)
        finally:
            os._exit(1 if code else 0)
    _, status = os.waitpid(pid, 0)
    return "the kernel allows no network namespaces here" if status else ""


def enter() -> None:
    """Move this process (its one thread, and those it starts later) into an empty namespace. EngineError LB407."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        message = f"no network namespace: {os.strerror(ctypes.get_errno())}"
        raise EngineError(Diagnostic("LB407", message, hint="run as root"))


@contextmanager
def veth(plan: Plan) -> Iterator[Network]:
    """An engine's namespace; every address that is not one of its listeners is on this side of the veth pair.

    After `enter` only. Raises EngineError LB402 (no `ip`), LB403, LB407.
    """
    with network() as made:
        device = made.device
        addresses = [ip_address(x.address) for x in plan.listeners if not is_every_address(x.address)]
        addresses = [x for x in dict.fromkeys(addresses) if not x.is_loopback]
        small_buffers()
        made.run_inside(small_buffers)
        # The routes to the engine are more specific than the local default route.
        outside = [
            "link set lo up",
            f"route add {made.inside}/32 dev {device} table local",
            "route add local 0.0.0.0/0 dev lo table local",
        ]
        inside = []
        if _uses_ipv6(plan):
            outside += [
                f"address add {_OUTSIDE6}/64 dev {device} nodad",
                f"route add {_INSIDE6}/128 dev {device} table local",
                "route add local ::/0 dev lo table local",
            ]
            inside += [f"address add {_INSIDE6}/64 dev lb0 nodad", f"route add default via {_OUTSIDE6}"]
        for address in addresses:
            via = _INSIDE6 if address.version == 6 else made.inside
            inside.append(f"address add {address}/{address.max_prefixlen} dev lo")
            outside.append(f"route add {address} via {via} dev {device} table local")
        ip(*outside)
        if inside:
            made.ip(*inside)
        yield made


def small_buffers() -> None:
    """Set small TCP buffers, so that a peer that stops reading blocks soon. /proc/sys/net is that of the thread."""
    for name in BUFFERS:
        Path(f"/proc/sys/net/ipv4/{name}").write_text(SMALL_BUFFERS, encoding="ascii")


def _uses_ipv6(plan: Plan) -> bool:
    listeners = any(":" in x.address and x.address != "::" for x in plan.listeners)
    return listeners or any(
        endpoint.is_ip and ":" in endpoint.host for pool in plan.pools for endpoint in pool.endpoints
    )
