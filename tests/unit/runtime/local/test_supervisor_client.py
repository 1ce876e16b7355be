"""Requests to a supervisor that ends."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from lbgen.diagnostics import EngineError
from lbgen.runtime.local import supervisor_client as client

if TYPE_CHECKING:
    from collections.abc import Iterator

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

    def send(wire: bytes) -> None:
        if broken:
            raise BrokenPipeError

    @contextmanager
    def connect(folder: object) -> Iterator[SimpleNamespace]:
        if left and (error := left.pop(0)) is not None:
            raise error
        yield SimpleNamespace(send_bytes=send)

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
