"""A difference that a case found: a record, which verdicts name by its kind, with a sentence for people."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace


class Kind(StrEnum):
    """What differs; the first word of `Verdict.differs`."""

    STATUS = "status"
    HEADER = "header"  # of `name`, a Location and the endpoint's Host too
    BODY = "body"
    TRAILER = "trailer"
    POOL = "pool"  # another one serves: the request matched another rule
    TARGET = "target"  # that arrives at the endpoint
    METHOD = "method"  # the same
    ACCEPTED = "accepted"  # an endpoint got what the engine answers by itself
    SAW = "saw"  # the endpoint's account says `name`
    CLOSED = "closed"  # the connection ends without an answer
    OPEN = "open"  # nothing comes, and the connection stays open
    CUT = "cut"  # the body ends early
    WHOLE = "whole"  # a body is complete that should have been cut
    NO_HTTP = "no http"  # bytes come that are no HTTP
    TLS = "tls"  # `name` of the handshake
    TIME = "time"  # it came earlier or later than the case says
    TRIES = "tries"  # how often, and where, requests reach endpoints
    ENDPOINT = "endpoint"  # another endpoint of the pool serves
    PLACES = "places"  # requests or connections at a time
    RATE = "rate"  # requests in a time
    CONNECTIONS = "connections"  # that endpoints see
    COPIES = "copies"  # to mirrors
    LOG = "log"  # the access log
    OTHER = "other"  # only the sentence says


_WHO_SERVES = ("balance", "active", "passive", "backup", "least-connections", "drain", "zero")
_WHEN = ("idle", "connect", "response", "request", "body", "client", "client-body", "client-header", "keepalive")
# What the scripts of a clause find.
_KINDS = {
    "4.mirror": Kind.COPIES,
    "5.rate": Kind.RATE,
    **dict.fromkeys(("10.log", "10.connections"), Kind.LOG),
    **dict.fromkeys(("6.kept", "6.idle-connections"), Kind.CONNECTIONS),
    **dict.fromkeys(("5.concurrency", "6.full", "6.queue", "7.max-connections"), Kind.PLACES),
    **dict.fromkeys(("6.retries", "6.no-retries"), Kind.TRIES),
    **dict.fromkeys(("4.split", "6.sticky", "6.hash", "6.random", "6.slow-start", "7.split"), Kind.ENDPOINT),
    **dict.fromkeys((f"{layer}.{what}" for layer in (6, 7) for what in _WHO_SERVES), Kind.ENDPOINT),
    **dict.fromkeys((f"{layer}.{what}" for layer in (6, 7) for what in (*_WHEN, "websocket")), Kind.TIME),
}
_WAITED = (504, 408)  # statuses of an engine that waited for an endpoint or a client
_QUOTED = frozenset({Kind.HEADER, Kind.TRAILER, Kind.TARGET, Kind.METHOD, Kind.SAW, Kind.TLS})
_NAMED = frozenset({Kind.STATUS, Kind.BODY, Kind.POOL, Kind.TARGET, Kind.METHOD})  # in sentences by their kinds


class Difference(Struct, frozen=True):
    """One difference. `place`: where it shows, such as `answer` or `to the endpoint`; `name`: of a header, or what it
    is about; `got` None: nothing came, `expected` None: nothing should, or `got` says it all. `why`: of what is
    expected."""

    kind: Kind
    got: int | str | None = None
    expected: int | str | None = None
    name: str = ""
    place: str = ""
    why: str = ""

    @property
    def sentence(self) -> str:
        """The difference for people."""
        what = f"{self.place}: " if self.place else ""
        if self.kind in (Kind.HEADER, Kind.TRAILER):
            what += f"{self.name} is missing" if self.got is None else f"{self.name}: {self.got!r}"
            return what + (" is there, expected none" if self.expected is None else self._tail())
        if name := str(self.kind) if self.kind in _NAMED else self.name:
            what += f"{name} "
        return what + self._shown(self.got) + ("" if self.expected is None else self._tail())

    def _tail(self) -> str:
        return (f", expected {self._shown(self.expected)}" if self.expected != "" else "") + (
            f" ({self.why})" if self.why else ""
        )

    def _shown(self, value: int | str | None) -> str:
        return repr(value) if self.kind in _QUOTED else str(value)

    @property
    def is_late(self) -> bool:
        """Whether a busy machine shows it, too: such a case is tried again."""
        return (
            self.kind in (Kind.TIME, Kind.WHOLE)
            or (self.kind, self.got) == (Kind.TRIES, 0)
            or (self.kind is Kind.STATUS and self.got in _WAITED)
        )


def in_context(where: str, found: Difference) -> Difference:
    """The same difference with `where` before its place."""
    return replace(found, place=f"{where}: {found.place}" if found.place else where)


def late(sentence: str) -> Difference:
    """Something that came earlier or later than the case says."""
    return Difference(Kind.TIME, sentence)


def as_difference(found: Difference | str, clause: str = "") -> Difference:
    """The record of what a script yields, who says in plain sentences what its clause is about."""
    if isinstance(found, Difference):
        return found
    return Difference(_KINDS.get(".".join(clause.split(".")[:2]), Kind.OTHER), found)
