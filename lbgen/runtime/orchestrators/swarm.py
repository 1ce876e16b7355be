"""A swarm, by the docker SDK: the stack file of the export becomes services, configs, secrets and a network.

Their labels say whose they are. A service whose label has the digest of what is wanted stays as it is.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, EngineError, UsageError
from lbgen.runtime.common.driver import Action, PartChange, PartKind, Progress, Step
from lbgen.runtime.common.logs import Line, access_parser
from lbgen.runtime.docker import images
from lbgen.runtime.docker.client import connect, docker_errors
from lbgen.runtime.docker.labels import foreign_owner, owner_labels
from lbgen.runtime.orchestrators.model import Deployment, Options, OrchestratedStack, Record, Service, TaskState
from lbgen.runtime.orchestrators.names import label
from lbgen.runtime.orchestrators.swarm_spec import HASH, TEMPLATE, name_of, network_of, wanted_services

if TYPE_CHECKING:
    from docker import DockerClient

    from lbgen.runtime.orchestrators.swarm_spec import Object, Wanted

STACK = "io.lbgen.swarm"
_NAMESPACE = "com.docker.stack.namespace"  # by which `docker stack` lists them
_KEYS = {  # of a service as the API has it, to arguments of the SDK
    "Name": "name",
    "Labels": "labels",
    "TaskTemplate": "task_template",
    "Mode": "mode",
    "UpdateConfig": "update_config",
    "RollbackConfig": "rollback_config",
    "EndpointSpec": "endpoint_spec",
}
_LOOK_SECONDS = 0.5
_GONE_SECONDS = 60  # for tasks to end, whose network and configs are in use until then
_LOG_SECONDS = 10  # for the log of a task
_SAID = 10  # lines of a task that failed
_TRIES = 3  # of a task, after which a first start has failed


def context(record: Record) -> str:
    """The id of the swarm that the daemon manages. Raises EngineError LB420, LB433."""
    with closing(connect()) as client:
        return _swarm_id(client)


def _swarm_id(client: DockerClient) -> str:
    with docker_errors("asking docker about its swarm"):
        found = client.info().get("Swarm") or {}
    if not found.get("ControlAvailable"):
        if found.get("LocalNodeState") in (None, "", "inactive"):
            hint = "docker swarm init --advertise-addr ADDRESS, or --runtime docker"
            raise EngineError(Diagnostic("LB433", "the docker daemon is in no swarm", hint=hint))
        message = "the docker daemon does not manage its swarm"
        raise EngineError(Diagnostic("LB433", message, hint="set DOCKER_HOST to a manager"))
    return str(found["Cluster"]["ID"])


def up(wanted: Deployment, options: Options) -> bool:
    """See `Orchestrator.up`. Tiers behind come first, and each service is ready before the next one is touched."""
    record = wanted.record
    with closing(connect()) as client:
        services = wanted_services(client, wanted)
        there = _services(client, record.name)
        _refuse_others(client, record.name, there)
        if not any(_action(each, there)[0] is not Action.NONE for each in services) and len(there) == len(services):
            return False
        ids = _prepare(client, record.name, services, first=not there)
        done: list[tuple[Wanted, Object | None]] = []
        try:
            for each in reversed(services):
                action, _ = _action(each, there)
                if action is not Action.NONE:
                    done.append((each, there.get(each.name)))
                    step = Step.STARTED if action is Action.CREATE else Step.REPLACING
                    options.progress(Progress(step, each.service.part))
                    _apply(client, record.name, each, there.get(each.name), ids)
                _await_ready(client, each, action, options)
        except BaseException:
            if there:
                _take_back(client, record.name, done)
            raise
        for name in there.keys() - {each.name for each in services}:
            _remove_services(client, [there[name]], options.progress)
        _remove_unused(client, record.name)
    return True


def preview(wanted: Deployment) -> tuple[PartChange, ...]:
    """See `Orchestrator.preview`."""
    with closing(connect()) as client:
        services = wanted_services(client, wanted)
        there = _services(client, wanted.record.name)
        _refuse_others(client, wanted.record.name, there)
    parts = [PartChange(PartKind.ENGINE, each.service.part, *_action(each, there)) for each in services]
    gone = sorted(there.keys() - {each.name for each in services})
    return (*parts, *(PartChange(PartKind.ENGINE, _part(there[name]), Action.REMOVE) for name in gone))


def _action(each: Wanted, there: Mapping[str, Object]) -> tuple[Action, str]:
    now = there.get(each.name)
    if now is None:
        return Action.CREATE, ""
    labels = now["Spec"]["Labels"]
    if labels.get(HASH) == each.labels[HASH]:
        return Action.NONE, ""
    if labels.get(TEMPLATE) == each.labels[TEMPLATE]:
        return Action.RELOAD, "the tasks stay; their number or the way that they are updated changes"
    if each.service.entry:
        return Action.INTERRUPT, "each node refuses connections while its task is replaced"
    return Action.REPLACE, "one task after the other"


def state(record: Record) -> OrchestratedStack:
    """See `Orchestrator.state`."""
    try:
        with closing(connect()) as client:
            if (found := _swarm_id(client)) != record.context:
                raise EngineError(Diagnostic("LB433", f"the docker daemon manages the swarm {found}"))
            tasks = _tasks(client, record)
    except EngineError as error:
        why = f"not seen: {error.diagnostics[0].message}"
        tasks = [_of_service(each, each.part, ended=why) for each in record.services]
    return OrchestratedStack(record.name, "", 0, 0, True, tuple(tasks), record=record)


def _tasks(client: DockerClient, record: Record) -> list[TaskState]:
    there = _services(client, record.name)
    with docker_errors("listing nodes"):
        nodes = {each["ID"]: each for each in client.api.nodes()}
    found: list[TaskState] = []
    for service in record.services:
        now = there.get(name_of(record.name, service.name))
        if now is None:
            found.append(_of_service(service, service.part, ended="gone"))
            continue
        wanted = [x for x in _list_tasks(client, now["ID"]) if x["DesiredState"] == "running"]
        names = _task_names(service, wanted, nodes)
        for task in sorted(wanted, key=lambda x: names[x["ID"]]):
            status = task["Status"]
            ended = "" if status["State"] == "running" else f"{status['State']}: {status.get('Err', '')}".rstrip(": ")
            host = nodes.get(task.get("NodeID", ""), {}).get("Status", {}).get("Addr", "") if service.entry else ""
            if not service.entry:
                given = [y for x in task.get("NetworksAttachments") or () for y in x.get("Addresses") or ()]
                host = given[0].partition("/")[0] if given else ""
            found.append(_of_service(service, names[task["ID"]], ended=ended, host=host))
    return found


def _of_service(service: Service, name: str, *, ended: str, host: str = "") -> TaskState:
    addresses = tuple(replace(x, host=host) for x in service.addresses)
    version = f"{service.title} {service.version}"
    return TaskState(name, service.title, version, "", "", addresses, ended=ended, died=ended, engine=service.engine)


def _task_names(service: Service, tasks: Sequence[Object], nodes: Mapping[str, Object]) -> dict[str, str]:
    """The name of each task, also of those that have ended: PART-SLOT, or PART-NODE where each node has one."""
    return {
        each["ID"]: f"{service.part}-{each.get('Slot') or nodes[each['NodeID']]['Description']['Hostname']}"
        for each in tasks
        if each.get("Slot") or each.get("NodeID") in nodes
    }


def end(record: Record, progress: Callable[[Progress], None]) -> None:
    """See `Orchestrator.end`."""
    with closing(connect()) as client:
        if (found := _swarm_id(client)) != record.context:
            message = f"{record.name} runs on {record.where}, and the docker daemon manages {found}"
            raise EngineError(Diagnostic("LB433", message, hint="set DOCKER_HOST to a manager of that swarm"))
        ours = [x for x in _services(client, record.name).values() if not foreign_owner(x["Spec"]["Labels"])]
        _remove_services(client, ours, progress)
        _remove_unused(client, record.name)
        _remove_network(client, record.name)


def lines(record: Record, engine: str | None, *, follow: bool) -> Iterator[Line]:
    """See `Orchestrator.lines`. There are none of tasks that the swarm has forgotten, or whose node is gone. Each task
    is asked: of a whole service docker 20.10 loses lines and does not come to an end."""
    since: dict[str, str] = {}
    parsers = {each.engine: access_parser(each.engine) for each in record.services}
    with closing(connect()) as client:
        while True:
            with docker_errors("listing nodes"):
                nodes = {x["ID"]: x for x in client.api.nodes() if x["Status"]["State"] == "ready"}
            there = _services(client, record.name)
            new: list[tuple[str, str, str, str]] = []
            for service in record.services:
                now = there.get(name_of(record.name, service.name))
                tasks = () if now is None else _list_tasks(client, now["ID"])
                begun = [x for x in tasks if x.get("NodeID") in nodes and x["Status"].get("ContainerStatus")]
                for task, name in _task_names(service, begun, nodes).items():
                    if engine in (None, name):
                        new += [(stamp, name, service.engine, x) for stamp, x in _new_lines(client, task, since)]
            for _, name, running, text in sorted(new, key=lambda x: x[0]):
                parse = parsers[running]
                yield Line(name, text, parse(text) if parse is not None else None)
            if not follow or not there:
                return
            time.sleep(_LOOK_SECONDS)


def _new_lines(client: DockerClient, task: str, since: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Each (time, line) of a task that is newer than `since`, which is updated. The SDK has no call for it."""
    last = since.get(task, "")
    url = f"{client.api.base_url}/v{client.api.api_version}/tasks/{task}/logs"
    after = int(datetime.fromisoformat(last).timestamp()) if last else 0
    with docker_errors(f"reading the log of the task {task}", whole=False):
        asked = {"stdout": 1, "stderr": 1, "timestamps": 1, "since": after}
        answer = client.api.get(url, params=asked, timeout=_LOG_SECONDS)
    content, at = answer.content if answer.ok else b"", 0
    while at < len(content):  # frames with the length of each in their head
        size = int.from_bytes(content[at + 4 : at + 8], "big")
        stamp, _, text = content[at + 8 : at + 8 + size].decode("utf-8", "replace").rstrip("\r\n").partition(" ")
        at += 8 + size
        if stamp > last:  # docker filters by whole seconds
            since[task] = max(stamp, since.get(task, ""))
            yield stamp, text


def _part(there: Object) -> str:
    return str(there["Spec"]["Labels"].get(f"{STACK}.part", there["Spec"]["Name"]))


def _services(client: DockerClient, stack: str) -> dict[str, Object]:
    with docker_errors("listing services"):
        found = client.api.services(filters={"label": f"{STACK}={stack}"}, status=True)
    return {each["Spec"]["Name"]: each for each in found}


def _list_tasks(client: DockerClient, service: str) -> list[Object]:
    with docker_errors("listing tasks"):
        return list(client.api.tasks(filters={"service": service}))


def _refuse_others(client: DockerClient, stack: str, there: Mapping[str, Object]) -> None:
    for each in there.values():
        if owner := foreign_owner(each["Spec"]["Labels"]):
            message = f"a stack {stack} is on this swarm, and belongs to {owner}"
            raise UsageError(Diagnostic("LB406", message, hint="give this one another name"))


def _labels(stack: str) -> dict[str, str]:
    return {STACK: stack, _NAMESPACE: label(stack), **owner_labels()}


def _prepare(client: DockerClient, stack: str, services: Sequence[Wanted], *, first: bool) -> dict[str, str]:
    """Make the network, configs and secrets that are missing; the ids of those by name."""
    ids: dict[str, str] = {}
    if first:
        _remove_network(client, stack)  # of one that was ended a moment ago
    with docker_errors("making the network, configs and secrets"):
        if first:
            client.api.create_network(network_of(stack), driver="overlay", labels=_labels(stack))
        for kind, create in (("configs", client.api.create_config), ("secrets", client.api.create_secret)):
            there = {each["Spec"]["Name"]: each["ID"] for each in getattr(client.api, kind)()}
            for name, content in (x for each in services for x in each.data[kind].items()):
                ids[name] = there.get(name) or create(name, content, labels=_labels(stack))["ID"]
                there[name] = ids[name]
    return ids


def _apply(client: DockerClient, stack: str, each: Wanted, now: Object | None, ids: Mapping[str, str]) -> None:
    spec = json.loads(json.dumps(each.spec))
    container = spec["task_template"]["ContainerSpec"]
    for kind in ("Config", "Secret"):
        for reference in container[f"{kind}s"]:
            reference[f"{kind}ID"] = ids[reference[f"{kind}Name"]]
    labels = _labels(stack) | each.labels | {f"{STACK}.part": each.service.part}
    with docker_errors(f"deploying {each.name}"):
        if now is None:
            client.api.create_service(name=each.name, labels=labels, **spec)
        else:
            version = client.api.inspect_service(now["ID"])["Version"]["Index"]
            client.api.update_service(now["ID"], version, name=each.name, labels=labels, **spec)


def _await_ready(client: DockerClient, each: Wanted, action: Action, options: Options) -> None:
    """Wait until all tasks of a service are as wanted, and healthy."""
    rolls = action in (Action.REPLACE, Action.INTERRUPT)
    until = time.monotonic() + options.seconds
    while True:
        with docker_errors(f"looking at {each.name}", whole=False):
            now = next(
                x
                for x in client.api.services(filters={"name": each.name}, status=True)
                if x["Spec"]["Name"] == each.name
            )
            tasks = client.api.tasks(filters={"service": now["ID"]})
        progress = (now.get("UpdateStatus") or {}).get("State", "")
        running, number = now["ServiceStatus"]["RunningTasks"], _number(client, now)
        options.progress(Progress(Step.TASKS, each.service.part, f"{min(running, number)}/{number}"))
        if progress.startswith("rollback") or progress == "paused":
            if progress == "rollback_started" and time.monotonic() < until:
                time.sleep(_LOOK_SECONDS)
                continue
            raise EngineError(
                _not_ready(client, "LB413", each, tasks, "it was rolled back: what served before serves again")
            )
        if running >= number and (progress == "completed" or not (rolls or progress)):
            return
        failed = [x for x in tasks if x["Status"]["State"] in ("failed", "rejected")]
        if action is Action.CREATE and len(failed) >= _TRIES:
            raise EngineError(_not_ready(client, "LB403", each, tasks, "it did not start"))
        if time.monotonic() > until:
            code = "LB403" if action is Action.CREATE else "LB413"
            raise EngineError(
                _not_ready(client, code, each, tasks, f"{running} of {number} tasks ready in {options.seconds:.0f} s")
            )
        time.sleep(_LOOK_SECONDS)


def _number(client: DockerClient, now: Object) -> int:
    """How many tasks there should be."""
    if (replicated := now["Spec"]["Mode"].get("Replicated")) is not None:
        return int(replicated["Replicas"])
    with docker_errors("listing nodes"):
        nodes = client.api.nodes()
    return sum(x["Status"]["State"] == "ready" and x["Spec"]["Availability"] == "active" for x in nodes)


def _not_ready(client: DockerClient, code: str, each: Wanted, tasks: Sequence[Object], what: str) -> Diagnostic:
    """With what swarm says of the newest task that failed or waits, and what that printed."""
    newest = sorted(tasks, key=lambda x: str(x["CreatedAt"]), reverse=True)
    task = next((x for x in newest if x["Status"].get("Err")), None)
    if task is None:
        return Diagnostic(code, f"{each.name}: {what}")
    said: list[str] = []
    if task["Status"]["State"] == "failed":
        with suppress(EngineError):  # its node may be gone
            said = [text for _, text in _new_lines(client, task["ID"], {})][-_SAID:]
    message = f"{each.name}: {what}; a task {task['Status']['State']}: {task['Status']['Err']}"
    variable = images.environment_variable(each.service.engine)
    hint = f"docker load it on each node, or have them pull it: {variable}=..." if "No such image" in message else ""
    return Diagnostic(code, "\n  ".join((message, *said)), hint=hint)


def _take_back(client: DockerClient, stack: str, done: Sequence[tuple[Wanted, Object | None]]) -> None:
    """Put services back as they were, the last one first, and remove those that are new."""
    for each, before in reversed(done):
        with docker_errors(f"taking back {each.name}"):
            now = client.api.inspect_service(each.name)
            if before is None:
                client.api.remove_service(now["ID"])
            elif now["Spec"]["Labels"].get(HASH) == each.labels[HASH]:  # else the swarm has rolled it back
                spec = {_KEYS[name]: value for name, value in before["Spec"].items() if name in _KEYS}
                client.api.update_service(now["ID"], now["Version"]["Index"], **spec)
    _remove_unused(client, stack)


def _remove_services(client: DockerClient, there: Sequence[Object], progress: Callable[[Progress], None]) -> None:
    """Remove services, and wait until their tasks have ended."""
    for each in there:
        with docker_errors(f"removing {each['Spec']['Name']}"):
            client.api.remove_service(each["ID"])
        progress(Progress(Step.STOPPED, _part(each)))


def _remove_unused(client: DockerClient, stack: str) -> None:
    """Remove our configs and secrets that no service has."""
    from docker.errors import APIError

    used = {
        reference[f"{kind}Name"]
        for each in _services(client, stack).values()
        for kind in ("Config", "Secret")
        for reference in each["Spec"]["TaskTemplate"]["ContainerSpec"].get(f"{kind}s") or ()
    }
    with docker_errors("removing old configs and secrets"):
        for kind, remove in (("configs", client.api.remove_config), ("secrets", client.api.remove_secret)):
            for each in getattr(client.api, kind)(filters={"label": f"{STACK}={stack}"}):
                if each["Spec"]["Name"] not in used and not foreign_owner(each["Spec"]["Labels"]):
                    with suppress(APIError):  # in use by a service of another's after all
                        remove(each["ID"])


def _remove_network(client: DockerClient, stack: str) -> None:
    """Remove our network, and wait until it is gone from this node too, which has it until its tasks have ended."""
    from docker.errors import APIError

    until = time.monotonic() + _GONE_SECONDS
    with docker_errors("removing the network"):
        while found := client.api.networks(filters={"label": f"{STACK}={stack}"}):
            if not (ours := [x["Id"] for x in found if not foreign_owner(x["Labels"])]):
                return
            for each in ours:
                try:
                    client.api.remove_network(each)
                except APIError:  # in use
                    if time.monotonic() > until:
                        raise
            time.sleep(_LOOK_SECONDS)
