"""What the template prints: the shape of an nginx configuration, every text typed."""

from __future__ import annotations

from dataclasses import dataclass

from lbgen.engines.text import Atom, Literal
from lbgen.records import record

NONE = Atom("")
PROXY, HTTP = Atom("proxy"), Atom("http")
REQUEST_ID = Atom("$request_id")


@dataclass(frozen=True, slots=True)
class Text:
    """One parameter: free text (Literal of kind `part`) and variables (Atom). `bare`: the same without quotes, for a
    single word or variable."""

    parts: tuple[Atom | Literal, ...]
    bare: Atom | None = None


@dataclass(frozen=True, slots=True)
class Header:
    name: Atom | Literal
    value: Text


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a map."""

    key: Atom | Literal
    value: Text | Atom


@record
class Map:
    origin: Atom
    source: Text
    name: Atom
    default: Text | Atom
    entries: tuple[Entry, ...]
    volatile: bool = False  # worked out anew whenever it is asked for


@dataclass(frozen=True, slots=True)
class Network:
    network: Atom
    value: int


@record
class Geo:
    """A number by address: the narrowest network around it counts. `source` None = the client's, which `proxies` may
    tell in X-Forwarded-For."""

    origin: Atom
    name: Atom
    networks: tuple[Network, ...]
    default: int = 0
    proxies: tuple[Atom, ...] = ()
    source: Atom | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A simple directive."""

    name: Atom
    args: tuple[Atom | Literal | Text, ...]
    origin: Atom = NONE


@dataclass(frozen=True, slots=True)
class Check:
    """An answer for requests whose variable is neither empty nor 0."""

    variable: Atom
    status: int
    text: Text


@dataclass(frozen=True, slots=True)
class Gate:
    """What comes before a route's action; `add` are headers of the answers made here."""

    checks: tuple[Check, ...]
    add: tuple[Header, ...] = ()
    lines: tuple[Line, ...] = ()


@record
class Share:
    percent: Atom
    value: Atom


@record
class Split:
    origin: Atom
    name: Atom
    shares: tuple[Share, ...]
    source: Atom = REQUEST_ID


@dataclass(frozen=True, slots=True)
class Times:
    connect: Atom
    read: Atom
    send: Atom


@dataclass(frozen=True, slots=True)
class Detour:
    """Where requests go instead, and the upstream and target that are asked there."""

    at: Atom
    to: Text


@dataclass(frozen=True, slots=True)
class Proxy:
    """`upstream` is a name or a variable; `target` None = as the client sent it; `headers` empty = the server's."""

    upstream: Atom
    target: Atom | None = None
    headers: tuple[Header, ...] = ()
    times: Times | None = None
    hide: tuple[Atom | Literal, ...] = ()
    add: tuple[Header, ...] = ()
    on_failure: Atom | None = None
    tunnel: Atom | None = None  # where WebSockets go, whose time is another
    names: bool = False  # there may be no endpoint at all (`health_checks.may_be_empty`)
    kind: Atom = PROXY  # the module whose directives count
    scheme: Atom = HTTP
    lines: tuple[Line, ...] = ()
    mirrors: tuple[Line, ...] = ()  # copies of the request, made once
    checks: tuple[Check, ...] = ()
    again: Atom | None = None  # where a request goes on when the endpoint failed, itself or by a variable
    retried: tuple[int, ...] = ()  # the endpoint's own statuses that go there too
    once: Atom | None = None  # where requests go whose statuses never do
    repeatable: Atom | None = None  # 0 for those
    streamed: Atom | None = None  # where requests go whose bodies are too long to be kept
    unsized: Atom | None = None  # where requests go whose bodies have to be read first, to know how long they are
    buffered: bool = False  # the body is read whole first, as it is asked or kept for further tries
    nominated: Detour | None = None  # for requests whose Connection names fields
    made: Text | None = None  # where those go: names of the headers that nginx writes, a comma before and behind each
    waits: Text | None = None  # where requests go that must not overtake those who wait


@record
class Answer:
    """`content_type` None = the default; `via`: the named location that has the body, for statuses whose `return`
    takes an address instead of a text."""

    status: int
    text: Text
    content_type: Literal | None = None
    add: tuple[Header, ...] = ()
    via: Atom | None = None
    final: bool = False  # what went wrong upstream, after retries
    failure: bool = False  # the text for what went wrong upstream; the status stays
    names: bool = False


@record
class Hop:
    """Where the request goes on: a named location, or a variable that holds its name. `late`: not before the limits of
    the gate had their say. `on_failure`: where their answers are."""

    to: Atom
    late: bool = False
    on_failure: Atom | None = None


@record
class Reading:
    """The body is read, then the request goes on at `to`, a variable. `sink` is a path that a copy is sent to in vain,
    `on_failure` where the answers of limits are."""

    to: Atom
    sink: Atom
    on_failure: Atom


@record
class Location:
    """`path` is for a location of that path alone, `below` for one of all paths that begin so; a prefix by segment has
    both, with the same body. `name` is for a named location."""

    origin: Atom
    path: Literal | None = None
    below: Literal | None = None
    name: Atom | None = None
    proxy: Proxy | None = None
    answer: Answer | None = None
    hop: Hop | None = None
    reads: Reading | None = None
    gate: Gate | None = None
    logged: tuple[Line, ...] = ()  # what the access log is told
    retry: bool = False  # a further try, named by a map


@dataclass(frozen=True, slots=True)
class ClientTimes:
    head: Atom
    body: Atom
    keepalive: Atom


@record
class Server:
    """`hosts` are the server names; `default`: requests for any other host come here. `headers` empty and `times` None
    = as in the http block. `unanswered`: variables that are 1 for connections that are closed without an answer."""

    origin: Atom
    listen: tuple[Atom, ...]
    hosts: tuple[Atom | Literal, ...]
    default: bool
    forwards: bool
    headers: tuple[Header, ...]
    grpc: tuple[Header, ...]
    times: ClientTimes | None
    locations: tuple[Location, ...]
    named: tuple[Location, ...]
    refused: Atom  # the variable with the status of a request that is not let in
    checks: tuple[Check, ...] = ()
    lines: tuple[Line, ...] = ()
    limited: bool = False  # some of its routes have limits
    unanswered: tuple[Atom, ...] = ()


@record
class Endpoint:
    """A server of an upstream; `options` are its further parameters, each with a blank before it, and `line` is all
    that as it is printed (`health_checks.server`). `weight` 0: it gets nothing."""

    origin: Atom
    address: Atom
    weight: int
    options: Atom
    line: Atom


@dataclass(frozen=True, slots=True)
class Upstream:
    """`method` is the balancing directive, None for round robin; `zone` the size of its shared memory in KiB.
    `include`: the servers stand in that file, which the agent rewrites by the checks of `pool`."""

    origin: Atom
    name: Atom
    pool: Atom
    zone: int
    method: Atom | None
    endpoints: tuple[Endpoint, ...]
    keepalive: int
    include: Atom | None = None
    slow_start: bool = False
    stuck: Atom | None = None  # the `route` of the server that a client is bound to


@dataclass(frozen=True, slots=True)
class StreamServer:
    origin: Atom
    listen: tuple[Atom, ...]
    upstream: Atom
    connect: Atom
    idle: Atom
    lines: tuple[Line, ...] = ()
    default: bool = False  # names that no other server has come here


@dataclass(frozen=True, slots=True)
class Script:
    """A variable that a function of a module sets when it is asked for, once per request."""

    variable: Atom
    module: Atom
    function: Atom


@record
class Http:
    servers: tuple[Server, ...]
    upstreams: tuple[Upstream, ...]
    trusts: tuple[Geo, ...]
    trust_maps: tuple[Map, ...]
    constants: tuple[Map, ...]
    maps: tuple[Map, ...]
    splits: tuple[Split, ...]
    headers: tuple[Header, ...]
    client_times: ClientTimes
    times: Times
    forwards: bool
    well_formed: Literal  # the regex of Host and request line
    never_nominated: Literal  # the regex of Connection values that name what must not be lost
    nothing_nominated: Literal  # the regex of Connection values that name no header of their own
    rewrites: bool
    nominates: bool  # requests whose Connection names fields go on without them
    names: bool
    dollar: bool
    many: int  # size of the hashes of names and variables; 0 = nginx's own
    long: bool  # long words in a hash
    zones: tuple[Line, ...] = ()  # of rates and requests under way
    geos: tuple[Geo, ...] = ()  # about clients
    http2: bool = False
    tls: bool = False
    client_certificates: bool = False
    grpc: tuple[Header, ...] = ()  # `headers` for endpoints that are asked by the gRPC module; empty: there are none
    by_address: bool = False  # certificates of some endpoints must hold their addresses
    formats: tuple[Line, ...] = ()  # of access logs
    replaced: bool = False  # on some listeners the client's address stands in the place of the peer's
    introduced: bool = False  # on some listeners a PROXY header tells it
    limited: bool = False
    modules: tuple[Atom, ...] = ()  # of JavaScript
    scripts: tuple[Script, ...] = ()
    queues: tuple[Line, ...] = ()  # shared memory of those who wait


@record
class Stream:
    servers: tuple[StreamServer, ...]
    upstreams: tuple[Upstream, ...]
    splits: tuple[Split, ...]
    maps: tuple[Map, ...] = ()
    geos: tuple[Geo, ...] = ()
    zones: tuple[Line, ...] = ()
    nobody: Atom | None = None  # the name of an upstream without endpoints
    introduced: bool = False  # on some listeners a PROXY header tells who the client is


@record
class Config:
    """`version` is major.minor, `old` is 1.22."""

    topology: Atom
    version: Atom
    old: bool
    resolvers: tuple[Atom, ...]
    http: Http | None
    stream: Stream | None
    steered: bool = False  # the agent reloads it whenever an endpoint goes or comes
