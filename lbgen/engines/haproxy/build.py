"""Build HAProxy's files: haproxy.cfg, lbgen.lua where there are L7 listeners, maps/*, Lua files with rules."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from jinja2 import FileSystemLoader

from lbgen.engines import text
from lbgen.engines.api import RenderedFile, version_key
from lbgen.engines.haproxy import lua
from lbgen.engines.haproxy.buffers import DEFAULT, added_kib, buffer_bytes, head_kib
from lbgen.engines.haproxy.l4 import DENIED, join_backends, l4_frontend
from lbgen.engines.haproxy.listeners import frontend
from lbgen.engines.haproxy.maps import Maps
from lbgen.engines.haproxy.matching import ROUTE, ROUTING
from lbgen.engines.haproxy.quote import QUOTES
from lbgen.engines.haproxy.run import CONFIG
from lbgen.engines.haproxy.statements import statement
from lbgen.engines.haproxy.tls import certificate_list, certificates_apart
from lbgen.engines.haproxy.upstream_servers import is_resolved, purge_delay
from lbgen.engines.haproxy.upstreams import Backends
from lbgen.engines.haproxy.view import View
from lbgen.engines.metrics_spec import LOG_FD as METRICS_FD
from lbgen.engines.text import Atom, Literal
from lbgen.engines.verbatim import texts
from lbgen.plan.features import Feature
from lbgen.plan.model import Mode, PoolProtocol
from lbgen.plan.pool import KEEPALIVE_IDLE
from lbgen.plan.request import AUTHORITY
from lbgen.resources import folder
from lbgen.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jinja2 import Environment

    from lbgen.engines.haproxy.view import ActionBackend, Frontend, L4Frontend
    from lbgen.plan.model import Plan


def render(plan: Plan, version: str) -> tuple[RenderedFile, ...]:
    """All files of `plan`, names relative to the engine's folder."""
    view, files = build_view(plan, version)
    config = RenderedFile(CONFIG, *text.render(_templates(), "haproxy.cfg.j2", view, texts(plan, "haproxy")))
    functions = lua.own_functions(config.text)
    own = [lua.own_file(functions)] if functions else []
    shared = [lua.shared_file()] if view.shares_state else []
    unused = [] if functions else [f" {lua.OWN}"]
    if config.text.count(ROUTE) == 1 and "cors" not in functions:
        unused.append(f"set-var({ROUTE}) ")
    return (_tidied(config, unused), *own, *shared, *files)


def _tidied(config: RenderedFile, unused: list[str]) -> RenderedFile:
    """The configuration without the lines that hold any of `unused`, without a section that becomes empty by that, and
    without repeated empty lines."""
    lines: list[tuple[str, str]] = []
    for line, origin in zip(config.text.splitlines(), config.origins, strict=True):
        if any(part in line for part in unused):
            continue
        if lines and lines[-1][0].startswith(f"    # {ROUTING}") and (not line or line.startswith("    #")):
            lines.pop()
        if line or origin or (lines and lines[-1][0]):  # empty lines of a user stay
            lines.append((line, origin))
    return RenderedFile(config.name, "".join(f"{line}\n" for line, _ in lines), tuple(origin for _, origin in lines))


def build_view(plan: Plan, version: str) -> tuple[View, list[RenderedFile]]:
    """What the template prints, and the files beside haproxy.cfg: Lua files with rules, maps, lists of certificates."""
    recent = version_key(version) >= (3, 1)
    taken = frozenset(listener.name for listener in plan.listeners) if recent else frozenset[str]()
    backends = Backends(frozenset(_keepalive_limited(plan)), version, taken)
    lua_files: list[RenderedFile] = []
    maps_files: list[RenderedFile] = []
    frontends: list[Frontend] = []
    l4_frontends: list[L4Frontend] = []
    action_backends: list[ActionBackend] = []
    for listener in plan.listeners:
        maps = Maps(listener.name)
        if (certificates := certificate_list(listener)) is not None:
            maps_files.append(certificates)
        if listener.mode is Mode.L4:
            l4_frontends.append(l4_frontend(listener, plan, backends, maps))
        else:
            one, actions, rules = frontend(listener, plan, backends, maps)
            frontends.append(one)
            action_backends += actions
            lua_files += rules
        maps_files += maps.rendered()
    pools = backends.pools()
    views = backends.views()
    if plan.metrics is None:  # which count by listener and pool
        l4_frontends = list(join_backends(l4_frontends, views))
    joined = {each.backend.name.text for each in l4_frontends if each.backend is not None}
    judges = any(pool.passive for pool in pools)
    limits_bodies = any(route.max_body is not None for route in plan.routes)
    l7 = [listener for listener in plan.listeners if listener.mode is Mode.L7]
    shares_state = any(route.rate_limit for route in plan.routes) or any(pool.passive for pool in pools)
    answers = any(listener.guarantees.answers for listener in l7)
    has_filters = any(x.measures_bodies or x.has_times or x.has_mirrors or x.compresses for x in frontends)
    has_denied = any(plan.route(rule.route).access for listener in plan.listeners for rule in listener.l4_rules)
    return View(
        name=Atom(plan.name),
        version=Atom(VERSION),
        authority=Literal(f"^(?!{AUTHORITY}$)"),
        head_kib=head_kib(plan),
        buffer=0 if (size := buffer_bytes(plan)) == DEFAULT else size,
        added=added_kib(plan) * 1024,
        answers=answers,
        answers_closed=answers and not has_filters and {each.answers_closed for each in views if each.l7} == {True},
        statuses=answers or judges or limits_bodies or any(each.has_times for each in frontends),
        times=backends.usual_times(l7=True),
        l4_times=backends.usual_times(l7=False),
        keeps_ids=any(listener.trusted_proxies for listener in l7),
        limits_concurrency=any(route.concurrency for route in plan.routes),
        limits_bodies=limits_bodies,
        shares_state=shares_state,
        has_one_state=shares_state and version == "2.6",
        recent=recent,
        own=Atom("lbgen:" if recent else ""),  # newer versions warn of sections that share a name
        lua_files=tuple(Atom(file.name) for file in lua_files),
        frontends=tuple(frontends),
        l4_frontends=tuple(l4_frontends),
        backends=tuple(each for each in views if each.name.text not in joined),
        action_backends=tuple(action_backends),
        stored=tuple(
            statement("load crt", Literal(each.cert.path), "key", Literal(each.key.path), origin=each.field)
            for each in certificates_apart(plan.listeners)
        ),
        nameservers=tuple(
            statement("nameserver", f"dns{n}", _with_port(server)) for n, server in enumerate(plan.resolvers, 1)
        ),
        has_resolvers=any(is_resolved(endpoint) for pool in pools for endpoint in pool.endpoints),
        has_grpc=any(pool.protocol is PoolProtocol.GRPC for pool in pools),
        has_times=any(each.has_times for each in frontends),
        has_mirrors=any(each.has_mirrors for each in frontends),
        has_filters=has_filters,
        purge_delay=Atom(purge_delay(KEEPALIVE_IDLE)),
        logs=any(listener.logs for listener in l7),
        logged=sum(listener.logs for listener in l7),
        prints_log=any(listener.access_log for listener in plan.listeners),
        metrics_fd=METRICS_FD if plan.metrics is not None else None,
        judges=judges,
        queues=any(pool.max_per_endpoint for pool in pools),
        has_passing_check=backends.needs_passing_check(),
        denied=Atom(DENIED) if has_denied else None,
        admin_port=plan.admin_port,
    ), [*lua_files, *maps_files]


def _keepalive_limited(plan: Plan) -> Iterator[str]:
    """Pools whose topology limits idle connections."""
    fields = [use.field for use in plan.uses if use.feature is Feature.KEEPALIVE and not use.default]
    return (pool.name for pool in plan.pools if any(field.startswith(f"{pool.field}.") for field in fields))


def _with_port(server: str) -> str:
    """A DNS server as `address:port`."""
    if server.count(":") > 1 and not server.startswith("["):
        return f"[{server}]:53"
    return server if ":" in server.rpartition("]")[2] else f"{server}:53"


@cache
def _templates() -> Environment:
    return text.environment(FileSystemLoader(folder("templates") / "haproxy"), QUOTES)
