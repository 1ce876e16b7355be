"""What is printed of engines that are left out."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from lbgen.cli.findings import summary, way_back
from lbgen.cli.render import name_files
from lbgen.diagnostics import Diagnostic

IDLE = Diagnostic("LB302", "timeouts.idle is approximate", field="routes[0].timeouts.idle", accept="timeouts.idle")
RETRIES = Diagnostic("LB302", "route.retries is approximate", field="routes[1].retries", accept="route.retries")
VALUE = Diagnostic("LB302", "this value is approximate", field="routes[2].split", accept="all")
REFUSED = Diagnostic("LB301", "timeouts.request is refused", field="routes[1].timeouts.request")
BALANCE = Diagnostic("LB301", "b is refused by x 1: x balances round robin only; y can", field="pools.a.balance")
L4 = Diagnostic("LB301", "m is refused by x 1: it is L4")
MISSING = Diagnostic("LB402", "haproxy is not installed", hint="apt-get install haproxy")


@pytest.mark.parametrize(
    ("reasons", "way"),
    [
        ([IDLE, RETRIES, IDLE], "--accept timeouts.idle,route.retries"),
        ([IDLE, VALUE], "--accept all"),
        ([REFUSED, IDLE], "change or drop routes[1].timeouts.request; --accept timeouts.idle"),
        ([REFUSED, REFUSED], "change or drop routes[1].timeouts.request"),
        ([BALANCE], "change or drop pools.a.balance (x balances round robin only)"),
        ([Diagnostic("LB301", "no", field=f"r[{i}]") for i in range(9)], "it refuses 9 fields"),
        ([BALANCE, IDLE, *(replace(L4, field=f"r[{i}]") for i in range(9))], "it refuses 10 fields: it is L4"),
        ([MISSING], "haproxy is not installed"),
    ],
)
def test_the_way_back(reasons: list[Diagnostic], way: str) -> None:
    assert way_back(reasons) == way


def test_the_summary() -> None:
    assert summary(["envoy", "haproxy"], []) == []
    assert summary(["envoy", "haproxy"], [("nginx", [IDLE]), ("nftables", [REFUSED])]) == [
        "runs on envoy, haproxy; left out (lbgen explain says why):",
        "  nginx     --accept timeouts.idle",
        "  nftables  change or drop routes[1].timeouts.request",
    ]
    assert summary([], [("nginx", [IDLE])])[0].startswith("runs on no engine; left out")


def test_files_of_a_folder_are_counted() -> None:
    plugin = [f"plugins-local/src/x/{i}.go" for i in range(9)]
    assert name_files(["a.yaml", "maps/one", "maps/two", *plugin]) == [
        "a.yaml",
        "maps/one",
        "maps/two",
        "plugins-local/ (9 files)",
    ]
