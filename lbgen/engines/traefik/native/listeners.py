"""L7 and L4 listeners as Traefik's entry points."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.document import Commented, Tagged
from lbgen.engines.traefik import names
from lbgen.engines.traefik.matching import looks_at_proxies
from lbgen.engines.traefik.timeouts import FOREVER, duration
from lbgen.plan.model import Forward, Mode, Protocol

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Listener, Plan

# Traefik's names of the escapes that it can refuse; the defaults are not those of every 3.x.
_ENCODED = ("Slash", "BackSlash", "NullCharacter", "Semicolon", "Percent", "QuestionMark", "Hash")
_HARMLESS = ("Semicolon", "Percent", "QuestionMark", "Hash")


def build_entry_points(plan: Plan, version: str) -> dict[str, Data]:
    """The entry points by name."""
    default = have_same_routers(plan)
    return {names.entry_point(each): _entry_point(plan, each, version, default=default) for each in plan.listeners}


def have_same_routers(plan: Plan) -> bool:
    """Whether every router is for all L7 listeners, which need not be named in it then."""
    level7 = [listener for listener in plan.listeners if listener.mode is Mode.L7]
    return len({(each.hosts, each.access, each.tls, find_believed(each)) for each in level7}) == 1


def find_believed(listener: Listener) -> tuple[str, ...]:
    """The trusted proxies where a rule is about what they say."""
    rules = (rule for table in listener.hosts for rule in table.rules)
    return listener.trusted_proxies if any(looks_at_proxies(rule) for rule in rules) else ()


def _entry_point(plan: Plan, listener: Listener, version: str, *, default: bool) -> Tagged:
    address = f"[{listener.address}]" if ":" in listener.address else listener.address
    data: dict[str, Data] = {"address": f"{address}:{listener.port}"}
    if listener.protocol is Protocol.UDP:
        data["address"] = f"{address}:{listener.port}/udp"
        data["udp"] = {"timeout": _idle_timeout(plan, listener)}
        return Tagged(listener.field, data)
    if listener.proxy_protocol:
        comment = "From every peer; connections without the header are served too."
        data["proxyProtocol"] = Commented(comment, {"insecure": True})
    if listener.mode is Mode.L7:
        if default:
            data["asDefault"] = True
        if listener.trusted_proxies:
            data["forwardedHeaders"] = {"trustedIPs": list(listener.trusted_proxies)}
        data["http"] = _http(listener, version)
        times = listener.timeouts
        # The head and the body of a request together.
        read = max(times.header, times.body) if times.header and times.body else 0
        data["transport"] = {
            "respondingTimeouts": {"readTimeout": duration(read), "idleTimeout": duration(times.keepalive)}
        }
    return Tagged(listener.field, data)


def _http(listener: Listener, version: str) -> dict[str, Data]:
    # What an endpoint could read as another path than the rules saw: the first is resolved, the others get 400.
    refused = {f"allowEncoded{name}": name in _HARMLESS for name in _ENCODED}
    comment = "Rules and endpoints see one path: dot segments are resolved, escapes that could form some are refused."
    data: dict[str, Data] = {"sanitizePath": Commented(comment, True), "encodedCharacters": refused}
    if not listener.underscores and names.has_alias_headers(version):
        # Fields that an endpoint could take for another, such as X_Real_IP or X.Real.IP, are dropped.
        data["aliasHeadersStrategy"] = "delete"
    if listener.limits.headers is not None:
        data["maxHeaderBytes"] = listener.limits.headers
    return data


def _idle_timeout(plan: Plan, listener: Listener) -> str:
    """The idle timeout of a client of a UDP listener."""
    actions = [plan.route(rule.route).action for rule in listener.l4_rules]
    times = [action.timeouts.idle for action in actions if isinstance(action, Forward)]
    return duration(times[0]) if times and times[0] else FOREVER
