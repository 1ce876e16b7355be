"""Typed shapes of an nginx configuration, as the templates print them."""

from __future__ import annotations

from msgspec import Struct

from lbgen.engines.text import Atom, Literal

NONE, PROXY, HTTP = Atom(""), Atom("proxy"), Atom("http")
REQUEST_ID = Atom("$request_id")


class Text(Struct, frozen=True):
    """One parameter of free text (Literal of kind `part`) and variables (Atom); `bare` is its form without quotes."""

    parts: tuple[Atom | Literal, ...]
    bare: Atom | None = None


class Header(Struct, frozen=True):
    name: Atom | Literal
    value: Text
    replaces: bool = False  # that of the endpoint


class Entry(Struct, frozen=True):
    key: Atom | Literal
    value: Text | Atom


class Map(Struct, frozen=True, eq=False):
    origin: Atom
    source: Text
    name: Atom
    default: Text | Atom
    entries: tuple[Entry, ...]
    volatile: bool = False  # evaluated on every use
    notes: tuple[Atom, ...] = ()  # comment lines, also for the maps below


class Network(Struct, frozen=True):
    network: Atom
    value: int


class Geo(Struct, frozen=True, eq=False):
    """A number per network; the narrowest wins. `source` None = the client, behind `proxies` by X-Forwarded-For."""

    origin: Atom
    name: Atom
    networks: tuple[Network, ...]
    default: int = 0
    proxies: tuple[Atom, ...] = ()
    source: Atom | None = None


class Line(Struct, frozen=True):
    name: Atom
    args: tuple[Atom | Literal | Text, ...]
    origin: Atom = NONE


class Check(Struct, frozen=True):
    """The answer when the variable is neither empty nor 0."""

    variable: Atom
    status: int


class Guard(Struct, frozen=True):
    """Checks and limits before a route's action; `add` are the headers of their answers."""

    checks: tuple[Check, ...]
    add: tuple[Header, ...] = ()
    lines: tuple[Line, ...] = ()


class Share(Struct, frozen=True, eq=False):
    percent: Atom
    value: Atom


class Split(Struct, frozen=True, eq=False):
    origin: Atom
    name: Atom
    shares: tuple[Share, ...]
    source: Atom = REQUEST_ID


class Defined(Struct, frozen=True, eq=False):
    """What a block defines for its servers."""

    geos: tuple[Geo, ...]
    zones: tuple[Line, ...]
    splits: tuple[Split, ...]
    maps: tuple[Map, ...]


class Times(Struct, frozen=True):
    connect: Atom
    read: Atom
    send: Atom


class Proxy(Struct, frozen=True):
    """A `*_pass` directive and what belongs to it. `upstream` is a name or a variable; `target` None = as sent by the
    client; `headers` empty = those of the server block."""

    upstream: Atom
    target: Atom | None = None
    headers: tuple[Header, ...] = ()
    standard_headers: bool = False  # those of the http block precede `headers`
    times: Times | None = None
    hide: tuple[Atom | Literal, ...] = ()
    add: tuple[Header, ...] = ()
    module: Atom = PROXY  # the nginx module whose directives apply
    scheme: Atom = HTTP
    lines: tuple[Line, ...] = ()
    checks: tuple[Check, ...] = ()


class Answer(Struct, frozen=True):
    """`content_type` None = the default; `body_at` = where the body is, for statuses that take an address."""

    status: int
    text: Text | None  # None = nginx's own page
    content_type: Literal | None = None
    add: tuple[Header, ...] = ()
    body_at: Atom | None = None


class InternalRedirect(Struct, frozen=True):
    """Continue at `to`, a location or variable; `after_limits`: once the guard's limits let the request pass."""

    to: Atom
    after_limits: bool = False


class Location(Struct, frozen=True):
    """`path` is an exact location, `below` a prefix one; a match by segment has both. `name` is a named location."""

    origin: Atom
    path: Literal | None = None
    below: Literal | None = None
    name: Atom | None = None
    proxy: Proxy | None = None
    answer: Answer | None = None
    redirect_to: InternalRedirect | None = None
    guard: Guard | None = None
    errors: tuple[Line, ...] = ()  # what is served in place of nginx's own pages
    log_variables: tuple[Line, ...] = ()  # variables of the access log
    route: Atom = NONE  # the name of its route, not printed
    checks: tuple[Check, ...] = ()  # with `lines`, of this location alone, whoever shares its body
    lines: tuple[Line, ...] = ()
    notes: tuple[Atom, ...] = ()  # comment lines
    include: Atom | None = None  # the file with the body, where several locations have it


class ClientTimes(Struct, frozen=True):
    head: Atom
    body: Atom
    keepalive: Atom


class Server(Struct, frozen=True, eq=False):
    """A server block. `times` None = as in the http block."""

    origin: Atom
    listen: tuple[Atom, ...]
    hosts: tuple[Atom | Literal, ...]
    default: bool
    times: ClientTimes | None
    locations: tuple[Location, ...]
    named: tuple[Location, ...]
    checks: tuple[Check, ...] = ()
    lines: tuple[Line, ...] = ()
    has_not_found: bool = False  # some map leads to the location of requests that no rule matches


class Endpoint(Struct, frozen=True, eq=False):
    """A server of an upstream: `options` each after a blank, `line` as `health_checks.server_line` prints it."""

    origin: Atom
    address: Atom
    weight: int
    options: Atom
    line: Atom


class Upstream(Struct, frozen=True):
    """`include` is the file with the servers that the agent rewrites."""

    origin: Atom
    name: Atom
    pool: Atom
    lines: tuple[Line, ...]
    endpoints: tuple[Endpoint, ...]
    include: Atom | None = None
    slow_start: bool = False


class StreamServer(Struct, frozen=True):
    origin: Atom
    listen: tuple[Atom, ...]
    upstream: Atom
    connect: Atom
    idle: Atom
    lines: tuple[Line, ...] = ()
    default: bool = False


class LogFormat(Struct, frozen=True, eq=False):
    origin: Atom
    listener: Atom
    request_id: Atom  # the variable with it, or nothing
    pool: Atom


class Http(Struct, frozen=True, eq=False):
    servers: tuple[Server, ...]
    upstreams: tuple[Upstream, ...]
    common: Defined  # for every request
    defined: Defined  # for routes and upstreams
    headers: tuple[Header, ...]
    client_times: ClientTimes
    times: Times
    forwards: bool
    jumps: bool  # some location hands its requests to another by a status
    recursive: bool  # such a location leads on to another one
    plain_text: bool  # some answer has a path for which nginx knows another type
    keeps_args: bool  # no request loses its $args before it is logged
    dollar: bool
    hash_size: int  # of names and variables; 0 = nginx's default
    long_keys: bool
    tls: bool = False
    http2: bool = False  # some clients may speak HTTP/2
    trailers: bool = False  # some endpoints speak HTTP/2 to the proxy module
    grpc: tuple[Header, ...] = ()  # `headers` for the gRPC module, empty when it is unused
    verifies_address: bool = False  # some certificates are verified against addresses
    log_formats: tuple[LogFormat, ...] = ()
    log: tuple[Line, ...] = ()  # the access log of all server blocks; empty: each has its own, or none
    with_real_ip: bool = False  # something asks for the peer where $remote_addr is the client
    bodies: tuple[Location, ...] = ()  # of the files that locations include
    headers_file: bool = False  # `headers` are in a file that locations include


class Stream(Struct, frozen=True, eq=False):
    servers: tuple[StreamServer, ...]
    upstreams: tuple[Upstream, ...]
    defined: Defined
    empty_upstream: Atom | None = None  # the upstream that refuses connections


class Config(Struct, frozen=True, eq=False):
    """`lbgen` is our own version, `version` major.minor of nginx, the others what it has (support.py)."""

    lbgen: Atom
    topology: Atom
    version: Atom
    upstreams: bool
    resolvers: tuple[Atom, ...]
    http: Http | None
    stream: Stream | None
    workers: Atom = Atom("auto")
    uses_agent: bool = False  # `lbgen agent` rewrites the endpoints and reloads nginx
