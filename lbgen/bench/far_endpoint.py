"""A network namespace for the endpoints of an engine that forwards without seeing their replies.

client (this host) --- balancer's namespace --- endpoints' namespace
        +--------------------------------------------+
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.runtime.local.network import Network, free_pair, network

if TYPE_CHECKING:
    from lbgen.runtime.local.engine_process import EngineProcess

_TO_BALANCER, _TO_ENDPOINTS = "near0", "far0"
_LOOSE = "2"  # packets come from the balancer, and the route back is another one


@dataclass(frozen=True, slots=True)
class FarEndpoint:
    """`address` is that of the endpoints, on a link to the balancer."""

    address: str
    network: Network

    def load_rules(self, process: EngineProcess) -> None:
        """Load what the engine has rendered for it. Raises EngineError LB403."""
        for rules in process.spec.endpoint_rules:
            for command in rules.setup:
                self.network.run_command(command, process.directory)


@contextmanager
def far_endpoint(balancer: Network) -> Iterator[FarEndpoint]:
    """The namespace, for as long as the block lasts. Raises EngineError LB403 when the kernel or `ip` refuse."""
    with network() as far:
        near, own = free_pair(far.holder.pid)
        balancer.ip(
            f"link add {_TO_ENDPOINTS} type veth peer name {_TO_BALANCER} netns {far.holder.pid}",
            f"address add {near}/30 dev {_TO_ENDPOINTS}",
            f"link set {_TO_ENDPOINTS} up",
        )
        far.ip(f"address add {own}/30 dev {_TO_BALANCER}", f"link set {_TO_BALANCER} up")
        far.set_sysctls([(f"net.ipv4.conf.{_TO_BALANCER}.rp_filter", _LOOSE)])
        Path(f"/proc/sys/net/ipv4/conf/{far.device}/rp_filter").write_text(_LOOSE, encoding="ascii")
        yield FarEndpoint(str(own), far)
