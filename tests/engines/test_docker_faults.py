"""A change that fails, at any of its steps, never stops what serves: Ctrl-C, a daemon that answers an error or goes
away, a throw-away container that vanishes, too many open files, a full disk, an engine or stand-in that is killed.
Clients on kept connections lose nothing (unless what serves them is killed), the last good state serves, or nothing is
left, the finding says what was wrong and what to do, and the same change works once the fault is gone.

A drill takes every step, else a few of each act are taken.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

import lbgen
from lbgen import api
from lbgen.diagnostics import EngineError
from lbgen.runtime import registry
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.docker import labels
from lbgen.runtime.docker.converge import list_containers
from lbgen.runtime.docker.labels import Role
from tests.support.daemon import AS_ROOT, IN_CONTAINERS, daemon_proxy, first_port, left, name_of, proxied
from tests.support.sample import sample
from tests.support.stacks import serves
from tests.support.traffic import traffic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from docker import DockerClient
    from docker.models.containers import Container

pytestmark = [*IN_CONTAINERS, pytest.mark.usefixtures("nothing_left")]
NAME = name_of("faults")
PORTS = first_port(1_000)
ENGINE = "haproxy"
ACTS = ("reload", "renew", "up")
# Requests of the sample: a signal, a container that sets rules, one that is started, what comes when it serves.
SAMPLE = {"reload": ("/kill?signal",), "renew": ("-switch-", "/kill?signal"), "up": ("/start", "/volumes?")}
WITHOUT = "up"  # the act before which nothing serves
BACK_SECONDS = 30.0


class Act:
    """A change: `reload` in the running container, `renew` by another container without a gap, `up` of a new stack.
    After each run that worked the change goes the other way."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = free_port("127.0.0.1", PORTS)
        more = {"containers": {"memory": "200MiB"}} if name == "renew" else {}
        self.now, self.next = self._topology("/one"), self._topology("/two", **more)
        self.paths = {"before": "/one", "after": "/two"}

    def _topology(self, path: str, **more: Any) -> lbgen.Topology:
        data: dict[str, Any] = {
            "version": 1,
            "name": NAME,
            "listeners": {"web": {"port": self.port}},
            "pools": {"app": {"endpoints": [{"address": "10.9.0.1:80"}]}},
            "routes": [
                {"name": "steady", "match": [{"path": {"prefix": "/steady"}}], "forward": "app"},
                {"name": "one", "match": [{"path": {"prefix": path}}], "forward": "app"},
            ],
            **more,
        }
        return lbgen.load(data)

    def prepare(self) -> None:
        """The state before, which serves."""
        if self.name != WITHOUT:
            if self.state() != "before":
                up(self.now)
            assert self.state() == "before"
        elif registry.list_stacks(NAME):
            api.down(NAME)

    def run(self) -> None:
        if self.name == "reload":
            lbgen.reload(self.next, accept=("all",))
        else:
            up(self.next)

    def turn(self) -> None:
        """What was after is before."""
        self.now, self.next = self.next, self.now
        self.paths = {"before": self.paths["after"], "after": self.paths["before"]}

    def state(self) -> str:
        """What serves."""
        return " and ".join(name for name, path in self.paths.items() if serves(self.port, path)) or "nothing"

    def file(self, folder: Path) -> Path:
        """The topology after, for the command."""
        path = folder / "next.yaml"
        path.write_text(json.dumps(self.next.model.model_dump(exclude_unset=True, mode="json")))
        return path

    @contextmanager
    def load(self) -> Iterator[list[str]]:
        """What clients on kept connections lose meanwhile; there are none where nothing serves before."""
        if self.name == WITHOUT:
            yield []
            return
        with traffic(self.port, pause=0.02) as seen:
            yield seen.lost
        assert seen.good


def up(topology: lbgen.Topology) -> api.Stack:
    return lbgen.up(topology, [ENGINE], runtime="docker", accept=("all",))


def fails(
    act: Act,
    daemon: DockerClient,
    fault: AbstractContextManager[object],
    *,
    run: Callable[[], None] | None = None,
    cuts: bool = False,
    clears: bool = True,
) -> str:
    """Run the act (or `run`) with a fault, then without; returns how it ended and what served then. `cuts`: the fault
    itself costs requests, as what serves them is killed. Not `clears`: the act has no way to clear up."""
    act.prepare()
    ended = "no error"
    with act.load() as lost:
        try:
            with fault:
                (run or act.run)()
        except EngineError as error:
            ended = "error"
            check(error)
        except KeyboardInterrupt:
            ended = "interrupted"
        end = time.monotonic() + (BACK_SECONDS if cuts else 0)
        while (state := act.state()) == "nothing" and time.monotonic() < end:
            time.sleep(0.1)
        if ended != "no error" and act.name == WITHOUT and state != "after":
            assert not clears or not (left(daemon, NAME) or labels.saved_folder(NAME).exists())
        else:
            assert state in ("before", "after"), f"{state} serves"
            assert state == "after" or ended != "no error", "no error, and the state before serves"
        names = [each.name for each in list_containers(daemon, NAME)]
        assert not clears or not any(name.endswith("-before") for name in names), names
        act.run()
        assert act.state() == "after", "the same change does not serve then"
    assert cuts or not lost, f"{len(lost)} requests lost: {lost[:3]}"
    act.turn()
    return f"{ended}, {state} serves"


def check(error: EngineError) -> None:
    """What was wrong and what to do, and no traceback."""
    assert error.exit_code == 3
    check_text(str(error))
    assert any(each.hint for each in error.diagnostics), f"no remedy: {error}"
    assert all(each.code.startswith("LB4") for each in error.diagnostics), str(error)


def check_text(text: str) -> None:
    assert "Traceback" not in text, text
    assert "lbgen failed" not in text, text  # how a fault of lbgen's own is told


class Tally:
    """How the steps of an act ended, and those that were wrong."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.ended: dict[str, int] = {}
        self.wrong: list[str] = []

    def take(self, step: str, run: Callable[[], str], where: Callable[[], str] = str) -> None:
        begun = time.monotonic()
        try:
            how = run()
        except (AssertionError, lbgen.LbgenError, OSError) as error:
            how = "wrong"
            self.wrong.append(f"{step} {where()}: {type(error).__name__}: {str(error)[:600]}")
        self.ended[how] = self.ended.get(how, 0) + 1
        print(f"{self.name}, {step} {where()[:90]}: {how} ({time.monotonic() - begun:.1f} s)", flush=True)  # noqa: T201

    def judge(self) -> None:
        print(f"{self.name}: {sum(self.ended.values())} steps: {self.ended}")  # noqa: T201
        assert not self.wrong, "\n".join(self.wrong)


class At:
    """The request to the daemon of that number, or the first with that text, which `then` may answer or act upon."""

    def __init__(self, which: int | str, then: Callable[[str], tuple[int, str] | None]) -> None:
        self.which, self.then, self.what = which, then, ""

    def __call__(self, now: int, text: str) -> tuple[int, str] | None:
        if now != self.which if isinstance(self.which, int) else self.what or self.which not in text:
            return None
        self.what = text
        return self.then(text)


def requests(act: Act, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """All that the act asks the daemon; then it is as before."""
    act.prepare()
    with proxied(folder, monkeypatch) as there:
        act.run()
    act.turn()
    return there.said


def failing(text: str) -> tuple[int, str]:
    return 500, "injected: write /x: no space left on device"


def pressing(text: str) -> None:
    os.kill(os.getpid(), signal.SIGINT)


def leaving(text: str) -> None:
    raise ConnectionError


@pytest.mark.parametrize(
    ("then", "name"),
    sample(
        product((failing, pressing, leaving), ACTS),
        ((failing, "reload"), (pressing, "reload"), (pressing, "up"), (leaving, "renew")),
    ),
)
def test_a_request_to_the_daemon(
    then: Callable[[str], tuple[int, str] | None],
    name: str,
    daemon: DockerClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    every: bool,
) -> None:
    """At each once: an error is answered, Ctrl-C is pressed, or the daemon goes away."""
    act, tally = Act(name), Tally(f"{name}, {then.__name__}")
    for which in numbers(requests(act, tmp_path, monkeypatch)) if every else SAMPLE[name]:
        at = At(which, then)
        fault = proxied(tmp_path, monkeypatch, at)
        run = partial(fails, act, daemon, fault, clears=then is not leaving)
        tally.take(f"request {which}", run, lambda at=at: at.what)
    tally.judge()


@pytest.mark.drill
def test_a_down_that_is_cut_short(
    daemon: DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: bool
) -> None:
    """By Ctrl-C: nothing is left, or all of it serves on."""
    act = Act("reload")
    act.prepare()
    with proxied(tmp_path, monkeypatch) as there:
        api.down(NAME)
    for which in numbers(there.said) if every else ("DELETE",):
        act.prepare()
        with suppress(KeyboardInterrupt), proxied(tmp_path, monkeypatch, At(which, pressing)):
            api.down(NAME)
        assert not left(daemon, NAME) or act.state() == "before", which


@pytest.mark.parametrize("number", sample((signal.SIGINT, signal.SIGTERM), (signal.SIGINT,)), ids=lambda x: x.name)
def test_the_command_ends_with_one_word(number: signal.Signals, daemon: DockerClient, tmp_path: Path) -> None:
    """Also when it is asked again while it clears up."""
    pids: list[int] = []

    def again(now: int, what: str) -> None:
        if (what.startswith("POST") and what.endswith("/start")) or what.startswith("DELETE"):
            os.kill(pids[0], number)

    with daemon_proxy(tmp_path, again) as there:
        argv = [sys.executable, "-m", "lbgen", "up", str(Act("up").file(tmp_path)), "-e", ENGINE, "--accept", "all"]
        env = {**os.environ, "DOCKER_HOST": there.host}
        with subprocess.Popen(argv, env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            pids.append(child.pid)
            said, complained = child.communicate(timeout=300)
    assert child.returncode == 128 + number, complained
    assert complained.splitlines()[-1] == "interrupted"
    assert "Traceback" not in complained
    assert not said
    assert not left(daemon, NAME)
    assert not labels.saved_folder(NAME).exists()


def numbers(asked: list[str], wanted: Callable[[str], bool] = lambda text: True) -> list[int]:
    return [number for number, text in enumerate(asked, 1) if wanted(text)]


def helper_in(daemon: DockerClient, text: str) -> Container | None:
    """The throw-away container that a request is about: a checker, or one that sets rules."""
    from docker.errors import APIError

    words = text.split("?")[0].split("/")
    if "containers" not in words or words[-2] == "containers":
        return None
    with suppress(APIError):
        each = daemon.containers.get(words[words.index("containers") + 1])
        if "-check" in str(each.name) or "-switch-" in str(each.name):
            return each
    return None


class Vanishing:
    """Removes the helper by force before the request of that number about one; 0 = none. `seen`: such requests."""

    def __init__(self, daemon: DockerClient, number: int = 0) -> None:
        self.daemon, self.number, self.seen, self.what = daemon, number, 0, ""

    def __call__(self, now: int, text: str) -> None:
        each = helper_in(self.daemon, text)
        if each is not None and not text.startswith("DELETE"):
            self.seen += 1
            if self.seen == self.number:
                self.what = text
                each.remove(force=True, v=True)


@pytest.mark.drill
def test_a_helper_that_vanishes(
    daemon: DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: bool
) -> None:
    for name in ("reload", "renew") if every else ("reload",):
        act, tally, count = Act(name), Tally(f"{name}, helper"), Vanishing(daemon)
        act.prepare()
        with proxied(tmp_path, monkeypatch, count):
            act.run()
        act.turn()
        assert count.seen
        for number in range(1, count.seen + 1) if every else (3,):
            gone = Vanishing(daemon, number)
            fault = proxied(tmp_path, monkeypatch, gone)
            tally.take(f"request {number}", partial(fails, act, daemon, fault), lambda gone=gone: gone.what)
        tally.judge()
        api.down(NAME)


# Imports need open files as well, and come first.
PRELOADED = """
import os, resource, sys
import lbgen.cli.main, lbgen.cli.up, lbgen.cli.output, lbgen.runtime.docker.stack, docker
import lbgen.runtime.tiers.rollout, lbgen.plan.resolve, lbgen.plan.checks, docker.context, rich.table, rich.status
import rich.live, requests, requests.exceptions, urllib3.exceptions, concurrent.futures.thread, difflib, tempfile
from lbgen.engines.api import engines
engines()
open_now = len(os.listdir("/proc/self/fd"))
resource.setrlimit(resource.RLIMIT_NOFILE, (open_now + int(sys.argv.pop(1)),) * 2)
lbgen.cli.main.main()
"""


def command(act: Act, folder: Path, more: int) -> None:
    """The act by the command, which may open `more` files beside those that it has when it begins. EngineError with
    what it said when it fails."""
    verb = ("reload", str(act.file(folder))) if act.name == "reload" else ("up", str(act.file(folder)), "-e", ENGINE)
    argv = [sys.executable, "-c", PRELOADED, str(more), *verb, "--accept", "all"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    check_text(done.stderr)
    if done.returncode:
        assert done.returncode == 3, f"exit {done.returncode}: {done.stderr}"
        assert "ulimit -n" in done.stderr, f"no remedy: {done.stderr}"
        raise EngineError(lbgen.Diagnostic("LB421", done.stderr, hint="ulimit -n"))


@pytest.mark.drill
def test_too_many_open_files(daemon: DockerClient, tmp_path: Path, every: bool) -> None:
    """lbgen may open none, one, two ... files more than it has when it begins, until that is enough."""
    for name in ACTS if every else ("reload",):
        act, tally = Act(name), Tally(f"{name}, open files")
        for more in range(64) if every else (4,):
            tally.take(
                f"{more} more files",
                partial(fails, act, daemon, nullcontext(), run=partial(command, act, tmp_path, more)),
            )
            if any(how.startswith("no error") for how in tally.ended):
                break
        tally.judge()
        api.down(NAME)


@contextmanager
def full(place: Path) -> Iterator[None]:
    """No room is left on the file system of that folder meanwhile."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as stream, suppress(OSError):
        while True:
            stream.write(b"x" * 4096)
    try:
        yield
    finally:
        filler.unlink()


@pytest.mark.drill
@AS_ROOT
def test_a_full_state_directory(
    daemon: DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: bool
) -> None:
    place = tmp_path / "state"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", place], check=True)
    try:
        monkeypatch.setenv("LBGEN_STATE_DIR", str(place))
        for name in ACTS if every else ("reload",):
            act, tally = Act(name), Tally(f"{name}, state directory")
            tally.take("no room left", partial(fails, act, daemon, full(place)))
            tally.judge()
            api.down(NAME)
    finally:
        subprocess.run(["umount", place], check=True)


def kill(daemon: DockerClient, role: Role) -> None:
    for each in list_containers(daemon, NAME):
        pid = int(each.handle.attrs["State"]["Pid"])
        if each.record.role is role and pid:
            os.kill(pid, signal.SIGKILL)


@AS_ROOT
def test_an_engine_is_killed_after_a_reload(daemon: DockerClient) -> None:
    """Docker starts it again; with `unless-stopped` the signal of the reload counted as a stop, for good."""
    act = Act("reload")
    act.prepare()
    act.run()
    kill(daemon, Role.ENGINE)
    end = time.monotonic() + BACK_SECONDS
    while act.state() != "after" and time.monotonic() < end:
        time.sleep(0.1)
    assert act.state() == "after"


@pytest.mark.drill
@AS_ROOT
def test_what_serves_is_killed(
    daemon: DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: bool
) -> None:
    """An engine, or its stand-ins, are killed meanwhile: some state serves, and the change works then."""

    for name in ("reload", "renew") if every else ("reload",):
        for role in (Role.ENGINE, Role.ENDPOINTS):
            act, tally = Act(name), Tally(f"{name}, {role} killed")
            asked = requests(act, tmp_path, monkeypatch)
            changing = numbers(asked, lambda text: not text.startswith("GET"))
            for number in changing if every else changing[-1:]:
                at = At(number, lambda text, role=role: kill(daemon, role))
                fault = proxied(tmp_path, monkeypatch, at)
                tally.take(
                    f"request {number}",
                    partial(fails, act, daemon, fault, cuts=True),
                    lambda at=at: at.what,
                )
            tally.judge()
            api.down(NAME)
