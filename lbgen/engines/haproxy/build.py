"""Build HAProxy's files: haproxy.cfg, maps/*, lbgen.lua where a field needs it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache

from jinja2 import Environment, FileSystemLoader

from lbgen.engines import text
from lbgen.engines.api import RenderedFile, version_key
from lbgen.engines.haproxy.basic_auth import user_files
from lbgen.engines.haproxy.connections import purge_delay
from lbgen.engines.haproxy.error_pages import page_files
from lbgen.engines.haproxy.features import FEATURES
from lbgen.engines.haproxy.forward_auth import auth_frontend
from lbgen.engines.haproxy.jwt import key_files
from lbgen.engines.haproxy.l4 import denied_backend, l4_frontend
from lbgen.engines.haproxy.listeners import frontend
from lbgen.engines.haproxy.maps import Maps
from lbgen.engines.haproxy.quote import QUOTES
from lbgen.engines.haproxy.run import CONFIG, config_files
from lbgen.engines.haproxy.statements import Block, section, statement
from lbgen.engines.haproxy.tls import certificate_list, stored_certificates
from lbgen.engines.haproxy.upstreams import Backends
from lbgen.engines.haproxy.view import Frontend, L4Frontend, View
from lbgen.engines.metrics_spec import LOG_FD as METRICS_FD
from lbgen.engines.text import Atom
from lbgen.engines.verbatim import texts
from lbgen.plan.model import Mode, Plan
from lbgen.plan.pool import KEEPALIVE_IDLE
from lbgen.resources import folder
from lbgen.version import VERSION

LUA = "lbgen.lua"
_CALL = re.compile(r"\blua\.([a-z_]+)")


def render(plan: Plan, version: str) -> tuple[RenderedFile, ...]:
    """All files of `plan`, names relative to the engine's folder."""
    view, functions, files = build_view(plan, version)
    config = RenderedFile(CONFIG, *text.render(_templates(), "haproxy.cfg.j2", view, texts(plan, "haproxy")))
    own = [_lua_file(functions)] if functions else []
    return (_without_double_gaps(config), *own, *files, *user_files(plan), *key_files(plan))


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
    has_pages = any(listener.error_pages for listener in plan.listeners)
    backends = Backends(frozenset(_keepalive_limited(plan)), has_pages, version, taken)
    files = page_files(plan)
    frontends: list[Frontend] = []
    l4_frontends: list[L4Frontend] = []
    answers: list[Block] = []
    copies: list[Block] = []
    for listener in plan.listeners:
        maps = Maps(listener.name)
        if (certificates := certificate_list(listener)) is not None:
            files.append(certificates)
        if listener.mode is Mode.L4:
            l4_frontends.append(l4_frontend(listener, plan, backends, maps))
        else:
            one, answering, copying = frontend(listener, plan, backends, maps)
            frontends.append(one)
            answers += answering
            copies += copying
        files += maps.rendered()
    copies += auth_frontend(plan, backends.name)
    l7 = [listener for listener in plan.listeners if listener.mode is Mode.L7]
    settings = [one for each in FEATURES if each.settings for one in each.settings(plan, version)]
    if functions := _called_functions(frontends):
        booleans = [statement("tune.lua.bool-sample-conversion normal")] if recent else []
        settings.append(section("", [*booleans, statement(f"lua-load-per-thread {LUA}")]))
    view = View(
        name=Atom(plan.name),
        version=Atom(VERSION),
        files=Atom(" ".join(config_files(plan))),
        settings=tuple(settings),
        stored=tuple(stored_certificates(plan.listeners)),
        times=backends.usual_times(l7=True),
        l4_times=backends.usual_times(l7=False),
        keeps_ids=any(listener.trusted_proxies for listener in l7),
        passes_nul=version_key(version) < (2, 8),
        loses_interim=version_key(version) < (3, 2),
        own=Atom("lbgen:" if recent else ""),  # newer versions warn of sections that share a name
        sections=tuple(one for each in FEATURES if each.sections for one in each.sections(plan)),
        frontends=tuple(frontends),
        copies=tuple(copies),
        l4_frontends=tuple(l4_frontends),
        denied=denied_backend(plan),
        backends=backends.views(),
        answers=tuple(answers),
        purge_delay=Atom(purge_delay(KEEPALIVE_IDLE)),
        logs_l4=any(listener.logs for listener in plan.listeners if listener.mode is Mode.L4),
        logged=sum(listener.logs for listener in l7),
        prints_log=any(listener.access_log for listener in plan.listeners),
        metrics_fd=METRICS_FD if plan.metrics is not None else None,
        admin_port=plan.admin_port,
    )
    return view, functions, files


def _keepalive_limited(plan: Plan) -> Iterator[str]:
    """Pools whose topology limits idle connections."""
    fields = [use.field for use in plan.uses_of("pool.connections.keepalive") if not use.default]
    return (pool.name for pool in plan.pools if any(field.startswith(f"{pool.field}.") for field in fields))


def _called_functions(frontends: Iterable[Frontend]) -> tuple[str, ...]:
    """The functions that frontends call, each in a file of its name."""
    found: set[str] = set()
    for each in frontends:
        sections = (each.guards, each.routing, each.admission, each.edits)
        for one in (*each.filters, *each.paths.statements, *(one for part in sections for one in part.statements)):
            found.update(_CALL.findall(" ".join(one.texts())))
    return tuple(sorted(found))


def _lua_file(functions: tuple[str, ...]) -> RenderedFile:
    """lbgen.lua with these functions."""
    folder_of_all = folder("templates") / "haproxy" / "lua"
    texts = [(folder_of_all / f"{name}.lua").read_text(encoding="utf-8") for name in functions]
    text = "\n".join(["-- What statements of haproxy.cfg cannot express.\n", *texts])
    return RenderedFile(LUA, text, ("",) * text.count("\n"))


@cache
def _templates() -> Environment:
    return text.environment(FileSystemLoader(folder("templates") / "haproxy"), QUOTES)
