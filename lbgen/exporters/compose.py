"""docker compose: one service for each replica, with the rights that `lbgen up` gives its containers."""

from __future__ import annotations

from typing import Any

from lbgen.engines.api import RenderedFile
from lbgen.exporters import containers
from lbgen.exporters.containers import AGENT_IMAGE, AGENT_VARIABLE, WORK
from lbgen.exporters.parts import (
    CONFIG,
    Exported,
    Part,
    Request,
    Target,
    build_parts,
    dump,
    exported,
    per_replica,
    text_file,
)
from lbgen.runtime.docker.desired import NEXT_SIGNAL
from lbgen.runtime.docker.helper_image import USER
from lbgen.runtime.orchestrators.names import label

_MEMORY = "rw,noexec,nosuid,nodev"
_LOG = {"driver": "json-file", "options": {"max-size": "20m", "max-file": "3"}}
_TARGET = Target(
    "compose",
    work=lambda name: WORK,
    endpoints=lambda name, count: tuple((f"{name}-{n + 1}", 1) for n in range(count)),
    resolvers=("127.0.0.11",),
)


def export(request: Request) -> Exported:
    """compose.yaml, the engines' files, and a README."""
    parts = build_parts(request, _TARGET)
    services: dict[str, Any] = {}
    volumes: dict[str, Any] = {}
    for part in parts:
        for name in _names(part):
            services[name] = _service(part, name)
            if part.spec.agent:
                services[f"{name}-agent"] = _agent(part, name)
                volumes[f"{name}-work"] = _shared()
    stack: dict[str, Any] = {"name": label(request.name), "services": services}
    if volumes:
        stack["volumes"] = volumes
    header = f"lbgen: docker compose for the topology {request.name}. Edit the topology, not this file."
    files = [file for part in parts for file in part.files(part.name, containers.scripts(part, hot=True))]
    files += [RenderedFile("compose.yaml", dump(stack, header=header)), _readme(request, parts)]
    copies = [copy for part in parts for copy in part.copies(part.name)]
    findings = [each for part in parts for each in per_replica(part, part.replicas)]
    return exported("compose", files, copies, findings, request, parts)


def _names(part: Part) -> list[str]:
    """The services of a part, which other parts' pools name."""
    return [f"{part.name}-{n + 1}" for n in range(part.replicas)] if part.tier else [part.name]


def _service(part: Part, name: str) -> dict[str, Any]:
    memory = [f"/tmp:{_MEMORY},mode=1777,size=64m"]  # noqa: S108  # in the container
    mounts: list[dict[str, Any]] = [
        {"type": "bind", "source": f"./{part.name}", "target": CONFIG, "read_only": True},
    ]
    if part.spec.agent:
        mounts.append({"type": "volume", "source": f"{name}-work", "target": WORK})
    else:
        memory.append(f"{WORK}:{_MEMORY},uid={USER},gid={USER},mode=0700,size=64m")
    service = containers.compose_service(part) | {
        "security_opt": ["no-new-privileges:true"],
        "mem_limit": part.plan.containers.memory,
        "pids_limit": part.plan.containers.pids,
        "tmpfs": memory,
        "volumes": mounts,
        "logging": _LOG,
        "restart": "always",
    }
    published = [f"{on}:{port}:{port}/{protocol}" for on, port, protocol in part.published] if part.entry else []
    if part.plan.metrics is not None and name == _names(part)[0]:
        published.append(f"127.0.0.1:{part.plan.metrics.port}:{part.plan.metrics.port}/tcp")
    return service | ({"ports": published} if published else {})


def _agent(part: Part, name: str) -> dict[str, Any]:
    return {
        "image": f"${{{AGENT_VARIABLE}:-{AGENT_IMAGE}}}",
        "entrypoint": ["/bin/sh", "-c"],
        "command": [containers.agent_script(part)],
        "working_dir": WORK,
        "network_mode": f"service:{name}",
        "pid": f"service:{name}",
        "user": f"{USER}:{USER}",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "mem_limit": part.plan.containers.memory,
        "pids_limit": part.plan.containers.pids,
        "tmpfs": [f"/tmp:{_MEMORY},mode=1777,size=64m"],  # noqa: S108  # in the container
        "volumes": [{"type": "volume", "source": f"{name}-work", "target": WORK}],
        "depends_on": {name: {"condition": "service_started", "restart": True}},
        "logging": _LOG,
        "restart": "always",
    }


def _shared() -> dict[str, Any]:
    """A volume in memory, which an engine and its agent share."""
    options = {"type": "tmpfs", "device": "tmpfs", "o": f"uid={USER},gid={USER},mode=0700,size=64m"}
    return {"driver": "local", "driver_opts": options}


def _readme(request: Request, parts: tuple[Part, ...]) -> RenderedFile:
    rows = [
        {
            "services": _names(part),
            "title": f"{part.engine.title} {part.version}",
            "image": containers.image_variable(part),
            "folder": part.name,
            "reload": containers.reload_script(_signal(part)),
            "keys": [f"{part.name}/{file.path}" for file in part.secrets],
            "agent": part.spec.agent,
        }
        for part in parts
    ]
    return text_file("README.md", "compose.md.j2", name=request.name, parts=rows, user=USER, agent_image=AGENT_IMAGE)


def _signal(part: Part) -> str:
    if part.spec.hot_restart_argv:
        return NEXT_SIGNAL.removeprefix("SIG")
    return part.spec.reload.name.removeprefix("SIG") if part.spec.reload is not None else ""
