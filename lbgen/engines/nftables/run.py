"""Loading, removing and checking the rules with `nft`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.engines.api import Binary, CheckSpec, EndpointRules, ProcessSpec
from lbgen.engines.nftables import transaction
from lbgen.engines.nftables.direct import FOLDER, is_direct, replies, table_family, tables
from lbgen.engines.nftables.health_checks import uses_agent
from lbgen.engines.nftables.names import family, table_name

if TYPE_CHECKING:
    from lbgen.plan.model import Plan

FILE = "lbgen.nft"
_ABSENT = re.compile(r"^.*Error: Interface does not exist\n.*\n[ \t^~]*(\n|$)", re.MULTILINE)


def process(plan: Plan, binary: Binary, directory: Path) -> ProcessSpec:
    """No process: `nft -f` loads the file in one transaction, deleting the tables removes it."""
    nft = str(binary.path)
    table = tables(plan) if is_direct(plan) else table_name(plan)
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
        delete = (nft, "delete", "table", family(host), tables(plan))
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
