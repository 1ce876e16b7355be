"""Traefik's real binary: its access log goes on when its files can be written again."""

from __future__ import annotations

import subprocess
import time

import pytest

from lbgen.conformance.http1_client import fetch
from lbgen.engines.traefik import ENGINE
from lbgen.plan.model import Respond
from lbgen.plan.request import Request
from lbgen.runtime.common.executables import candidates
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.local.process import run_engine
from lbgen.runtime.local.spawn import engine_user
from tests.support.plans import by_prefix, route

pytestmark = [pytest.mark.engines, pytest.mark.skipif(not candidates(ENGINE), reason="no traefik here")]
FLUSHED = 0.6  # seconds; lines wait for at most 0.2


def limit_files(pid: int, size: str) -> None:
    """No file of the process grows beyond that, which is for it what a full disk is."""
    user = engine_user()
    command = ["prlimit", "--pid", str(pid), f"--fsize={size}:unlimited"]
    subprocess.run(command, check=True, user=user.uid, group=user.gid)


def test_it_goes_on_after_a_time_without_room() -> None:
    routes = [route(name, Respond(200, "", ())) for name in ("before", "without-room", "after")]
    plan = by_prefix(free_port("127.0.0.1", 23_900), routes, (), access_log=True)
    with run_engine(ENGINE, plan, accept=("all",)) as handle:
        log = handle.directory / "access.log"

        def ask(path: str) -> None:
            for number in range(8):
                fetch(handle.address("web"), Request("GET", f"/{path}/{number}", (("Host", "h"),)))
            time.sleep(FLUSHED)

        ask("before")
        size = log.stat().st_size
        limit_files(handle.pid, str(size))
        ask("without-room")
        assert log.stat().st_size == size
        limit_files(handle.pid, "unlimited")
        ask("after")
        lines = log.read_text(encoding="utf-8")
    assert lines.count("/before/") == lines.count("/after/") == 8
