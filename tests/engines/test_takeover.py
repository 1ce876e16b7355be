"""A stack of processes whose supervisor ended serves on, and the next command takes it over."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen import api
from lbgen.diagnostics import EngineError
from lbgen.runtime.common import state
from lbgen.runtime.common.processes import ProcessId
from lbgen.runtime.local.spawn import UNKNOWN_STATUS, AdoptedProcess, processes_in, session_leaders
from tests.engines.test_local_runtime import DATABASE, need
from tests.engines.test_reload import PORT, topology
from tests.support.command import run_lbgen
from tests.support.sample import sample
from tests.support.stacks import pool_of
from tests.support.traffic import traffic

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime"), pytest.mark.usefixtures("state_dir")]
L7 = ("nginx", "haproxy", "envoy", "traefik")


def changing(name: str, *routes: str) -> lbgen.Topology:
    """With active checks, for which nginx has an agent."""
    from lbgen.engines.api import engine

    made = topology(name, engine(name).versions[0], *routes)
    made["pools"]["app"]["health"] = {"active": {"path": "/health"}}
    return lbgen.load(made)


def up(name: str, *routes: str) -> api.Stack:
    return lbgen.up(changing(name, *routes), engine=name, accept=("all",), runtime="local")


def kill_supervisor() -> api.Stack:
    """Returns the stack as it is then."""
    (stack,) = api.ps()
    os.kill(stack.state.pid, signal.SIGKILL)
    while stack.alive:
        time.sleep(0.01)
    return api.ps()[0]


@pytest.mark.parametrize("name", sample(L7, ("nginx", "envoy")))
def test_reload_and_up_take_over_and_no_request_is_lost(name: str) -> None:
    need(name)
    first = up(name, "one")
    with traffic(PORT, pause=0.03) as seen:
        lbgen.reload(changing(name, "two"))
        left = kill_supervisor()
        assert left.engines[0].running
        before = seen.good
        while seen.good < before + 50 and not seen.lost:
            time.sleep(0.02)
        taken = lbgen.reload(changing(name, "three"))
        assert taken.alive
        assert taken.state.pid != left.state.pid
        assert [pool_of(PORT, "/three"), pool_of(PORT, "/two")] == ["three", "app"]
        kill_supervisor()
        again = lbgen.up(changing(name, "three"), engine=name, accept=("all",), runtime="local")
        assert again.unchanged
        assert again.alive
        assert again.engines[0].pid == taken.engines[0].pid
        kill_supervisor()
        other = lbgen.up(changing(name, "four"), engine=name, accept=("all",), runtime="local")
        assert other.reloaded
        assert pool_of(PORT, "/four") == "four"
        assert len(session_leaders(other.engines[0].directory)) == (2 if name == "nginx" else 1)  # its agent
        time.sleep(0.5)
    assert seen.lost == []
    first.down()  # it is the same stack, whoever supervises it
    assert api.ps() == ()
    assert processes_in(first.engines[0].directory) == []


def test_the_kernels_rules_are_taken_over() -> None:
    need("nftables")
    stack = lbgen.up(lbgen.load(DATABASE), engine="nftables", runtime="local")
    address = stack.address("db")
    kill_supervisor()
    again = lbgen.reload(lbgen.load({**DATABASE, "routes": [{**DATABASE["routes"][0], "name": "other"}]}))
    assert again.alive
    assert again.address("db") == address
    again.down()
    assert ProcessId.of(stack.engines[0].pid) is None


def test_the_agent_of_the_kernels_rules_is_taken_over() -> None:
    need("nftables")
    checked = {**DATABASE["pools"]["pg"], "health": {"active": {"interval": "200ms", "timeout": "200ms"}}}
    database = {**DATABASE, "pools": {"pg": checked}}
    stack = lbgen.up(lbgen.load(database), engine="nftables", accept=("all",), runtime="local")
    (before,) = stack.engines
    assert before.agent
    kill_supervisor()
    again = lbgen.reload(lbgen.load({**database, "routes": [{**database["routes"][0], "name": "other"}]}))
    assert again.alive
    (after,) = again.engines
    assert len([each for each in session_leaders(after.directory) if each.identity.pid == after.agent]) == 1
    assert before.agent == after.agent or ProcessId.of(before.agent) is None, "two agents would steer the same rules"
    again.down()
    assert ProcessId.of(after.agent) is None


def test_what_died_meanwhile_is_started_again() -> None:
    need("nginx")
    stack = up("nginx", "one")
    (entry,) = kill_supervisor().engines
    for each in session_leaders(entry.directory):
        if each.identity.pid == entry.agent:
            each.identity.send(signal.SIGKILL)
    for each in processes_in(str(state.folder(stack.name))):  # the stand-ins
        each.send(signal.SIGKILL)
    again = up("nginx", "one")
    assert again.unchanged
    assert pool_of(PORT, "/one") == "one"
    (now,) = again.engines
    assert now.pid == entry.pid
    assert now.agent not in (0, entry.agent)
    assert ProcessId.of(now.agent) is not None


def test_an_engine_that_was_taken_over_comes_back_when_it_dies() -> None:
    need("haproxy")
    up("haproxy", "one")
    kill_supervisor()
    again = up("haproxy", "one")
    os.kill(again.engines[0].pid, signal.SIGKILL)
    end = time.monotonic() + 30
    while not (found := api.ps()[0].engines[0]).restarts:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert found.died == "ended"  # nobody but its parent could know how


def test_what_another_lbgen_wrote_is_not_taken_over_and_serves_on() -> None:
    need("haproxy")
    stack = up("haproxy", "one")
    kill_supervisor()
    saved = state.folder(stack.name) / "saved"
    saved.write_bytes(b"lbgen of another version\n")
    with pytest.raises(EngineError, match=r"LB412.*started by another lbgen.*`lbgen up` replaces"):
        lbgen.reload(changing("haproxy", "two"))
    assert pool_of(PORT, "/one") == "one"
    other = up("haproxy", "two")
    assert not other.reloaded
    assert pool_of(PORT, "/two") == "two"
    assert processes_in(stack.engines[0].directory) == []


def test_what_an_up_that_failed_had_stopped_is_started_again() -> None:
    for name in ("haproxy", "nginx"):
        need(name)
    stack = up("haproxy", "one")
    made = topology("nginx", "1.31", "two")
    made["listeners"]["other"] = {"port": PORT + 1}
    with socket.create_server(("127.0.0.1", PORT + 1)), pytest.raises(EngineError, match=f"port {PORT + 1} is taken"):
        lbgen.up(lbgen.load(made), engine="nginx", accept=("all",), runtime="local")
    (found,) = api.ps()
    assert found.alive
    assert found.state.digest == stack.state.digest
    assert pool_of(PORT, "/one") == "one"


def test_the_commands(tmp_path: Path) -> None:
    need("haproxy")
    stack = up("haproxy", "one")
    kill_supervisor()
    done = command("ps")
    assert "running" in done.stdout
    assert "`lbgen up` or `lbgen reload` adopts them" in done.stderr
    assert command("down", stack.name).returncode == 0
    assert processes_in(stack.engines[0].directory) == []


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return run_lbgen(*words, DOCKER_HOST="unix:///nonexistent")


def test_a_pid_that_is_another_process_now_is_left_alone() -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        identity = ProcessId.of(stranger.pid)
        assert identity is not None
        adopted = AdoptedProcess.of(ProcessId(identity.pid, identity.started - 1))
        assert adopted.poll() == UNKNOWN_STATUS
        adopted.kill()
        assert stranger.poll() is None
        real = AdoptedProcess.of(identity)
        assert real.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            real.wait(0.01)
        real.kill()
        assert real.wait(5) == UNKNOWN_STATUS
        assert stranger.wait(5) == -signal.SIGKILL
