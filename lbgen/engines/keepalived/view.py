"""Typed shapes of keepalived.conf and of the marks, as the templates print them."""

from __future__ import annotations

from msgspec import Struct

from lbgen.engines.text import Atom, Literal


class Status(Struct, frozen=True, eq=False):
    first: int
    last: int


class Check(Struct, frozen=True, eq=False):
    """Times in seconds. `path` None = a connection is enough; an HTTP check has as many `urls` as successes in a row
    bring an endpoint back. `port` is the one that is checked."""

    path: Literal | None
    urls: tuple[int, ...]
    port: int
    statuses: tuple[Status, ...]
    interval: Atom
    timeout: Atom
    retry: int


class Server(Struct, frozen=True, eq=False):
    """A real server; `limit`: connections at a time, None = any number."""

    field: Atom
    address: Atom
    port: int
    weight: int
    limit: int | None
    check: Check | None


class Sorry(Struct, frozen=True, eq=False):
    """Serves when no other endpoint is up."""

    field: Atom
    address: Atom
    port: int


class Service(Struct, frozen=True, eq=False):
    """A virtual server; `address` None = every address of this host, by `mark`."""

    name: Atom
    field: Atom
    family: Atom  # ip or ip6
    address: Atom | None
    protocol: Atom  # tcp or udp
    port: int
    mark: int
    scheduler: Atom
    servers: tuple[Server, ...]
    sorry: Sorry | None


class Table(Struct, frozen=True, eq=False):
    family: Atom
    services: tuple[Service, ...]


class Floating(Struct, frozen=True, eq=False):
    """The listeners' addresses, which one of several hosts has at a time. VRRP announces those of one family; `others`
    are of the other one."""

    router: int
    addresses: tuple[Atom, ...]
    others: tuple[Atom, ...]


class View(Struct, frozen=True, eq=False):
    """`tcp` and `udp`: seconds for which the kernel keeps a silent connection or flow, None = no such service."""

    lbgen: Atom
    topology: Atom
    name: Atom
    tcp: int | None
    udp: int | None
    floating: Floating | None
    direct: bool  # the endpoints have the listeners' addresses, and answer the clients
    services: tuple[Service, ...]
    tables: tuple[Table, ...]


class EndpointView(Struct, frozen=True, eq=False):
    """What one host of endpoints needs for direct routing."""

    lbgen: Atom
    topology: Atom
    name: Atom
    host: Atom
    six: bool
    addresses: tuple[Atom, ...]
