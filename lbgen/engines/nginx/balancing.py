"""How nginx chooses among the endpoints of a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lbgen.engines.nginx.forwarded_headers import peer
from lbgen.engines.nginx.names import reference
from lbgen.engines.nginx.strings import directive
from lbgen.engines.nginx.view import Contributor, UpstreamPool
from lbgen.plan.model import Balance
from lbgen.plan.policy import KeyKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.engines.nginx.statements import Line
    from lbgen.engines.text import Atom


def _upstream(at: UpstreamPool) -> Iterator[Line]:
    key = _hash_key(at)
    if at.single:
        return
    match at.pool.balance:
        case Balance.ROUND_ROBIN:
            pass
        case Balance.LEAST_CONNECTIONS:
            yield directive("least_conn")
        case Balance.SOURCE_HASH | Balance.HASH:
            yield directive("hash", key, "consistent")
        case Balance.RANDOM:
            yield directive("random")
        case _:
            assert_never(at.pool.balance)


def _hash_key(at: UpstreamPool) -> Atom:
    """The variable that a hash is computed from; the peer's address by default."""
    key, on = at.pool.hash_key, at.on
    if on is None:
        return at.peer
    if key is None:
        return peer(on)
    if key.kind is KeyKind.HEADER:
        return reference(on.values.shared_header(key.name, on.listeners))
    return reference(on.values.cookie(key.name) if key.kind is KeyKind.COOKIE else on.values.parameter(key.name))


BALANCING = Contributor(upstream=_upstream)
