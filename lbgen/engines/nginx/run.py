"""The nginx process: command lines, reload and stop signals, and the result of `nginx -t`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from signal import Signals

from lbgen.engines.api import Binary, CheckSpec, ProcessSpec
from lbgen.engines.nginx.access_log import FILE
from lbgen.engines.nginx.health_checks import uses_agent
from lbgen.plan.model import Mode, Plan

_FINDING = re.compile(r"\[(?:emerg|alert|crit|error)\] (?:[0-9]+#[0-9]+: )?(.*)")
_STREAM = "ngx_stream_module.so"
_RELOAD_NOTE = (
    "it closes idle client connections at once on reload, and a request just sent on one is lost "
    "(measured: 2 of 6566 in 8 reloads, 217 of 54944 under full load in 10); nginx 1.28 and newer loses none"
)


def process(plan: Plan, binary: Binary, directory: Path) -> ProcessSpec:
    """In the foreground. SIGQUIT drains and stops, SIGHUP reloads."""
    argv = (*_command(binary, directory), "-g", f"{_modules(plan, binary)}daemon off;")
    log = FILE if any(listener.access_log for listener in plan.listeners) else ""
    return ProcessSpec(
        argv,
        stop=Signals.SIGQUIT,
        reload=Signals.SIGHUP,
        overlap_seconds=0.2,  # the master sleeps 0.1 s before it signals the old workers
        reload_note="" if _keeps_idle_connections(binary) else _RELOAD_NOTE,
        agent=uses_agent(plan) or plan.metrics is not None or plan.acme is not None,
        access_log=log,
    )


def check(plan: Plan, binary: Binary, directory: Path) -> CheckSpec:
    """`nginx -t`, which binds no port but creates the folders of temporary files."""
    modules = _modules(plan, binary)
    return CheckSpec((*_command(binary, directory), "-t", *(("-g", modules.strip()) if modules else ())), judge)


def judge(code: int, output: str, _answers: Mapping[str, object]) -> tuple[str, ...]:
    """The errors, one per line; warnings about the host, such as its file limit, are left out."""
    if code == 0:
        return ()
    errors = tuple(_FINDING.findall(output))
    return errors or (output.strip().splitlines()[-1] if output.strip() else f"nginx -t ended with {code}",)


def _keeps_idle_connections(binary: Binary) -> bool:
    """Whether nginx supports `keepalive_min_timeout`, which keeps idle connections open during a reload."""
    return tuple(int(part) for part in binary.version.split(".")[:2]) >= (1, 28)


def _command(binary: Binary, directory: Path) -> tuple[str, ...]:
    return (str(binary.path), "-p", f"{directory}/", "-e", "stderr", "-c", "nginx.conf")


def _modules(plan: Plan, binary: Binary) -> str:
    """`load_module` directives for the stream module where the build ships it as a file, as Debian's does. Its path
    differs, so it is passed on the command line."""
    if all(listener.mode is not Mode.L4 for listener in plan.listeners):
        return ""
    return "".join(f"load_module {path}; " for path in binary.modules if path.name == _STREAM)
