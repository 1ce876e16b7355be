"""Rules that an engine needs where its endpoints are: loaded into the network namespaces of their containers, and again
after each start of one, as a namespace ends with its container.

A container of the stack watches for such starts. It has docker's socket, which is as much as root on this host, and
therefore no network: nothing but docker can speak to it.
"""

from __future__ import annotations

import json
import secrets
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGTERM, signal
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.runtime.common.processes import defer_signals
from lbgen.runtime.docker import container, container_files, helper_image, network
from lbgen.runtime.docker.client import connect, docker_errors
from lbgen.runtime.docker.container import ContainerSpec
from lbgen.runtime.docker.container_files import File
from lbgen.runtime.docker.converge import StackContainer, worker_pool
from lbgen.runtime.docker.labels import Record, Role

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

FILE = "endpoint-rules.json"
ARGV = (helper_image.PYTHON, "-m", "lbgen.runtime.docker.endpoint_rules")
_AGAIN_SECONDS = 1.0
_LOAD_SECONDS = 20


class HostRules(Struct, frozen=True):
    """The rules for the containers at the address `host`, as in `EndpointRules`. `image` has the commands' program."""

    host: str
    image: str
    file: str
    text: str
    setup: tuple[tuple[str, ...], ...]
    teardown: tuple[tuple[str, ...], ...]


class EndpointSide(Struct, frozen=True):
    """The rules of a stack for its endpoints, all of them on its own network."""

    stack: str
    rules: tuple[HostRules, ...]

    def as_file(self) -> File:
        """Its file, which `read` reads."""
        return File(json.dumps(msgspec.to_builtins(self), indent=1).encode())

    def without(self, other: EndpointSide | None) -> EndpointSide:
        """The rules for hosts that `other` does not have."""
        kept = {each.host for each in other.rules} if other is not None else set()
        return replace(self, rules=tuple(each for each in self.rules if each.host not in kept))

    def changed_from(self, other: EndpointSide | None) -> EndpointSide:
        """The rules that `other` does not have."""
        same = frozenset(other.rules) if other is not None else frozenset()
        return replace(self, rules=tuple(each for each in self.rules if each not in same))


def parse(text: bytes) -> EndpointSide:
    """The content of the file. Raises msgspec.DecodeError."""
    return msgspec.json.decode(text, type=EndpointSide)


def read(there: Sequence[StackContainer]) -> EndpointSide | None:
    """What the containers of a stack have loaded at endpoints; None for nothing. Raises EngineError LB421."""
    for each in there:
        if each.record.role is Role.ENDPOINT_RULES:
            text = container_files.read(each.handle, FILE)
            return parse(text) if text is not None else None
    return None


def ensure_possible(client: DockerClient, side: EndpointSide | None, stand_ins: str) -> None:
    """EngineError LB403 when an endpoint is no container on the network of the stack; `stand_ins` will be one."""
    there = _containers(client, side) if side is not None else {}
    for host in (each.host for each in side.rules) if side is not None else ():
        if host != stand_ins and host not in there:
            message = f"{host} is no running container of a network that the stack joins: its rules go nowhere"
            hint = "containers.networks joins its network; `lbgen render` writes direct/ for machines"
            raise EngineError(Diagnostic("LB403", message, hint=hint))


def load(client: DockerClient, side: EndpointSide | None) -> None:
    """Load the rules at all endpoints. Raises EngineError LB403 (with what their program says), LB421."""
    if side is not None:
        there = _containers(client, side) if side.rules else {}
        with worker_pool() as pool:
            asked = [x for x in side.rules if x.host in there]
            for done in [pool.submit(_load, client, side, x, there[x.host]) for x in asked]:
                done.result()


def unload(client: DockerClient, side: EndpointSide) -> None:
    """Remove the rules from the endpoints that still run."""
    there = _containers(client, side) if side.rules else {}
    for each in side.rules:
        if each.host in there:
            with suppress(EngineError):  # it has ended, or has been started without them
                _run(client, side, there[each.host], each.image, _shell(each.teardown), {})


@contextmanager
def loaded(
    client: DockerClient, before: EndpointSide | None, after: EndpointSide | None, *, anew: bool
) -> Iterator[None]:
    """Load the rules `after` before the block, those from `before` again when it fails, and remove at its end what is
    no longer needed. Unless `anew`, equal ones are in place."""
    changed = after if anew or after is None else after.changed_from(before)
    load(client, changed)
    try:
        yield
    except BaseException:
        if before is not None:
            with defer_signals(forget=True), suppress(EngineError):
                load(client, before.changed_from(after))
        raise
    if before is not None:
        unload(client, before.without(after))


def _containers(client: DockerClient, side: EndpointSide) -> dict[str, Container]:
    """The running containers by their addresses in the network of the stack."""
    own = network.name(side.stack)
    with docker_errors(f"listing the containers of {own}"):
        every = client.containers.list(filters={"network": own}, ignore_removed=True)
    return {str(each.attrs["NetworkSettings"]["Networks"][own]["IPAddress"]): each for each in every}


def _load(client: DockerClient, side: EndpointSide, rules: HostRules, there: Container) -> None:
    _run(client, side, there, rules.image, _shell(rules.setup), {rules.file: File(rules.text.encode())})


def _shell(commands: Sequence[Sequence[str]]) -> tuple[str, ...]:
    return "/bin/sh", "-c", " && ".join(shlex.join(command) for command in commands)


def _run(
    client: DockerClient,
    side: EndpointSide,
    there: Container,
    image: str,
    argv: tuple[str, ...],
    files: Mapping[str, File],
) -> None:
    """Run a command in the network namespace of `there`. Raises EngineError LB403 with its output, LB421."""
    name = f"{network.name(side.stack)}-rules-{secrets.token_hex(3)}"
    spec = ContainerSpec(
        name, image, argv, files, stop="SIGKILL", capabilities=("NET_ADMIN",), joins=str(there.id), once=True
    )
    with container.temporary(client, spec, Record(side.stack, Role.LOADER, "")) as handle:
        if container.wait_exit(handle, _LOAD_SECONDS):
            message = f"rules cannot be loaded into the network of the container {there.name}:"
            raise EngineError(Diagnostic("LB403", f"{message}\n{container.tail(handle)}"))


def watch(client: DockerClient, side: EndpointSide) -> None:
    """Load the rules into each container at the address of an endpoint that starts. Never returns."""
    done: dict[str, str] = {}
    while True:
        try:
            with docker_errors("reading docker's events", whole=False):
                asked = {"type": ["container", "network"], "event": ["start", "connect"]}
                events = client.events(decode=True, filters=asked)
                _load_new(client, side, done)
                for _ in events:
                    _load_new(client, side, done)
        except EngineError as error:  # also after some time without any event
            if "timed out" not in str(error) and "did not answer" not in str(error):
                sys.stdout.write(f"{error}\n")
            time.sleep(_AGAIN_SECONDS)


def _load_new(client: DockerClient, side: EndpointSide, done: dict[str, str]) -> None:
    there = _containers(client, side)
    for each in side.rules:
        if each.host not in there:
            continue
        found = there[each.host]
        start = f"{found.id} {found.attrs['State']['StartedAt']}"
        if done.get(each.host) != start:
            _load(client, side, each, found)
            done[each.host] = start
            sys.stdout.write(f"rules loaded into {found.name} at {each.host}\n")


def main() -> None:
    signal(SIGTERM, lambda *_: sys.exit(0))  # a process 1 ends by no signal that it does not handle
    watch(connect(), parse(Path(FILE).read_bytes()))


if __name__ == "__main__":
    main()
