"""Which backend serves a route that forwards: a split draws a target by weight, or follows a sticky cookie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import gcd

from msgspec import Struct

from lbgen.engines.haproxy.headers import header_statements
from lbgen.engines.haproxy.maps import PerRoute
from lbgen.engines.haproxy.matching import RouteKey
from lbgen.engines.haproxy.quote import argument
from lbgen.engines.haproxy.statements import Statement, acl, batches, is_set, set_var, statement
from lbgen.engines.haproxy.view import Contributor, HttpListener, PoolUse
from lbgen.engines.text import Literal
from lbgen.plan.model import Endpoint, Forward, HeaderEdits, Plan, Target
from lbgen.plan.precedence import group

TARGET = "txn.target"
_MOST_LISTED = 8  # backends that HAProxy tries one by one; from here on a lookup costs less


class Choice(Struct, frozen=True, eq=False):
    """One target of a route. `key` is what `txn.target` holds when it is drawn by lot (`drawn`), else the name of the
    route key. `before` and `total` are weights: of the targets before it, and of all."""

    key: str
    route_key: RouteKey
    target: Target
    drawn: bool
    before: int
    total: int


def choices(route_keys: Mapping[str, RouteKey], plan: Plan) -> Iterator[Choice]:
    """Every target that can get a request. The first of a split needs no draw where it takes what the others leave and
    nothing else tells it apart."""
    for route_key in route_keys.values():
        action = plan.route(route_key.route).action
        if not isinstance(action, Forward):
            continue
        served = [t for t in action.targets if t.weight or (plan.pool(t.pool).sticky and len(action.targets) > 1)]
        is_plain = not served[0].request_headers and not any(plan.pool(t.pool).sticky for t in served)
        total = sum(target.weight for target in served)
        before = 0
        for number, target in enumerate(served, 1):
            drawn = len(served) > 1 and not (number == 1 and is_plain)
            key = f"{route_key.name}@{number}" if drawn else route_key.name
            yield Choice(key, route_key, target, drawn, before, total)
            before += target.weight


def _edits(on: HttpListener) -> Iterator[Statement]:
    """Draw a target for each request of a split, unless its sticky cookie names one, and edit the target's headers."""
    chosen = list(choices(on.keys, on.plan))
    drawn = [choice for choice in chosen if choice.drawn]
    yield from header_statements(on, "http-request", _target_edits(chosen, drawn=False), on.per_route, "target")
    yield from (_draw_one(choice, on.per_route) for choice in drawn)
    yield from _sticky_statements(drawn, on.plan, on.per_route)
    yield from header_statements(on, "http-request", _target_edits(chosen, drawn=True), per_target(on, drawn), "share")


def per_target(on: HttpListener, drawn: list[Choice]) -> PerRoute:
    """Writes statements for some targets."""
    targets = {choice.key: choice.target.field for choice in drawn}
    return PerRoute(on.maps, TARGET, frozenset(targets), is_set(TARGET), targets)


def _draw_one(choice: Choice, per_route: PerRoute) -> Statement:
    """A target takes its share of what those before it got."""
    weight, sofar = choice.target.weight, choice.before + choice.target.weight
    divisor = gcd(weight, sofar) or 1
    when = [acl(f"rand({sofar // divisor}) lt {weight // divisor}")] if weight < sofar else []
    action = set_var(TARGET, f"str({choice.key})", when, choice.target.field)
    return per_route.restrict(action, [choice.route_key.name], choice.key)


def _sticky_statements(drawn: list[Choice], plan: Plan, per_route: PerRoute) -> Iterator[Statement]:
    """Send a request of a split to the target of its sticky cookie, whatever was drawn."""
    for choice in drawn:
        pool = plan.pool(choice.target.pool)
        if pool.sticky is None:
            continue
        cookie = Literal(f"req.cook({argument(pool.sticky.cookie)})")
        for values in batches([endpoint.cookie_value for endpoint in pool.endpoints]):
            is_own = acl(cookie, f"-m str {' '.join(values)}")
            action = set_var(TARGET, f"str({choice.key})", [is_own], choice.target.field)
            yield per_route.restrict(action, [choice.route_key.name], choice.key)


def use_backend_statements(names: Mapping[str, str], chosen: list[Choice], on: HttpListener) -> list[Statement]:
    """`names` are backends by the key of their choice, or by route key for routes without targets."""
    if not names:
        return []
    drawn = {choice.key for choice in chosen if choice.drawn}
    targets = per_target(on, [choice for choice in chosen if choice.drawn])
    if len(set(names.values())) == 1:
        return [statement("default_backend", next(iter(names.values())))]
    by_target = group((name, key) for key, name in names.items() if key in drawn)
    by_route = group((name, key) for key, name in names.items() if key not in drawn)
    if len(by_target) + len(by_route) <= _MOST_LISTED:
        sides = ((targets, by_target), (on.per_route, by_route))
        return [
            side.restrict(statement("use_backend", name), keys, f"backend.{name}")
            for side, backends in sides
            for name, keys in backends.items()
        ]
    file = on.maps.file("backends.map", "route or target -> backend")
    fields = {**on.per_route.origins, **targets.origins}
    for key, name in names.items():
        file.add(key, name, fields.get(key, ""))
    statements = []
    if drawn:
        statements.append(statement("use_backend", f"%[var({TARGET}),map_str({file.name})]", when=[is_set(TARGET)]))
    if names.keys() - drawn:
        statements.append(statement("use_backend", f"%[var(txn.route),map_str({file.name})]"))
    return statements


def _target_edits(chosen: list[Choice], drawn: bool) -> list[tuple[str, HeaderEdits]]:
    """(key, edits) of the targets that have any of their own."""
    return [(c.key, c.target.request_headers) for c in chosen if c.drawn is drawn and c.target.request_headers]


def _cookie(use: PoolUse) -> Iterator[Statement]:
    sticky = use.pool.sticky
    if sticky is None or not use.l7:
        return
    options = ["insert indirect nocache httponly attr SameSite=Lax"]
    if sticky.ttl is not None:
        options.append(f"attr Max-Age={sticky.ttl}")
    if sticky.secure:
        options.append("secure")
    yield statement("cookie", Literal(sticky.cookie), *options, origin=f"{use.pool.field}.sticky")


def _cookie_value(use: PoolUse, _: int, endpoint: Endpoint) -> Iterator[str]:
    if use.pool.sticky is not None and use.l7:
        yield f"cookie {endpoint.cookie_value}"


SPLITS = Contributor(edits=_edits)
STICKY = Contributor(backend=_cookie, server=_cookie_value)
