"""One engine as a local process: it serves, it ends, and it tells why it did not start."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from msgspec.structs import replace

from lbgen.diagnostics import EngineError
from lbgen.plan.model import HostPattern, Plan, Respond
from lbgen.runtime.common.processes import ProcessId, group_members
from lbgen.runtime.local.process import run_engine
from tests.support.fake_engine import FakeEngine, write_program
from tests.support.plans import by_match, prefix, route

PORT = 24_100
pytestmark = pytest.mark.xdist_group("runtime")


def plan(host: str = "a.example", port: int = PORT) -> Plan:
    rule = (prefix("/"), route("ok", Respond(200, "", ())), HostPattern(host))
    return replace(by_match([rule], port=port, address="0.0.0.0"), name="fake")  # noqa: S104 - the default


@pytest.fixture
def fake(tmp_path_factory) -> FakeEngine:
    return FakeEngine(write_program(tmp_path_factory.mktemp("program")))


def test_serves_while_the_block_lasts_and_leaves_nothing(fake):
    with run_engine(fake, plan()) as handle:
        host, port = handle.address("web")
        assert (host, port) == ("127.0.0.1", PORT)
        assert urllib.request.urlopen(f"http://{host}:{port}/").status == 200
        pid, directory = handle.pid, handle.directory
        assert handle.version == "1.0"
        assert "starting as uid" in handle.tail()
    assert ProcessId.of(pid) is None
    assert not directory.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives rights up")
def test_root_runs_it_as_nobody_without_new_privileges(fake):
    with run_engine(fake, plan()) as handle:
        status = Path(f"/proc/{handle.pid}/status").read_text()
    assert "Uid:\t65534\t65534\t65534\t65534" in status
    assert "NoNewPrivs:\t1" in status
    assert "CapEff:\t0000000000000000" in status
    assert "Groups:\t \n" in status


def test_workers_go_with_it(fake):
    with run_engine(fake, plan("worker.example")) as handle:
        pid = handle.pid
        assert len(group_members(pid)) == 2
    assert group_members(pid) == ()


def test_death_while_starting_shows_the_last_lines(fake):
    with (
        pytest.raises(EngineError, match=r"exit status 7 while starting; Fake said:\n(.|\n)*cannot go on") as error,
        run_engine(fake, plan("die.example")),
    ):
        pass
    assert error.value.diagnostics[0].code == "LB403"


def test_never_listening_is_given_up(fake):
    with (
        pytest.raises(EngineError, match=r"does not accept on web \(0\.0\.0\.0 port 24100\) after 0\.5 s"),
        run_engine(fake, plan("slow.example"), seconds=0.5),
    ):
        pass


def test_a_taken_port_is_named_with_its_owner(fake):
    taken = rf"LB404.*port {PORT} is taken by \S+ \(pid {os.getpid()}\)"
    with socket.create_server(("127.0.0.1", PORT)), pytest.raises(EngineError, match=taken), run_engine(fake, plan()):
        pass


def test_started_in_a_thread_it_outlives_the_thread(fake):
    pids = []
    block = run_engine(fake, plan())

    def enter() -> None:
        pids.append(block.__enter__().pid)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    time.sleep(0.2)
    try:
        assert ProcessId.of(pids[0]) is not None
    finally:
        block.__exit__(None, None, None)


def test_it_dies_with_its_parent(fake):
    code = f"""
import os, sys, signal
from pathlib import Path
from tests.support.fake_engine import FakeEngine
from tests.unit.runtime.local.test_process import plan
from lbgen.runtime.local.process import run_engine
with run_engine(FakeEngine(Path({str(fake.program)!r})), plan()) as handle:
    print(handle.pid, handle.directory, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid = int(done.stdout.split()[0])
    end = time.monotonic() + 5
    while ProcessId.of(pid) is not None and time.monotonic() < end:
        time.sleep(0.02)
    assert ProcessId.of(pid) is None
    shutil.rmtree(done.stdout.split()[1])


def test_a_reused_pid_is_another_process():
    me = ProcessId.of(os.getpid())
    assert me is not None
    assert me.alive()
    assert not ProcessId(me.pid, me.started - 1).alive()
    assert not ProcessId(me.pid, me.started - 1).send(signal.SIGKILL)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_root_lends_the_right_to_low_ports_and_nothing_else(fake):
    code = f"""
from pathlib import Path
from tests.support.fake_engine import FakeEngine
from tests.unit.runtime.local.test_process import plan
from lbgen.runtime.local.process import run_engine
with run_engine(FakeEngine(Path({str(fake.program)!r})), plan(port=80)) as handle:
    print(Path(f"/proc/{{handle.pid}}/status").read_text())
"""
    inside = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$0" -c "$1"', sys.executable, code]
    done = subprocess.run(inside, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Uid:\t65534\t65534\t65534\t65534" in done.stdout
    assert "CapEff:\t0000000000000400" in done.stdout
    assert "NoNewPrivs:\t1" in done.stdout
