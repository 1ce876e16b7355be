"""X-Forwarded-* and X-Real-Ip: whose are believed, and what takes them away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lbgen.engines.api import Objection, habit
from lbgen.engines.traefik.view import Contributor, find_routes, http_listeners
from lbgen.plan.model import Forward, Listener, Plan

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_ADDED = ("X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Server", "X-Real-Ip")
_THOUGH_OFF = habit(
    "X-Forwarded-Proto, -Host and -Port are added where trusted proxies send none, though forwarded_headers is off",
    {"listener.trusted_proxies.everywhere": tuple(f"header x-forwarded-{name}" for name in ("host", "port", "proto"))},
)
_REAL_IP = habit("X-Real-Ip is added though real_ip is off", {"route.forward.everywhere": "header x-real-ip"})
_APPENDED = habit(
    "X-Forwarded-For is added though forwarded_headers is off, as Traefik can leave it from 3.7 on",
    {"forwarded_headers.everywhere": "header x-forwarded-for"},
)


def _entry_point(listener: Listener, version: str) -> dict[str, Data]:
    forwarded: dict[str, Data] = {}
    if listener.trusted_proxies:
        forwarded["trustedIPs"] = list(listener.trusted_proxies)
    if not listener.forwarded_headers and version != "3.6":
        forwarded["notAppendXForwardedFor"] = True
    return {"forwardedHeaders": forwarded} if forwarded else {}


def build_bare(listener: Listener) -> dict[str, Data]:
    """The middleware that takes away what Traefik adds to requests, for a listener that adds nothing; empty for none.
    With trusted proxies it would take away what those said too."""
    if listener.forwarded_headers or listener.trusted_proxies:
        return {}
    removed = (*_ADDED, *(() if listener.request_id else ("X-Request-Id",)))
    if listener.real_ip:
        removed = tuple(name for name in removed if name != "X-Real-Ip")
    return {"headers": {"customRequestHeaders": dict.fromkeys(removed, "")}}


def name_bare(listener: Listener) -> str:
    """The name of that middleware."""
    return "bare-but-id" if listener.request_id else "bare"


def _objections(plan: Plan, version: str) -> Iterator[Objection]:
    listeners = http_listeners(plan)
    bare = [x for x in listeners if not x.real_ip and any(isinstance(r.action, Forward) for r in find_routes(plan, x))]
    yield from (Objection(_REAL_IP, each.field, "route.forward") for each in bare[:1])
    for listener in listeners:
        if version == "3.6" and not listener.forwarded_headers:
            yield Objection(_APPENDED, f"{listener.field}.forwarded_headers", "forwarded_headers")
        if listener.trusted_proxies and not listener.forwarded_headers:
            yield Objection(_THOUGH_OFF, f"{listener.field}.trusted_proxies", "listener.trusted_proxies")


FORWARDED_HEADERS = Contributor(entry_point=_entry_point, objections=_objections)
