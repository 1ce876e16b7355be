"""One rule and its route -> one Envoy route: what it matches, where it leads, which headers change."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, assert_never

from lbgen.engines.document import Tagged
from lbgen.engines.envoy.clusters import cluster_name, duration
from lbgen.engines.envoy.edits import CONTENT_TYPE, request_edits, response_edits
from lbgen.engines.envoy.values import cookie_value, header_value, path_literal, path_match, query_value, regex
from lbgen.plan.model import Balance, Forward, HeaderEdits, PathKind, Redirect, Respond

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lbgen.engines.document import Data
    from lbgen.engines.envoy.clusters import Clusters
    from lbgen.plan.model import HostPattern, Listener, Match, PathMatch, Rewrite, Route, Rule

REDIRECT_HOST = "redirect-host"  # the Lua filter that makes a request's host fit for a redirect
_SWITCHED_ON: dict[str, Data] = {
    "@type": "type.googleapis.com/envoy.config.route.v3.FilterConfig",
    "config": {},
}
_DEFAULT_PORTS = {"http": 80, "https": 443}
_REDIRECT_CODES = {
    301: "MOVED_PERMANENTLY",
    302: "FOUND",
    303: "SEE_OTHER",
    307: "TEMPORARY_REDIRECT",
    308: "PERMANENT_REDIRECT",
}


def build_route(rule: Rule, route: Route, listener: Listener, clusters: Clusters) -> Tagged:
    """The Envoy route of `rule`."""
    found: dict[str, Data] = {"match": build_match(rule.match)}
    match route.action:
        case Forward():
            found |= _forward(route.action, rule, route, clusters)
            found |= response_edits(route.response_headers)
        case Redirect():
            found["redirect"] = _redirect(route.action, rule, listener)
            found |= response_edits(route.response_headers)
            if needs_request_host(rule, route):
                found["typed_per_filter_config"] = {REDIRECT_HOST: _SWITCHED_ON, **_filters(found)}
        case Respond():
            found["direct_response"] = _respond(route.action)
            # Envoy would add a Location of its own.
            status = route.action.status
            removed = ("location",) if status == HTTPStatus.CREATED or 300 <= status < 400 else ()
            own = HeaderEdits(set=route.action.headers, remove=removed)
            found |= response_edits(own, route.response_headers)
        case _:
            assert_never(route.action)
    return Tagged(rule.field, found)


def _filters(route: Mapping[str, Data]) -> Mapping[str, Data]:
    own = route.get("typed_per_filter_config", {})
    return own if isinstance(own, dict) else {}


def build_match(match: Match) -> dict[str, Data]:
    """A RouteMatch for all of `match`."""
    found: dict[str, Data] = path_match(match.path)
    headers: list[Data] = []
    if len(match.methods) == 1:
        headers.append({"name": ":method", "string_match": {"exact": match.methods[0]}})
    elif match.methods:
        headers.append({"name": ":method", "string_match": regex("|".join(match.methods))})
    headers += [{"name": h.name, "string_match": header_value(h.value)} for h in match.headers]
    if headers:
        found["headers"] = headers
    if match.query:
        found["query_parameters"] = [{"name": q.name, "string_match": query_value(q.value)} for q in match.query]
    if match.cookies:
        found["cookies"] = [{"name": c.name, "string_match": cookie_value(c.value)} for c in match.cookies]
    return found


def _forward(forward: Forward, rule: Rule, route: Route, clusters: Clusters) -> dict[str, Data]:
    connect = forward.timeouts.connect
    targets = [target for target in forward.targets if target.weight]
    action: dict[str, Data] = {}
    edits: dict[str, Data] = {}
    if len(targets) == 1:
        action["cluster"] = cluster_name(targets[0].pool, connect, clusters)
        edits = request_edits(route.request_headers, targets[0].request_headers)
    else:
        action["weighted_clusters"] = {
            "clusters": [
                Tagged(
                    target.field,
                    {
                        "name": cluster_name(target.pool, connect, clusters),
                        "weight": target.weight,
                        **request_edits(route.request_headers, target.request_headers),
                    },
                )
                for target in targets
            ]
        }
    # The route's own timeout would run to the end of the body; that of a try ends with the response head.
    action["timeout"] = "0s"
    action["idle_timeout"] = duration(forward.timeouts.idle)
    if forward.timeouts.response:
        action["retry_policy"] = {"num_retries": 0, "per_try_timeout": duration(forward.timeouts.response)}
    if any(clusters.pools[target.pool].balance is Balance.SOURCE_HASH for target in targets):
        action["hash_policy"] = [{"connection_properties": {"source_ip": True}}]
    if forward.rewrite is not None:
        action |= _rewrite(forward.rewrite, rule.match.path)
    return {"route": action, **edits}


def _rewrite(rewrite: Rewrite, path: PathMatch) -> dict[str, Data]:
    found: dict[str, Data] = {}
    if rewrite.path is not None:
        found["regex_rewrite"] = _replace_all(rewrite.path)
    elif rewrite.prefix is not None:
        found["regex_rewrite"] = replace_prefix(path, rewrite.prefix)
    if rewrite.host is not None:
        found["host_rewrite_literal"] = rewrite.host
    return found


def replace_prefix(path: PathMatch, prefix: str) -> dict[str, Data]:
    """A RegexMatchAndSubstitute with `prefix` in the place of the matched path; the result is never `//` or empty."""
    new = prefix.rstrip("/")
    if path.kind is not PathKind.PREFIX:
        return _replace_all(new or "/")
    old = path_literal(path.value.rstrip("/"))
    if new:
        # Below `/` the tail is the whole path.
        return _substitute(f"^{old}(/.*)?$", _replacement(new) + r"\1")
    return _substitute(f"^{old}/?(.*)$", r"/\1")


def _replace_all(path: str) -> dict[str, Data]:
    return _substitute("^.*$", _replacement(path))


def _substitute(pattern: str, replacement: str) -> dict[str, Data]:
    return {"pattern": {"regex": pattern}, "substitution": replacement}


def _replacement(text_: str) -> str:
    return text_.replace("\\", "\\\\")


def _redirect(redirect: Redirect, rule: Rule, listener: Listener) -> dict[str, Data]:
    scheme = redirect.scheme or "http"
    port = redirect.port or (_DEFAULT_PORTS[scheme] if redirect.scheme else listener.port)
    action: dict[str, Data] = {"scheme_redirect": scheme, "response_code": _REDIRECT_CODES[redirect.status]}
    host = redirect.host or _only_host(rule.host)
    if host is not None:
        action["host_redirect"] = host
    if port != _DEFAULT_PORTS[scheme]:
        action["port_redirect"] = port
    if redirect.path is not None:
        action["path_redirect"] = redirect.path
    elif redirect.prefix is not None:
        action["regex_rewrite"] = replace_prefix(rule.match.path, redirect.prefix)
    return action


def needs_request_host(rule: Rule, route: Route) -> bool:
    """Whether the rule redirects to a host that only the request can tell."""
    return isinstance(route.action, Redirect) and route.action.host is None and _only_host(rule.host) is None


def _only_host(host: HostPattern | None) -> str | None:
    return host.name if host is not None and not host.wildcard else None


def _respond(respond: Respond) -> dict[str, Data]:
    action: dict[str, Data] = {"status": respond.status}
    if respond.body:
        action["body"] = {"inline_string": respond.body}
    return action


def edits_content_type(route: Route) -> bool:
    """Whether the route says what Content-Type an answer has."""
    own = route.action.headers if isinstance(route.action, Respond) else ()
    edits = route.response_headers
    return CONTENT_TYPE in {*edits.remove, *(name for name, _ in (*own, *edits.set, *edits.add))}
