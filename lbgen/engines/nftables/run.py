"""Loading, removing and checking the rules with `nft`, and reading its named counters of connections, which a change of
rules keeps: of a route at a listener, and of an endpoint."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from lbgen.engines.api import Binary, CheckSpec, Counts, EndpointRules, ProcessSpec
from lbgen.engines.kernel import family
from lbgen.engines.nftables import transaction
from lbgen.engines.nftables.health_checks import uses_agent
from lbgen.engines.nftables.upstreams import direct_tables, is_direct, replies, table_family, table_name
from lbgen.plan.model import Plan, Protocol

FILE = "lbgen.nft"
FOLDER = "direct"  # of the rules for endpoints
COUNTS_ARGV = ("nft", "-j", "list", "counters")
_PREFIX = "lb_"
_ABSENT = re.compile(r"^.*Error: Interface does not exist\n.*\n[ \t^~]*(\n|$)", re.MULTILINE)


def process(plan: Plan, binary: Binary, directory: Path) -> ProcessSpec:
    """No process: `nft -f` loads the file in one transaction, deleting the tables removes it."""
    nft = str(binary.path)
    table = direct_tables(plan) if is_direct(plan) else table_name(plan)
    families = sorted({table_family(plan, family(x.address)) for x in plan.listeners})
    return ProcessSpec(
        argv=(),
        setup=((nft, "-f", FILE),),
        teardown=tuple((nft, "delete", "table", word, table) for word in families),
        change=(nft, "-f", transaction.FILE),
        kernel=True,
        agent=uses_agent(plan),
        endpoint_rules=tuple(_endpoint_rules(plan, nft)) if is_direct(plan) else (),
    )


def _endpoint_rules(plan: Plan, nft: str) -> Iterator[EndpointRules]:
    for host in replies(plan):
        file = f"{FOLDER}/{host}.nft"
        delete = (nft, "delete", "table", family(host), direct_tables(plan))
        yield EndpointRules(host, file, ((nft, "-f", file),), (delete,))


def check(plan: Plan, binary: Binary, directory: Path) -> CheckSpec:
    """`nft -c` evaluates the file without loading it."""
    return CheckSpec((str(binary.path), "-c", "-f", FILE), _judge)


def _judge(code: int, output: str, answers: Mapping[str, object]) -> tuple[str, ...]:
    if code == 0:
        return ()
    # The interface of direct forwarding is the balancer's; where this is checked there may be none.
    output, absent = _ABSENT.subn("", output)
    if absent and not output.strip():
        return ()
    return tuple(line for line in output.splitlines() if line.strip()) or (f"nft ended with {code}",)


def route_counter(listener: str, route: str) -> str:
    """The counter of a route's connections at a listener."""
    return f"{_PREFIX}{listener}/{route}"


def endpoint_counter(protocol: Protocol, address: str, port: int) -> str:
    """The counter of an endpoint's connections. No other name has two slashes."""
    return f"{_PREFIX}{protocol.value}/{address.replace(':', '-')}/{port}"


def read_counts(said: str) -> Counts:
    """What `nft` said of all counters. Raises ValueError, LookupError for anything else."""
    routes: Counter[tuple[str, str]] = Counter()
    endpoints: Counter[str] = Counter()
    for each in json.loads(said)["nftables"]:
        counter = each.get("counter")
        if counter is None or not counter["table"].startswith(_PREFIX):
            continue
        match counter["name"].removeprefix(_PREFIX).split("/"):
            case [listener, route]:
                routes[listener, route] += counter["packets"]
            case [_, address, port]:
                host = f"[{address.replace('-', ':')}]" if "-" in address else address
                endpoints[f"{host}:{port}"] += counter["packets"]
    return Counts(dict(routes), dict(endpoints))
