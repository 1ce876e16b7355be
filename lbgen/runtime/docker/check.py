"""The files of an engine's container -> what its own checker says of them, in a container that is thrown away."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.runtime.common.checker import CHECK_SECONDS, refused_files
from lbgen.runtime.common.time_limits import for_routes
from lbgen.runtime.docker import container, own
from lbgen.runtime.docker.bundle import WORK
from lbgen.runtime.docker.client import told
from lbgen.runtime.docker.container import Wanted
from lbgen.runtime.docker.labels import Record, Role

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

    from lbgen.runtime.docker.wanted import Part


def check(client: DockerClient, part: Part, helper: str) -> tuple[Diagnostic, ...]:
    """LB401 for each problem; empty when it is content. Raises EngineError LB403 (it does not end), LB421."""
    engine = part.chosen.engine
    spec = engine.check(part.plan, part.binary, Path(WORK))
    name, limit = f"{part.wanted.name}-{Role.CHECK}", for_routes(part.plan, CHECK_SECONDS)
    record = Record(part.record.stack, Role.CHECK, "", engine=engine.name)
    # An address that it has not got there can be listened on all the same.
    anywhere = (("net.ipv4.ip_nonlocal_bind", "1"),)
    made = _made(client, replace(part.wanted, name=name, argv=spec.argv, joins="", sysctls=anywhere, once=True), record)
    try:
        answers: dict[str, object] = {}
        with told(f"checking in {name}"):
            made.start()
        if spec.serves:
            answers = _ask(
                client,
                made,
                Wanted(
                    name=f"{name}-asks",
                    image=helper,
                    argv=(
                        own.PYTHON,
                        "-m",
                        "lbgen.runtime.common.admin_client",
                        str(part.plan.admin_port),
                        f"{limit:g}",
                        *spec.ask,
                    ),
                    files={},
                    env=own.ENVIRONMENT,
                    inside=name,
                    once=True,
                ),
                record,
                limit,
            )
            with told(f"looking at {name}"):
                made.reload()
            code = 0 if made.status == "running" else int(made.attrs["State"]["ExitCode"])
        else:
            code = _ended(made, limit)
        with told(f"reading what {name} said"):
            said = made.logs().decode("utf-8", "replace")
    finally:
        _discard(made)
    version = part.chosen.image.version or part.chosen.version
    return tuple(refused_files(part.plan, f"{engine.title} {version}", spec.judge(code, said, answers)))


def _made(client: DockerClient, wanted: Wanted, record: Record) -> Container:
    from docker.errors import NotFound

    with told(f"removing the container {wanted.name}"), suppress(NotFound):
        container.remove(client.containers.get(wanted.name))  # left by one that was killed
    return container.create(client, wanted, record, "")


def _ask(client: DockerClient, beside: Container, wanted: Wanted, record: Record, limit: float) -> dict[str, object]:
    """What the engine answers on its admin port; nothing when it ended before it answered."""
    made = _made(client, wanted, record)
    try:
        with told(f"starting {wanted.name}"):
            made.start()
        code = _ended(made, limit)
        with told(f"reading what {wanted.name} said"):
            said = made.logs(stderr=False)
            beside.reload()
        if not code:
            found = json.loads(said)
            return found if isinstance(found, dict) else {}
        if beside.status == "running":
            raise EngineError(Diagnostic("LB403", f"{beside.name} did not answer on its admin port"))
        return {}
    finally:
        _discard(made)


def _ended(made: Container, limit: float) -> int:
    with told(f"waiting for {made.name}"):
        return int(made.wait(timeout=limit)["StatusCode"])


def _discard(made: Container) -> None:
    with told(f"removing the container {made.name}"):
        container.remove(made)
