"""A container that shares an engine's processes and ends once its workers from before a reload have closed."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from lbgen.diagnostics import Diagnostic, EngineError
from lbgen.plan.model import Plan, Protocol
from lbgen.runtime.common import workers
from lbgen.runtime.common.driver import START_SECONDS
from lbgen.runtime.docker import container, helper_image
from lbgen.runtime.docker.client import docker_errors
from lbgen.runtime.docker.container import ContainerSpec
from lbgen.runtime.docker.labels import Record, Role

if TYPE_CHECKING:
    from docker.models.containers import Container

    from lbgen.runtime.docker.converge import StackContainer

_LOOK_SECONDS = 0.05


class WorkerProbe(Struct, frozen=True):
    """`handle` runs `lbgen.runtime.common.workers` in the process and network namespaces of an engine."""

    handle: Container

    @classmethod
    def start(cls, engine: StackContainer, plan: Plan, helper: str) -> WorkerProbe:
        """Return once the workers that run now are listed. `helper` is the helper image, `plan` the one to load.

        Raises EngineError LB403 (it does not start), LB421.
        """
        ports = [str(x.port) for x in plan.listeners if x.protocol is Protocol.TCP]
        spec = ContainerSpec(
            name=f"{engine.name}-workers-{secrets.token_hex(2)}",
            image=helper,
            argv=(helper_image.PYTHON, "-m", "lbgen.runtime.common.workers", *ports),
            files={},
            env=helper_image.ENVIRONMENT,
            stop="SIGKILL",
            inside=engine.name,
            joins=str(engine.handle.attrs["HostConfig"]["NetworkMode"]).removeprefix("container:"),
            once=True,
        )
        probe = cls(container.create(engine.handle.client, spec, Record(engine.record.stack, Role.CHECK, ""), ""))
        try:
            container.start(probe.handle, spec)
            probe._wait(
                lambda: workers.READY in container.tail(probe.handle), START_SECONDS, f"{spec.name} did not start"
            )
        except BaseException:
            probe.remove()
            raise
        return probe

    def wait(self, title: str, seconds: float) -> None:
        """Return once the workers from before accept no connections. EngineError LB403 after `seconds`, LB421."""
        try:
            self._wait(self._ended, seconds, f"{title} has not loaded the files after {seconds:g} s")
        finally:
            self.remove()

    @staticmethod
    def _wait(done: Callable[[], bool], seconds: float, message: str) -> None:
        end = time.monotonic() + seconds
        while not done():
            if time.monotonic() > end:
                raise EngineError(Diagnostic("LB403", message))
            time.sleep(_LOOK_SECONDS)

    def _ended(self) -> bool:
        with docker_errors(f"looking at {self.handle.name}"):
            self.handle.reload()
        return bool(self.handle.status == "exited")

    def remove(self) -> None:
        """Remove the container, whatever it does."""
        with docker_errors(f"removing {self.handle.name}"):
            container.remove(self.handle)
