"""Resolves policies of listeners, pools and routes: layers merged, every default written out."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

from lbgen.plan.acme import AcmeCertificate
from lbgen.plan.cors import SAFE_METHODS
from lbgen.plan.files import Files
from lbgen.plan.model import ClientTimeouts, HeaderEdits, Timeouts
from lbgen.plan.policy import (
    Access,
    ActiveHealth,
    Buffering,
    Compression,
    Concurrency,
    Cors,
    Key,
    KeyKind,
    Limits,
    Mirror,
    Origin,
    PassiveHealth,
    Paths,
    PathsMode,
    Queue,
    RateLimit,
    Retries,
    RetryCause,
    Sticky,
)
from lbgen.plan.tls import INTERMEDIATE, ListenerTls, PoolTls
from lbgen.plan.values import Value, read_value

if TYPE_CHECKING:
    from lbgen.spec import listener as written_listener
    from lbgen.spec import policy as written_policy
    from lbgen.spec import pool as written_pool
    from lbgen.spec import route as written_route

_T = TypeVar("_T")
_NO_EDITS = HeaderEdits()


@lru_cache(maxsize=1024)  # most routes have the same
def forward_timeouts(*layers: written_policy.Timeouts | None) -> Timeouts:
    """Each time from the first layer that sets it; `idle` is `response` where none does."""
    default = Timeouts()
    response = _first(layers, "response", default.response)
    return Timeouts(
        connect=_first(layers, "connect", default.connect),
        response=response,
        idle=_first(layers, "idle", response),
        request=_first(layers, "request", default.request),
    )


def client_timeouts(*layers: written_listener.ClientTimeouts | None) -> ClientTimeouts:
    """Each time from the first layer that sets it."""
    default = ClientTimeouts()
    return ClientTimeouts(
        header=_first(layers, "client_header", default.header),
        body=_first(layers, "client_body", default.body),
        keepalive=_first(layers, "keepalive", default.keepalive),
    )


def _first(layers: Iterable[object], key: str, default: _T) -> _T:
    values = (getattr(layer, key) for layer in layers if layer is not None)
    return next((value for value in values if value is not None), default)


def paths(*layers: written_listener.Paths | None) -> Paths:
    """The first that is set, else strict."""
    found = next((layer for layer in layers if layer is not None), None)
    if found is None:
        return Paths()
    allow = found.allow or []
    return Paths(
        PathsMode(found.mode), "empty_segments" in allow, "encoded_slash" in allow, "encoded_unreserved" in allow
    )


def access(written: written_listener.Access | None) -> Access | None:
    if written is None:
        return None
    return Access(None if written.allow is None else tuple(written.allow), tuple(written.deny or ()))


def limits(*layers: written_listener.Limits | None) -> Limits:
    """Each limit from the first layer that sets it."""
    return Limits(_first(layers, "headers", None), _first(layers, "target", None))


def listener_tls(
    written: written_listener.ListenerTls | None,
    default: written_listener.TlsDefaults | None,
    field: str,
    files: Files,
    issued: AcmeCertificate | None = None,
) -> ListenerTls | None:
    """`modern` is TLS 1.3; `intermediate`, the default, TLS 1.2 and 1.3. A policy or version of the listener overrides
    both of `default`. `issued` comes after the listener's own certificates."""
    if written is None:
        return None
    if written.mode == "passthrough":
        return ListenerTls(passthrough=True)
    said = written if written.policy or written.min_version or default is None else default
    newest_only = said.policy == "modern" or said.min_version == "1.3"
    client = written.client
    return ListenerTls(
        certificates=(
            *(
                files.server_certificate(pair, f"{field}.certificates[{i}]")
                for i, pair in enumerate(written.certificates or ())
            ),
            *(() if issued is None else (issued.certificate,)),
        ),
        min_version="1.3" if newest_only else "1.2",
        ciphers=() if newest_only else INTERMEDIATE,
        curves=tuple(dict.fromkeys(written.curves or ())),
        client_ca=None if client is None else files.ca(client.ca, f"{field}.client.ca"),
        client_required=client is not None and client.verify == "required",
    )


def pool_tls(written: written_pool.PoolTls | None, field: str, files: Files) -> PoolTls | None:
    if written is None:
        return None
    shown = written.certificate
    return PoolTls(
        ca=None if written.ca is None else files.ca(written.ca, f"{field}.ca"),
        server_name=written.server_name,
        certificate=None if shown is None else files.client_certificate(shown, f"{field}.certificate"),
        verify=written.verify,
    )


def hash_key(balance: written_pool.Balance | None) -> Key | None:
    key = None if balance is None else balance.hash
    if key is None:
        return None
    if key.header is not None:
        return Key(KeyKind.HEADER, key.header)
    return Key(KeyKind.COOKIE, key.cookie) if key.cookie is not None else Key(KeyKind.QUERY, key.query or "")


def active_health(health: written_pool.Health | None) -> ActiveHealth | None:
    found = None if health is None else health.active
    if found is None:
        return None
    statuses = tuple((statuses.first, statuses.last) for statuses in found.expect)
    return ActiveHealth(found.path, found.port, found.interval, found.timeout, found.fall, found.rise, statuses)


def passive_health(health: written_pool.Health | None) -> PassiveHealth | None:
    found = None if health is None else health.passive
    return None if found is None else PassiveHealth(found.failures, found.eject_for)


def queue(connections: written_pool.Connections | None) -> Queue | None:
    found = None if connections is None else connections.queue
    return None if found is None else Queue(found.size, found.timeout)


def sticky(written: written_pool.Sticky | None) -> Sticky | None:
    """A `ttl` below a second counts as one second."""
    if written is None:
        return None
    ttl = None if written.ttl is None else max(1, written.ttl // 1000)
    return Sticky(written.cookie, ttl, written.secure)


def rate_limit(written: written_policy.RateLimit | None) -> RateLimit | None:
    """The default of `burst` is the rate of one second, at least 1."""
    if written is None:
        return None
    amount, seconds = written.rate.amount, written.rate.seconds
    burst = written.burst if written.burst is not None else max(1, math.ceil(amount / seconds))
    return RateLimit(amount, seconds, burst, _key(written.key))


def concurrency(written: written_policy.Concurrency | None) -> Concurrency | None:
    return None if written is None else Concurrency(written.max, _key(written.key))


def _key(key: written_policy.RateKey) -> Key:
    return Key(KeyKind.HEADER, key.header) if key.header is not None else Key(KeyKind(key.by or "route"))


def retries(written: written_policy.Retries | None) -> Retries | None:
    if written is None or written.max == 0:
        return None
    return Retries(
        written.max,
        frozenset(RetryCause(cause) for cause in written.on if isinstance(cause, str)),
        tuple(dict.fromkeys(cause for cause in written.on if isinstance(cause, int))),
        written.methods == "all",
        written.budget,
    )


@lru_cache(maxsize=1024)  # most routes have the same
def buffering(*layers: written_policy.Buffering | None) -> Buffering:
    """Each direction from the first layer that sets it; bodies of requests are not buffered by default."""
    return Buffering(_first(layers, "request", False), _first(layers, "response", None))


def edits(written: written_route.HeaderEdits | None, default: written_route.HeaderEdits | None = None) -> HeaderEdits:
    """The written edits, merged over those of `default` for other headers."""
    if written is None and default is None:
        return _NO_EDITS
    if written is None or default is None:
        only = written or default
        assert only is not None  # noqa: S101  # one of them is there
        return HeaderEdits(_values(only.set), _values(only.add), tuple(dict.fromkeys(only.remove)))
    own = {*written.set, *written.add, *written.remove}
    return HeaderEdits(
        _values({**{n: v for n, v in default.set.items() if n not in own}, **written.set}),
        _values({**{n: v for n, v in default.add.items() if n not in own}, **written.add}),
        tuple(dict.fromkeys((*(n for n in default.remove if n not in own), *written.remove))),
    )


def _values(written: dict[str, str]) -> tuple[tuple[str, Value], ...]:
    return tuple((name, read_value(text)) for name, text in written.items())


def mirrors(written: list[written_policy.Mirror] | None, field: str) -> tuple[Mirror, ...]:
    if not written:
        return ()
    return tuple(Mirror(m.pool, m.percent, f"{field}.mirror[{i}]") for i, m in enumerate(written) if m.percent)


def cors(written: written_policy.Cors | None) -> Cors | None:
    if written is None:
        return None
    return Cors(
        tuple(_origin(origin) for origin in written.origins),
        tuple(dict.fromkeys(written.methods)) or SAFE_METHODS,
        tuple(dict.fromkeys(header.lower() for header in written.headers)),
        tuple(dict.fromkeys(header.lower() for header in written.expose_headers)),
        written.credentials,
        None if written.max_age is None else written.max_age // 1000,
    )


def _origin(origin: str) -> Origin:
    if origin in ("*", "null"):
        return Origin("", origin, any=origin == "*")
    scheme, _, rest = origin.partition("://")
    host, colon, port = rest.rpartition(":")
    if not colon or rest.endswith("]"):
        host, port = rest, ""
    any_port = port == "*"
    number = int(port) if port and not any_port else None
    return Origin(scheme, host.removeprefix("*."), number, host.startswith("*."), any_port=any_port)


def compression(written: written_policy.Compression | None) -> Compression | None:
    if written is None:
        return None
    types = tuple(dict.fromkeys(written.types))
    return Compression(types) if written.min_size is None else Compression(types, written.min_size)
