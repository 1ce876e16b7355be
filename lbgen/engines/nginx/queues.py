"""Queues of pools -> a location where requests wait (njs) that find no endpoint below its `max_per_endpoint`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lbgen.engines.nginx.names import inline, named, reference
from lbgen.engines.nginx.scripts import script
from lbgen.engines.nginx.strings import text
from lbgen.engines.nginx.view import Entry, Line, Location, Map
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Forward

if TYPE_CHECKING:
    from lbgen.engines.nginx.names import Names
    from lbgen.engines.nginx.view import Proxy
    from lbgen.plan.model import Listener, Plan, Pool, Route

LINE = "queue_line"
_JOINS, _RELEASED = "queue_joins", "queue_released"
_ZONE_LEAST, _ZONE_ONE = 64, 0.25  # KiB, and of one that waits
_NO_PLACE = "420"

SCRIPTS = (script(_JOINS, "queue", "joins"), script(_RELEASED, "queue", "released"))


def queued(pool: Pool) -> bool:
    """Whether requests may wait for it; without places there is nothing to wait for."""
    return pool.queue is not None and pool.max_per_endpoint is not None


def queued_pool(plan_pools: dict[str, Pool], route: Route) -> Pool | None:
    """The pool that requests of the route wait for."""
    targets = route.action.targets if isinstance(route.action, Forward) else ()
    found = [plan_pools[t.pool] for t in targets if t.weight]
    return next((pool for pool in found if queued(pool)), None)


def zone(pool: Pool) -> str:
    return f"queue-{pool.name}"


def zones(plan: Plan) -> tuple[Line, ...]:
    """The shared memory of each line. What nobody renews is gone after its own time, at most after this one."""
    pools = {pool.name: pool for pool in plan.pools}
    used = {pool.name for route in plan.routes if (pool := queued_pool(pools, route)) is not None}
    return tuple(
        Line(
            Atom("js_shared_dict_zone"),
            (
                Atom.of(r"zone=[a-z0-9._-]+:[0-9]+k", f"zone={zone(pool)}:{_size(pool)}k"),
                Atom("timeout=1h"),
                Atom("type=number"),
            ),
            Atom(pool.field),
        )
        for pool in plan.pools
        if pool.name in used
    )


def _size(pool: Pool) -> int:
    return _ZONE_LEAST + int((pool.queue.size if pool.queue else 0) * _ZONE_ONE)


def of_listener(plan: Plan, listener: Listener) -> bool:
    """Whether requests to the listener may wait."""
    pools = {pool.name: pool for pool in plan.pools}
    routes = {rule.route for table in listener.hosts for rule in table.rules}
    return any(queued_pool(pools, plan.route(name)) for name in routes)


def server_lines() -> tuple[Line, ...]:
    """Each request that had a place calls the next one when it is logged; there is nothing to log."""
    hook = (Atom("/dev/null"), Atom("nothing"), Atom("if=$queue_call"))
    return (
        Line(Atom("set"), (reference(LINE), Literal("", "word"))),
        Line(Atom("access_log"), hook),
    )


def route_lines(pool: Pool | None) -> tuple[Line, ...]:
    """What the scripts are told about the pool of a location."""
    if pool is None or pool.queue is None:
        return ()
    told = text(f"{zone(pool)} {pool.queue.size} {pool.queue.timeout}")
    return (Line(Atom("set"), (reference(LINE), told)),)


class Queues:
    """Makes the locations; maps gather in `maps`."""

    def __init__(self, names: Names) -> None:
        self.maps: list[Map] = []
        self._names = names
        self._next: dict[tuple[str, int], Atom] = {}

    def chain(self, start: Location, route: Route, proxy: Proxy, variant: int) -> tuple[Proxy, tuple[Location, ...]]:
        """`proxy` as the first try, and the location of those who wait for a further one."""
        what = "queue" if variant == 1 else f"queue:{variant}"
        goal = named(route.name, what)
        to = text(goal.text, inline("nominates"))  # or its second form, see `connection_options.py`
        key = (route.name, variant)
        if key not in self._next:
            name = self._names.variable("queue", route.name)
            entry = Entry(Literal("none", "key"), to)
            final = named(route.name, "final")
            source = text(inline("cause"))
            self.maps.append(Map(Atom(route.field), source, Atom(f"${name}"), final, (entry,), volatile=True))
            self._next[key] = reference(name)
        made = replace(proxy, again=self._next[key], buffered=True)
        first = replace(made, waits=to)
        lines = (
            *made.lines,
            Line(Atom("js_access"), (Atom("queue.wait"),)),
            Line(Atom("error_page"), (Atom(_NO_PLACE), Atom("="), named(route.name, "final"))),
        )
        late = replace(made, lines=lines, tunnel=None, mirrors=())
        return first, (Location(start.origin, name=goal, proxy=late, retry=True),)
