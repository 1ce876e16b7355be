"""Queues of pools: a location where requests wait (njs) until an endpoint is below its `max_per_endpoint`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.nginx.names import inline, named_location, reference
from lbgen.engines.nginx.scripts import script
from lbgen.engines.nginx.strings import directive, text
from lbgen.engines.nginx.view import Entry, Line, Location, Map
from lbgen.engines.text import Atom, Literal
from lbgen.plan.model import Forward
from lbgen.records import replace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.engines.nginx.names import Names
    from lbgen.engines.nginx.view import Proxy
    from lbgen.plan.model import Listener, Plan, Pool, Route

_LINE = reference("queue_line")
_ZONE_MIN_KIB, _KIB_PER_REQUEST = 64, 0.25
_REJECTED = "420"  # returned by queue.wait

SCRIPTS = (script("queue_joins", "queue", "joins"), script("queue_released", "queue", "released"))


def has_queue(pool: Pool) -> bool:
    """Whether requests may wait for the pool; without a limit per endpoint they never need to."""
    return pool.queue is not None and pool.max_per_endpoint is not None


def queued_pool(pools: Mapping[str, Pool], route: Route) -> Pool | None:
    """The pool that requests of the route may wait for."""
    targets = route.action.targets if isinstance(route.action, Forward) else ()
    return next((pool for t in targets if t.weight and has_queue(pool := pools[t.pool])), None)


def zones(plan: Plan) -> tuple[Line, ...]:
    """The shared memory of each queue. Its timeout is above that of tickets, which set their own."""
    if not any(map(has_queue, plan.pools)):
        return ()
    pools = {pool.name: pool for pool in plan.pools}
    used = {pool.name for route in plan.routes if (pool := queued_pool(pools, route)) is not None}
    return tuple(
        directive(
            "js_shared_dict_zone",
            Atom.of(r"zone=[a-z0-9._-]+:[0-9]+k", f"zone={_zone(pool)}:{_size(pool)}k"),
            "timeout=1h",
            "type=number",
            origin=Atom(pool.field),
        )
        for pool in plan.pools
        if pool.name in used
    )


def _zone(pool: Pool) -> str:
    return f"queue-{pool.name}"


def _size(pool: Pool) -> int:
    return _ZONE_MIN_KIB + int((pool.queue.size if pool.queue else 0) * _KIB_PER_REQUEST)


def listener_has_queue(plan: Plan, listener: Listener) -> bool:
    """Whether requests to the listener may wait."""
    if not any(map(has_queue, plan.pools)):
        return False
    pools = {pool.name: pool for pool in plan.pools}
    routes = {rule.route for table in listener.hosts for rule in table.rules}
    return any(queued_pool(pools, plan.route(name)) for name in routes)


def server_directives() -> tuple[Line, ...]:
    """The log phase of a request that held a place calls the next ticket; its access_log writes nothing."""
    return (
        directive("set", _LINE, Literal("", "word")),
        directive("access_log", "/dev/null", "nothing", "if=$queue_call"),
    )


def route_directives(pool: Pool | None) -> tuple[Line, ...]:
    """The parameters of the scripts in a location of the route: zone, size and milliseconds."""
    if pool is None or pool.queue is None:
        return ()
    return (directive("set", _LINE, text(f"{_zone(pool)} {pool.queue.size} {pool.queue.timeout}")),)


class QueueLocations:
    """Builds the locations in which requests wait; collects their maps."""

    def __init__(self, names: Names, *, filters: bool) -> None:
        self.maps: list[Map] = []
        self._filters = filters
        self._names = names
        self._next: dict[tuple[str, int], Atom] = {}

    def add_queue(
        self, start: Location, route: Route, proxy: Proxy, variant: int
    ) -> tuple[Proxy, tuple[Location, ...]]:
        """`proxy` as the first try, and the location for requests that wait for another one."""
        wait_at = named_location(route.name, "queue" if variant == 1 else f"queue:{variant}")
        nominates = (inline("nominates"),) if self._filters else ()
        queue_to = text(wait_at.text, *nominates)  # or its filtered form, see `connection_options.py`
        final = named_location(route.name, "final")
        key = (route.name, variant)
        if key not in self._next:
            name = self._names.variable("queue", route.name)
            entry = Entry(Literal("none", "key"), queue_to)
            source = text(inline("cause"))
            self.maps.append(Map(Atom(route.field), source, reference(name), final, (entry,), volatile=True))
            self._next[key] = reference(name)
        tried = replace(proxy, next_try=self._next[key], request_buffered=True)
        lines = (
            *tried.lines,
            directive("js_access", "queue.wait"),
            directive("error_page", _REJECTED, "=", final),
        )
        waiting = replace(tried, lines=lines, tunnel_to=None, mirrors=())
        return replace(tried, queue_to=queue_to), (
            Location(start.origin, route=start.route, name=wait_at, proxy=waiting, retry=True),
        )
