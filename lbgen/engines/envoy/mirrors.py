"""Mirrors: Envoy adds headers to the copies of requests that it sends, and these filters restore them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.mutations import SET, build_mutation_filter, header_option
from lbgen.engines.envoy.view import Cluster, ClusterOptions, Contributor, HttpRoute
from lbgen.plan.model import Forward
from lbgen.plan.policy import Mirror

if TYPE_CHECKING:
    from lbgen.engines.document import Data

_FOR = "x-forwarded-for"
_SAVED = "x-lbgen-forwarded-for"  # internal: removed before the endpoint


def _route(at: HttpRoute) -> dict[str, Data]:
    if at.forward is None or at.tunnel or not at.forward.mirrors:
        return {}
    return {"route": {"request_mirror_policies": [_policy(at, at.forward, mirror) for mirror in at.forward.mirrors]}}


def _policy(at: HttpRoute, forward: Forward, mirror: Mirror) -> dict[str, Data]:
    share: Data = {"numerator": round(mirror.percent * 10_000), "denominator": "MILLION"}
    return {
        "cluster": at.on.clusters.name(mirror.pool, ClusterOptions(forward.timeouts.connect, mirrored=True)),
        "runtime_fraction": {"default_value": share},
        # Envoy would add a suffix to the copy's Host.
        "disable_shadow_host_suffix_append": True,
        # Envoy would append its own address.
        "request_headers_mutations": [{"append": header_option(_SAVED, "%REQ(X-FORWARDED-FOR)%", SET)}],
    }


def _upstream_filters(cluster: Cluster) -> list[Data]:
    if not cluster.options.mirrored:
        return []
    mutations: list[Data] = [
        {"remove": "x-lbgen-internal"},
        {"remove": _FOR},
        {"append": header_option(_FOR, f"%REQ({_SAVED.upper()})%", SET)},  # no effect without a value
        {"remove": _SAVED},
    ]
    return [build_mutation_filter("copies", mutations)]


MIRRORS = Contributor(
    spares_tunnels=lambda forward: bool(forward.mirrors), route=_route, upstream_filters=_upstream_filters
)
