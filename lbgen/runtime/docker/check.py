"""Run an engine's own checker on the files of its container, in a temporary container."""

from __future__ import annotations

import json
import secrets
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
    """LB401 for each problem that the checker reports. Raises EngineError LB403 (it does not end), LB421, LB422."""
    engine = unit.choice.engine
    spec = engine.check(unit.plan, unit.binary, Path(WORK))
    limit = for_routes(unit.plan, CHECK_SECONDS)
    name = f"{unit.container_spec.name}-{Role.CHECK}-{secrets.token_hex(2)}"
    record = Record(unit.record.stack, Role.CHECK, "", engine=engine.name)
    # The listener addresses do not exist in this container.
    anywhere = (("net.ipv4.ip_nonlocal_bind", "1"),)
    checked = replace(unit.container_spec, name=name, argv=spec.argv, joins="", sysctls=anywhere, once=True)
    if not spec.serves:  # no admin port is read
        rendered = render_with(engine, without_admin(unit.plan), unit.choice.version, ("all",))
        checked = replace(checked, files={**checked.files, **rendered_files(rendered)})
    answers: dict[str, object] = {}
    with container.temporary(client, checked, record) as handle:
        if spec.serves:
            asks = (helper_image.PYTHON, "-m", "lbgen.agent.admin_client", str(unit.plan.admin_port), f"{limit:g}")
            beside = ContainerSpec(
                name=f"{name}-asks",
                image=helper,
                argv=(*asks, *spec.ask),
                files={},
                env=helper_image.ENVIRONMENT,
                inside=name,
                once=True,
            )
            with container.temporary(client, beside, record) as asking:
                answers = _answers(handle, asking, limit)
            code = 0 if handle.status == "running" else int(handle.attrs["State"]["ExitCode"])
        else:
            code = container.wait_exit(handle, limit)
        with docker_errors(f"reading what {name} said"):
            said = handle.logs().decode("utf-8", "replace")
    version = unit.choice.image.version or unit.choice.version
    return tuple(refused_files(unit.plan, f"{engine.title} {version}", spec.judge(code, said, answers)))


def _answers(engine: Container, asking: Container, limit: float) -> dict[str, object]:
    """The engine's answers on its admin port, by path; empty when it ended before it answered."""
    code = container.wait_exit(asking, limit)
    with docker_errors(f"reading what {asking.name} said"):
        said = asking.logs(stderr=False)
        engine.reload()
    if not code:
        found = json.loads(said)
        return found if isinstance(found, dict) else {}
    if engine.status == "running":
        raise EngineError(Diagnostic("LB403", f"{engine.name} did not answer on its admin port"))
    return {}
