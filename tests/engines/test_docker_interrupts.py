"""Ctrl-C, and a daemon that goes away, at each request to the daemon: the old state serves, or nothing is left.

A drill takes every request, else one of some acts is taken.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import lbgen
from lbgen import api
from lbgen.diagnostics import EngineError
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.docker import helper_image, labels
from lbgen.runtime.docker.converge import list_containers
from tests.support.daemon import IN_CONTAINERS, DaemonProxy, daemon_proxy, first_port, left, name_of, proxied
from tests.support.sample import sample
from tests.support.stacks import serves

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from docker import DockerClient

pytestmark = [
    *IN_CONTAINERS,
    pytest.mark.usefixtures("nothing_left"),
]
NAME = name_of("interrupted")
PORTS = first_port(600)
ENGINE = "haproxy"
ACTS = ("up", "replace", "reload", "down")
# Which of the requests that change something are cut short.
SOME = {"up": (9,), "replace": (9,), "reload": (3,), "down": (7,)}  # 7: no container is left
# Requests that fill a disk.
FILLS = ("archive?path", "images/create", "volumes/create", "containers/create", "/start")


def topology(port: int, path: str = "/one") -> lbgen.Topology:
    data: dict[str, Any] = {
        "version": 1,
        "name": NAME,
        "listeners": {"web": {"port": port}},
        "pools": {"app": {"endpoints": [{"address": "10.9.0.1:80"}]}},
        "routes": [{"name": "one", "match": [{"path": {"prefix": path}}], "forward": "app"}],
    }
    return lbgen.load(data)


class Act:
    """Something that is cut short, with what was before it and what it would bring."""

    def __init__(self, name: str) -> None:
        self.name = name
        port = free_port("127.0.0.1", PORTS)
        self.before = topology(port) if name != "up" else None
        other = free_port("127.0.0.1", port + 1) if name == "replace" else port
        self.after = topology(other, "/two") if name != "down" else None
        self.ports = (port, other)

    def prepare(self) -> None:
        if self.before is not None:
            up(self.before)

    def run(self) -> None:
        if self.name == "down":
            api.down(NAME)
        elif self.name == "reload":
            assert self.after is not None
            lbgen.reload(self.after, accept=("all",))
        else:
            assert self.after is not None
            up(self.after)

    def whole(self, daemon: DockerClient) -> str:
        """Which of the two states is there, and nothing beside it."""
        if not left(daemon, NAME):
            assert not labels.saved_folder(NAME).exists()
            return "after" if self.after is None else "before" if self.before is None else "nothing at all"
        assert not [each.name for each in list_containers(daemon, NAME) if each.name.endswith("-before")]
        for state, wanted, port, path in (
            ("before", self.before, self.ports[0], "/one"),
            ("after", self.after, self.ports[1], "/two"),
        ):
            if wanted is not None and serves(port, path):
                assert up(wanted).unchanged, state
                return state
        return "neither"


def up(wanted: lbgen.Topology) -> api.Stack:
    return lbgen.up(wanted, [ENGINE], runtime="docker", accept=("all",))


def requests(act: Act, place: Path, monkeypatch: pytest.MonkeyPatch) -> range:
    """Numbers of all that the act asks the daemon."""
    act.prepare()
    with proxied(place, monkeypatch) as there:
        act.run()
    if act.name != "down":
        api.down(NAME)
    return range(1, len(there.said) + 1)


class At:
    """Says whether it is that request: with `every` counted from the first, else among those that change something."""

    def __init__(self, number: int, *, every: bool) -> None:
        self.number, self.every = number, every
        self.seen, self.what = 0, ""

    def __call__(self, request: str) -> bool:
        if self.every or not request.startswith("GET"):
            self.seen += 1
        if self.seen == self.number and not self.what:
            self.what = request
            return True
        return False

    def __str__(self) -> str:
        return f"{self.number} ({self.what[:70]})"


@pytest.mark.parametrize("name", sample(ACTS, ("up", "reload")))
def test_ctrl_c(name: str, daemon: DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: bool) -> None:
    act = Act(name)
    for number in requests(act, tmp_path, monkeypatch) if every else SOME[name]:
        at = At(number, every=every)

        def pressed(now: int, what: str, at: At = at) -> None:
            if at(what):
                os.kill(os.getpid(), signal.SIGINT)

        state = cut_short(act, tmp_path, monkeypatch, pressed, KeyboardInterrupt, daemon)
        if not at.what and every:  # so many were asked when others had more stacks
            break
        print(f"{name}, Ctrl-C at {at}: as {state}")  # noqa: T201
        assert state in ("before", "after"), str(at)
        if state == "after" and left(daemon, NAME):
            api.down(NAME)
            assert not left(daemon, NAME)


def cut_short(
    act: Act,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    meet: Callable[[int, str], tuple[int, str] | None],
    error: type[BaseException],
    daemon: DockerClient,
) -> str:
    act.prepare()
    with proxied(place, monkeypatch, meet) as there:
        try:
            act.run()
        except error as raised:
            if isinstance(raised, EngineError):
                check(raised, there)
        else:
            return ""
    return act.whole(daemon)


def check(error: EngineError, there: DaemonProxy) -> None:
    """One message, with what to do."""
    [finding] = error.diagnostics
    assert finding.code in ("LB420", "LB421"), there.said[-1]
    assert finding.hint, str(finding)
    assert "no space left" not in finding.message or "docker system df" in finding.hint
    assert len(str(finding)) < 400


@pytest.mark.parametrize("name", sample(ACTS, ("replace",)))
def test_a_daemon_that_goes_away(
    name: str, daemon: DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: bool
) -> None:
    """Once it is back, the same again does it all."""
    act = Act(name)
    for number in requests(act, tmp_path, monkeypatch) if every else SOME[name][-1:]:
        at = At(number, every=every)

        def gone(now: int, what: str, at: At = at) -> None:
            if at(what):
                raise ConnectionError

        act.prepare()
        with proxied(tmp_path, monkeypatch, gone) as there:
            try:
                act.run()
            except EngineError as error:
                print(f"{name}, gone at {at}: {error}")  # noqa: T201
                check(error, there)
            else:
                assert every, at.what
                assert not at.what, str(at)  # so many were asked when others had more stacks
                break
        if act.after is not None:
            up(act.after)
            assert act.whole(daemon) == "after", str(at)
        if left(daemon, NAME):
            api.down(NAME)
        assert not left(daemon, NAME), str(at)


@pytest.mark.drill
def test_a_disk_that_is_full(
    daemon: DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: bool
) -> None:
    """As a daemon says it."""
    for what in FILLS if every else FILLS[:1]:

        def full(now: int, request: str, what: str = what) -> tuple[int, str] | None:
            text = "write /var/lib/docker/tmp/x: no space left on device"
            return (500, text) if what in request and not request.startswith("GET") else None

        with monkeypatch.context() as patch:
            if what.startswith("images"):
                patch.setattr(helper_image, "tag", lambda: f"full-{os.getpid()}")
            assert cut_short(Act("up"), tmp_path, patch, full, EngineError, daemon) == "before"


@pytest.mark.parametrize("number", sample((signal.SIGINT, signal.SIGTERM), (signal.SIGINT,)), ids=lambda x: x.name)
def test_the_command_ends_with_one_word(number: signal.Signals, daemon: DockerClient, tmp_path: Path) -> None:
    """Also when it is asked again while it clears up."""
    file = tmp_path / "t.yaml"
    port = free_port("127.0.0.1", PORTS)
    file.write_text(json.dumps(topology(port).model.model_dump(exclude_unset=True, mode="json")))
    pids: list[int] = []

    def again(now: int, what: str) -> None:
        if (what.startswith("POST") and what.endswith("/start")) or what.startswith("DELETE"):
            os.kill(pids[0], number)

    with daemon_proxy(tmp_path, again) as there:
        argv = [sys.executable, "-m", "lbgen", "up", str(file), "-e", ENGINE, "--accept", "all"]
        env = {**os.environ, "DOCKER_HOST": there.host}
        with subprocess.Popen(argv, env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            pids.append(child.pid)
            said, complained = child.communicate(timeout=120)
    assert child.returncode == 128 + number, complained
    assert complained.splitlines()[-1] == "interrupted"
    assert "Traceback" not in complained
    assert not said
    assert not left(daemon, NAME)
    assert not labels.saved_folder(NAME).exists()
