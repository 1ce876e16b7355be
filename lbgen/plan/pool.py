"""Pools and their endpoints."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from lbgen.plan.acme import CHALLENGES
from lbgen.plan.policy import ActiveHealth, Key, PassiveHealth, Queue, Sticky  # read at run time, as plans are saved
from lbgen.plan.tls import PoolTls  # read at run time, as plans are saved

KEEPALIVE = 64
KEEPALIVE_IDLE = 4_000  # below the 5 s after which Node, uvicorn and Apache close theirs


class PoolProtocol(StrEnum):
    """The protocol to endpoints: HTTP/1.1, or HTTP/2 (by ALPN with TLS, else with prior knowledge)."""

    HTTP1 = "http1"
    HTTP2 = "http2"
    GRPC = "grpc"


class Balance(StrEnum):
    ROUND_ROBIN = "round_robin"
    LEAST_CONNECTIONS = "least_connections"
    RANDOM = "random"
    SOURCE_HASH = "source_hash"
    HASH = "hash"


class Endpoint(Struct, frozen=True):
    """`host` is an IP literal (IPv6 without brackets) or a name the engine resolves while it runs."""

    host: str
    port: int
    weight: int
    field: str
    is_ip: bool
    backup: bool = False  # serves only when no other endpoint is up
    cookie_value: str = ""  # by which a sticky cookie names it; "" in pools without one
    written: str = ""  # the topology's host:port, where a runtime put a stand-in in its place
    addresses: int = 1  # the most that its name has, where it stands for replicas
    in_cluster: bool = False  # it is a Service, whose name leads somewhere in its Kubernetes cluster alone
    early: bool = False  # the host where the engine starts knows the name, so that it can be looked up before it serves

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Pool(Struct, frozen=True):
    """Endpoints of one service. An endpoint of weight 0 gets no new connections."""

    name: str
    balance: Balance
    endpoints: tuple[Endpoint, ...]
    field: str
    keepalive: int = KEEPALIVE  # idle connections kept per engine worker
    keepalive_idle: int = KEEPALIVE_IDLE  # milliseconds for which an idle connection is kept, 0 = no limit
    hash_key: Key | None = None  # of Balance.HASH
    active: ActiveHealth | None = None
    passive: PassiveHealth | None = None
    max_per_endpoint: int | None = None  # requests (TCP: connections) at a time; 503 when all endpoints have as many
    queue: Queue | None = None
    sticky: Sticky | None = None
    tls: PoolTls | None = None
    protocol: PoolProtocol = PoolProtocol.HTTP1
    proxy_protocol: str | None = None  # v1 or v2, sent to the endpoint
    stand_ins: bool | None = None  # whether `up` starts stand-ins for its endpoints; None = it decides
    slow_start: int = 0  # milliseconds over which an endpoint that came back gets its full share
    leads_to: tuple[str, str] | None = None  # tier and listener, when the endpoints are the replicas of a tier

    @property
    def is_agent(self) -> bool:
        """Whether it is lbgen's agent, which answers challenges of ACME."""
        return self.name == CHALLENGES and self.stand_ins is False

    @property
    def real(self) -> bool:
        """Whether no stand-ins replace its endpoints."""
        return self.stand_ins is False or self.leads_to is not None
