"""Cases about clauses that a listener leaves to its engine: they are counted, not judged."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lbgen.conformance.expected_difference import feature_of
from lbgen.plan.features import Feature
from lbgen.plan.guarantees import Guarantee, is_loose_status
from lbgen.plan.simulate import simulate
from lbgen.records import replace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lbgen.conformance.case import Case, CaseFile
    from lbgen.plan.model import Listener, Plan

_OWN_STATUS = re.compile(r"\b([45]\d\d)\b")


def leave_to_engine(files: Sequence[CaseFile]) -> tuple[CaseFile, ...]:
    """The files with all four guarantees left to the engine, where they have L7 listeners."""
    return tuple(
        replace(file, topology={**file.topology, "guarantees": "engine"})
        if any(listener.get("mode") != "l4" for listener in file.topology["listeners"].values())
        else file
        for file in files
    )


def guarantee_of(case: Case, plan: Plan, listener: Listener, *, about: bool = True) -> Guarantee | None:
    """The guarantee that a case asks for and the listener leaves to the engine; None when it asks for none.

    A case may name it; a request says so by itself, by the oracle. With `about` the features of a case are what it is
    about, not only what excuses it; of `framing` only refusals are meant: what has to pass has to pass all the same.
    How an engine's own answer looks is asked by scripts alone: of a request's answer the judge asks the class.
    """
    if not listener.guarantees.left:
        return None
    if case.guarantee in listener.guarantees.left:
        return case.guarantee
    if case.oracle:
        left = simulate(plan, case.request).left
        if left is not None and left is not Guarantee.ANSWERS:
            return left
    features = {feature_of(aspect) for aspect in case.features if about}
    if case.oracle:
        features -= set(Guarantee.ANSWERS.features)
    expect = case.expect
    refused = expect.refused or any(is_loose_status(status, 400) for status in expect.statuses)
    if not refused:
        features -= {Feature.FRAMING}
    elif case.raw is not None or case.send is not None:
        features |= {Feature.FRAMING}
    return next((each for each in listener.guarantees.left if features & set(each.features)), None)


def is_loose_difference(found: str) -> bool:
    """Whether a script found nothing but another error of the same class: `502 b'...', expected 503`."""
    seen, mark, contract = found.partition("expected ")
    statuses, wanted = _OWN_STATUS.findall(seen), _OWN_STATUS.findall(contract)
    return bool(mark and statuses and wanted) and all(
        is_loose_status(int(status), int(wanted[0])) for status in statuses
    )
