"""Listeners."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from lbgen.plan.error_pages import ErrorPage  # read at run time, as plans are saved
from lbgen.plan.policy import Access, Limits, Paths
from lbgen.plan.rules import HostTable, L4Rule  # read at run time, as plans are saved
from lbgen.plan.tls import ListenerTls  # read at run time, as plans are saved


class Mode(StrEnum):
    L7 = "l7"
    L4 = "l4"


class Protocol(StrEnum):
    TCP = "tcp"
    UDP = "udp"


class ClientTimeouts(Struct, frozen=True):
    """Milliseconds, 0 = no limit: reading the head, silence in the body, an idle kept connection."""

    header: int = 60_000
    body: int = 60_000
    keepalive: int = 75_000


class Listener(Struct, frozen=True):
    """A port. L7 listeners carry `hosts` (exact first, then longer wildcards, the hostless table always last and maybe
    empty), L4 listeners `l4_rules` in the order of trial."""

    name: str
    address: str
    port: int
    mode: Mode
    protocol: Protocol
    field: str
    hosts: tuple[HostTable, ...] = ()
    l4_rules: tuple[L4Rule, ...] = ()
    trusted_proxies: tuple[str, ...] = ()
    client_header: str | None = None  # where trusted proxies state the client, in lower case; None: X-Forwarded-For
    forwarded_headers: bool = True  # X-Forwarded-For, -Proto, -Host, -Port
    real_ip: bool = False  # X-Real-IP
    forwarded: bool = False  # Forwarded (RFC 7239)
    request_id: bool = True  # X-Request-Id
    timeouts: ClientTimeouts = ClientTimeouts()
    tls: ListenerTls | None = None
    http2: bool = False  # with TLS: offered by ALPN beside HTTP/1.1; without: prior knowledge, HTTP/1.1 goes on
    proxy_protocol: bool = False  # every connection begins with a PROXY header (v1 or v2), whose source is the peer
    max_connections: int | None = None
    paths: Paths = Paths()
    underscores: bool = False  # header fields with an underscore in their names pass
    access: Access | None = None
    limits: Limits = Limits()
    access_log: bool = False  # one line per request, or per connection of an L4 listener over TCP
    metrics: bool = False  # one line per request or connection in the file that the agent counts
    address_written: bool = False  # the topology sets `address`
    error_pages: tuple[ErrorPage, ...] = ()  # its own and the topology's, in the order of trial
    public_port: int | None = None  # the port that clients connect to, where another tier is in front

    @property
    def logs(self) -> bool:
        """Whether requests or connections are logged at all: for people, for the agent or for both."""
        return self.access_log or self.metrics

    @property
    def asks_client(self) -> bool:
        """Whether the rule that takes a request may depend on its client's address."""
        return any(rule.match.asks_client for table in self.hosts for rule in table.rules)

    @property
    def extends_forwarded(self) -> bool:
        """Whether Forwarded goes on with what a trusted proxy sent: not where it states the client alone elsewhere."""
        return self.client_header in (None, "forwarded")

    @property
    def client_port(self) -> int:
        """The port that clients know: of X-Forwarded-Port and redirects."""
        return self.public_port or self.port

    @property
    def scheme(self) -> str:
        """The scheme of requests here."""
        return "https" if self.terminates_tls else "http"

    @property
    def asks_certificate(self) -> bool:
        """Whether clients are asked for a certificate."""
        return self.tls is not None and self.tls.client_ca is not None

    @property
    def terminates_tls(self) -> bool:
        return self.tls is not None and not self.tls.passthrough
