"""A network namespace of this process in which every address is local, with an engine behind a veth pair, so that
listeners and endpoints of a topology keep their addresses."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.runtime.local.network import Network, ip, network

if TYPE_CHECKING:
    from lbgen.plan.model import Plan

_CLONE_NEWNET = 0x40000000
_ANY = frozenset({"0.0.0.0", "::"})  # noqa: S104  # compared with, not bound
_BUFFERS = "4096 65536 131072"  # bytes: least, at first, most
_OUTSIDE6, _INSIDE6 = "fd6c:6267::1", "fd6c:6267::2"


def why_unavailable() -> str:
    """ "" when this process can create network namespaces, else the reason."""
    if os.geteuid() != 0:
        return "it needs root"
    pid = os.fork()
    if not pid:
        code = 1
        try:
            code = ctypes.CDLL(None).unshare(_CLONE_NEWNET)
        finally:
            os._exit(1 if code else 0)
    _, status = os.waitpid(pid, 0)
    return "the kernel allows no network namespaces here" if status else ""


def enter() -> None:
    """Move this process (its one thread, and those it starts later) into an empty namespace. EngineError LB407."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        message = f"no network namespace: {os.strerror(ctypes.get_errno())}"
        raise EngineError(Diagnostic("LB407", message, hint="run as root"))


@contextmanager
def veth(plan: Plan) -> Iterator[Network]:
    """An engine's namespace; every address that is not one of its listeners is on this side of the veth pair.

    After `enter` only. Raises EngineError LB402 (no `ip`), LB403, LB407.
    """
    with network() as made:
        device = made.device
        addresses = [ip_address(x.address) for x in plan.listeners if x.address not in _ANY]
        addresses = [x for x in dict.fromkeys(addresses) if not x.is_loopback]
        _small_buffers()
        made.run_inside(_small_buffers)
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


def _small_buffers() -> None:
    """Set small TCP buffers, so that a peer that stops reading blocks soon. /proc/sys/net is that of the thread."""
    for name in ("tcp_rmem", "tcp_wmem"):
        Path(f"/proc/sys/net/ipv4/{name}").write_text(_BUFFERS, encoding="ascii")


def _uses_ipv6(plan: Plan) -> bool:
    listeners = any(":" in x.address and x.address != "::" for x in plan.listeners)
    return listeners or any(
        endpoint.is_ip and ":" in endpoint.host for pool in plan.pools for endpoint in pool.endpoints
    )
