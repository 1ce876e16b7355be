"""A topology on one engine's real binary, with stand-ins behind it, for as long as a block lasts."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from lbgen.conformance.case import CaseFile
from lbgen.conformance.prepare import prepare
from lbgen.conformance.wait_ready import wait_ready
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.standins.server import stand_in_servers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lbgen.conformance.engine_under_test import EngineUnderTest
    from lbgen.conformance.prepare import Prepared
    from lbgen.plan.model import Plan
    from lbgen.runtime.local.engine_process import EngineProcess


@contextmanager
def serving(topology: dict[str, Any], subject: EngineUnderTest) -> Iterator[tuple[Prepared, Plan, EngineProcess]]:
    """What was prepared, the plan that is served and where; skips the test where the binary is not here."""
    if subject.binary is None:
        pytest.skip(subject.gap)
    name = topology["name"]
    ready = prepare(CaseFile(name, name, topology, {}, ()), subject.engine, subject.version)
    assert ready.served is not None
    with ExitStack() as stack:
        stack.enter_context(stand_in_servers(ready.stand_ins))
        handle = stack.enter_context(run_engine(subject.engine, ready.served, subject.binary, accept=("all",)))
        wait_ready(ready.served, handle)
        yield ready, ready.served, handle
