"""Ports that a stack keeps over its changes, and the connections that it has."""

from __future__ import annotations

import os
import socket

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
