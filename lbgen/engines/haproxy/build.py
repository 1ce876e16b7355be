"""Build HAProxy's files: haproxy.cfg, maps/*, lbgen.lua where a field needs it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from jinja2 import FileSystemLoader

from lbgen.engines import text
from lbgen.engines.api import RenderedFile, version_key
from lbgen.engines.haproxy import lua
from lbgen.engines.haproxy.buffers import DEFAULT, added_kib, buffer_bytes, head_kib
from lbgen.engines.haproxy.l4 import DENIED, l4_frontend
from lbgen.engines.haproxy.listeners import frontend
from lbgen.engines.haproxy.maps import Maps
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
from lbgen.plan.model import Mode
from lbgen.plan.pool import KEEPALIVE_IDLE
from lbgen.resources import folder
from lbgen.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jinja2 import Environment

    from lbgen.engines.haproxy.view import ActionBackend, Frontend, L4Frontend, Mirror
    from lbgen.plan.model import Plan


def render(plan: Plan, version: str) -> tuple[RenderedFile, ...]:
    """All files of `plan`, names relative to the engine's folder."""
    view, functions, files = build_view(plan, version)
    config = RenderedFile(CONFIG, *text.render(_templates(), "haproxy.cfg.j2", view, texts(plan, "haproxy")))
    own = [lua.own_file(functions)] if functions else []
    return (_without_double_gaps(config), *own, *files)


def _without_double_gaps(config: RenderedFile) -> RenderedFile:
    """The configuration without repeated empty lines, but for those of a user."""
    lines: list[tuple[str, str]] = []
    for line, origin in zip(config.text.removesuffix("\n").split("\n"), config.origins, strict=True):
        if line or origin or (lines and lines[-1][0]):
            lines.append((line, origin))
    return RenderedFile(config.name, "".join(f"{line}\n" for line, _ in lines), tuple(origin for _, origin in lines))


def build_view(plan: Plan, version: str) -> tuple[View, tuple[str, ...], list[RenderedFile]]:
    """What the template prints, the functions of lbgen.lua, and the files beside it: maps, lists of certificates."""
    recent = version_key(version) >= (3, 1)
    taken = frozenset(listener.name for listener in plan.listeners) if recent else frozenset[str]()
    backends = Backends(frozenset(_keepalive_limited(plan)), version, taken)
    files: list[RenderedFile] = []
    frontends: list[Frontend] = []
    l4_frontends: list[L4Frontend] = []
    action_backends: list[ActionBackend] = []
    mirrors: list[Mirror] = []
    for listener in plan.listeners:
        maps = Maps(listener.name)
        if (certificates := certificate_list(listener)) is not None:
            files.append(certificates)
        if listener.mode is Mode.L4:
            l4_frontends.append(l4_frontend(listener, plan, backends, maps))
        else:
            one, actions, copies = frontend(listener, plan, backends, maps)
            frontends.append(one)
            action_backends += actions
            mirrors += copies
        files += maps.rendered()
    pools = backends.pools()
    l7 = [listener for listener in plan.listeners if listener.mode is Mode.L7]
    has_denied = any(plan.route(rule.route).access for listener in plan.listeners for rule in listener.l4_rules)
    functions = lua.called_functions(frontends)
    view = View(
        name=Atom(plan.name),
        version=Atom(VERSION),
        head_kib=head_kib(plan),
        buffer=0 if (size := buffer_bytes(plan)) == DEFAULT else size,
        added=added_kib(plan) * 1024,
        times=backends.usual_times(l7=True),
        l4_times=backends.usual_times(l7=False),
        keeps_ids=any(listener.trusted_proxies for listener in l7),
        limits_rates=any(route.rate_limit for route in plan.routes),
        limits_concurrency=any(route.concurrency for route in plan.routes),
        has_lua=bool(functions),
        recent=recent,
        has_http2=any(listener.http2 for listener in plan.listeners),
        has_passive=any(pool.passive for pool in pools),
        passes_nul=version_key(version) < (2, 8),
        loses_interim=version_key(version) < (3, 2),
        own=Atom("lbgen:" if recent else ""),  # newer versions warn of sections that share a name
        frontends=tuple(frontends),
        l4_frontends=tuple(l4_frontends),
        backends=backends.views(),
        action_backends=tuple(action_backends),
        mirrors=tuple(mirrors),
        stored=tuple(
            statement("load crt", Literal(each.cert.path), "key", Literal(each.key.path), origin=each.field)
            for each in certificates_apart(plan.listeners)
        ),
        nameservers=tuple(
            statement("nameserver", f"dns{n}", _with_port(server)) for n, server in enumerate(plan.resolvers, 1)
        ),
        has_resolvers=any(is_resolved(endpoint) for pool in pools for endpoint in pool.endpoints),
        purge_delay=Atom(purge_delay(KEEPALIVE_IDLE)),
        logs=any(listener.logs for listener in l7),
        logs_l4=any(listener.logs for listener in plan.listeners if listener.mode is Mode.L4),
        logged=sum(listener.logs for listener in l7),
        prints_log=any(listener.access_log for listener in plan.listeners),
        metrics_fd=METRICS_FD if plan.metrics is not None else None,
        denied=Atom(DENIED) if has_denied else None,
        admin_port=plan.admin_port,
    )
    return view, functions, files


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
