"""How the rendered files are run as a local process, and what nginx's own checker says about them."""

from __future__ import annotations

import re
from signal import Signals
from typing import TYPE_CHECKING

from lbgen.engines.api import CheckSpec, ProcessSpec
from lbgen.engines.nginx.access_log import FILE
from lbgen.engines.nginx.health_checks import steered
from lbgen.plan.model import Mode

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lbgen.engines.api import Binary
    from lbgen.plan.model import Plan

_FINDING = re.compile(r"\[(?:emerg|alert|crit|error)\] (?:[0-9]+#[0-9]+: )?(.*)")
_STREAM, _SCRIPTS = "ngx_stream_module.so", "ngx_http_js_module.so"
_CUTS = (
    "it closes kept connections at once when it loads other files, so that a request on its way just then is lost "
    "(measured: 2 of 6566 in 8 reloads, 217 of 54944 under full load in 10); nginx 1.31 loses none"
)


def process(plan: Plan, binary: Binary, directory: Path) -> ProcessSpec:
    """In the foreground; SIGQUIT lets requests under way end, SIGHUP loads changed files."""
    argv = (*_command(binary, directory), "-g", f"{_modules(plan, binary)}daemon off;")
    log = FILE if any(listener.access_log for listener in plan.listeners) else ""
    return ProcessSpec(
        argv,
        stop=Signals.SIGQUIT,
        reload=Signals.SIGHUP,
        overlap=0.2,  # the master sleeps for 0.1 s before it tells the old workers
        reload_note="" if _waits(binary) else _CUTS,
        agent=steered(plan),
        access_log=log,
    )


def check(plan: Plan, binary: Binary, directory: Path) -> CheckSpec:
    """`nginx -t`; it binds no port but creates the folders for temporary files."""
    modules = _modules(plan, binary)
    return CheckSpec((*_command(binary, directory), "-t", *(("-g", modules.strip()) if modules else ())), judge)


def judge(code: int, output: str, _answers: Mapping[str, object]) -> tuple[str, ...]:
    """Errors, one line each; warnings about the host, such as its file limit, are none."""
    if code == 0:
        return ()
    found = tuple(_FINDING.findall(output))
    if any('"js_engine"' in line for line in found):
        found = (*found, "this nginx lacks njs: install its module (nginx-module-njs)")
    return found or (output.strip().splitlines()[-1] if output.strip() else f"nginx -t ended with {code}",)


def _waits(binary: Binary) -> bool:
    """Whether it knows `keepalive_min_timeout`, which keeps idle connections open for a moment when it reloads."""
    return tuple(int(part) for part in binary.version.split(".")[:2]) >= (1, 28)


def _command(binary: Binary, directory: Path) -> tuple[str, ...]:
    return (str(binary.path), "-p", f"{directory}/", "-e", "stderr", "-c", "nginx.conf")


def _modules(plan: Plan, binary: Binary) -> str:
    """What is built into one nginx is a file beside another one, which the configuration cannot name: TCP in Debian's,
    scripts in the official ones."""
    modes = {listener.mode for listener in plan.listeners}
    wanted = [name for name, mode in ((_STREAM, Mode.L4), (_SCRIPTS, Mode.L7)) if mode in modes]
    return "".join(f"load_module {path}; " for path in binary.modules if path.name in wanted)
