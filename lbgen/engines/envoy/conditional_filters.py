"""HTTP filters that run on some requests only: those that meet a condition, or those of routes that enable the filter.

Envoy spends about 1 us per request on each filter of a chain, so conditions of the same kind share one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lbgen.engines.envoy.predicates import cidrs, header_input, not_
from lbgen.engines.envoy.protobuf import extension, typed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lbgen.engines.document import Data
    from lbgen.engines.envoy.predicates import Predicate

ENABLED = typed("envoy.config.route.v3.FilterConfig", {"config": {}})
"""The configuration of a route that enables a filter and adds nothing."""
_SKIP: dict[str, Data] = {"action": extension("skip", "filters.common.matcher.action.v3.SkipFilter")}


def skip_where(condition: Predicate, http_filter: dict[str, Data]) -> dict[str, Data]:
    """`http_filter`, skipped where `condition` holds."""
    return _with_matchers(str(http_filter["name"]), http_filter, [{"predicate": condition, "on_match": _SKIP}])


def skip_where_header_is(
    name: str, usual: Iterable[str], condition: Predicate, http_filter: dict[str, Data], side: str
) -> dict[str, Data]:
    """`http_filter`, skipped where a header has one of these `usual` values, which needs no regex, or where `condition`
    holds; `side` is Request or Response."""
    tree: Data = {"input": header_input(name, side), "exact_match_map": {"map": dict.fromkeys(usual, _SKIP)}}
    others: Data = {"matcher_list": {"matchers": [{"predicate": condition, "on_match": _SKIP}]}}
    return _with_matcher(
        str(http_filter["name"]), http_filter, {"matcher_tree": tree, "on_no_match": {"matcher": others}}
    )


def skip_where_address_in(
    networks: Iterable[str], address: dict[str, Data], http_filter: dict[str, Data]
) -> dict[str, Data]:
    """`http_filter`, skipped where the input `address` is in one of these CIDRs."""
    ranges: Data = [{"ranges": cidrs(networks, mapped=True), "on_match": _SKIP}]
    match = typed("xds.type.matcher.v3.IPMatcher", {"range_matchers": ranges})
    tree: Data = {"input": address, "custom_match": {"name": "networks", "typed_config": match}}
    return _with_matcher(str(http_filter["name"]), http_filter, {"matcher_tree": tree})


def run_first(name: str, *cases: tuple[Predicate, dict[str, Data]]) -> dict[str, Data]:
    """The filter of the first case whose predicate holds; most requests meet none and run none."""
    if len(cases) == 1:
        ((predicate, only),) = cases
        return skip_where(not_(predicate), only)
    matchers: list[Data] = [
        {
            "predicate": predicate,
            "on_match": {
                "action": extension(
                    str(each["name"]), "filters.http.composite.v3.ExecuteFilterAction", {"typed_config": each}
                )
            },
        }
        for predicate, each in cases
    ]
    return _with_matchers(name, extension("composite", "filters.http.composite.v3.Composite"), matchers)


def _with_matchers(name: str, http_filter: dict[str, Data], matchers: list[Data]) -> dict[str, Data]:
    return _with_matcher(name, http_filter, {"matcher_list": {"matchers": matchers}})


def _with_matcher(name: str, http_filter: dict[str, Data], matcher: Data) -> dict[str, Data]:
    fields: dict[str, Data] = {"extension_config": http_filter, "xds_matcher": matcher}
    return extension(name, "common.matching.v3.ExtensionWithMatcher", fields)
