"""Traefik's static configuration: entry points, the plugin, and the folder of dynamic files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.document import Commented, Tagged, comment_on
from lbgen.engines.traefik import names
from lbgen.engines.traefik.timeouts import FOREVER, duration
from lbgen.plan.model import Forward, Mode, Protocol

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.plan.model import Listener, Plan

# Defaults of 3.7 but not of every 3.x.
_ENCODED = ("Slash", "BackSlash", "NullCharacter", "Semicolon", "Percent", "QuestionMark", "Hash")
_NOTES = {
    "proxyProtocol": "From every peer: the plugin closes connections without such a header.",
    "forwardedHeaders": "All pass here: the plugin drops those that do not come from a trusted proxy.",
    "http": "The plugin gets paths and header names as they were sent; it refuses or drops what is not accepted.",
    "transport": "Limits heads and kept connections: the plugin limits bodies, and writeTimeout would cut long ones.",
}
"""By field of the first entry point with it."""


def build_static(plan: Plan, version: str) -> dict[str, Data]:
    """The static configuration as data."""
    data: dict[str, Data] = {
        "global": {"checkNewVersion": False, "sendAnonymousUsage": False},
        "log": {"level": "ERROR"},
    }
    notes = dict(_NOTES)
    points: dict[str, Data] = {}
    for listener in plan.listeners:
        point = _entry_point(plan, listener, version)
        points[names.entry_point(listener)] = Tagged(listener.field, comment_on(point, notes))
        notes = {key: note for key, note in notes.items() if key not in point}
    if plan.admin_port is not None:
        data["api"] = {"dashboard": False}
        points[names.ADMIN] = {"address": f"127.0.0.1:{plan.admin_port}"}
    data["entryPoints"] = Commented(
        "The listeners. Each router names one, or a router of one as its parent.", points, apart=True
    )
    if any(listener.mode is Mode.L7 for listener in plan.listeners):
        plugin: Data = {
            "abortOnPluginFailure": True,
            "localPlugins": {names.PLUGIN: {"moduleName": names.MODULE}},
        }
        data["experimental"] = Commented("Without the plugin, requests must not be served.", plugin, apart=True)
    providers: Data = {"providersThrottleDuration": "0s", "file": {"directory": "dynamic", "watch": True}}
    data["providers"] = Commented(
        "Each change takes effect at once; by default Traefik takes one in two seconds.", providers, apart=True
    )
    return data


def _entry_point(plan: Plan, listener: Listener, version: str) -> Tagged:
    address = f"[{listener.address}]" if ":" in listener.address else listener.address
    data: dict[str, Data] = {"address": f"{address}:{listener.port}", "asDefault": False}
    if listener.protocol is Protocol.UDP:
        data["address"] = f"{address}:{listener.port}/udp"
        data["udp"] = {"timeout": _idle_timeout(plan, listener)}
        return Tagged(listener.field, data)
    if listener.proxy_protocol:
        data["proxyProtocol"] = {"insecure": True}
    if listener.mode is Mode.L7:
        data["forwardedHeaders"] = {"insecure": True}
        data["http"] = {
            "sanitizePath": False,
            **({"aliasHeadersStrategy": "keep"} if names.has_alias_headers(version) else {}),
            "encodedCharacters": {f"allowEncoded{name}": True for name in _ENCODED},
        }
        times = listener.timeouts
        data["transport"] = {
            "respondingTimeouts": {
                "readTimeout": duration(times.header),  # for a TLS handshake too
                "writeTimeout": "0s",
                "idleTimeout": duration(times.keepalive),
            },
            "lifeCycle": {"graceTimeOut": "10s"},
        }
    return Tagged(listener.field, data)


def _idle_timeout(plan: Plan, listener: Listener) -> str:
    """The idle timeout of a client of a UDP listener."""
    actions = [plan.route(rule.route).action for rule in listener.l4_rules]
    times = [action.timeouts.idle for action in actions if isinstance(action, Forward)]
    return duration(times[0]) if times and times[0] else FOREVER
