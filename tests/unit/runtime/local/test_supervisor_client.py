"""Requests to a supervisor that ends."""

from __future__ import annotations

import pickle
import threading
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from lbgen.diagnostics import EngineError
from lbgen.runtime.local import supervisor_client as client
from lbgen.runtime.local.messages import ControlSocket, ReloadRequest
from tests.unit.runtime.local.test_process import plan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUNNING = SimpleNamespace(supervisor=None, committed=True, changes=3, engines=[SimpleNamespace(running=True)])


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A stack whose supervisor has ended; the list gets what is done."""
    acts: list[str] = []
    monkeypatch.setattr(client.state, "read", lambda name: RUNNING)
    monkeypatch.setattr(client, "has_ended", lambda supervisor: True)
    monkeypatch.setattr(client, "take_over", lambda *_: acts.append("take over") or SimpleNamespace(state=RUNNING))
    monkeypatch.setattr(client, "_listen", lambda pipe, progress: acts.append("listen") or "done")
    return acts


def connect_to(monkeypatch: pytest.MonkeyPatch, *first: Exception | None, broken: bool = False) -> None:
    """Make `connect` fail as `first` says and succeed then; `broken`: the connection breaks at the first request."""
    left = list(first)

    def send(message: object) -> None:
        if broken:
            raise BrokenPipeError

    @contextmanager
    def connect(folder: object) -> Iterator[SimpleNamespace]:
        if left and (error := left.pop(0)) is not None:
            raise error
        yield SimpleNamespace(send=send)

    monkeypatch.setattr(client, "connect", connect)


@pytest.mark.parametrize("error", [FileNotFoundError(), ConnectionRefusedError()])
def test_a_request_that_was_not_received_goes_to_the_next_supervisor(
    ended: list[str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    connect_to(monkeypatch, error)
    assert client.request_reload("shop", None, print) == "done"
    assert ended == ["take over", "listen"]


def test_a_request_that_may_have_been_received_is_not_repeated(
    ended: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    connect_to(monkeypatch, broken=True)
    with pytest.raises(EngineError, match="LB426"):
        client.request_reload("shop", None, print)
    assert ended == ["take over"]


@pytest.mark.parametrize("answer", [pickle.dumps(("an", "answer")), b'{"type":"Later"}'], ids=["pickle", "later"])
def test_a_supervisor_of_another_lbgen_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    """LB412, upon which `up` starts the stack again. One from before JSON answers any request with a pickle."""
    monkeypatch.setattr(client.state, "folder", lambda name: tmp_path)
    monkeypatch.setattr(client.state, "read", lambda name: RUNNING)
    control = ControlSocket(tmp_path)

    def serve() -> None:
        caller = control.wait(20)
        assert caller is not None
        with caller._pipe as old:
            received.append(old.recv_bytes())
            old.send_bytes(answer)

    received: list[bytes] = []
    supervisor = threading.Thread(target=serve)
    supervisor.start()
    with pytest.raises(EngineError, match=r"LB412: the supervisor is another lbgen's.*`lbgen up` replaces what runs"):
        client.request_reload("shop", ReloadRequest(plan(), (), 1.0), print)
    supervisor.join()
    control.close()
    (content,) = received
    with pytest.raises(pickle.UnpicklingError):
        pickle.loads(content)  # noqa: S301  # our own
