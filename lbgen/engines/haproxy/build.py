"""Build HAProxy's files: haproxy.cfg, lbgen.lua where there are L7 listeners, maps/*, Lua files with rules."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from jinja2 import FileSystemLoader

from lbgen.engines import text
from lbgen.engines.api import RenderedFile
from lbgen.engines.haproxy.buffers import buffer_bytes, head_kib
from lbgen.engines.haproxy.l4 import DENIED, l4_frontend
from lbgen.engines.haproxy.listeners import frontend
from lbgen.engines.haproxy.maps import Maps
from lbgen.engines.haproxy.quote import QUOTES
from lbgen.engines.haproxy.run import CONFIG
from lbgen.engines.haproxy.statements import statement
from lbgen.engines.haproxy.tls import certificate_list
from lbgen.engines.haproxy.upstream_servers import is_resolved, purge_delay
from lbgen.engines.haproxy.upstreams import Backends
from lbgen.engines.haproxy.view import View
from lbgen.engines.text import Atom, Literal
from lbgen.engines.verbatim import texts
from lbgen.plan.features import Feature
from lbgen.plan.model import Mode, PoolProtocol
from lbgen.plan.pool import KEEPALIVE_IDLE
from lbgen.plan.request import AUTHORITY
from lbgen.resources import folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jinja2 import Environment

    from lbgen.engines.haproxy.view import ActionBackend, Frontend
    from lbgen.plan.model import Plan

_LUA = "lbgen.lua"
_SHARED = "shared.lua"


def render(plan: Plan, version: str) -> tuple[RenderedFile, ...]:
    """All files of `plan`, names relative to the engine's folder."""
    view, files = build_view(plan, version)
    config = RenderedFile(CONFIG, *text.render(_templates(), "haproxy.cfg.j2", view, texts(plan, "haproxy")))
    lua = [_lua(_LUA)] if view.frontends else []
    lua += [_lua(_SHARED)] if view.shares_state else []
    return (config, *lua, *files)


def build_view(plan: Plan, version: str) -> tuple[View, list[RenderedFile]]:
    """What the template prints, and the files beside haproxy.cfg: Lua files with rules, maps, lists of certificates."""
    backends = Backends(frozenset(_keepalive_limited(plan)))
    lua: list[RenderedFile] = []
    maps_files: list[RenderedFile] = []
    frontends: list[Frontend] = []
    l4_frontends = []
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
            lua += rules
        maps_files += maps.rendered()
    pools = backends.pools()
    shares_state = any(route.rate_limit for route in plan.routes) or any(pool.passive for pool in pools)
    has_denied = any(plan.route(rule.route).access for listener in plan.listeners for rule in listener.l4_rules)
    return View(
        name=Atom(plan.name),
        authority=Literal(f"^(?:{AUTHORITY})$"),
        head_kib=head_kib(plan),
        buffer=buffer_bytes(plan),
        answers_closed=version != "2.6",
        limits_concurrency=any(route.concurrency for route in plan.routes),
        limits_bodies=any(route.max_body is not None for route in plan.routes),
        shares_state=shares_state,
        has_one_state=shares_state and version == "2.6",
        lua_files=tuple(Atom(file.name) for file in lua),
        frontends=tuple(frontends),
        l4_frontends=tuple(l4_frontends),
        backends=backends.views(),
        action_backends=tuple(action_backends),
        nameservers=tuple(
            statement("nameserver", f"dns{n}", _with_port(server)) for n, server in enumerate(plan.resolvers, 1)
        ),
        has_resolvers=any(is_resolved(endpoint) for pool in pools for endpoint in pool.endpoints),
        has_grpc=any(pool.protocol is PoolProtocol.GRPC for pool in pools),
        has_times=any(each.has_times for each in frontends),
        has_mirrors=any(each.has_mirrors for each in frontends),
        purge_delay=Atom(purge_delay(KEEPALIVE_IDLE)),
        logs=any(listener.access_log for listener in plan.listeners),
        queues=any(pool.max_per_endpoint for pool in pools),
        has_passing_check=backends.needs_passing_check(),
        denied=Atom(DENIED) if has_denied else None,
        admin_port=plan.admin_port,
    ), [*lua, *maps_files]


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


@cache
def _lua(name: str) -> RenderedFile:
    lua = (folder("templates") / "haproxy" / name).read_text(encoding="utf-8")
    return RenderedFile(name, lua, ("",) * lua.count("\n"))
