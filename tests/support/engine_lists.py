"""The engines that tests choose among."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lbgen.conformance.engine_under_test import EngineUnderTest, engines_on_host
from lbgen.diagnostics import EngineError
from lbgen.engines.api import Binary, Level, engine, local_engines
from lbgen.runtime.common.executables import find
from lbgen.runtime.common.selection import missing_in_kernel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from _pytest.mark import ParameterSet

L7_ENGINES = tuple(
    name
    for name in local_engines()
    if engine(name).verdict("listener.l7", engine(name).versions[0]).level is not Level.REFUSED
)


def newest_first(subjects: Iterable[EngineUnderTest]) -> list[ParameterSet]:
    """Parameters of a test: the newest version here of each engine, and the others as drills. An engine that is not
    here is skipped."""
    made, seen = [], set()
    for each in sorted(subjects, key=lambda each: each.binary is None):  # of one engine the newest comes first
        absent = (pytest.mark.skip(reason=each.gap),) if each.binary is None else ()
        if not absent or each.engine not in seen:
            marks = (pytest.mark.drill,) if each.engine in seen else absent
            made.append(pytest.param(each, marks=marks, id=each.label.replace(" ", "-")))
        seen.add(each.engine)
    return made


def binaries(name: str) -> list[ParameterSet]:
    """As `newest_first`: the executables of an engine."""
    found = newest_first(engines_on_host((name,)))
    return [pytest.param(each.values[0].binary, marks=each.marks, id=each.id) for each in found]  # type: ignore[union-attr]


def l7_engines_on_host() -> tuple[EngineUnderTest, ...]:
    """The versions of L7 engines here; an engine that is not here has one without a binary."""
    return tuple(
        each
        for each in engines_on_host()
        if each.binary is None or engine(each.engine).verdict("listener.l7", each.version).level is not Level.REFUSED
    )


def need_binary(name: str, version: str | None = None) -> Binary:
    """The executable of an engine; skips the test where it is not here."""
    try:
        return find(engine(name), version)[0]
    except EngineError as missing:
        pytest.skip(str(missing))


def of_this_kernel() -> tuple[str, ...]:
    """All engines but those that work with a part of the kernel that this one lacks."""
    return tuple(name for name in local_engines() if not missing_in_kernel(engine(name)))


def need_kernel(name: str) -> None:
    """Skip a test of an engine that works with a part of the kernel that this one lacks."""
    for lacking in missing_in_kernel(engine(name)):
        pytest.skip(lacking.message)
