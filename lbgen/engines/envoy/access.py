"""Access lists: RBAC filters, of a listener for every request, of a route off until it enables them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.predicates import cidrs, has_mapped_addresses
from lbgen.engines.envoy.protobuf import extension, typed
from lbgen.engines.envoy.view import Contributor, HttpListener, HttpRoute
from lbgen.plan.policy import Access

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_RBAC = "filters.http.rbac.v3.RBAC"
_FILTER = "access"
_DENIED = "denied"


def _of_listener(on: HttpListener) -> dict[str, Data]:
    listener = on.listener
    if listener.access is None:
        return {}
    rules = _rules(listener.access, mapped=has_mapped_addresses(listener))
    return {"http_filters": [extension("listener-access", _RBAC, rules)]}


def _of_routes(on: HttpListener) -> dict[str, Data]:
    listed = any(route.access is not None for route in on.routes)
    return {"http_filters": [extension(_FILTER, _RBAC, disabled=True)]} if listed else {}


def _route(at: HttpRoute) -> dict[str, Data]:
    """The access list, which applies to preflights too."""
    if at.route.access is None:
        return {}
    rules = _rules(at.route.access, mapped=has_mapped_addresses(at.on.listener))
    return {
        "typed_per_filter_config": {_FILTER: typed(f"envoy.extensions.{_RBAC}PerRoute", {"rbac": rules})},
    }


def _rules(access: Access, *, mapped: bool) -> dict[str, Data]:
    """RBAC rules that deny clients; `mapped` see `cidrs`."""
    refused: list[Data] = [{"remote_ip": each} for each in cidrs(access.deny, mapped=mapped)]
    if access.allow is not None:
        let_in: list[Data] = [{"remote_ip": each} for each in cidrs(access.allow, mapped=mapped)]
        refused.append({"not_id": {"or_ids": {"ids": let_in}}} if let_in else {"any": True})
    policies: Data = {_DENIED: {"permissions": [{"any": True}], "principals": refused}} if refused else {}
    return {"rules": {"action": "DENY", "policies": policies}}


LISTENER_ACCESS = Contributor(manager=_of_listener, by_client=lambda listener, _: listener.access is not None)
ROUTE_ACCESS = Contributor(
    manager=_of_routes, route=_route, by_client=lambda _, routes: any(route.access is not None for route in routes)
)
