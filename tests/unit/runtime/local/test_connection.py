"""Messages between commands and supervisors are data: whole ones come back, and all others are refused."""

from __future__ import annotations

import json
import multiprocessing
import os
import struct
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lbgen.diagnostics import Diagnostic
from lbgen.engines.api import Binary
from lbgen.runtime.common.driver import Progress, Step
from lbgen.runtime.common.saved import DecodeError, encode
from lbgen.runtime.common.state import Address, EngineState, StackState
from lbgen.runtime.local.messages import (
    SCHEMA,
    Answer,
    Connection,
    EngineChoice,
    Failure,
    ReloadRequest,
    StartRequest,
    Success,
    TakeoverRequest,
)
from tests.support.fake_engine import FakeEngine
from tests.unit.runtime.common.test_saved import PLANS
from tests.unit.runtime.local.test_process import plan

if TYPE_CHECKING:
    from collections.abc import Iterator

WARNING = Diagnostic("LB405", "a \udcff path \\udcff of \"name\": 'é'")
ENGINE = EngineState("nginx", "nginx", "1", "/n", "/d/\udcff", (Address("web", "l7", "h", 80),), 7, restarts=2)
STATE = StackState("shop", "digest", 1, 2, True, (ENGINE,))
ANSWERS = (Progress(Step.STARTED, "nginx", "x"), Success(STATE, (WARNING,)), Failure((WARNING,), 3))
BINARY = Binary(Path("/n"), "1.22.1", (Path("/m.so"),))


@pytest.fixture
def ends() -> Iterator[tuple[Connection, Connection]]:
    one, other = map(Connection, multiprocessing.Pipe())
    with one, other:
        yield one, other


def sent(ends: tuple[Connection, Connection], message: object, kind: object) -> object:
    """The message as it arrives. A thread sends it, as a socket holds less than a large one."""
    sender = threading.Thread(target=ends[0].send, args=(message,))
    sender.start()
    found = ends[1].receive(kind, 20)
    sender.join()
    return found


@pytest.mark.parametrize("message", ANSWERS, ids=lambda each: type(each).__name__)
def test_an_answer_arrives(ends: tuple[Connection, Connection], message: object) -> None:
    assert sent(ends, message, Answer) == message


@pytest.mark.parametrize("example", PLANS)
def test_a_request_arrives(ends: tuple[Connection, Connection], example: str) -> None:
    made = PLANS[example]
    engine = EngineChoice("nginx", "nginx", "1.22", BINARY, False, ("::1",), 1000)
    start = StartRequest(made.name, "/stack/\udcff", made, (engine,), ("all",), True, 20)
    reload = ReloadRequest(made, (), 1, (("nginx", "1.22", BINARY),), False)
    for each in (start, TakeoverRequest(made.name, "/stack", 0.5)):
        assert sent(ends, each, StartRequest | TakeoverRequest) == each
    assert sent(ends, reload, ReloadRequest) == reload


def test_what_is_cut_short_or_late_is_no_message(ends: tuple[Connection, Connection]) -> None:
    one, other = ends
    with pytest.raises(TimeoutError):
        other.receive(ReloadRequest, 0.01)
    os.write(one._pipe.fileno(), struct.pack("!i", 90) + b'{"type"')
    one.close()
    with pytest.raises(EOFError):
        other.receive(ReloadRequest)


def test_a_message_of_another_schema_is_refused(ends: tuple[Connection, Connection]) -> None:
    known = json.loads(encode(TakeoverRequest("shop", "/stack", 0.5)))
    for schema, content in ((SCHEMA + 1, known), (SCHEMA, {**known, "type": "Later"}), (SCHEMA, [known])):
        ends[0]._pipe.send_bytes(f"{schema} {json.dumps(content)}".encode())
        with pytest.raises(DecodeError):
            ends[1].receive(StartRequest | TakeoverRequest)


class Plain:
    """An engine that is no dataclass."""


PLAIN = Plain()


@pytest.mark.parametrize("supplied", [FakeEngine(Path("/fake"), "other"), PLAIN], ids=["dataclass", "by name"])
def test_an_engine_that_is_not_installed_arrives(ends: tuple[Connection, Connection], supplied: object) -> None:
    engine = EngineChoice("fake", "Fake", "1.0", BINARY, False, (), supplied=supplied)
    order = StartRequest("shop", "/stack", plan(), (engine,), (), True, 20.0)
    found = sent(ends, order.as_message(), StartRequest)
    assert found.engines[0].engine == supplied
    assert engine.engine is supplied
    assert found.digest == order.digest
