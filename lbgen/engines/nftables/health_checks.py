"""What `lbgen agent` does: it loads a file that selects among the endpoints which are up, by their connections where
that is the balance, in one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from typing import Any

from msgspec.structs import replace

from lbgen.engines.agent_spec import AgentSpec, BalancedEndpoint, BalancedPool, CheckedPool, checked_pools
from lbgen.engines.api import RenderedFile
from lbgen.engines.kernel import family, forward_of
from lbgen.engines.nftables import transaction
from lbgen.engines.nftables.upstreams import (
    Part,
    allocate,
    bounded,
    direct_tables,
    has_ranges,
    hash_shares,
    is_direct,
    method_of,
    numbers,
    select_name,
    shares,
    slots_name,
    spans,
    table_family,
    table_name,
)
from lbgen.plan.model import Balance, Endpoint, Plan, Pool, Protocol, Route

FILE = "steering.nft"
_NUMBERS = {Balance.ROUND_ROBIN: "inc", Balance.RANDOM: "random", Balance.LEAST_CONNECTIONS: "random"}


def uses_agent(plan: Plan) -> bool:
    """Whether `lbgen agent` runs beside the rules."""
    return any(_needs_agent(plan, plan.route(rule.route)) for x in plan.listeners for rule in x.l4_rules)


def is_steered(plan: Plan, route: Route) -> bool:
    """Whether the included file selects the endpoints of the route."""
    return is_direct(plan) or _needs_agent(plan, route)


def _needs_agent(plan: Plan, route: Route) -> bool:
    pools = [plan.pool(target.pool) for target in forward_of(route).targets]
    return any(pool.active or is_counted(pool) or _is_limited(plan, route, pool) for pool in pools)


def is_counted(pool: Pool) -> bool:
    """Whether the shares of its endpoints follow their connections."""
    return pool.balance is Balance.LEAST_CONNECTIONS


def _is_limited(plan: Plan, route: Route, pool: Pool) -> bool:
    """Whether an endpoint that has its limit is to be left out; of a single one the rules say enough."""
    return pool.max_per_endpoint is not None and len(shares(plan, route)) > 1


def files(plan: Plan) -> tuple[RenderedFile, ...]:
    """The included file with every endpoint up, and the spec of `lbgen agent`; none where no route needs them."""
    steering = {
        select_name(name, protocol, word): _order(plan, plan.route(name), protocol, word)
        for name, protocol, word in _steered(plan)
    }
    if not steering:
        return ()
    names = {part["pool"] for order in steering.values() for part in order["parts"]}
    pools = [pool for pool in plan.pools if pool.name in names]
    text = set_weights(steering, {})[FILE]
    spec = AgentSpec(
        "nftables",
        "nft",
        "",
        "",
        _checked(plan, pools),
        steering,
        command=("nft", "-f", FILE),
        change=("nft", "-f", transaction.FILE),
        tracked=not is_direct(plan) and any(protocol == "udp" for _, protocol, _ in _steered(plan)),
        balanced=tuple(_balanced(pool) for pool in pools if is_counted(pool) or pool.max_per_endpoint is not None),
    )
    return (RenderedFile(FILE, text), *((spec.file(),) if uses_agent(plan) else ()))


def _checked(plan: Plan, pools: list[Pool]) -> tuple[CheckedPool, ...]:
    """With direct forwarding checks come from the listener's address, as answers to others get another source."""
    every = checked_pools(pools)
    if not is_direct(plan):
        return every
    sources = {
        target.pool: listener.address
        for listener in plan.listeners
        for rule in listener.l4_rules
        for target in forward_of(plan.route(rule.route)).targets
    }
    return tuple(replace(pool, source=sources[pool.name]) for pool in every)


def _balanced(pool: Pool) -> BalancedPool:
    endpoints = {
        x.authority: BalancedEndpoint(x.authority, str(ip_address(x.host)), x.port, x.weight, x.backup)
        for x in pool.endpoints
    }
    return BalancedPool(pool.name, tuple(endpoints.values()), is_counted(pool), pool.max_per_endpoint)


def _steered(plan: Plan) -> Iterator[tuple[str, Protocol, str]]:
    """Route, protocol and address family of everything that the agent steers, each once."""
    found = {
        (rule.route, x.protocol, family(x.address)): None
        for x in plan.listeners
        for rule in x.l4_rules
        if is_steered(plan, plan.route(rule.route))
    }
    yield from found


def _order(plan: Plan, route: Route, protocol: Protocol, word: str) -> dict[str, Any]:
    """JSON data of one selection."""
    parts = [
        {
            "pool": target.pool,
            "weight": target.weight,
            "endpoints": [[x.host, x.port, x.weight, x.backup] for x in plan.pool(target.pool).endpoints],
        }
        for target in forward_of(route).targets
    ]
    direct = is_direct(plan)
    return {
        "family": word,
        "table": direct_tables(plan) if direct else table_name(plan),
        "protocol": protocol.value,
        "balance": method_of(plan, route).value,
        "parts": parts,
        **({"numbers": numbers(plan, route), "table_family": table_family(plan, word)} if direct else {}),
    }


def set_weights(steering: Mapping[str, Any], shares: Mapping[str, Mapping[str, int]]) -> Mapping[str, str]:
    """The file for these shares, percentages of the weight by pool and address. It changes the maps and chains that
    `steering` names, and nothing else."""
    if not steering:
        return {}
    lines = ["# The endpoints that are up; `lbgen agent` writes this file anew, and `nft -f` loads it at once.\n"]
    for name, order in steering.items():
        parts = tuple(
            Part(
                each["weight"],
                tuple(
                    Endpoint(host, port, weight, "", True, backup) for host, port, weight, backup in each["endpoints"]
                ),
                shares.get(each["pool"], {}),
            )
            for each in order["parts"]
        )
        lines += _selection(name, order, parts)
    return {FILE: "".join(lines)}


def _selection(name: str, order: Mapping[str, Any], parts: tuple[Part, ...]) -> Iterator[str]:
    word, protocol, method = order["family"], order["protocol"], Balance(order["balance"])
    numbers = order.get("numbers")  # of direct forwarding
    hashed = method is Balance.SOURCE_HASH
    every = bounded(hash_shares(parts) if hashed else allocate(parts))
    slots = sum(share.slots for share in every)
    found = spans(every, interleaved=not has_ranges(method))
    table = f"{order.get('table_family', word)} {order['table']}"
    place, slotted = f"{table} {name}", slots_name(name, ranges=has_ranges(method)) if numbers else name
    number = f"jhash {word} saddr mod {slots} seed 1" if hashed else f"numgen {_NUMBERS[method]} mod {slots}"
    yield f"\nflush chain {place}\nflush map {table} {slotted}\n"
    if found:
        yield f"add element {table} {slotted} {{\n"
        for x in found:
            upto = f"-{x.last}" if x.last > x.first else ""
            value = numbers[x.endpoint.authority] if numbers else f"{ip_address(x.endpoint.host)} . {x.endpoint.port}"
            yield f"\t{x.first}{upto} : {value},\n"
        yield "}\n"
        if numbers:
            yield f"add rule {place} {protocol} dport set {number} map @{slotted} goto {name}/ends\n"
        else:
            yield f"add rule {place} meta l4proto {protocol} dnat {word} addr . port to {number} map @{name}\n"
    close = "reject with tcp reset" if protocol == "tcp" else "drop"  # where every endpoint is down
    yield f"add rule {place} meta l4proto {protocol} {close}\n"
