"""HTTP filters that run on some requests only: those that meet a condition, or those of routes that enable the filter.

Envoy spends about 1 us per request on each filter of a chain, so conditions of the same kind share one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.protobuf import extension, typed

if TYPE_CHECKING:
    from lbgen.engines.document import Data
    from lbgen.engines.envoy.predicates import Predicate

ENABLED = typed("envoy.config.route.v3.FilterConfig", {"config": {}})
"""The configuration of a route that enables a filter and adds nothing."""
_SKIP: dict[str, Data] = {"action": extension("skip", "filters.common.matcher.action.v3.SkipFilter")}


def skip_where(condition: Predicate, http_filter: dict[str, Data]) -> dict[str, Data]:
    """`http_filter`, skipped where `condition` holds."""
    matcher: Data = {"matcher_list": {"matchers": [{"predicate": condition, "on_match": _SKIP}]}}
    fields: dict[str, Data] = {"extension_config": http_filter, "xds_matcher": matcher}
    return extension(str(http_filter["name"]), "common.matching.v3.ExtensionWithMatcher", fields)
