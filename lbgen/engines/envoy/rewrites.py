"""Rewrites and redirects: the fields of a route action that change path, host, scheme or port."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING

from lbgen.engines.envoy.matching import escape_path
from lbgen.engines.envoy.mutations import SET, header_option
from lbgen.engines.envoy.values import format_value
from lbgen.engines.envoy.view import Contributor, HttpRoute
from lbgen.plan.forwarding import redirect_value
from lbgen.plan.model import HostPattern, Listener, Redirect, Rule
from lbgen.plan.path_conditions import ExactPath, Path, PrefixPath

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_ROOT = r"/\1"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_REDIRECT_CODES = {
    302: "FOUND",
    303: "SEE_OTHER",
    307: "TEMPORARY_REDIRECT",
    308: "PERMANENT_REDIRECT",
}


def _rewrite(at: HttpRoute) -> dict[str, Data]:
    rewrite = None if at.forward is None else at.forward.rewrite
    if rewrite is None:
        return {}
    found: dict[str, Data] = {}
    if rewrite.path is not None:
        found["regex_rewrite"] = _replace_all(rewrite.path)
    elif rewrite.prefix is not None:
        found |= replace_prefix(at.rule.match.path, rewrite.prefix)
    if rewrite.host is not None:
        found["host_rewrite_literal"] = rewrite.host
    return {"route": found}


def _redirect(at: HttpRoute) -> dict[str, Data]:
    action = at.route.action
    if not isinstance(action, Redirect):
        return {}
    if (address := redirect_value(action, at.route.name, at.on.listener)) is None:
        return {"redirect": _build_redirect(action, at.rule, at.on.listener)}
    location = header_option("location", format_value(at, address, response=True), SET)
    return {"direct_response": {"status": action.status}, "response_headers_to_add": [location]}


def replace_prefix(path: Path, prefix: str) -> dict[str, Data]:
    """The field that replaces the matched path by `prefix`; the result is never `//` or empty."""
    new = prefix.rstrip("/")
    if path.covers_all:
        return {"prefix_rewrite": f"{new}/"}
    if "%" in path.value or not path.is_text:  # Envoy matches a regex, which leaves no prefix
        return {"regex_rewrite": _replace_by_regex(path, new)}
    if isinstance(path, ExactPath):
        return {"prefix_rewrite": new or "/"}
    return {"prefix_rewrite": new} if new else {"regex_rewrite": _replace_by_regex(path, new)}


def _replace_by_regex(path: Path, new: str) -> dict[str, Data]:
    if not isinstance(path, PrefixPath):
        return _replace_all(new or "/")
    old = escape_path(path.value.rstrip("/"))
    if new:
        return _substitute(f"^{old}(/.*)?$", _replacement(new) + r"\1")
    return _substitute(f"^{old}/?(.*)$", _ROOT)


def cuts_prefix(action: Mapping[str, Data]) -> bool:
    """Whether a route action or redirect replaces a prefix by the root."""
    rewrite = action.get("regex_rewrite")
    return isinstance(rewrite, dict) and rewrite["substitution"] == _ROOT


def _build_redirect(redirect: Redirect, rule: Rule, listener: Listener) -> dict[str, Data]:
    """A RedirectAction; the port is written unless it is the scheme's default."""
    scheme = redirect.scheme or listener.scheme
    port = redirect.port or (_DEFAULT_PORTS[scheme] if redirect.scheme else listener.client_port)
    action: dict[str, Data] = {"scheme_redirect": scheme}
    if redirect.status != HTTPStatus.MOVED_PERMANENTLY:  # the default
        action["response_code"] = _REDIRECT_CODES[redirect.status]
    host = str(redirect.host or "") or _exact_host(rule.host)
    if host is not None:
        action["host_redirect"] = str(host)
    shown = host is None and listener.client_port != _DEFAULT_PORTS[listener.scheme]  # in the request's Host
    if port != _DEFAULT_PORTS[scheme] or shown:
        action["port_redirect"] = port
    if redirect.path is not None:
        action["path_redirect"] = str(redirect.path)
    elif redirect.prefix is not None:
        action |= replace_prefix(rule.match.path, redirect.prefix)
    return action


def _replace_all(path: str) -> dict[str, Data]:
    return _substitute("^.*$", _replacement(path))


def _substitute(pattern: str, replacement: str) -> dict[str, Data]:
    return {"pattern": {"regex": pattern}, "substitution": replacement}


def _replacement(text: str) -> str:
    return text.replace("\\", "\\\\")


def _exact_host(host: HostPattern | None) -> str | None:
    return host.name if host is not None and not host.wildcard else None


REWRITES = Contributor(route=_rewrite)
REDIRECTS = Contributor(route=_redirect)
