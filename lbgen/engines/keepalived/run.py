"""Running and checking keepalived, and the rules beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from signal import Signals

from lbgen.engines.api import Binary, CheckSpec, EndpointRules, ProcessSpec
from lbgen.engines.keepalived.upstreams import addresses, is_direct, table_name
from lbgen.engines.kernel import family
from lbgen.plan.model import Plan

FILE = "keepalived.conf"
MARKS = "marks.nft"
FOLDER = "direct"  # of the scripts for endpoints
# The interface of VRRP is the balancer's, and there is none where the file is checked.
_OTHER_HOST = re.compile(r"Unknown interface!|interface \S+ .*doesn't exist|Non-existent interface specified")
_OPTIONS = ("--check", "--dont-fork", "--log-console", "--log-detail")
_PID_FILES = ("--pid", "keepalived.pid", "--checkers_pid", "checkers.pid")


def process(plan: Plan, binary: Binary, directory: Path) -> ProcessSpec:
    """keepalived as root in the network namespace of its services; `nft` loads the marks before. Without VRRP, which is
    for several hosts."""
    direct = is_direct(plan)
    families = sorted({family(x.address) for x in plan.listeners})
    return ProcessSpec(
        argv=(str(binary.path), *_OPTIONS, "--use-file", FILE, *_PID_FILES),
        setup=() if direct else (("nft", "-f", MARKS),),
        teardown=() if direct else tuple(("nft", "delete", "table", word, table_name(plan)) for word in families),
        reload=Signals.SIGHUP,
        kernel=True,
        sysctls=() if direct else (("net.ipv4.vs.conntrack", "1"),),  # without it no rule sees what IPVS forwards
        endpoint_rules=tuple(_endpoint_rules(plan)) if direct else (),
        reload_note="open connections to an endpoint that is removed end; give it weight 0 first",
    )


def _endpoint_rules(plan: Plan) -> Iterator[EndpointRules]:
    for host, found in addresses(plan).items():
        file = f"{FOLDER}/{host}.sh"
        lengths = ((x, 128 if ":" in x else 32) for x in found)
        undo: tuple[tuple[str, ...], ...] = tuple(
            ("ip", "address", "delete", f"{x}/{length}", "dev", "lo") for x, length in lengths
        )
        if ":" not in host:
            name = f"arp {table_name(plan)}"
            undo = (*undo, ("nft", f"add table {name}; delete table {name}"))
        yield EndpointRules(host, file, (("/bin/sh", file),), undo)


def check(plan: Plan, binary: Binary, directory: Path) -> CheckSpec:
    """`keepalived -t` reads the file and ends."""
    return CheckSpec((str(binary.path), "--config-test", "--use-file", FILE), _judge)


def _judge(code: int, output: str, answers: Mapping[str, object]) -> tuple[str, ...]:
    if code == 0:
        return ()
    lines = [line for line in output.splitlines() if line.strip()]
    problems = tuple(line for line in lines if not _OTHER_HOST.search(line))
    return problems if lines else (f"keepalived ended with {code}",)
