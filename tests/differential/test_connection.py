"""Random heads whose Connection names fields: each engine forwards what the oracle says, or refuses them, and a client
takes no field away that the proxy sets.

`LBGEN_CONNECTION=5000` sets how many are drawn for each engine (default 150) and takes new ones each time.
"""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from lbgen.conformance.case import Case, Expect
from lbgen.conformance.difference import Kind
from lbgen.conformance.http1_client import fetch
from lbgen.conformance.judge import differences
from lbgen.conformance.own_answers import check_safe
from lbgen.conformance.prepare import own_headers
from lbgen.plan.request import Request
from lbgen.plan.simulate import simulate
from tests.support.engine_lists import l7_engines_on_host, newest_first
from tests.support.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.engine_under_test import EngineUnderTest

pytestmark = pytest.mark.engines
WANTED = int(os.environ.get("LBGEN_CONNECTION", "150"))
SEED = random.SystemRandom().randrange(1 << 32) if "LBGEN_CONNECTION" in os.environ else 1
L7 = newest_first(l7_engines_on_host())
NAMES = (
    *("x-a", "X-A", "X-B", "x-c-d", "x.e", "x!f", "__proto__", "toString", "Cookie", "Authorization", "Accept"),
    *("Content-Type", "X-Request-Id", "Forwarded", "Via", "TE", "Keep-Alive", "Proxy-Connection"),
    *("X-Real-Ip", "Range", "Accept-Encoding", "Cache-Control", "Proxy-Authorization", "x-set", "x-add", "x-gone"),
)
VALUES = (
    "",
    "1",
    "a, b",
    "\xe9",
    "\xff\xfe\xfd",
    "\xc3\xa9",
    "\xef\xbf\xbd",
    "a\tb",
    "$x ${y}",
    "%[src]",
    '"q"',
    "y" * 900,
)
TOKENS = (*NAMES, "close", "keep-alive", "", " ", "x-none", "content-length", "transfer-encoding", "x-", "a b", '"x-a"')
EDITS = {"set": {"x-set": "s"}, "add": {"x-add": "t"}, "remove": ["x-gone"]}
# What Traefik adds, or takes from Host, by its habits.
TRAEFIK_S = ("accept-encoding", "x-forwarded-port", "x-forwarded-server", "x-real-ip")  # that it adds
TOPOLOGY = {
    "version": 1,
    "name": "connection",
    "headers_with_underscores": "pass",  # else nginx drops every name with an unusual character, a verdict of its own
    "listeners": {"web": {"port": 8080}, "trusted": {"port": 8081, "trusted_proxies": ["127.0.0.0/8"]}},
    "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}]}},
    "routes": [
        {"name": "edits", "match": [{"path": {"prefix": "/edits"}}], "forward": "p", "request_headers": EDITS},
        {
            "name": "again",
            "match": [{"path": {"prefix": "/again"}}],
            "forward": "p",
            "retries": {"max": 1, "on": [503]},
        },
        {"name": "all", "forward": "p"},
    ],
}


def requests(seed: int) -> Iterator[Request]:
    chance = random.Random(seed)
    for _ in range(WANTED):
        sent = [(name, chance.choice(VALUES)) for name in chance.sample(NAMES, chance.randrange(8))]
        if chance.random() < 0.3 and sent:
            again = chance.choice(sent)[0]
            if again not in ("Cookie", "Authorization", "Proxy-Authorization", "X-Request-Id"):  # which have one line
                sent.append((again, chance.choice(VALUES)))
        for _ in range(chance.choice((1, 1, 2))):  # Envoy reads ten names at most
            tokens = chance.choice((", ", ",", " ,\t")).join(chance.choices(TOKENS, k=chance.randrange(1, 5)))
            sent.insert(chance.randrange(len(sent) + 1), ("Connection", tokens.strip()))
        body = chance.choice((b"", b"", b"hello"))
        method = chance.choice(("GET", "POST", "PUT")) if body else "GET"
        target = chance.choice(("/", "/edits/x?y", "/again"))
        listener = chance.choice(("web", "web", "trusted"))
        yield Request(method, target, (("Host", "h"), *sent), listener, body=body)


@pytest.mark.parametrize("subject", L7)
def test_heads(subject: EngineUnderTest) -> None:
    with serving(TOPOLOGY, subject) as (ready, _, handle):

        def wrong(request: Request) -> list[str]:
            answer = fetch(handle.address(request.listener or "web"), request)
            outcome = simulate(ready.whole, request)
            if outcome.well_formed:
                case = Case("random", "random", request, Expect())
                found = differences(case, outcome, answer, own_headers(ready.verdicts.near))
            else:
                found = check_safe(ready.whole, request, answer)
            if subject.engine == "traefik":
                found = (each for each in found if each.kind is not Kind.HEADER or each.name not in TRAEFIK_S)
            if subject.engine == "nginx":  # its habit: such names are dropped
                found = (each for each in found if each.got is not None or not {".", "!"} & set(each.name))
            return [f"{request.target} {request.listener} {request.headers[1:]}: {each.sentence}" for each in found]

        with ThreadPoolExecutor(4) as pool:
            every = [line for lines in pool.map(wrong, requests(SEED)) for line in lines]
    assert not every, f"seed {SEED}: {len(every)} differences\n" + "\n".join(every[:20])
