"""Weights of an L4 route as numbered slots, from which nftables selects the endpoint; names of tables, chains and maps.

With `forwarding: direct` the balancer rewrites the destination of each packet, each endpoint the source of its replies,
which bypass the balancer. Without connection tracking; a map of flows keeps an open connection with its endpoint. The
form of L3 rewrites the IP address. That of L2, for endpoints in the segment of a `device`, hands the packet on to the
endpoint's MAC address as it arrives, before this host's IP stack; the endpoint rewrites the IP address then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from ipaddress import ip_address
from math import gcd, lcm

from msgspec import Struct

from lbgen.engines.kernel import balance, forward_of
from lbgen.plan.model import Balance, Endpoint, Listener, Plan, Protocol, Route

MAX_SLOTS = 65_536  # such a map loads in about a second; larger weights are refused, never rounded
FULL = 100  # percent
_HASH_SLOTS = 1_000  # at least; so those of an endpoint that is down can be given to many others


class Part(Struct, frozen=True, eq=False):
    """A target of a route: its weight, its endpoints, and percentages of their weights by address, by default FULL."""

    weight: int
    endpoints: tuple[Endpoint, ...]
    percents: Mapping[str, int]


class Share(Struct, frozen=True, eq=False):
    """An endpoint and its number of slots; None = connections are closed."""

    endpoint: Endpoint | None
    slots: int


class Span(Struct, frozen=True, eq=False):
    """Slots `first` to `last` belong to `endpoint`."""

    first: int
    last: int
    endpoint: Endpoint


def table_name(plan: Plan) -> str:
    """The name of the plan's tables; the prefix avoids reserved words of nft."""
    return f"lb_{plan.name}"


def select_name(route: str, protocol: Protocol, word: str) -> str:
    """The name of a route's chain and map that `lbgen agent` changes, in the table of the family `word`."""
    return f"lb_{route}/{protocol.value}/{word}"


def slots_name(selection: str, *, ranges: bool) -> str:
    """The name of the map of a selection of direct forwarding. Tables of direct forwarding stay, and a map with ranges
    cannot become one without."""
    return selection if ranges else f"{selection}/slots"


def is_direct(plan: Plan) -> bool:
    """Whether the topology asks for direct forwarding."""
    return plan.options("nftables").forwarding == "direct"


def device(plan: Plan) -> str | None:
    """The interface to the segment of all endpoints; None for the form of L3."""
    return plan.options("nftables").device if is_direct(plan) else None


def table_family(plan: Plan, word: str) -> str:
    """The family of the balancer's tables for packets of the family `word`."""
    return "netdev" if device(plan) else word


def direct_tables(plan: Plan) -> str:
    """The name of its tables. Those of NAT have another one, as a change between the two replaces all chains."""
    return f"{table_name(plan)}_direct"


def endpoints(plan: Plan, route: Route) -> tuple[Endpoint, ...]:
    """All endpoints of a route, each address and port once, in the order of the targets."""
    every = (x for target in forward_of(route).targets for x in plan.pool(target.pool).endpoints)
    return tuple({(x.host, x.port): x for x in every}.values())


def numbers(plan: Plan, route: Route) -> dict[str, int]:
    """A number from 1 to 65535 by endpoint (`host:port`), which does not depend on the other endpoints unless their
    hashes are equal: so a reload that removes one moves no flow of another."""
    found: dict[str, int] = {}
    taken: set[int] = set()
    for name in sorted(x.authority for x in endpoints(plan, route)):
        number = int.from_bytes(sha256(name.encode()).digest()[:4], "big") % 65_535
        while number + 1 in taken:
            number = (number + 1) % 65_535
        found[name] = number + 1
        taken.add(number + 1)
    return found


def replies(plan: Plan) -> dict[str, list[tuple[Listener, Endpoint]]]:
    """The listeners and endpoints by host of the endpoints, sorted."""
    found: dict[str, dict[tuple[Protocol, int], tuple[Listener, Endpoint]]] = {}
    for listener in plan.listeners:
        for rule in listener.l4_rules:
            for end in endpoints(plan, plan.route(rule.route)):
                host = str(ip_address(end.host))
                found.setdefault(host, {}).setdefault((listener.protocol, end.port), (listener, end))
    return {host: list(found[host].values()) for host in sorted(found)}


def method_of(plan: Plan, route: Route) -> Balance:
    """The balance of a route to which there was no objection."""
    method = balance(plan, route)
    assert method is not None  # noqa: S101 - an objection otherwise
    return method


def has_ranges(method: Balance) -> bool:
    """Whether the map of slots has a range per endpoint: where there are at least 1,000 slots, or any number of them.

    The kernel builds a map with ranges anew at every change, and nft reads all of its elements before.
    """
    return method in (Balance.SOURCE_HASH, Balance.LEAST_CONNECTIONS)


def shares(plan: Plan, route: Route) -> tuple[Share, ...]:
    """The endpoints of all targets with their shares in the smallest whole numbers, without those of weight 0."""
    targets = forward_of(route).targets
    return allocate(Part(target.weight, plan.pool(target.pool).endpoints, {}) for target in targets)


def usable(part: Part) -> tuple[tuple[Endpoint, int], ...]:
    """The endpoints for new connections, with their weights in hundredths; backups only where no other is up."""
    weighted = [(x, x.weight * part.percents.get(x.authority, FULL)) for x in part.endpoints]
    alive = [(x, weight) for x, weight in weighted if weight]
    return tuple(pair for pair in alive if not pair[0].backup) or tuple(alive)


def allocate(parts: Iterable[Part]) -> tuple[Share, ...]:
    """The shares of endpoints in the smallest whole numbers. A target whose endpoints are all down keeps its share, and
    those connections are closed; one without any endpoint of a weight has none."""
    pools = []
    for part in parts:
        if part.weight and any(x.weight for x in part.endpoints):
            every = usable(part) or ((None, 1),)
            pools.append((part.weight, every, sum(weight for _, weight in every)))
    scale = lcm(*(total for _, _, total in pools))
    weighted = [(x, weight * own * (scale // total)) for weight, every, total in pools for x, own in every]
    common = gcd(*(slots for _, slots in weighted))
    return tuple(Share(endpoint, slots // common) for endpoint, slots in weighted)


def bounded(every: tuple[Share, ...]) -> tuple[Share, ...]:
    """The same shares in at most about MAX_SLOTS slots, rounded where there are more."""
    total = sum(share.slots for share in every)
    if total <= MAX_SLOTS:
        return every
    return tuple(Share(x.endpoint, max(1, x.slots * MAX_SLOTS // total)) for x in every)


def hash_shares(parts: tuple[Part, ...]) -> tuple[Share, ...]:
    """Shares whose places and total do not depend on the percentages, so that only the clients of an endpoint that has
    less than its weight move: what it lacks goes to the others of its target, in the order of the slots."""
    whole = tuple(Part(part.weight, part.endpoints, {}) for part in parts)
    total = sum(share.slots for share in allocate(whole))
    scale = -(-_HASH_SLOTS // total) if total else 1
    owners = {id(x): part for part in parts for x in part.endpoints}
    found: list[Share] = []
    for owned in allocate(whole):
        owner, slots = owned.endpoint, owned.slots * scale
        assert owner is not None  # noqa: S101 - with all their weight, all are up
        part = owners[id(owner)]
        kept = -(-slots * part.percents.get(owner.authority, FULL) // FULL)
        others = [pair for pair in usable(part) if pair[0] is not owner]
        if kept and not others:
            kept = slots
        if kept:
            found.append(Share(owner, kept))
        found += _divide(slots - kept, others)
    return tuple(found)


def _divide(slots: int, others: list[tuple[Endpoint, int]]) -> Iterable[Share]:
    """These slots by weight, in whole numbers."""
    total = sum(weight for _, weight in others)
    if slots and not total:
        yield Share(None, slots)
    done = seen = 0
    for endpoint, weight in others:
        seen += weight
        upto = slots * seen // total
        if upto > done:
            yield Share(endpoint, upto - done)
        done = upto


def spans(every: tuple[Share, ...], *, interleaved: bool) -> tuple[Span, ...]:
    """The slots by endpoint. `interleaved` spreads them evenly for a counter, which would otherwise send bursts to one
    endpoint, each slot by itself; otherwise an endpoint has one range of them."""
    if interleaved:
        return tuple(Span(at, at, x) for at, x in enumerate(_interleave(every)) if x is not None)
    merged: list[tuple[int, int, Endpoint | None]] = []
    at = 0
    for share in every:
        first = merged.pop()[0] if merged and merged[-1][2] == share.endpoint else at
        at += share.slots
        merged.append((first, at - 1, share.endpoint))
    return tuple(Span(first, last, endpoint) for first, last, endpoint in merged if endpoint is not None)


def _interleave(every: tuple[Share, ...]) -> list[Endpoint | None]:
    """The endpoint of each slot."""
    order = sorted(
        ((2 * k + 1) / (2 * share.slots), index) for index, share in enumerate(every) for k in range(share.slots)
    )
    return [every[index].endpoint for _, index in order]
