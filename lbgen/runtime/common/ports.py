"""Ports of this host: whether they are free, who holds them, and whether something accepts on them."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path

from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.plan.model import Metrics, Plan
from lbgen.plan.overlay import with_ports
from lbgen.runtime.common.processes import ESTABLISHED, LISTEN, UNCONNECTED, sockets_of
from lbgen.runtime.common.state import StackState
from lbgen.system_errors import to_diagnostic

LOOPBACK = "127.0.0.1"  # of clients of processes on this host
_HINTS = {
    errno.EADDRNOTAVAIL: "take an address of this host (`ip address` lists them), or 0.0.0.0",
    errno.EACCES: "let this user bind it, or choose another port",
    errno.EPERM: "let this user bind it, or choose another port",
}
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - turned into what a client on this host connects to
_UNPRIVILEGED = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def client_address(address: str) -> str:
    """What a client on this host connects to for a listener on `address`."""
    return _ANY.get(address, address)


def metrics_url(metrics: Metrics | None) -> str:
    """Return where a client on this host reads the metrics; "" without any."""
    if metrics is None:
        return ""
    host = client_address(metrics.address)
    return f"http://[{host}]:{metrics.port}/metrics" if ":" in host else f"http://{host}:{metrics.port}/metrics"


def family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def claim(address: str, port: int, field: str = "", *, privileged: bool = False) -> None:
    """Raise EngineError unless a process could listen there (`privileged`: it may bind ports below 1024): LB404, or
    LB425 when there is no socket to try it with."""
    if not privileged and port < first_unprivileged():
        hint = "take a port above it, or run as root"
        message = f"port {port} is below {first_unprivileged()}, which an unprivileged process cannot bind"
        raise EngineError(Diagnostic("LB404", message, field=field, hint=hint))
    try:
        _listen(address, port)
    except OSError as error:
        raise EngineError(_refusal(error, address, port, field)) from None


def _listen(address: str, port: int) -> None:
    """Bind the address for a moment; OSError when it cannot be bound."""
    with socket.socket(family(address), socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if probe.family == socket.AF_INET6:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if address == "::" else 1)
        probe.bind((address, port))
        probe.listen(1)


def _refusal(error: OSError, address: str, port: int, field: str) -> Diagnostic:
    if error.errno == errno.EADDRINUSE:
        who = owner(port)
        by = f" by {who}" if who else ""
        return Diagnostic("LB404", f"port {port} is taken{by}", field=field, hint="stop it, or choose another port")
    hint = _HINTS.get(error.errno or 0)
    if hint is None:
        return replace(to_diagnostic(error, f"{address} port {port}"), field=field)
    message = f"cannot listen on {address} port {port}: {os.strerror(error.errno or 0)}"
    return Diagnostic("LB404", message, field=field, hint=hint)


def owner(port: int) -> str:
    """Return `name (pid 12)` of the process that listens on TCP `port`; empty when it cannot be seen."""
    listening = (each for each in sockets_of("self", "tcp") if each.state == LISTEN and each.port == port)
    inodes = {f"socket:[{each.inode}]" for each in listening}
    if not inodes:
        return ""
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            if any(str(handle.readlink()) in inodes for handle in (process / "fd").iterdir()):
                return f"{(process / 'comm').read_text(encoding='utf-8').strip()} (pid {process.name})"
        except OSError:
            continue
    return ""


def accepts(address: str, port: int, timeout: float = 0.5) -> bool:
    """Whether a TCP connection to that address opens."""
    try:
        with socket.create_connection((client_address(address), port), timeout):
            return True
    except OSError:
        return False


def is_bound_for_udp(address: str, port: int) -> bool:
    """Whether a UDP socket is bound there, in the network namespace of the calling thread."""
    wanted = {ip_address(each) for each in (address, *_ANY)}
    there = sockets_of("thread-self", "udp")
    return any(x.state == UNCONNECTED and x.port == port and x.address in wanted for x in there)


def is_free(address: str, port: int) -> bool:
    """Whether a listener could be opened there now."""
    try:
        _listen(address, port)
    except OSError:
        return False
    return True


def _is_free_for_udp(address: str, port: int) -> bool:
    try:
        with socket.socket(family(address), socket.SOCK_DGRAM) as probe:
            probe.bind((address, port))
    except OSError:
        return False
    return True


def has_address(address: str) -> bool:
    """Whether a socket of this host can be bound to `address`."""
    try:
        with socket.socket(family(address), socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def free_port(address: str = "127.0.0.1", start: int = 0, taken: frozenset[int] = frozenset()) -> int:
    """A port below the ephemeral range that is free now for TCP and UDP and not in `taken`, from `start` on (0 = from
    20000)."""
    for port in range(start or 20_000, first_ephemeral()):
        if port not in taken and is_free(address, port) and _is_free_for_udp(address, port):
            return port
    raise EngineError(Diagnostic("LB404", f"no free port between {start or 20_000} and {first_ephemeral()}"))


def first_unprivileged() -> int:
    """The first port that a process without rights may bind (1024 unless the host says otherwise)."""
    return _number(_UNPRIVILEGED, 1024)


def first_ephemeral() -> int:
    """Return the first port of the ephemeral range, which the kernel gives to clients; listeners stay below."""
    return _number(_EPHEMERAL, 32_768)


def _number(path: Path, default: int) -> int:
    try:
        return int(path.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return default


def connections(state: StackState) -> int:
    """Count the open connections to the listeners of a stack; 0 where they cannot be seen."""
    wanted = {each.port for engine in state.engines for each in engine.addresses}
    every = [each for engine in state.engines for each in sockets_of(engine.pid, "tcp")]
    return sum(each.state == ESTABLISHED and each.port in wanted for each in every)


def on_ports(plan: Plan, had: Mapping[str, int]) -> Plan:
    """`plan` with each listener on the port it `had`, by name, else on a free one. Raises EngineError LB404."""
    found: dict[str, int] = {}
    for listener in plan.listeners:
        taken = frozenset((*found.values(), *had.values()))
        found[listener.name] = had[listener.name] if listener.name in had else free_port(taken=taken)
    return with_ports(plan, found)
