"""What rules do with a request: forward, redirect or answer it, and how they rewrite it before."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from lbgen.engines.aws.matching import Test, tests, with_sources, within_quotas
from lbgen.engines.aws.upstreams import sticky_seconds
from lbgen.engines.aws.view import ref
from lbgen.plan.model import Forward, HostPattern, Plan, Redirect, Respond, Rewrite, Route, Rule
from lbgen.plan.path_conditions import Path, PrefixPath
from lbgen.plan.values import Value

if TYPE_CHECKING:
    from lbgen.engines.document import Data

Part = tuple[tuple[Test, ...], "Data", "list[Data]"]
"""A rule of the API: conditions, action and transforms."""
_PORTS = {"http": "80", "https": "443"}


def rules_of(plan: Plan, rule: Rule, hosts: Sequence[HostPattern], group: Callable[[str], str]) -> Iterator[Part]:
    """The rules that one of the topology becomes, for these hosts (none: all); `group` names a pool's targets.

    Clients whom `access` of the route does not admit have rules of their own, since a rule that does not hold is passed
    over. ValueError where a rule would need more conditions than there may be.
    """
    route, wanted = plan.route(rule.route), tests(rule, hosts)
    action, transforms = _action(plan, route, group), list(_transforms(route, rule.match.path))
    access = route.access
    refused = with_sources(wanted, access.deny) if access is not None and access.deny else None
    admitted = with_sources(wanted, access.allow) if access is not None and access.allow is not None else None
    if refused is not None:
        yield from ((part, answer(403), []) for part in within_quotas(refused))
    if admitted is not None:
        yield from ((part, action, transforms) for part in within_quotas(admitted))
        action, transforms = answer(403), []
    yield from ((part, action, transforms) for part in within_quotas(wanted))


def answer(status: int, body: str = "", media: str = "text/plain") -> Data:
    """A fixed response."""
    config: dict[str, Data] = {"StatusCode": str(status), "ContentType": media}
    return {"Type": "fixed-response", "FixedResponseConfig": config | ({"MessageBody": body} if body else {})}


def media_type(action: Respond) -> str:
    """The media type without parameters, as the list of those that a load balancer sends has them."""
    return literal(dict(action.headers).get("content-type", "text/plain")).partition(";")[0].strip()


def literal(value: Value) -> str:
    """A text without placeholders, which are refused (`values`)."""
    return value if isinstance(value, str) else ""


def _action(plan: Plan, route: Route, group: Callable[[str], str]) -> Data:
    action = route.action
    if isinstance(action, Redirect):
        return {"Type": "redirect", "RedirectConfig": _redirect(action)}
    if isinstance(action, Respond):
        return answer(action.status, literal(action.body), media_type(action))
    return forward(plan, action, group)


def forward(plan: Plan, action: Forward, group: Callable[[str], str]) -> Data:
    """To the target groups of its pools, by weight."""
    targets = [target for target in action.targets if target.weight]
    if len(targets) == 1:
        return {"Type": "forward", "TargetGroupArn": ref(group(targets[0].pool))}
    shares: list[Data] = [{"TargetGroupArn": ref(group(target.pool)), "Weight": target.weight} for target in targets]
    config: dict[str, Data] = {"TargetGroups": shares}
    sticky = [pool.sticky for target in targets if (pool := plan.pool(target.pool)).sticky is not None]
    if sticky:
        seconds = max(map(sticky_seconds, sticky))
        config["TargetGroupStickinessConfig"] = {"Enabled": True, "DurationSeconds": seconds}
    return {"Type": "forward", "ForwardConfig": config}


def _redirect(action: Redirect) -> dict[str, Data]:
    """What is left out stays; without a port that of another scheme is its own."""
    own = _PORTS[action.scheme] if action.scheme is not None else "#{port}"
    return {
        "StatusCode": f"HTTP_{action.status}",
        "Protocol": action.scheme.upper() if action.scheme is not None else "#{protocol}",
        "Port": own if action.port is None else str(action.port),
        **({"Host": literal(action.host)} if action.host is not None else {}),
        **({"Path": literal(action.path)} if action.path is not None else {}),
    }


def _transforms(route: Route, matched: Path) -> Iterator[Data]:
    rewrite = route.action.rewrite if isinstance(route.action, Forward) else None
    if rewrite is None:
        return
    if rewrite.host is not None:
        made: Data = {"Rewrites": [{"Regex": "^.*$", "Replace": _literal(rewrite.host)}]}
        yield {"Type": "host-header-rewrite", "HostHeaderRewriteConfig": made}
    if (found := _url(rewrite, matched)) is not None:
        made = {"Rewrites": [{"Regex": found[0], "Replace": found[1]}]}
        yield {"Type": "url-rewrite", "UrlRewriteConfig": made}


def _url(rewrite: Rewrite, matched: Path) -> tuple[str, str] | None:
    """A pattern in the path and query of a request, and what replaces it."""
    if rewrite.path is not None:
        return "^[^?]*", _literal(rewrite.path)
    if rewrite.prefix is None:
        return None
    new = rewrite.prefix.rstrip("/")
    if not isinstance(matched, PrefixPath):
        return "^[^?]*", _literal(new or "/")
    old = re.escape(matched.value.rstrip("/")).replace("\\-", "-")
    return (f"^{old}", _literal(new)) if new else (f"^{old}/?", "/")


def _literal(text: str) -> str:
    """As a replacement; ValueError for `$`, which begins a group there and has no documented escape."""
    if "$" in text:
        raise ValueError("a rewrite has no $")
    return text
