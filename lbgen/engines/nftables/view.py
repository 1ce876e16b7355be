"""Typed shapes of the rules, as the template prints them."""

from __future__ import annotations

from msgspec import Struct

from lbgen.engines.text import Atom


class Element(Struct, frozen=True, eq=False):
    first: int
    last: int
    address: Atom
    port: int


class Map(Struct, frozen=True, eq=False):
    """The endpoints by slot; a counter, a random number or else a hash of the client's address selects the slot."""

    slots: int
    counter: bool
    random: bool
    elements: tuple[Element, ...]


class IdleTime(Struct, frozen=True, eq=False):
    """How long the kernel keeps the state of a silent connection, in seconds; its name has the seconds."""

    name: Atom
    field: Atom
    protocol: Atom  # tcp or udp
    seconds: int


class Access(Struct, frozen=True, eq=False):
    """Networks of clients' addresses; `allow` None admits all that `deny` does not name."""

    field: Atom
    allow: tuple[Atom, ...] | None
    deny: tuple[Atom, ...]


class Rule(Struct, frozen=True, eq=False):
    """The clients of `sources` (None = all) use this route. `chain` admits them where the listener has several rules;
    `select` selects the endpoint, None = the route has none with a weight."""

    field: Atom
    sources: tuple[Atom, ...] | None
    chain: Atom
    access: Access
    idle: Atom
    select: Atom | None
    counter: Atom


class Selection(Struct, frozen=True, eq=False):
    """A chain and a map that select the endpoint of a route by protocol; `map` None = `lbgen agent` fills them.
    `interval`: the map has ranges of slots. nft 1.0 reads all elements of each such map before any change."""

    name: Atom
    field: Atom
    protocol: Atom
    interval: bool
    map: Map | None


class Service(Struct, frozen=True, eq=False):
    """A listener; `address` None = every address of this host. `limit`: connections at a time, None = any number.
    `every_client`: the last of its rules takes all clients. `send`: the chain that finds the route of a client that is
    admitted, None = there is none with an endpoint."""

    name: Atom
    field: Atom
    address: Atom | None
    protocol: Atom
    port: int
    access: Access
    limit: int | None
    rules: tuple[Rule, ...]
    every_client: bool
    send: Atom | None


class Target(Struct, frozen=True, eq=False):
    """An endpoint of a protocol; `limit`: connections at a time, None = any number; `chain` counts them."""

    field: Atom
    address: Atom
    protocol: Atom
    port: int
    chain: Atom
    limit: int | None
    counter: Atom


class Counter(Struct, frozen=True, eq=False):
    """Connections of a route at a listener, or to an endpoint, since the table was made."""

    name: Atom
    field: Atom


class Table(Struct, frozen=True, eq=False):
    """The services of one family; a connection finds its own by one look-up in each of the two."""

    family: Atom  # ip or ip6
    address: Atom  # nft's type of an address
    loopback: Atom
    by_address: tuple[Service, ...]
    by_port: tuple[Service, ...]  # at every address of this host
    counters: tuple[Counter, ...]
    idle_times: tuple[IdleTime, ...]
    selections: tuple[Selection, ...]
    targets: tuple[Target, ...]
    counted: tuple[Target, ...]  # those with a limit


class FlowEndpoint(Struct, frozen=True, eq=False):
    """An endpoint of a route. `number` stands for it in the map of flows."""

    field: Atom
    number: int
    address: Atom
    port: int


class Flow(Struct, frozen=True, eq=False):
    """A route by protocol: its chains and maps begin with `name`; `seconds` of silence end a flow. `slots` is the map
    of slots, which has `ranges` of them or single ones."""

    name: Atom
    slots: Atom
    field: Atom
    protocol: Atom
    seconds: int
    ranges: bool
    ends: tuple[FlowEndpoint, ...]


class Reply(Struct, frozen=True, eq=False):
    """What an endpoint at `port` of the host answers comes from the listener's address and port."""

    field: Atom
    protocol: Atom
    port: int
    service_address: Atom
    service_port: int


class DirectTable(Struct, frozen=True, eq=False):
    """The services of one family and the flows of their routes. `table` is the family of the table; `device` the
    interface of the form of L2."""

    table: Atom
    family: Atom
    device: Atom | None
    by_address: tuple[Service, ...]
    flows: tuple[Flow, ...]

    @property
    def reassembles(self) -> bool:
        """Whether fragments of datagrams come: at the ingress hook they could not be put together."""
        return self.device is None and any(service.protocol.text == "udp" for service in self.by_address)


class ReplyView(Struct, frozen=True, eq=False):
    """The rules of one host of endpoints. `incoming`: the packets of clients come to the listener's address."""

    lbgen: Atom
    topology: Atom
    name: Atom
    family: Atom
    host: Atom
    incoming: bool
    replies: tuple[Reply, ...]


class View(Struct, frozen=True, eq=False):
    lbgen: Atom  # our own version
    topology: Atom
    name: Atom
    tables: tuple[Table, ...] | tuple[DirectTable, ...]
    include: Atom | None  # the file of the selections
