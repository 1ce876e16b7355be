"""Processes: how Traefik runs and, because it has no checker, how a temporary instance is checked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from signal import Signals

from lbgen.engines.api import Binary, CheckSpec, ProcessSpec
from lbgen.engines.traefik import access_log, tcp_weights
from lbgen.engines.traefik.names import ACCESS_LOG, DRAIN, DRAIN_FILE
from lbgen.json_types import AccessRecord
from lbgen.plan.model import Plan

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_TIME = re.compile(r"^\d{4}-\d\d-\d\dT\S+ ")
_PROBLEM = re.compile(r"\b(?:ERR|FTL|PNC)\b|^panic:|\blevel=(?:error|fatal)\b")
# SIGTERM closes idle connections at once, also those on which a request is on its way.
_DRAINED = {"http": {"middlewares": {DRAIN: {"headers": {"customResponseHeaders": {"Connection": "close"}}}}}}
ADMIN_PATHS = (
    "/api/http/routers",
    "/api/http/services",
    "/api/http/middlewares",
    "/api/tcp/routers",
    "/api/tcp/services",
    "/api/udp/routers",
    "/api/udp/services",
)


def build_process_spec(plan: Plan, binary: Binary) -> ProcessSpec:
    """The process; it finds the dynamic files and the plugin in its working directory and watches the former.

    Traefik listens, and answers /ping, before it has read its dynamic files.
    """
    argv = (str(binary.path), "--configFile=traefik.yaml")
    log = ACCESS_LOG if access_log.is_written(plan) else ""
    return ProcessSpec(
        argv,
        stop=Signals.SIGTERM,
        drain_file=(DRAIN_FILE, json.dumps(_DRAINED)),
        env=(("GOGC", "400"),),
        agent=plan.metrics is not None or plan.acme is not None or bool(tcp_weights.find_checked_pools(plan)),
        access_log=log,
        fixed=("traefik.yaml", "plugins-local/"),
        watched=("dynamic/",),
        ready="/api/version",  # by a dynamic file
    )


def parse_record(line: str) -> AccessRecord | None:
    """A line of the access log as a record in lbgen's schema; None for any other line."""
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return access_log.read_line(found) if isinstance(found, dict) else None


def build_check_spec(plan: Plan, binary: Binary) -> CheckSpec:
    """The same command; everything in its API must be enabled, and its log must hold no error."""
    return CheckSpec(build_process_spec(plan, binary).argv, judge, serves=True, ask=ADMIN_PATHS)


def judge(code: int, output: str, answers: Mapping[str, object]) -> tuple[str, ...]:
    """The problems, one per line: errors in the log, and everything that the API does not report as enabled."""
    found = list(dict.fromkeys((*_log(output), *_answers(answers))))
    if not found and code not in (0, -int(Signals.SIGTERM)):
        found.append(f"traefik ended with exit code {code}")
    return tuple(found)


def _log(output: str) -> Iterator[str]:
    for line in output.splitlines():
        text = _COLOUR.sub("", line).strip()
        if _PROBLEM.search(text):
            yield _TIME.sub("", text)


def _answers(answers: Mapping[str, object]) -> Iterator[str]:
    for path, answer in answers.items():
        if not isinstance(answer, list):
            yield f"{path}: no list came back"
            continue
        for item in answer:
            if isinstance(item, dict) and item.get("status", "enabled") != "enabled":
                errors = item.get("error")
                why = "; ".join(map(str, errors)) if isinstance(errors, list) else "no reason given"
                yield f"{path}: {item.get('name')} is {item.get('status')}: {why}"
