"""One random topology, drawn again by seed and number -> what came of it on the engines, as a line of a log."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

import lbgen
from lbgen.conformance.engine_under_test import engines_on_host
from lbgen.conformance.runner import CaseState
from lbgen.engines.api import engine
from lbgen.engines.verdicts import judge
from lbgen.runtime.common.certificates import temporary_certificates
from tests.topologies.draw import smaller, topology

if TYPE_CHECKING:
    from lbgen.conformance.runner import Result
    from lbgen.spec.load import Topology

    Data = dict[str, Any]

REQUESTS, FAULTS = 60, 40  # of each engine
SHRINKS = 24  # verifications that a failure may cost


@dataclass(frozen=True, slots=True)
class Outcome:
    """`tried`: cases judged, all engines together. `excused`: how often a clause was approximate or refused by verdict.
    `refused`: engines that refuse the topology, and why. `differences` showed twice, the second time with those
    engines alone; what did not is `once`."""

    seed: int
    number: int
    engines: tuple[str, ...]
    data: Data
    seconds: float
    tried: int
    excused: dict[str, int]
    refused: dict[str, str]
    differences: tuple[Result, ...]
    once: tuple[Result, ...]
    broken: tuple[str, ...]

    @property
    def wrong(self) -> bool:
        return bool(self.differences or self.broken)

    def line(self) -> str:
        """For people who wait."""
        left = sum(self.excused.values())
        text = f"seed {self.seed}, topology {self.number}: {self.tried} cases, {left} excused, {self.seconds:.0f} s"
        if self.refused:
            text += f", refused by {', '.join(self.refused)}"
        if self.once:
            text += f", {len(self.once)} seen once"
        if self.broken:
            return f"{text}, BROKEN: {self.broken[0]}"
        if self.differences:
            clauses = Counter(f"{x.subject} {x.clause}" for x in self.differences)
            return f"{text}, {len(self.differences)} DIFFERENCES: {dict(clauses)}"
        return text


def loaded(data: Data) -> Topology:
    """With the throw-away certificates where it looks for files."""
    return replace(lbgen.load(data), base=temporary_certificates())


def drawn(seed: int, number: int, engines: tuple[str, ...]) -> Data:
    """The topology of that number: the same whenever it is drawn, by engines of the same verdicts."""
    rng = random.Random(f"{seed}/{number}")
    while True:
        data = topology(rng, engines)
        try:
            lbgen.plan(loaded(data))
        except lbgen.LbgenError:
            continue  # two routes of one match, say
        return data


def verified(data: Data, engines: tuple[str, ...], seed: int, number: int) -> Outcome:
    """An engine that refuses a combination of these features is left out, and named."""
    begun = time.monotonic()
    plan = lbgen.plan(loaded(data))
    refused: dict[str, str] = {}
    for name in engines:
        target = engine(name)
        _, problems = judge(plan, target, engines_on_host((name,))[0].version, ("all",))
        if problems:
            refused[name] = str(problems[0])
    report = lbgen.verify(
        plan, [x for x in engines if x not in refused], requests=REQUESTS, most_faults=FAULTS, seed=number
    )
    names = [x for x in engines if any(x in result.subject for result in report.differences)]
    found = lbgen.verify(plan, names, requests=REQUESTS, most_faults=FAULTS, seed=number) if names else None
    again = {(x.subject, x.clause) for x in (found.differences if found else ())}
    twice = tuple(x for x in report.differences if (x.subject, x.clause) in again)
    excused = Counter(
        f"{result.subject} {result.clause}: {result.state}"
        for result in report.results
        if result.state in (CaseState.APPROXIMATE, CaseState.REFUSED)
    )
    return Outcome(
        seed,
        number,
        engines,
        data,
        time.monotonic() - begun,
        len(report.results),
        dict(excused),
        refused,
        twice,
        tuple(x for x in report.differences if x not in twice),
        tuple(str(reason) for left in report.broken for reason in left.reasons),
    )


def logged(outcome: Outcome, path: str) -> None:
    """A line of JSON more, with the commit that it is about."""
    told = asdict(outcome) | {"seconds": round(outcome.seconds, 1), "commit": _commit()}
    if not outcome.wrong:
        del told["data"]
    with Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(told, default=msgspec.to_builtins) + "\n")


def _commit() -> str:
    here = Path(__file__).parent
    asked = ("git", "describe", "--always", "--dirty")
    return subprocess.run(asked, cwd=here, capture_output=True, text=True, check=False).stdout.strip()


def smallest(outcome: Outcome) -> tuple[Data, Result]:
    """The topology with as little as still shows the first difference's clause on its engine, and that difference."""
    data, first = outcome.data, outcome.differences[0]
    engines = tuple(name for name in outcome.engines if name in first.subject)
    left = SHRINKS
    while True:
        for less in smaller(data):
            if left <= 0:
                return data, first
            try:
                lbgen.plan(loaded(less))
            except lbgen.LbgenError:
                continue  # no topology any more
            left -= 1
            found = verified(less, engines, outcome.seed, outcome.number).differences
            same = [x for x in found if x.clause == first.clause]
            if same:
                data, first = less, same[0]
                break
        else:
            return data, first
