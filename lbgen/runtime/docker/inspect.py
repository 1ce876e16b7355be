"""The state and the logs of stacks, from docker's list of containers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial

from msgspec.structs import replace

from lbgen.agent import state_file
from lbgen.diagnostics import EngineError
from lbgen.engines.api import Counts
from lbgen.runtime.common.health import EndpointHealth, Member, combine_health, read_counts, status_engine
from lbgen.runtime.common.logs import Line, access_parser
from lbgen.runtime.common.state import EndpointState, EngineState, StackState
from lbgen.runtime.docker import container, container_files, desired, helper_image, labels
from lbgen.runtime.docker.client import connect, docker_errors
from lbgen.runtime.docker.converge import StackContainer, list_containers
from lbgen.runtime.docker.labels import STACK, Role, foreign_owner


def endpoint_health(
    each: StackContainer, there: tuple[Member, ...], parts: Sequence[StackContainer]
) -> tuple[EndpointHealth, ...]:
    """The health of the endpoints `there`, from the engine and, if there is one, from its agent."""
    name = each.record.engine
    agent: state_file.Conditions = {}
    said = None
    reporter = status_engine(name)
    with suppress(EngineError):  # the container may have ended
        if any((x.record.role, x.record.engine) == (Role.AGENT, name) for x in parts):
            agent = state_file.parse(container_files.read(each.handle, state_file.FILE) or b"")
        if reporter is not None and each.running:
            said = fetch_status(each, parts, reporter.status_paths)
    return combine_health(each.record.title, reporter, there, said, agent, counts(each))


def counts(each: StackContainer) -> Counts | None:
    """The connections that the kernel counted for an engine; None where it counts none."""
    return read_counts(each.record.engine, partial(container.execute, each.handle)) if each.running else None


def fetch_status(
    each: StackContainer, parts: Sequence[StackContainer], paths: Sequence[str]
) -> Mapping[str, str] | None:
    """The texts at `paths` of an engine's admin port, fetched by a container that shares its network namespace; None
    when there is no such container, or no answer. Raises EngineError LB421."""
    ours = (x for x in parts if x.running and x.record.role is not Role.ENGINE)  # these have a Python
    beside = next((x for x in ours if _netns_owner(x) == _netns_owner(each)), None)
    if beside is None:
        return None
    command = [
        helper_image.PYTHON,
        "-m",
        "lbgen.agent.admin_client",
        str(desired.ADMIN_PORT + each.record.side),
        "0",
        *paths,
    ]
    with docker_errors(f"asking {each.name} from {beside.name}"):
        code, output = container.exec_run(
            beside.handle, command, stderr=False, environment=dict(helper_image.ENVIRONMENT)
        )
    try:
        return None if code else json.loads(output)
    except ValueError:  # docker has lost the output
        return None


def _netns_owner(each: StackContainer) -> str:
    """The id of the container whose network namespace it has."""
    mode = str(each.handle.attrs["HostConfig"]["NetworkMode"])
    return mode.removeprefix("container:") if mode.startswith("container:") else str(each.handle.id)


_LOOK_SECONDS = 0.5
_AGENT = "-agent"


class ContainerState(EngineState, frozen=True):
    """An engine in a container: `status` as docker names it, `container` its name, `read_health` queries `health` and
    `read_counts` `counts`."""

    status: str = ""
    container: str = ""
    read_health: Callable[[], tuple[EndpointHealth, ...]] = tuple
    read_counts: Callable[[], Counts | None] = lambda: None

    @property
    def health(self) -> tuple[EndpointHealth, ...]:
        return self.read_health()

    @property
    def counts(self) -> Counts | None:
        return self.read_counts()

    @property
    def running(self) -> bool:
        return self.status == "running"


class ContainerStack(StackState, frozen=True):
    """A stack of containers, which docker itself restarts. `owner`: as `foreign_owner`."""

    owner: str = ""

    @property
    def foreign_owner(self) -> str:
        return self.owner

    @property
    def runtime(self) -> str:
        return "docker"

    @property
    def alive(self) -> bool:
        return any(engine.running for engine in self.engines)


def running(names: Collection[str] | None = None) -> tuple[StackState, ...]:
    """The stacks of containers on this daemon; with `names` those of that name: others are not inspected."""
    client = connect()
    asked = (None,) if names is None else sorted(names)
    every = [each for name in asked for each in list_containers(client, name)]
    names = sorted({each.record.stack for each in every if each.record.role not in (Role.CHECK, Role.LOADER)})
    return tuple(stack_state(name, [x for x in every if x.record.stack == name]) for name in names)


def leftover_stacks() -> tuple[StackState, ...]:
    """Stacks that have no container but a network or volumes, left when the daemon ended during `up` or `down`."""
    client = connect()
    with docker_errors("listing networks and volumes"):
        only = {"label": STACK}
        left = (*client.networks.list(filters=only), *client.volumes.list(filters=only))
    names = {each.attrs["Labels"][STACK] for each in left} - {each.record.stack for each in list_containers(client)}
    labels = {name: [x.attrs["Labels"] for x in left if x.attrs["Labels"][STACK] == name] for name in sorted(names)}
    return tuple(replace(stack_state(name, ()), owner=_owner(of_stack)) for name, of_stack in labels.items())


def stack_state(name: str, parts: Sequence[StackContainer]) -> ContainerStack:
    engines = []
    last = labels.read_saved_plan(name)
    there = () if last is None else last.members()
    for each in parts:
        if each.record.role is not Role.ENGINE:
            continue
        attrs = each.handle.attrs
        now = attrs["State"]
        ended = "" if each.running else f"{now['Status']} with exit status {now['ExitCode']}"
        engines.append(
            ContainerState(
                each.record.engine,
                each.record.title,
                each.record.program_version or each.record.version,
                attrs["Config"]["Image"],
                "",
                each.record.addresses,
                pid=int(now.get("Pid") or 0),
                ended=ended,
                restarts=int(attrs.get("RestartCount") or 0),
                died=ended or "ended",
                access_log=each.record.access_log,
                metrics=each.record.metrics,
                status=each.handle.status,
                container=each.name,
                read_health=partial(endpoint_health, each, there, parts),
                read_counts=partial(counts, each),
            )
        )
    owned = _owner([each.handle.labels for each in parts])
    return ContainerStack(name, "", 0, 0, True, tuple(engines), _endpoints(parts), owner=owned)


def _owner(labels: Sequence[Mapping[str, str]]) -> str:
    """The other state directory that owns one of these parts of a stack, in words; "" = all are of this one."""
    return next((found for each in labels if (found := foreign_owner(each))), "")


def _endpoints(parts: Sequence[StackContainer]) -> tuple[EndpointState, ...]:
    for each in parts:
        if each.record.role is Role.ENDPOINTS:
            listed = json.loads(each.record.detail or "[]")
            return tuple(EndpointState(**entry) for entry in listed)
    return ()


def lines(stack: StackState, engine: str | None, *, follow: bool) -> Iterator[Line]:
    """The output of a stack's containers and the requests that they logged; `follow`: until they end."""
    client = connect()
    since: dict[str, str] = {}
    parsers = {each.name: access_parser(each.name) for each in stack.engines}
    while True:
        every = [x for x in list_containers(client, stack.name) if engine in (None, x.record.engine)]
        new: list[tuple[str, str, str]] = []
        for each in every:
            for stamp, text in _new_lines(each, since):
                new.append((stamp, _source(each), text))
        for _, source, text in sorted(new, key=lambda x: x[0]):
            writer = source.removesuffix(_AGENT)  # of an engine with one log, its agent writes the access log
            parse = parsers.get(writer)
            record = parse(text) if parse is not None else None
            yield Line(source if record is None else writer, text, record)
        if not follow or not any(x.running for x in every):
            return
        time.sleep(_LOOK_SECONDS)


def _source(each: StackContainer) -> str:
    if each.record.role is Role.AGENT:
        return f"{each.record.engine}{_AGENT}"
    return each.record.engine or str(each.record.role)


def _new_lines(each: StackContainer, since: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Each (time, line) newer than `since`, which is updated."""
    last = since.get(each.name, "")
    with docker_errors(f"reading the log of {each.name}"):
        after = int(datetime.fromisoformat(last).timestamp()) if last else None
        text = each.handle.logs(timestamps=True, since=after).decode("utf-8", "replace")
    for line in text.splitlines():
        stamp, _, rest = line.partition(" ")
        if stamp > last:  # docker filters by whole seconds
            since[each.name] = max(stamp, since.get(each.name, ""))
            yield stamp, rest
