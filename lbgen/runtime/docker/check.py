"""Run an engine's own checker on the files of its container, in a temporary container."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.engines.rendered import render_with
from lbgen.plan.overlay import without_admin
from lbgen.runtime.common.readiness import CHECK_SECONDS, refused_files
from lbgen.runtime.common.selection import for_routes
from lbgen.runtime.docker import container, helper_image
from lbgen.runtime.docker.client import docker_errors
from lbgen.runtime.docker.container import ContainerSpec
from lbgen.runtime.docker.container_files import rendered_files
from lbgen.runtime.docker.helper_image import WORK
from lbgen.runtime.docker.labels import Record, Role

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

    from lbgen.runtime.docker.desired import EngineUnit


def check(client: DockerClient, unit: EngineUnit, helper: str) -> tuple[Diagnostic, ...]:
    """LB401 for each problem that the checker reports. Raises EngineError LB403 (it does not end), LB421."""
    engine = unit.choice.engine
    spec = engine.check(unit.plan, unit.binary, Path(WORK))
    name, limit = f"{unit.container_spec.name}-{Role.CHECK}", for_routes(unit.plan, CHECK_SECONDS)
    record = Record(unit.record.stack, Role.CHECK, "", engine=engine.name)
    # The listener addresses do not exist in this container.
    anywhere = (("net.ipv4.ip_nonlocal_bind", "1"),)
    checked = replace(unit.container_spec, name=name, argv=spec.argv, joins="", sysctls=anywhere, once=True)
    if not spec.serves:  # no admin port is read
        rendered = render_with(engine, without_admin(unit.plan), unit.choice.version, ("all",))
        checked = replace(checked, files={**checked.files, **rendered_files(rendered)})
    handle = _create(client, checked, record)
    try:
        answers: dict[str, object] = {}
        with docker_errors(f"checking in {name}"):
            handle.start()
        if spec.serves:
            answers = _fetch_answers(
                client,
                handle,
                ContainerSpec(
                    name=f"{name}-asks",
                    image=helper,
                    argv=(
                        helper_image.PYTHON,
                        "-m",
                        "lbgen.agent.admin_client",
                        str(unit.plan.admin_port),
                        f"{limit:g}",
                        *spec.ask,
                    ),
                    files={},
                    env=helper_image.ENVIRONMENT,
                    inside=name,
                    once=True,
                ),
                record,
                limit,
            )
            with docker_errors(f"looking at {name}"):
                handle.reload()
            code = 0 if handle.status == "running" else int(handle.attrs["State"]["ExitCode"])
        else:
            code = _wait_exit(handle, limit)
        with docker_errors(f"reading what {name} said"):
            said = handle.logs().decode("utf-8", "replace")
    finally:
        _remove(handle)
    version = unit.choice.image.version or unit.choice.version
    return tuple(refused_files(unit.plan, f"{engine.title} {version}", spec.judge(code, said, answers)))


def _create(client: DockerClient, spec: ContainerSpec, record: Record) -> Container:
    from docker.errors import NotFound

    with docker_errors(f"removing the container {spec.name}"), suppress(NotFound):
        container.remove(client.containers.get(spec.name))  # left by one that was killed
    return container.create(client, spec, record, "")


def _fetch_answers(
    client: DockerClient, beside: Container, spec: ContainerSpec, record: Record, limit: float
) -> dict[str, object]:
    """The engine's answers on its admin port, by path; empty when it ended before it answered."""
    handle = _create(client, spec, record)
    try:
        with docker_errors(f"starting {spec.name}"):
            handle.start()
        code = _wait_exit(handle, limit)
        with docker_errors(f"reading what {spec.name} said"):
            said = handle.logs(stderr=False)
            beside.reload()
        if not code:
            found = json.loads(said)
            return found if isinstance(found, dict) else {}
        if beside.status == "running":
            raise EngineError(Diagnostic("LB403", f"{beside.name} did not answer on its admin port"))
        return {}
    finally:
        _remove(handle)


def _wait_exit(handle: Container, limit: float) -> int:
    with docker_errors(f"waiting for {handle.name}"):
        return int(handle.wait(timeout=limit)["StatusCode"])


def _remove(handle: Container) -> None:
    with docker_errors(f"removing the container {handle.name}"):
        container.remove(handle)
