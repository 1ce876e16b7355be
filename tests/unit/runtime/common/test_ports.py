"""Ports that a stack keeps over its changes, and the connections that it has."""

from __future__ import annotations

import errno
import os
import socket

import pytest

from lbgen.diagnostics import EngineError
from lbgen.plan.model import Respond
from lbgen.runtime.common import ports
from lbgen.runtime.common.state import Address, EngineState, StackState
from tests.support.plans import by_prefix, route


def test_a_listener_keeps_the_port_it_had_and_a_new_one_gets_a_free_one() -> None:
    plan = by_prefix(8080, [route("a", Respond(200, "", ()))], ())
    assert ports.on_ports(plan, {"web": 4321}).listeners[0].port == 4321
    free = ports.on_ports(plan, {"other": 20_000}).listeners[0].port
    assert 20_000 < free < ports.first_ephemeral()


def test_open_connections_of_a_stack_are_counted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        host, port = server.getsockname()
        web = EngineState("fake", "Fake", "1", "", "", addresses=(Address("web", "l7", host, port),), pid=os.getpid())
        stack = StackState("shop", "", 0, 0, engines=(web,))
        assert ports.connections(stack) == 0
        with socket.create_connection((host, port)):
            assert ports.connections(stack) == 1


@pytest.mark.parametrize(
    ("number", "finding"),
    [
        (
            errno.EADDRNOTAVAIL,
            "LB404 listeners.web: cannot listen on .* port 9: .*; take an address of this host",
        ),
        (errno.EACCES, "LB404 listeners.web: cannot listen on 192.0.2.9 port 9: .*; let this user bind it"),
        (errno.EMFILE, "LB425 listeners.web: 192.0.2.9 port 9: .*; raise the limit of open files"),
        (errno.EADDRINUSE, "LB404 listeners.web: port 9 is taken; stop it, or choose another port"),
    ],
)
def test_a_port_that_cannot_be_had_comes_with_its_remedy(monkeypatch, number, finding):
    def refuse(address: str, port: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(ports, "_listen", refuse)
    with pytest.raises(EngineError, match=finding):
        ports.claim("192.0.2.9", 9, "listeners.web", privileged=True)
