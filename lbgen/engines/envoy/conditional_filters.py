"""HTTP filters that run on some requests only: those without a condition, or those of routes that enable the filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.protobuf import extension, typed

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.engines.envoy.predicates import Predicate

ENABLED = typed("envoy.config.route.v3.FilterConfig", {"config": {}})
"""The configuration of a route that enables a filter and adds nothing."""


def skip_where(condition: Predicate, http_filter: dict[str, Data]) -> dict[str, Data]:
    """`http_filter`, skipped where `condition` holds."""
    skip = extension("skip", "filters.common.matcher.action.v3.SkipFilter")
    matcher: Data = {"predicate": condition, "on_match": {"action": skip}}
    return extension(
        str(http_filter["name"]),
        "common.matching.v3.ExtensionWithMatcher",
        {"extension_config": http_filter, "xds_matcher": {"matcher_list": {"matchers": [matcher]}}},
    )
