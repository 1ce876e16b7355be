"""A swarm: a stack whose configs and secrets are named by their digest, and that takes back what does not get healthy.

Tiers reach each other by the addresses of all tasks (`dnsrr`), and the tier in front is on ports of the nodes: virtual
addresses and the routing mesh keep connections to tasks that are gone, and hide clients' addresses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lbgen.diagnostics import Diagnostic
from lbgen.engines.agent_spec import FILE as AGENT_FILE
from lbgen.engines.api import RenderedFile
from lbgen.exporters import containers
from lbgen.exporters.parts import (
    CONFIG,
    Exported,
    Part,
    Request,
    Target,
    build_parts,
    dump,
    exported,
    kept_otherwise,
    lost_addresses,
    per_replica,
    refuse,
    slots,
    text_file,
    weak_links,
)
from lbgen.runtime.docker.helper_image import USER
from lbgen.runtime.orchestrators.names import digest, label

if TYPE_CHECKING:
    _Object = dict[str, Any]

LINGER_SECONDS = 12  # of a task whose name has lost its address: engines ask for it every 5 s, and hold it 5 s more
MOST_BYTES = 500 * 1024  # of a config or secret, in every docker that has swarms
_MEMORY_BYTES = 128 << 20
# A folder in memory has the owner and mode of what it covers, and everybody may write to no other.
_WORK = "/tmp"  # noqa: S108  # in the container
_TARGET = Target(
    "swarm",
    work=lambda name: _WORK,
    endpoints=lambda name, count: ((label(name), slots(count)),),
    resolvers=("127.0.0.11",),
    least=2,
    names=slots(1),
    drains=True,
)
_KEPT = "ports of the nodes keep clients' addresses, but for those of clients on the node itself"


def export(request: Request) -> Exported:
    """stack.yaml, the files of its configs and secrets, and a README. LbgenError LB311 where a field needs the agent,
    which has to share the engine's folder, and for a file that no config can hold."""
    parts = build_parts(request, _TARGET)
    stack: _Object = {"version": "3.9", "services": {}, "configs": {}, "secrets": {}, "networks": {}}
    files: list[RenderedFile] = []
    findings: list[Diagnostic] = []
    for part in parts:
        _refuse_agent(part)
        own = part.files(part.name, containers.scripts(part, lingers=_lingers(part)))
        files += own
        configs = {x.name: x.text.encode() for x in own}
        configs |= {x.path: x.content() for x in part.copies(part.name) if not x.secret}
        keys = {x.path: x.content() for x in part.copies(part.name) if x.secret}
        for path, content in (*configs.items(), *keys.items()):
            _refuse_large(part, path, len(content))
        number = request.replicas.get(part.tier) if part.entry else part.replicas
        service = _service(part, number) | {"configs": _mounts(part, configs, 0o444)}
        if keys:
            service["secrets"] = _mounts(part, keys, 0o400)
        if part.plan.networks:
            service["networks"] = ["default", *part.plan.networks]
            stack["networks"] |= {name: {"external": True} for name in part.plan.networks}
        stack["services"][label(part.name)] = service
        stack["configs"] |= _sources(part, configs)
        stack["secrets"] |= _sources(part, keys)
        findings += [*per_replica(part, number), *weak_links(part), *lost_addresses(part, _KEPT), *_edge(part)]
    header = f"lbgen: a swarm's stack for the topology {request.name}. Edit the topology, not this file."
    text = dump({key: value for key, value in stack.items() if value}, header=header)
    files += [RenderedFile("stack.yaml", text), _readme(request, parts)]
    copies = [copy for part in parts for copy in part.copies(part.name)]
    return exported("swarm", files, copies, findings, request, parts)


def _lingers(part: Part) -> int:
    """The seconds for which an engine goes on after its task was told to end."""
    return max(0 if part.entry else LINGER_SECONDS, containers.DRAIN_SECONDS if part.spec.drain_path else 0)


def _refuse_agent(part: Part) -> None:
    if not part.spec.agent:
        return
    checked = next((pool.field for pool in part.plan.pools if pool.active is not None), "")
    field = f"{checked}.health.active" if AGENT_FILE in part.rendered and checked else "metrics"
    message = f"{part.engine.title} needs `lbgen agent` in its folder for this, which services of a swarm cannot share"
    raise refuse(part.plan, message, field, "choose an engine that does it by itself, another target, or leave it out")


def _refuse_large(part: Part, path: str, size: int) -> None:
    if size > MOST_BYTES:
        message = f"{path} has {size:,} bytes, and a config of a swarm holds {MOST_BYTES:,}"
        raise refuse(part.plan, message, "", "spread the routes over tiers, or choose an engine with smaller files")


def _edge(part: Part) -> Iterator[Diagnostic]:
    """What clients of a node see while its task is replaced."""
    if part.entry:
        listener = part.plan.listeners[0]
        message = "a node refuses connections while its task is replaced, as the port is the node's own"
        hint = "have clients, or a balancer before the nodes, check them and try another one"
        yield kept_otherwise(part.plan, message, listener.field, hint)


def _name(part: Part, path: str, content: bytes) -> str:
    return f"{label(part.name)}-{digest(path, content)}"


def _sources(part: Part, files: dict[str, bytes]) -> _Object:
    names = {_name(part, path, content): path for path, content in files.items()}
    return {name: {"name": name, "file": f"./{path}"} for name, path in names.items()}


def _mounts(part: Part, files: dict[str, bytes], mode: int) -> list[_Object]:
    return [
        {
            "source": _name(part, path, content),
            "target": f"{CONFIG}/{path.removeprefix(f'{part.name}/')}",
            "uid": str(USER),
            "gid": str(USER),
            "mode": mode,
        }
        for path, content in files.items()
    ]


def _service(part: Part, number: int | None) -> _Object:
    """A service of so many tasks, None = one on each node. A task at a port of its node ends before the next begins."""
    service = containers.compose_service(part) | {
        "working_dir": _WORK,
        "volumes": [{"type": "tmpfs", "target": _WORK, "tmpfs": {"size": _MEMORY_BYTES}}],
        "logging": {"driver": "json-file", "options": {"max-size": "20m", "max-file": "3"}},
        "deploy": _deploy(part, number),
    }
    if seconds := _lingers(part):
        service["stop_grace_period"] = f"{containers.GRACE_SECONDS + seconds}s"
    if part.entry:
        service["ports"] = [
            {"target": x.port, "published": x.port, "protocol": str(x.protocol), "mode": "host"}
            for x in part.plan.listeners
        ]
    return service


def _deploy(part: Part, number: int | None) -> _Object:
    update = {
        "parallelism": 1,
        "delay": "2s",
        "order": "stop-first" if part.entry else "start-first",
        "monitor": "5s",
        "failure_action": "rollback",
    }
    many: _Object = {"mode": "global"} if number is None else {"mode": "replicated", "replicas": number}
    if part.entry and number is not None:
        many["placement"] = {"max_replicas_per_node": 1}
    return many | {
        "endpoint_mode": "dnsrr",
        "update_config": update,
        "rollback_config": {key: value for key, value in update.items() if key != "failure_action"},
        "restart_policy": {"condition": "any", "delay": "1s"},
        "resources": {
            "limits": {"memory": str(part.plan.containers.memory), "pids": part.plan.containers.pids},
        },
    }


def _tasks(request: Request, part: Part) -> str:
    if not part.entry:
        return str(part.replicas)
    ports = ", ".join(str(x.port) for x in part.plan.listeners)
    return f"{request.replicas.get(part.tier) or 'as many as nodes'}, one on a node, at its ports {ports}"


def _readme(request: Request, parts: tuple[Part, ...]) -> RenderedFile:
    rows = [
        {
            "service": f"{label(request.name)}_{label(part.name)}",
            "title": f"{part.engine.title} {part.version}",
            "image": containers.image_variable(part),
            "tasks": _tasks(request, part),
            "keys": [f"{part.name}/{file.path}" for file in part.secrets],
        }
        for part in parts
    ]
    return text_file("README.md", "swarm.md.j2", name=request.name, stack=label(request.name), parts=rows)
