"""Awkward request targets under every path policy: each engine lets in and forwards what the contract allows.

`LBGEN_TARGETS=20000` sets how many are drawn for each listener and engine (default 400) and takes new ones each time.
"""

from __future__ import annotations

import json
import os
import random
import re
import string
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from typing import TYPE_CHECKING

import pytest

from lbgen.plan.paths import PathError, accept_target
from lbgen.plan.policy import Paths, PathsMode
from tests.support.engine_lists import l7_engines_on_host, newest_first
from tests.support.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.engine_under_test import EngineUnderTest

pytestmark = pytest.mark.engines
WANTED = int(os.environ.get("LBGEN_TARGETS", "400"))
SEED = random.SystemRandom().randrange(1 << 32) if "LBGEN_TARGETS" in os.environ else 1
L7 = newest_first(l7_engines_on_host())
ESCAPE, UNRESERVED = re.compile("%([0-9A-Fa-f]{2})"), f"{string.ascii_letters}{string.digits}-._~"
PIECES = (
    *("/", "/", "/", "//", "a", "b.c", ".", "..", "...", "../", "./", "/..", "~", ":", "+", "=", ";"),
    *("%2e", "%2E%2e", ".%2e", "%2e.", "%2f", "%2F", "..%2F", "%2f..", "%2F.", "%5c", "%61", "%7E", "%41", "%31"),
    *("%20", "%3A", "%3f", "%23", "%25", "%252e", "%2B", "%c3%a9", "%ff", "%00", "%0a", "%7f", "%zz", "%", "%2"),
    *("?", "?q=/../%2f//%zz", "?%00/.."),
)
TOPOLOGY = {
    "version": 1,
    "name": "targets",
    "listeners": {
        "strict": {"port": 8080},
        "slashes": {"port": 8081, "paths": {"allow": ["empty_segments"]}},
        "encoded": {"port": 8082, "paths": {"allow": ["encoded_slash"]}},
        "unreserved": {"port": 8083, "paths": {"allow": ["encoded_unreserved"]}},
        "all": {"port": 8084, "paths": {"allow": ["empty_segments", "encoded_slash", "encoded_unreserved"]}},
        "normal": {"port": 8085, "paths": "normalize"},
        "verbatim": {"port": 8086, "paths": "verbatim"},
    },
    "pools": {"p": {"endpoints": [{"address": "10.0.0.1:80"}]}},
    "routes": [{"name": "all", "forward": "p"}],
}


def targets(seed: int) -> Iterator[str]:
    chance = random.Random(seed)
    for _ in range(WANTED):
        yield "/" + "".join(chance.choices(PIECES, k=chance.randrange(1, 9)))


def wanted(target: str, paths: Paths) -> tuple[int, str | None]:
    """The status, and what the endpoint sees."""
    try:
        return 200, accept_target(target, paths)
    except PathError:
        return 400, None


def asked(connection: HTTPConnection, target: str) -> tuple[int, str | None]:
    for last in (False, True):
        try:
            connection.request("GET", target, headers={"Host": "h"})
            answer = connection.getresponse()
            body = answer.read()
            return answer.status, json.loads(body)["target"] if answer.status == 200 else None
        except (HTTPException, OSError):  # a connection that the answer before ended
            connection.close()
            if last:
                raise
    raise AssertionError


def is_right(subject: EngineUnderTest, target: str, paths: Paths, got: tuple[int, str | None]) -> bool:
    """Whether that answer is what section 3 of the contract promises.

    What can be read in one way reaches the endpoint, with its escapes in whatever case. Anything else gets a 4xx, or
    what the engine made of it before rules saw it: a target that can be read in one way only.
    """
    status, reached = got
    mode, (path, _, query) = paths.mode, target.partition("?")
    clear = wanted(target, Paths() if mode is PathsMode.NORMALIZE else paths)[0] == 200
    if reached is None:
        return not clear and 400 <= status < 500
    if reached.partition("?")[2] != (query.replace(";", "&") if subject.engine == "traefik" else query):
        return False
    if mode is PathsMode.VERBATIM:
        return reached == target
    if clear and not (subject.engine == "envoy" and "..;" in path):  # which it takes for a dot segment
        return canonical(reached.partition("?")[0]) == canonical(path)
    return wanted(reached, Paths() if mode is PathsMode.NORMALIZE else paths)[0] == 200


def canonical(path: str) -> str:
    """With upper-case escapes, and none of what needs none."""
    return ESCAPE.sub(lambda x: chr(int(x[1], 16)) if chr(int(x[1], 16)) in UNRESERVED else x[0].upper(), path)


@pytest.mark.parametrize("subject", L7)
def test_targets(subject: EngineUnderTest) -> None:
    with serving(TOPOLOGY, subject) as (_, served, handle):

        def wrong(number: int) -> list[str]:
            listener = served.listeners[number]
            connection = HTTPConnection(*handle.address(listener.name), timeout=10)
            found = []
            for target in targets(SEED + number):
                got = asked(connection, target)
                if not is_right(subject, target, listener.paths, got):
                    found.append(f"{listener.name} {target}: got {got}, wanted {wanted(target, listener.paths)}")
            connection.close()
            return found

        with ThreadPoolExecutor(4) as pool:
            every = [line for lines in pool.map(wrong, range(len(served.listeners))) for line in lines]
    assert not every, f"seed {SEED}: {len(every)} targets\n" + "\n".join(every[:20])
