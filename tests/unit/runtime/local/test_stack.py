"""Stacks of fake engines: up, ps, logs, down, and that no accident leaves anything behind."""

from __future__ import annotations

import dataclasses
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from lbgen import api
from lbgen.diagnostics import EngineError, LbgenError, UsageError
from lbgen.engines.api import ProcessSpec, Verdict, refused
from lbgen.plan.model import Balance, Endpoint, Pool, Respond, Route, Use
from lbgen.runtime import registry
from lbgen.runtime.common import state
from lbgen.runtime.common.processes import ProcessId
from lbgen.runtime.local.decide import choose
from tests.support.fake_engine import FakeEngine, write_program
from tests.unit.runtime.local.test_process import plan as one_listener

if TYPE_CHECKING:
    from lbgen.plan.features import Feature

pytestmark = pytest.mark.xdist_group("runtime")
PORT = 24_300


def plan(name: str = "shop", host: str = "a.example", port: int = PORT):
    return replace(one_listener(host, port), name=name)


@pytest.fixture(autouse=True)
def state_dir(tmp_path, monkeypatch):
    monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setattr(registry, "may_have_docker", lambda: False)  # stacks of containers are not ours
    yield tmp_path / "state"
    for each in api.ps():
        each.down()


@pytest.fixture
def fake(tmp_path_factory) -> FakeEngine:
    return FakeEngine(write_program(tmp_path_factory.mktemp("program")))


def gone(*pids: int, seconds: float = 8.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not any(ProcessId.of(pid) for pid in pids):
            return True
        time.sleep(0.02)
    return False


def status(url: str) -> int:
    with urllib.request.urlopen(url) as answer:
        return answer.status


def clean(state_dir: Path) -> bool:
    return not list(state_dir.glob("stacks/*"))


def test_up_ps_logs_down(fake, state_dir):
    steps = []
    stack = api.up(plan(), engine=fake, progress=steps.append, runtime="local")
    assert stack.urls == {"fake": {"web": f"http://127.0.0.1:{PORT}"}}
    assert stack.url("web") == f"http://127.0.0.1:{PORT}"
    assert status(stack.url("web")) == 200
    assert [x.step for x in steps] == [
        api.Step.STARTED,
        api.Step.LISTENING,
        api.Step.ANSWERED,
        api.Step.READY,
    ]
    (found,) = api.ps()
    assert found.state == stack.state
    assert found.alive
    assert found.engines[0].running
    assert any("starting as uid" in line.text for line in api.logs("shop", "fake"))
    assert state_dir.stat().st_mode & 0o777 == 0o700
    pids = found.state.pid, found.engines[0].pid
    assert api.down().name == "shop"
    assert gone(*pids)
    assert clean(state_dir)
    assert not Path(found.engines[0].directory).exists()
    assert api.ps() == ()
    with pytest.raises(UsageError, match="LB406: no stack runs"):
        api.down()


def test_up_again_is_a_no_op_and_a_change_replaces(fake):
    with api.up(plan(), engine=fake, runtime="local") as first:
        again = api.up(plan(), engine=fake, runtime="local")
        assert again.unchanged
        assert again.state == first.state
        steps = []
        other = api.up(plan(port=PORT + 1), engine=fake, progress=steps.append, runtime="local")
        assert other.replaced
        assert api.Step.REPLACING in {each.step for each in steps}
        assert not other.reloaded
        assert other.url("web").endswith(str(PORT + 1))
        assert gone(first.state.pid)
        first.down()
        assert api.ps()[0].alive
        other.down()


def test_two_stacks_live_side_by_side(fake):
    with (
        api.up(plan("one"), engine=fake, runtime="local"),
        api.up(plan("two", port=PORT + 1), engine=fake, runtime="local"),
    ):
        assert [x.name for x in api.ps()] == ["one", "two"]
        with pytest.raises(UsageError, match="several stacks run; name one: one, two"):
            api.logs()
        with pytest.raises(UsageError, match=r"no stack 'three' runs; there is one, two"):
            api.down("three")
    assert api.ps() == ()


def test_several_engines_get_ports_of_their_own(fake):
    with api.up(plan(port=8080), [fake, dataclasses.replace(fake, name="other")], runtime="local") as stack:
        assert stack.urls == {"fake": {"web": "http://127.0.0.1:18080"}, "other": {"web": "http://127.0.0.1:19080"}}
        assert stack.url("web", "other") == "http://127.0.0.1:19080"
        with pytest.raises(KeyError):
            stack.url("nothing")


def test_stand_ins_take_the_endpoints_places(fake):
    pool = Pool("p", Balance.ROUND_ROBIN, (Endpoint("10.9.9.9", 80, 1, "pools.p.endpoints[0]", is_ip=True),), "pools.p")
    with api.up(replace(plan(), pools=(pool,)), engine=fake, runtime="local") as stack:
        (endpoint,) = stack.endpoints
        assert endpoint.name == "pools.p.endpoints[0]"
        answer = urllib.request.urlopen(f"http://{endpoint.host}:{endpoint.port}/x")
        assert b'"pool": "p"' in answer.read()
    with api.up(replace(plan(), pools=(pool,)), engine=fake, backends=False, runtime="local") as stack:
        assert stack.endpoints == ()


def test_an_engine_that_dies_while_starting_says_why_and_leaves_nothing(fake, state_dir):
    with pytest.raises(EngineError, match="cannot go on"):
        api.up(plan(host="die.example"), engine=fake, runtime="local")
    assert clean(state_dir)


def test_a_taken_port_is_named(fake, state_dir):
    with socket.create_server(("127.0.0.1", PORT)), pytest.raises(EngineError, match=rf"LB404.*{PORT} is taken by"):
        api.up(plan(), engine=fake, runtime="local")
    assert clean(state_dir)


def test_a_route_that_answers_wrongly_is_named(fake, state_dir):
    with pytest.raises(EngineError, match=r"LB405 routes\[0\].*route ok on web gave GET / status 200 and not 204"):
        api.up(wrong_status(), engine=fake, seconds=0.5, runtime="local")
    assert clean(state_dir)


def wrong_status():
    return replace(plan(), routes=(Route("ok", 0, Respond(204, "", ()), "routes[0]"),))


def test_an_engine_that_dies_later_is_shown_and_started_again(fake):
    with api.up(plan(), engine=fake, runtime="local") as stack:
        first = stack.engines[0].pid
        os.kill(first, signal.SIGKILL)
        seen = set()
        end = time.monotonic() + 15
        while time.monotonic() < end:
            (now,) = api.ps()[0].engines
            seen.add(now.ended)
            if now.running and now.restarts:
                break
            time.sleep(0.05)
        assert seen >= {"ended by SIGKILL", ""}
        assert (now.restarts, now.died) == (1, "ended by SIGKILL")
        assert now.pid != first
        assert any("ended by SIGKILL; starts again in 1 s" in line.text for line in api.logs())
        while not answers(stack.url("web")) and time.monotonic() < end:
            time.sleep(0.05)
        assert status(stack.url("web")) == 200
        assert api.up(plan(), engine=fake, runtime="local").unchanged
    assert gone(now.pid)


def answers(url: str) -> bool:
    try:
        return status(url) == 200
    except OSError:
        return False


def test_engines_outlive_their_supervisor_and_down_clears_up(fake, state_dir):
    stack = api.up(plan(host="worker.example"), engine=fake, runtime="local")
    os.kill(stack.state.pid, signal.SIGKILL)
    assert gone(stack.state.pid)
    (found,) = api.ps()
    assert not found.alive
    assert found.engines[0].running
    assert status(stack.url("web")) == 200
    api.down()
    assert gone(stack.engines[0].pid)
    assert clean(state_dir)
    assert not Path(stack.engines[0].directory).exists()


def test_up_after_a_dead_supervisor_just_works(fake):
    """An engine that is not installed cannot be taken over, as no other process has its code: it is replaced."""
    stack = api.up(plan(), engine=fake, runtime="local")
    os.kill(stack.state.pid, signal.SIGKILL)
    assert gone(stack.state.pid)
    again = api.up(plan(), engine=fake, runtime="local")
    assert not again.unchanged
    assert again.alive
    assert gone(stack.engines[0].pid)


def test_a_stack_that_is_gone_is_not_taken_for_the_one_that_came_after_it(fake):
    first = api.up(plan(), engine=fake, runtime="local")
    first.down()
    second = api.up(plan(), engine=fake, runtime="local")
    first.down()
    assert second.alive
    second.down()


@dataclass(frozen=True)
class Refusing(FakeEngine):
    def verdict(self, feature: Feature, version: str) -> Verdict:
        return refused("it will not")


def test_what_cannot_is_skipped_unless_it_was_named(fake, monkeypatch):
    wanted = replace(plan(), uses=(Use("route.retries", "routes[0].retries"),))
    refusing = Refusing(fake.program, name="refusing")
    both = {"fake": fake, "refusing": refusing}
    monkeypatch.setattr("lbgen.runtime.stack_request.local_engines", lambda: both)
    monkeypatch.setattr("lbgen.engines.verdicts.local_engines", lambda: both)
    with api.up(wanted, runtime="local") as stack:
        assert [x.name for x in stack.engines] == ["fake"]
        ((name, (reason,)),) = stack.skipped
        assert name == "refusing"
        assert reason.code == "LB301"
    with pytest.raises(LbgenError, match="refused by Fake"):
        api.up(wanted, [fake, refusing], runtime="local")
    with pytest.raises(UsageError, match="LB409"):
        api.up(wanted, runtime="podman")


CHILD = """
import sys
from pathlib import Path
from tests.support.fake_engine import FakeEngine
from tests.unit.runtime.local.test_stack import plan
from lbgen import api
def tell(progress):
    print(progress.step, flush=True)
api.up(plan(host={host!r}), engine=FakeEngine(Path({program!r})), runtime="local", progress=tell)
print("up", flush=True)
{after}
"""


def child(fake, host: str = "slow.example", after: str = "") -> subprocess.Popen:
    code = CHILD.format(host=host, program=str(fake.program), after=after)
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        stderr=subprocess.PIPE,
        # A shell without job control starts what it puts in the background deaf to Ctrl-C, and that is inherited.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def wait_started(process) -> state.StackState:
    for line in process.stdout:
        if line.strip() == "started":
            found = state.read("shop")
            assert found is not None
            return found
    raise AssertionError(process.stderr.read())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_an_up_that_dies_half_way_leaves_nothing(fake, state_dir, number):
    with child(fake) as process:
        found = wait_started(process)
        engine = found.engines[0]
        assert ProcessId.of(engine.pid)
        process.send_signal(number)
        process.wait(15)
        process.stdout.close()
    assert gone(found.pid, engine.pid)
    assert clean(state_dir)
    assert not Path(engine.directory).exists()
    if number is signal.SIGINT:
        assert process.returncode != 0


def test_a_stack_outlives_the_up_that_made_it(fake):
    with child(fake, "a.example") as process:
        process.communicate(timeout=120)
    time.sleep(0.3)
    (found,) = api.ps()
    assert found.alive
    assert status(found.url("web")) == 200
    api.down()
    assert gone(found.state.pid, found.engines[0].pid)


def test_following_logs_ends_with_the_stack(fake):
    stack = api.up(plan(), engine=fake, runtime="local")
    lines = api.logs(follow=True)
    assert next(lines).source == "fake"
    stack.down()
    assert [x for x in lines if x.source == "fake" and "starting" in x.text] == []


def test_the_kernel_needs_root_and_the_others_go_on(fake, monkeypatch):
    @dataclass(frozen=True)
    class Kernel(FakeEngine):
        def process(self, plan, binary, directory) -> ProcessSpec:
            return ProcessSpec((), kernel=True)

    kernel = Kernel(fake.program, name="kernel", title="Kernel")
    ask = {"insist": True, "accept": ()}
    with monkeypatch.context() as patch:
        patch.setattr("os.geteuid", lambda: 1000)
        chosen, ((name, (reason,)),) = choose(plan(), [kernel, fake], **ask)
        with pytest.raises(EngineError, match="Kernel needs root to load rules into the kernel; run as root"):
            choose(plan(), [kernel], **ask)
    assert [x.name for x in chosen] == ["fake"]
    assert name == "kernel"
    assert reason.code == "LB407"


def test_an_address_of_another_host_is_named(fake, state_dir):
    (web,) = plan().listeners
    elsewhere = replace(plan(), listeners=(replace(web, address="203.0.113.1"),))
    for engines in ([fake], [fake, dataclasses.replace(fake, name="other")]):
        with pytest.raises(EngineError, match=r"LB404.*cannot listen on 203\.0\.113\.1 port"):
            api.up(elsewhere, engines, runtime="local")
    assert not list(state_dir.glob("*.lock"))


def test_a_state_directory_that_cannot_be_made_is_said(monkeypatch, tmp_path, fake):
    (tmp_path / "file").touch()
    with monkeypatch.context() as patch:
        patch.setenv("LBGEN_STATE_DIR", str(tmp_path / "file" / "below"))
        with pytest.raises(EngineError, match=r"LB408.*Not a directory; set LBGEN_STATE_DIR"):
            api.up(plan(), engine=fake, runtime="local")
