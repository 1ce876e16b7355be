"""The sockets in the network namespace of a container, as the kernel lists them."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, NamedTuple

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.runtime.docker import container, helper_image
from lbgen.runtime.docker.client import docker_errors

if TYPE_CHECKING:
    from lbgen.runtime.docker.converge import StackContainer

_LISTEN, _OPEN = "0A", ("01", "08")  # 08 is CLOSE_WAIT
_UNBOUND = "07"  # a datagram socket without a peer
_LOOK_SECONDS = 0.1
_PRINT = "for each in ('tcp', 'udp'): print(each + '\\n' + open('/proc/net/' + each).read())"


class Socket(NamedTuple):
    """One socket; `protocol` is tcp or udp, `state` the kernel's hexadecimal number."""

    protocol: str
    address: str
    port: int
    state: str


def sockets(holder: StackContainer) -> tuple[Socket, ...]:
    """All IPv4 sockets in the namespace of `holder`, which runs the helper image. Raises EngineError LB403, LB421."""
    with docker_errors(f"listing the sockets of {holder.name}"):
        said = container.execute(holder.handle, (*helper_image.WAIT_ARGV[:-1], _PRINT))
    return tuple(parse(said))


def parse(text: str) -> Iterator[Socket]:
    """Parse /proc/net/tcp and udp, each after a line with its name."""
    protocol = ""
    for line in text.splitlines():
        words = line.split()
        if len(words) == 1:
            protocol = words[0]
        elif len(words) > 3 and words[0].endswith(":"):
            address, _, port = words[1].partition(":")
            yield Socket(protocol, socket.inet_ntoa(struct.pack("<I", int(address, 16))), int(port, 16), words[3])


def listening(every: Collection[Socket], address: str) -> set[tuple[int, str]]:
    """Each (port, protocol) with a listening socket at `address`."""
    waits = {("tcp", _LISTEN), ("udp", _UNBOUND)}
    return {(x.port, x.protocol) for x in every if x.address == address and (x.protocol, x.state) in waits}


def wait_listening(
    holder: StackContainer,
    address: str,
    ports: Collection[tuple[int, str]],
    *,
    title: str,
    seconds: float,
    ensure_alive: Callable[[], None],
    resource_hint: Callable[[], str],
) -> None:
    """Return once a socket listens on each of `ports` (number, protocol) of `address` in the network of `holder`.

    EngineError LB403 when that takes longer than `seconds`; `ensure_alive` raises when the engine has ended,
    `resource_hint` says what it lacks.
    """
    end = time.monotonic() + seconds
    while not set(ports) <= listening(sockets(holder), address):
        ensure_alive()
        if time.monotonic() > end:
            message = f"{title} does not listen on every port after {seconds:g} s"
            raise EngineError(Diagnostic("LB403", message, hint=resource_hint()))
        time.sleep(_LOOK_SECONDS)


def connected(every: Collection[Socket], address: str, ports: Collection[int]) -> int:
    """The number of open TCP connections to those ports of `address`."""
    return sum(x.protocol == "tcp" and x.state in _OPEN and x.address == address and x.port in ports for x in every)
