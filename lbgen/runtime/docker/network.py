"""The docker network of a stack: a bridge whose subnet lbgen chooses, so that containers can have fixed addresses."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from ipaddress import IPv4Network, ip_network
from typing import TYPE_CHECKING, Any

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.runtime.common.processes import (
    CLOSE_WAIT,
    ESTABLISHED,
    LISTEN,
    UNCONNECTED,
    Socket,
    parse_sockets,
    wait_until,
)
from lbgen.runtime.docker import container, helper_image, labels
from lbgen.runtime.docker.client import docker_errors
from lbgen.runtime.docker.labels import STACK

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container


ADDRESSES = IPv4Network("10.214.0.0/16")
_OVERLAPS = ("overlap", "Pool")
_STAND_INS = 250  # last byte of the stand-ins' address
_PORTS = 200  # last byte of the first ports container's address
_BESIDE = "127.0.0.2"  # of the engine that replaces another one in the same network namespace


def name(stack: str) -> str:
    """Its name in docker."""
    return f"lbgen-{stack}"


def ensure(client: DockerClient, stack: str) -> IPv4Network:
    """The subnet of the stack's network, which is created if missing.

    Raises EngineError LB421 when no subnet of 10.214.0.0/16 is free, or docker refuses.
    """
    from docker.types import IPAMConfig, IPAMPool

    there = find(client, stack)
    if there is not None:
        return there
    for subnet in ADDRESSES.subnets(new_prefix=24):
        try:
            with docker_errors(f"making the network {name(stack)}"):
                pool = IPAMPool(subnet=str(subnet), gateway=gateway(subnet))
                ours = {STACK: stack} | labels.owner_labels()
                client.networks.create(name(stack), driver="bridge", ipam=IPAMConfig(pool_configs=[pool]), labels=ours)
        except EngineError as error:
            if not any(word in str(error) for word in _OVERLAPS):
                raise
            continue
        return subnet
    raise EngineError(Diagnostic("LB421", f"no free network in {ADDRESSES}", hint="docker network prune"))


def find(client: DockerClient, stack: str) -> IPv4Network | None:
    """The subnet of the stack's network; None when it has no network."""
    with docker_errors("listing networks"):
        for each in client.networks.list(filters={"label": f"{STACK}={stack}"}):
            pools = each.attrs["IPAM"]["Config"]
            if each.name == name(stack) and pools:
                found = ip_network(pools[0]["Subnet"])
                return found if isinstance(found, IPv4Network) else None
    return None


def fixed_address(joined: Mapping[str, Any] | None) -> str:
    """The address that a container keeps in a network, by what docker says of its connection; "" for none."""
    return str(((joined or {}).get("IPAMConfig") or {}).get("IPv4Address") or "")


def gateway(subnet: IPv4Network) -> str:
    """The address of this host in the network: that of its clients as engines see them."""
    return str(subnet[1])


def stand_in_address(subnet: IPv4Network) -> str:
    """The address of the stand-ins."""
    return str(subnet[_STAND_INS])


def engine_address(subnet: IPv4Network, offset: int, side: int) -> str:
    """The address of an engine's listeners on `side`: 0 = where published ports lead, 1 = its alternative."""
    return address_on_side(str(subnet[_PORTS + offset // 1_000]), side)


def address_on_side(address: str, side: int) -> str:
    """As `engine_address`, for the ports container at `address`."""
    return _BESIDE if side else address


def remove(client: DockerClient, stack: str) -> None:
    """Remove the stack's network, once its containers are removed."""
    with docker_errors(f"removing the network {name(stack)}"):
        for each in client.networks.list(filters={"label": f"{STACK}={stack}"}):
            each.reload()
            for guest in each.attrs["Containers"]:  # a tier in front of this one
                each.disconnect(guest, force=True)
            each.remove()


_OPEN = (ESTABLISHED, CLOSE_WAIT)
_LOOK_SECONDS = 0.1
_PRINT = "for each in ('tcp', 'udp'): print(each + '\\n' + open('/proc/net/' + each).read())"


def sockets(holder: Container) -> tuple[Socket, ...]:
    """All IPv4 sockets in the namespace of `holder`, which runs the helper image. Raises EngineError LB403, LB421."""
    with docker_errors(f"listing the sockets of {holder.name}"):
        said = container.execute(holder, (*helper_image.WAIT_ARGV[:-1], _PRINT))
    return tuple(parse(said))


def parse(text: str) -> Iterator[Socket]:
    """Parse /proc/net/tcp and udp, each after a line with its name."""
    for each in ("tcp", "udp"):
        _, _, rest = f"\n{text}".partition(f"\n{each}\n")
        yield from parse_sockets(each, re.split(r"^\w+$", rest, maxsplit=1, flags=re.MULTILINE)[0])


def listening(every: Collection[Socket], address: str) -> set[tuple[int, str]]:
    """Each (port, protocol) with a listening socket at `address`."""
    waits = {("tcp", LISTEN), ("udp", UNCONNECTED)}
    return {(x.port, x.protocol) for x in every if str(x.address) == address and (x.protocol, x.state) in waits}


def wait_listening(
    holder: Container,
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

    def listens() -> bool:
        ensure_alive()
        return set(ports) <= listening(sockets(holder), address)

    if not wait_until(listens, seconds, _LOOK_SECONDS):
        message = f"{title} does not listen on every port after {seconds:g} s"
        raise EngineError(Diagnostic("LB403", message, hint=resource_hint()))


def connected(every: Collection[Socket], address: str, ports: Collection[int]) -> int:
    """The number of open TCP connections to those ports of `address`."""
    return sum(
        x.protocol == "tcp" and x.state in _OPEN and str(x.address) == address and x.port in ports for x in every
    )
