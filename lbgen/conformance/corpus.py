"""Requests that test a plan: for every rule a match, near misses of each condition, and neighbours of its path."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from typing import NamedTuple

from msgspec.structs import replace

from lbgen.plan.conditions import with_conditions
from lbgen.plan.forwarding import PROXY_FIELDS, state_client
from lbgen.plan.model import Listener, Mode, Plan, Rule
from lbgen.plan.request import Draft, Request

NOWHERE = "lbgen-corpus.invalid"  # a host that no topology names


class LabelledDraft(NamedTuple):
    """A draft and what it tries: rule, path, host, method, or the label of a condition's subject. `field` is that of
    the match, `hosts` of the route, "" where the rule has no such field."""

    label: str
    draft: Draft
    field: str


def corpus(plan: Plan) -> tuple[Request, ...]:
    """Requests for every L7 listener of `plan`, in the order of the rules, none twice."""
    found: dict[Request, None] = {}
    for listener in plan.listeners:
        if listener.mode is not Mode.L7:
            continue
        rules = {rule.rank: rule for table in listener.hosts for rule in table.rules}
        for rank in sorted(rules):
            for draft in drafts(rules[rank]):
                found.setdefault(_request(listener, draft))
        found.setdefault(Draft("GET", NOWHERE, "/").request(listener.name))
        found.setdefault(replace(Draft("GET", NOWHERE, "/").request(listener.name), headers=(), version="1.0"))
    return tuple(found)


def _request(listener: Listener, draft: Draft) -> Request:
    """The draft as sent: by a trusted proxy, which states the client, where it has fields that only those may set."""
    request = draft.request(listener.name)
    asks = any(name in PROXY_FIELDS for name, _ in draft.headers)
    network = next((ip_network(text) for text in listener.trusted_proxies if asks), None)
    if network is None:
        return request
    stated = (state_client(listener, draft.client),) if draft.client != Request().client else ()
    proxy = str(network[min(1, network.num_addresses - 1)])
    return replace(request, client=proxy, headers=(*request.headers, *stated))


def drafts(rule: Rule) -> Iterator[Draft]:
    """The hit of a rule, then what lies around it. Nothing for a regex that no text could be found for."""
    return (each.draft for each in labelled_drafts(rule))


def labelled_drafts(rule: Rule) -> Iterator[LabelledDraft]:
    """As `drafts`, each with what it tries."""
    hit = matching_draft(rule)
    if hit is None:
        return
    yield LabelledDraft("rule", hit, "")
    for neighbour in rule.match.path.neighbours(hit.path):
        yield LabelledDraft("path", replace(hit, path=neighbour), "path")
    for host in _hosts(rule):
        yield LabelledDraft("host", replace(hit, host=host), "hosts")
    if not rule.match.methods:
        for method in ("HEAD", "POST"):
            yield LabelledDraft("method", replace(hit, method=method), "")
    for condition in rule.match.conditions:
        for values in condition.operator.neighbours(condition.operator.examples()[0]):
            yield LabelledDraft(condition.subject.label, condition.subject.write(hit, values), condition.field)


def overlapping_drafts(one: Rule, other: Rule) -> Iterator[Draft]:
    """Requests that may fulfil both rules at once, so that the order of the two decides; none where they exclude each
    other plainly. Whether one really does, the oracle tells."""
    hits = matching_draft(one), matching_draft(other)
    hosts = [x for x in (one, other) if x.host is not None]
    if hits[0] is None or hits[1] is None or not _hosts_meet(one, other):
        return
    # The narrower host lies within the wider; of two paths the one that both cover is one of the two, or below.
    narrow = max(hosts, key=lambda x: (not x.host.wildcard, len(x.host.name)) if x.host else (False, 0), default=one)
    host = (hits[0] if narrow is one else hits[1]).host
    for path in dict.fromkeys((hits[0].path, hits[1].path)):
        draft = with_conditions(Draft("GET", host, path), (*one.match.conditions, *other.match.conditions))
        if draft is not None:
            yield draft


def _hosts_meet(one: Rule, other: Rule) -> bool:
    if one.host is None or other.host is None:
        return True
    return one.host.covers_pattern(other.host) or other.host.covers_pattern(one.host)


def matching_draft(rule: Rule) -> Draft | None:
    """A request that fulfils the rule; None when no text was found for one of its regexes."""
    host = NOWHERE if rule.host is None else f"x.{rule.host.name}" if rule.host.wildcard else rule.host.name
    if ":" in host and not host.startswith("["):
        host = f"[{host}]"
    path = next(iter(rule.match.path.examples()), None)
    return None if path is None else with_conditions(Draft("GET", host, path), rule.match.conditions)


def _hosts(rule: Rule) -> Iterator[str]:
    if rule.host is None or ":" in rule.host.name:
        return
    name = rule.host.name
    yield from (name, f"x.{name}", f"y.x.{name}", f"x{name}", name.upper(), f"{name}.", f"{name}:8080")
    yield name.partition(".")[2] or NOWHERE
