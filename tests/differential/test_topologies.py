"""Random topologies, faults and times included: every engine does what the oracle says, on 60 requests and 40 faults.

A drill: `pytest tests/differential/test_topologies.py --drills --topologies 500 [--topologies-seed N]` draws so many
(default: 1). `--topologies-first K` goes on with the Kth, `--topologies-at-once M` has M side by side (most of the time
is waiting), `--topologies-log FILE` gets a line of JSON for each as it ends.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING

import pytest

from lbgen.conformance.engine_under_test import engines_on_host
from lbgen.runtime.local import network
from lbgen.spec.dump import dump
from tests.topologies.run import drawn, logged, smallest, verified

if TYPE_CHECKING:
    from tests.topologies.run import Outcome

pytestmark = [
    pytest.mark.engines,
    pytest.mark.root,
    pytest.mark.drill,
    pytest.mark.skipif(bool(network.why_unavailable()), reason=network.why_unavailable() or "it is possible"),
]
L7 = ("envoy", "haproxy", "nginx", "traefik")


def test_engines_agree_on_random_topologies(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> None:
    option = request.config.getoption
    words = ("", "-seed", "-first", "-at-once", "-log")
    count, seed, first, at_once, log = (option(f"--topologies{x}") for x in words)
    engines = tuple(name for name in L7 if engines_on_host((name,))[0].binary is not None)
    assert engines, "no engine is here"
    red: list[Outcome] = []
    lock = Lock()

    def one(number: int) -> None:
        if red and not log:
            return  # one is enough to look at
        found = verified(drawn(seed, number, engines), engines, seed, number)
        with lock:
            if log:
                logged(found, log)
            with capsys.disabled():
                print(found.line(), flush=True)  # noqa: T201  # progress of a long run
            if found.wrong:
                red.append(found)

    with ThreadPoolExecutor(at_once) as pool:
        list(pool.map(one, range(first, first + count)))
    if red and red[0].differences and not log:  # a long run tells where to look
        small, shown = smallest(red[0])
        text = f"{shown.subject}, {shown.case}:\n{shown.again}\n{shown.detail}\n{dump(small)}"
        pytest.fail(f"{len(red)} topologies differ. The first, as small as it still shows it:\n{text}", pytrace=False)
    assert not red, [found.line() for found in red]
