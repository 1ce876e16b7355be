"""A failure at every step of `up`, `reload` and of taking a stack over, under load: nothing is lost, and it goes on.

The steps are those of tests/faults/sitecustomize.py. A drill takes each of them, on every engine; else some are taken,
spread over the whole.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lbgen
from lbgen import api
from lbgen.diagnostics import EngineError, LbgenError, Severity
from lbgen.runtime.common import state
from lbgen.runtime.common.certificates import Spec, make
from lbgen.runtime.local.spawn import processes_in, session_leaders
from tests.engines.test_local_runtime import need
from tests.support.sample import sample
from tests.support.traffic import traffic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.traffic import Traffic

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("runtime"), pytest.mark.usefixtures("state_dir")]
PORT = 24_820
NAME = "faulty"
PAUSE = 0.05  # of each client: dozens of reloads see enough requests
FAULTS = Path(__file__).parents[1] / "faults"
SOME = 1  # steps of each kind, where not all are taken
L7 = sample(("haproxy", "nginx", "envoy", "traefik"), ("haproxy",))


class Drill:
    """Commands on one stack, of which one process meets a fault."""

    def __init__(self, engine: str, folder: Path) -> None:
        self.engine = engine
        self.file = folder / "fault.json"
        self.path = folder / "faulty.yaml"
        self.number = 0
        self.tried = 0
        self.failed = 0
        self.flaws: list[str] = []  # of all findings: the steps after them are tried all the same

    def topology(self, number: int) -> lbgen.Topology:
        """With a route `/N`, and with checks, for which nginx has an agent."""
        made = {
            "version": 1,
            "name": NAME,
            "profile": "minimal",
            "listeners": {"web": {"port": PORT}},
            "pools": {
                "app": {"endpoints": [{"address": "10.9.0.1:80"}], "health": {"active": {"path": "/health"}}},
                "other": {"endpoints": [{"address": "10.9.0.2:80"}]},
            },
            "routes": [
                {"name": "new", "match": [{"path": {"exact": f"/{number}"}}], "respond": {"status": 218}},
                {"name": "other", "match": [{"path": {"prefix": f"/to/{number}"}}], "forward": "other"},
                {"name": "rest", "forward": "app"},
            ],
        }
        self.path.write_text(json.dumps(made))
        return lbgen.load(self.path)

    def plan(self, role: str = "", at: int = 0, kind: str = "") -> None:
        self.file.write_text(json.dumps({"role": role, "at": at, "kind": kind}))
        Path(f"{self.file}.log").unlink(missing_ok=True)

    def steps(self) -> list[str]:
        """What was logged since `plan`."""
        log = Path(f"{self.file}.log")
        return log.read_text().splitlines() if log.exists() else []

    def up(self, number: int) -> api.Stack:
        return lbgen.up(self.topology(number), engine=self.engine, accept=("all",), runtime="local", seconds=20)

    def serves(self, number: int) -> bool:
        """Whether the route of that topology answers, and no other's."""
        return [status(f"/{each}") for each in (number - 1, number, number + 1)] == [200, 218, 200]


def status(path: str) -> int:
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.fixture
def drill(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Drill]:
    name = request.param
    need(name)
    made = Drill(name, tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(FAULTS))
    monkeypatch.setenv("LBGEN_TEST_FAULTS", str(made.file))
    made.plan()
    yield made
    assert made.flaws == []


def chosen(steps: list[str], kind: str = "", *, every: bool) -> list[int]:
    """Numbers of the steps to try out of those that were logged: a child can only be killed where one is started."""
    numbers = [int(n) for n, event, *_ in (each.split(" ") for each in steps) if kind != "child" or "Popen" in event]
    if every:
        return numbers
    count = len(numbers)
    some = min(SOME, count)
    return [numbers[(2 * i + 1) * count // (2 * some)] for i in range(some)]


def flaws(error: LbgenError) -> list[str]:
    """What is wrong with a finding that should say what failed, and what to do."""
    worst = [each for each in error.diagnostics if each.severity is Severity.ERROR]
    checks = {
        "exit status": error.exit_code == 3,
        "no error": bool(worst),
        "no remedy": any(each.hint for each in worst),
        "traceback": "Traceback" not in str(error) and '  File "' not in str(error),
        "fault of lbgen": "fault of lbgen" not in str(error),
    }
    return [f"{name}: {error}" for name, right in checks.items() if not right]


@pytest.mark.parametrize("drill", L7, indirect=True)
def test_reload(drill: Drill, every: bool) -> None:
    drill.up(0)
    drill.plan("supervisor")
    lbgen.reload(drill.topology(1))
    drill.number = 1
    planned = drill.steps()
    count = len(planned)
    assert count > 20
    with traffic(PORT, pause=PAUSE) as seen:
        for kind in ("error", "kill", "child"):
            for at in chosen(planned, kind, every=every):
                one_reload(drill, "supervisor", kind, at, seen)
    print(f"{drill.engine}: {drill.tried} faults in {count} steps of a reload, {drill.failed} of them stopped it")  # noqa: T201


def one_reload(drill: Drill, role: str, kind: str, at: int, seen: Traffic) -> None:
    """A reload that meets a fault, and the next one."""
    before = drill.number
    drill.plan(role, at, kind)
    what = ""
    try:
        lbgen.reload(drill.topology(before + 2))
        after = before + 2
    except EngineError as error:
        after, what = before, str(error)
        drill.flaws += flaws(error)
        drill.failed += 1
    drill.tried += 1
    steps = drill.steps()
    shown = f"{kind} at {steps[at - 1] if at <= len(steps) else at}: {what}"
    print(shown)  # noqa: T201
    assert drill.serves(after), shown
    drill.plan()
    lbgen.reload(drill.topology(before + 4))
    drill.number = before + 4
    assert drill.serves(before + 4), shown
    (stack,) = api.ps()
    assert stack.alive, shown
    assert stack.engines[0].running, shown
    assert not seen.lost, f"{shown}: {seen.lost[:3]}"


@pytest.mark.parametrize("drill", L7, indirect=True)
def test_taking_over(drill: Drill, every: bool) -> None:
    """A fault in the supervisor that takes over from one that was killed in the middle of a change."""
    drill.up(0)
    drill.plan("supervisor")
    lbgen.reload(drill.topology(1))
    drill.number = 1
    steps = [each.split(" ", 2) for each in drill.steps()]
    middle = next(int(n) for n, event, name in steps if event == "os.rename" and "/.previous" in name) + 2
    count = 0
    with traffic(PORT, pause=PAUSE) as seen:
        for kind in ("error", "kill"):
            at = 0
            numbers = [0]
            while numbers:
                at = numbers.pop(0)
                drill.plan("supervisor", middle, "kill")
                with pytest.raises(EngineError):
                    lbgen_without_takeover(drill)
                drill.plan("takeover", at, kind)
                try:
                    lbgen.reload(drill.topology(drill.number + 2))
                    drill.number += 2
                except EngineError as error:
                    drill.flaws += flaws(error)
                    drill.failed += 1
                    print(f"{kind} at {drill.steps()[-1]}: {error}")  # noqa: T201
                drill.tried += 1
                if not at:
                    planned = drill.steps()
                    count = len(planned)
                    numbers = chosen(planned, every=every)
                drill.plan()
                lbgen.reload(drill.topology(drill.number + 4))
                drill.number += 4
                assert drill.serves(drill.number)
                assert not seen.lost, f"{kind} at {at}: {seen.lost[:3]}"
    print(f"{drill.engine}: {drill.tried} faults in {count} steps of taking over, {drill.failed} stopped it")  # noqa: T201


def lbgen_without_takeover(drill: Drill) -> None:
    """A reload whose supervisor is killed, by a command that is killed with it, so that nobody takes over yet."""
    from lbgen.runtime.local import supervisor_client

    def refuse(*words: object) -> None:
        raise EngineError(())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(supervisor_client, "take_over", refuse)
        lbgen.reload(drill.topology(drill.number + 1))


@pytest.mark.parametrize("drill", L7, indirect=True)
def test_up(drill: Drill, every: bool, state_dir: Path) -> None:
    drill.plan("supervisor")
    drill.up(0)
    (stack,) = api.ps()
    stack.down()
    planned = drill.steps()
    count = len(planned)
    assert count > 20
    for kind in ("error", "kill", "child"):
        for at in chosen(planned, kind, every=every):
            drill.plan("supervisor", at, kind)
            folder = state_dir / "stacks" / NAME
            try:
                drill.up(0)
                what = ""
            except EngineError as error:
                drill.flaws += flaws(error)
                what = str(error)
                drill.failed += 1
                assert api.ps() == ()
                assert not folder.exists()
            drill.tried += 1
            steps = drill.steps()
            print(f"{kind} at {steps[at - 1] if at <= len(steps) else at}: {what}")  # noqa: T201
            drill.plan()
            again = drill.up(0)
            assert again.alive
            assert drill.serves(0)
            again.down()
            assert processes_in(str(folder)) == []
            assert processes_in(again.engines[0].directory) == []
    print(f"{drill.engine}: {drill.tried} faults in {count} steps of an up, {drill.failed} of them stopped it")  # noqa: T201


@pytest.mark.parametrize("verb", sample(("up", "reload"), ("reload",)))
@pytest.mark.parametrize("drill", ["haproxy"], indirect=True)
def test_the_command_itself(drill: Drill, verb: str, every: bool) -> None:
    """A fault in the process of the command, with a stack that runs."""
    drill.up(0)
    drill.topology(1)
    words = (
        verb,
        str(drill.path),
        *(("-e", drill.engine, "--runtime", "local", "--accept", "all") if verb == "up" else ()),
    )
    assert command(*words).returncode == 0  # the first command writes what later ones only read
    drill.topology(2)
    drill.plan("client")
    assert command(*words).returncode == 0
    drill.number = 2
    planned = drill.steps()
    count = len(planned)
    with traffic(PORT, pause=PAUSE) as seen:
        for kind in ("error", "kill"):
            for at in chosen(planned, every=every):
                drill.topology(drill.number + 2)
                drill.plan("client", at, kind)
                done = command(*words)
                shown = f"{kind} at {drill.steps()[-1]}: {done.stderr[-300:]}"
                print(shown)  # noqa: T201
                assert done.returncode in ((0, 3) if kind == "error" else (-signal.SIGKILL,)), shown
                assert "Traceback" not in done.stderr, shown
                drill.tried += 1
                drill.failed += done.returncode != 0
                drill.plan()
                drill.topology(drill.number + 4)
                done = command(*words)
                assert done.returncode == 0, f"{shown}\n{done.stderr}"
                drill.number += 4
                assert drill.serves(drill.number), shown
                assert not seen.lost, f"{shown}: {seen.lost[:3]}"
    print(f"{verb}: {drill.tried} faults in {count} steps of the command, {drill.failed} of them stopped it")  # noqa: T201


def command(*words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "lbgen", *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)


def highest_descriptor(pid: int) -> int:
    """Of a process now; some are open for a moment only."""
    time.sleep(0.05)
    return max(int(each.name) for each in Path(f"/proc/{pid}/fd").iterdir())


@pytest.mark.parametrize("drill", ["haproxy"], indirect=True)
def test_no_descriptors_are_left(drill: Drill) -> None:
    stack = drill.up(0)
    pid = stack.state.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = min(highest_descriptor(pid) for _ in range(10))
    with traffic(PORT, pause=PAUSE) as seen:
        for spare in (1, 2, 4, 8):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (used + 1 + spare, before[1]))
            said = f"prlimit --pid {pid}"
            try:
                lbgen.reload(drill.topology(drill.number + 2))
                drill.number += 2
            except EngineError as error:
                drill.flaws += flaws(error)
                said = str(error)
                drill.failed += 1
            assert f"prlimit --pid {pid}" in said
            assert drill.serves(drill.number)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, before)
            lbgen.reload(drill.topology(drill.number + 2))
            drill.number += 2
            assert drill.serves(drill.number)
        assert seen.lost == []
    assert drill.failed >= 2


@pytest.mark.parametrize("drill", ["haproxy", "nginx"], indirect=True)
def test_a_full_disk(drill: Drill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small file system")
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(("mount", "-t", "tmpfs", "-o", "size=4m,mode=700", "tmpfs", str(small)), check=False)
    if mounted.returncode != 0:
        pytest.skip("no file system can be mounted here")
    monkeypatch.setenv("LBGEN_STATE_DIR", str(small / "state"))
    try:
        drill.up(0)
        with traffic(PORT, pause=PAUSE) as seen:
            filler = small / "filler"
            with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
                deque(iter(lambda: file.write(bytes(4096)), 0), maxlen=0)
            with pytest.raises(EngineError, match="LB408") as raised:
                lbgen.reload(drill.topology(2))
            assert flaws(raised.value) == []
            assert str(small) in str(raised.value)
            assert drill.serves(0)
            filler.unlink()
            lbgen.reload(drill.topology(2))
            assert drill.serves(2)
        assert seen.lost == []
    finally:
        for each in api.ps():
            each.down()
        subprocess.run(("umount", "-l", str(small)), check=True)


@pytest.mark.parametrize("name", L7)
def test_a_key_that_is_gone_at_a_reload(name: str, tmp_path: Path) -> None:
    """The stack went down with it once."""
    need(name)
    make(tmp_path, (Spec("app", ("app.example",)),))
    made = {
        "version": 1,
        "name": NAME,
        "profile": "minimal",
        "listeners": {
            "web": {"port": PORT},
            "tls": {"port": PORT + 1, "tls": {"certificates": [{"cert": "app.crt", "key": "app.key"}]}},
        },
        "pools": {"app": {"endpoints": [{"address": "10.9.0.1:80"}]}},
        "routes": [{"name": "rest", "forward": "app"}],
    }
    path = tmp_path / "site.yaml"
    path.write_text(json.dumps(made))
    loaded = lbgen.load(path)
    plan = lbgen.plan(loaded)
    with lbgen.up(loaded, engine=name, accept=("all",), runtime="local") as stack, traffic(PORT, pause=PAUSE) as seen:
        key = (tmp_path / "app.key").read_bytes()
        (tmp_path / "app.key").unlink()
        with pytest.raises(EngineError) as raised:
            lbgen.reload(plan)
        assert {each.code for each in raised.value.diagnostics} == {"LB424"}
        assert f"{path}:1:" in str(raised.value)
        assert flaws(raised.value) == []
        assert status("/x") == 200
        (now,) = api.ps()
        assert now.alive
        assert now.state.pid == stack.state.pid
        (tmp_path / "app.key").write_bytes(key)
        lbgen.reload(plan)
        time.sleep(0.2)
        assert seen.lost == []
        assert session_leaders(stack.engines[0].directory)
    assert not (state.root() / "stacks" / NAME).exists()
