"""Plans for tests: one listener on loopback, and what leads to each route."""

from __future__ import annotations

from collections import Counter
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

import lbgen
from lbgen.plan.conditions import SUBJECTS, AnyOperator, Condition, Exact, Method, OneOf, Present, Regex
from lbgen.plan.model import (
    Balance,
    Endpoint,
    Forward,
    HeaderEdits,
    HostPattern,
    L4Rule,
    Listener,
    Match,
    Mode,
    Plan,
    Pool,
    Protocol,
    Route,
    Target,
    Timeouts,
)
from lbgen.plan.path_conditions import ExactPath, PrefixPath
from lbgen.plan.path_conditions import Path as PathCondition
from lbgen.plan.precedence import UnrankedRule, host_tables, rank_rules
from lbgen.plan.tiers import parts
from lbgen.spec.match import Match as WrittenMatch
from lbgen.spec.match import PathMatch, Unless, ValueMatch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pydantic import BaseModel

    from lbgen.plan.model import Redirect, Respond

TIMES = Timeouts(1_000, 5_000, 5_000)


def examples() -> dict[str, Plan]:
    """The plan of each example by its folder's name; where it has tiers, of each tier: `hybrid-edge/web`."""
    found = {}
    for path in sorted((Path(__file__).parents[2] / "examples").glob("*/topology.yaml")):
        for tier in parts(lbgen.load(path)):
            name = path.parent.name
            found[f"{name}/{tier.name}" if tier.name else name] = tier.plan
    return found


def topology(
    route: dict[str, Any] | None = None,
    *,
    pool: dict[str, Any] | None = None,
    listener: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """What a user writes for one listener, route and pool, each with these further fields."""
    route = route or {}
    forward = {} if route.keys() & {"respond", "redirect"} else {"forward": "p"}
    return {
        "version": 1,
        "name": "t",
        "listeners": {"web": {"port": 8080, **(listener or {})}},
        "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}], **(pool or {})}},
        "routes": [{"name": "r", **forward, **route}],
        **more,
    }


def by_prefix(port: int, routes: Iterable[Route], pools: Iterable[Pool], **listener: Any) -> Plan:
    """`/NAME` leads to the route of that name, on a listener `web` with these further fields."""
    routes = tuple(routes)
    return by_match(((prefix(f"/{each.name}"), each) for each in routes), pools, port, **listener)


def by_match(
    rules: Iterable[tuple[Match, Route] | tuple[Match, Route, HostPattern | None]],
    pools: Iterable[Pool] = (),
    port: int = 8080,
    **listener: Any,
) -> Plan:
    """Each match leads to its route, on a listener `web` with these further fields."""
    entries: list[UnrankedRule] = []
    routes: dict[str, Route] = {}
    counted: Counter[str] = Counter()
    for match, to, *host in rules:
        number = counted[to.name]
        counted[to.name] += 1
        at = f"{to.field}.match[{number}]"
        entries.append(UnrankedRule(f"{to.name}.{number}", to.name, 0, host[0] if host else None, match, at))
        routes[to.name] = to
    return on_web(entries, routes.values(), pools, port, **listener)


def on_web(
    entries: Iterable[UnrankedRule], routes: Iterable[Route], pools: Iterable[Pool], port: int = 8080, **listener: Any
) -> Plan:
    """`entries` lead to `routes`, on a listener `web` with these further fields."""
    listener = {"address": "127.0.0.1", **listener, "hosts": host_tables(rank_rules(list(entries)))}
    web = Listener("web", port=port, mode=Mode.L7, protocol=Protocol.TCP, field="listeners.web", **listener)
    return Plan("t", (web,), tuple(pools), tuple(routes))


def on_tcp(
    action: Forward, *pools: Pool, port: int = 5432, address: str = "127.0.0.1", protocol: Protocol = Protocol.TCP
) -> Plan:
    """All connections of an L4 listener `db` take the route `db`."""
    rule = L4Rule("db.0", 0, "db", None, (), "routes[0]")
    listener = Listener("db", address, port, Mode.L4, protocol, "listeners.db", l4_rules=(rule,))
    return Plan("t", (listener,), pools, (route("db", action),))


def route(name: str, action: Forward | Redirect | Respond, index: int = 0, **more: Any) -> Route:
    return Route(name, index, action, f"routes[{index}]", **more)


def endpoint(host: str = "10.0.0.1", port: int = 80, weight: int = 1) -> Endpoint:
    return Endpoint(host, port, weight, "", is_ip=_is_ip(host))


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def pool(name: str, *endpoints: Endpoint, balance: Balance = Balance.ROUND_ROBIN) -> Pool:
    """A pool of these endpoints, by default 10.0.0.1:80; they get the fields that they have in a topology."""
    own = enumerate(endpoints or (endpoint(),))
    field = f"pools.{name}"
    return Pool(name, balance, tuple(replace(each, field=f"{field}.endpoints[{n}]") for n, each in own), field)


def forward(*pools: str, times: Timeouts = TIMES, **more: Any) -> Forward:
    """To pools of equal weight."""
    return Forward(tuple(Target(p, 1, HeaderEdits(), "") for p in pools), times, **more)


def examples_of(model: type[BaseModel]) -> dict[str, Any]:
    """The example of the documentation for each field of a model."""
    return {name: (field.examples or [None])[0] for name, field in model.model_fields.items()}


def every_match() -> list[dict[str, Any]]:
    """Matches with every field of `lbgen/spec/match.py`."""
    values = {name: {name: example} for name, example in examples_of(ValueMatch).items()}
    of_values = dict.fromkeys(("headers", "query", "cookies"), values)
    paths = [{"path": {name: example}} for name, example in examples_of(PathMatch).items()]
    return [{**examples_of(WrittenMatch), **of_values, "unless": examples_of(Unless)}, *paths]


def match(path: PathCondition, *, methods: tuple[str, ...] = (), **named: Iterable[tuple[str, AnyOperator]]) -> Match:
    """`named`: the fields of a match in a topology, each with names and what is asked of them."""
    conditions = [Condition(Method(), OneOf(methods))] if methods else []
    of = {subject.word: subject for subject in SUBJECTS}
    conditions += [Condition(of[word](name), asked) for word, pairs in named.items() for name, asked in pairs]
    return Match(path, tuple(conditions))


def prefix(path: str, **more: Any) -> Match:
    return match(PrefixPath(path), **more)


def exact(path: str, **more: Any) -> Match:
    return match(ExactPath(path), **more)


def equals(name: str, text: str) -> tuple[str, Exact]:
    return name, Exact(text)


def like(name: str, regex: str) -> tuple[str, Regex]:
    return name, Regex(regex)


def present(name: str) -> tuple[str, Present]:
    return name, Present()
