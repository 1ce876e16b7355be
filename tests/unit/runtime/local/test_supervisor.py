"""The supervisor answers every error, and none ends what serves."""

from __future__ import annotations

import json
import multiprocessing
import pickle
import threading
from contextlib import suppress
from errno import EMFILE
from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from lbgen import system_errors
from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.runtime.common.saved import encode
from lbgen.runtime.common.state import StackState
from lbgen.runtime.local import supervisor
from lbgen.runtime.local.messages import (
    SCHEMA,
    Answer,
    Connection,
    ControlSocket,
    Failure,
    ReloadRequest,
    Success,
    connect,
)
from lbgen.runtime.local.supervisor import Supervisor
from tests.unit.runtime.local.test_process import plan


class Stop(BaseException):
    """Ends the loop of a test."""


class Company:
    """What a supervisor keeps, of which the reload does as it is asked to."""

    def __init__(self, *outcomes: object) -> None:
        self.outcomes = list(outcomes)
        self.record = StackState("shop", "", 0, 0)
        self.handles: dict[str, object] = {}
        self.stand_ins = SimpleNamespace(is_alive=lambda: True)

    def reload(self, asked: ReloadRequest) -> tuple[Diagnostic, ...]:
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return ()


def pipe_ends() -> tuple[Connection, Connection]:
    one, other = multiprocessing.Pipe()
    return Connection(one), Connection(other)


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A supervisor in this process: its `_supervise` runs in a thread until the test ends."""
    made = object.__new__(Supervisor)
    made.request = SimpleNamespace(folder=str(tmp_path))
    made.pipe, _ = pipe_ends()
    monkeypatch.setattr(supervisor, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(system_errors._Process, "lasting", True)
    return made


def serve(made: Supervisor, tmp_path, *outcomes: object):
    """Answers to as many reloads."""
    made.processes = Company(*outcomes)
    control = ControlSocket(tmp_path)
    failing = iter((OSError(EMFILE, "Too many open files"), RuntimeError("accept"), None))

    def wait(seconds: float):
        error = next(failing, None)
        if error is not None:
            raise error
        if not made.processes.outcomes:
            raise Stop
        return ControlSocket.wait(control, seconds)

    thread = threading.Thread(target=_until_stopped, args=(made, SimpleNamespace(wait=wait)))
    thread.start()
    answers = []
    for _ in outcomes:
        with connect(tmp_path) as pipe:
            pipe.send(ReloadRequest(plan(), (), 1.0))
            answers.append(pipe.receive(Answer, 20))
    thread.join(5)
    assert not thread.is_alive()
    control.close()
    return answers


def _until_stopped(made: Supervisor, control) -> None:
    with suppress(Stop):
        made._supervise(control)


def test_every_error_of_a_reload_is_answered_and_the_next_one_is_served(made, tmp_path, capsys):
    answers = serve(
        made,
        tmp_path,
        PermissionError(13, "Permission denied", "/certs/app.key"),
        TypeError("of lbgen's own"),
        EngineError(Diagnostic("LB412", "with a new start")),
        OSError(EMFILE, "Too many open files"),
        None,
    )
    first, second, third, fourth, last = answers
    assert all(isinstance(each, Failure) and each.exit_code == 3 for each in answers[:4])
    assert "/certs/app.key: Permission denied; let the user" in str(first.diagnostics[0])
    assert second.diagnostics[0].code == "LB426"
    assert "TypeError: of lbgen's own (test_supervisor.py:" in second.diagnostics[0].message
    assert third.diagnostics[0].code == "LB412"
    assert "prlimit --pid" in fourth.diagnostics[0].hint
    assert isinstance(last, Success)
    said = capsys.readouterr().err
    assert "Traceback" in said  # in its log, for whoever mends lbgen
    assert "goes on after an error: Too many open files" in said
    assert "goes on after an error: lbgen failed: RuntimeError: accept" in said


def of_another_lbgen() -> dict[str, bytes]:
    """Requests that this lbgen does not have, and what it must not ignore."""
    known = json.loads(encode(ReloadRequest(plan(), (), 1.0)))
    fewer = {name: value for name, value in known.items() if name != "accept"}
    other = {**known, "type": "LaterRequest"}
    as_json = {name: b"%d %b" % (SCHEMA, json.dumps(x).encode()) for name, x in (("fewer", fewer), ("other", other))}
    later = b"%d %b" % (SCHEMA + 1, json.dumps(known).encode())
    return {**as_json, "later": later, "pickle": pickle.dumps((1, "two")), "no text": b'1 "\xff"', "empty": b""}


@pytest.mark.parametrize("content", of_another_lbgen().values(), ids=of_another_lbgen())
def test_what_cannot_be_read_is_answered(made, content: bytes):
    made.processes = Company()
    theirs, ours = pipe_ends()
    made.pipe = theirs
    ours._pipe.send_bytes(content)
    made._serve()
    answer = ours.receive(Answer)
    assert answer.diagnostics[0].code == "LB412"  # upon which `up` does what the hint says
    assert "lbgen up" in answer.diagnostics[0].hint
    ours.close()
    made._serve()  # a caller that is gone again
    assert replace(answer, exit_code=3) == answer
