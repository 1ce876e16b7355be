"""Ctrl-C, and a daemon that goes away, at each request to the daemon: the old state serves, or nothing is left.

`--interrupts all` takes every request, else a few of each act are taken.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

import lbgen
from lbgen.diagnostics import EngineError
from lbgen.runtime import api
from lbgen.runtime.docker import client, kept, own
from lbgen.runtime.docker.converge import found
from lbgen.runtime.local.ports import free_port
from tests.daemon import Door, door, left, nothing_left, with_images

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from docker import DockerClient

pytestmark = [pytest.mark.engines, pytest.mark.skipif(not client.answers(), reason="no docker daemon answers")]
NAME = f"interrupted-{os.getpid()}"
PORTS = int(os.environ.get("LBGEN_DOCKER_PORTS", "10600")) + 600
ENGINE = "haproxy"
ACTS = ("up", "replace", "reload", "down")
WAYS = {"up": 3, "replace": 3, "reload": 2, "down": 1}  # how many requests are taken of each act


@pytest.fixture(scope="module")
def daemon() -> Iterator[DockerClient]:
    made = with_images()
    with nothing_left(made, NAME):
        yield made
    made.close()


def topology(port: int, path: str = "/one") -> lbgen.Topology:
    data: dict[str, Any] = {
        "version": 1,
        "name": NAME,
        "listeners": {"web": {"port": port}},
        "pools": {"app": {"endpoints": [{"address": "10.9.0.1:80"}]}},
        "routes": [{"name": "one", "match": [{"path": {"prefix": path}}], "forward": "app"}],
    }
    return lbgen.load(data)


def serves(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status == 200 and json.loads(answer.read())["pool"] == "app"
    except OSError:
        return False
    finally:
        connection.close()


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
            assert not kept.folder(NAME).exists()
            return "after" if self.after is None else "before" if self.before is None else "nothing at all"
        assert not [each.name for each in found(daemon, NAME) if each.name.endswith("-before")]
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


def requests(act: Act, place: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the act asks the daemon."""
    act.prepare()
    with door(place) as there, monkeypatch.context() as patch:
        patch.setenv("DOCKER_HOST", there.host)
        act.run()
    if act.name != "down":
        api.down(NAME)
    return there.said


def taken(said: list[str], act: str, every: bool) -> list[int]:
    """Numbers of requests: all, or some of those that change something."""
    numbers = [n for n, each in enumerate(said, 1) if every or not each.startswith("GET")]
    if every:
        return numbers
    step = len(numbers) / WAYS[act]
    return [numbers[int((i + 0.5) * step)] for i in range(WAYS[act])]


@pytest.mark.parametrize("name", ACTS)
def test_ctrl_c(
    name: str, daemon: DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    act = Act(name)
    said = requests(act, tmp_path, monkeypatch)
    for number in taken(said, name, request.config.getoption("--interrupts") == "all"):

        def pressed(now: int, what: str, number: int = number) -> None:
            if now == number:
                os.kill(os.getpid(), signal.SIGINT)

        state = cut_short(act, tmp_path, monkeypatch, pressed, KeyboardInterrupt, daemon)
        print(f"{name}, Ctrl-C at {number} ({said[number - 1][:70]}): as {state}")  # noqa: T201
        api.down(NAME) if left(daemon, NAME) else None
        assert state in ("before", "after"), said[number - 1]
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
    with door(place, meet) as there, monkeypatch.context() as patch:
        patch.setenv("DOCKER_HOST", there.host)
        with pytest.raises(error) as raised:
            act.run()
    if isinstance(raised.value, EngineError):
        check(raised.value, there)
    return act.whole(daemon)


def check(error: EngineError, there: Door) -> None:
    """One message, with what to do."""
    [finding] = error.diagnostics
    assert finding.code in ("LB420", "LB421"), there.said[-1]
    assert finding.hint, str(finding)
    assert "no space left" not in finding.message or "docker system df" in finding.hint
    assert len(str(finding)) < 400


@pytest.mark.parametrize("name", ACTS)
def test_a_daemon_that_goes_away(
    name: str, daemon: DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """Once it is back, the same again does it all."""
    act = Act(name)
    said = requests(act, tmp_path, monkeypatch)
    every = request.config.getoption("--interrupts") == "all"
    for number in taken(said, name, every)[None if every else -1 :]:

        def gone(now: int, what: str, number: int = number) -> None:
            if now >= number:
                raise ConnectionError

        act.prepare()
        with door(tmp_path, gone) as there, monkeypatch.context() as patch:
            patch.setenv("DOCKER_HOST", there.host)
            with pytest.raises(EngineError) as raised:
                act.run()
        check(raised.value, there)
        print(f"{name}, gone at {number} ({said[number - 1][:70]}): {raised.value}")  # noqa: T201
        if act.after is not None:
            up(act.after)
            assert act.whole(daemon) == "after"
        elif left(daemon, NAME):
            act.run()
        api.down(NAME) if left(daemon, NAME) else None
        assert not left(daemon, NAME)


@pytest.mark.parametrize("what", ["images/create", "volumes/create", "containers/create", "archive?path", "/start"])
def test_a_disk_that_is_full(what: str, daemon: DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a daemon says it."""
    text = "write /var/lib/docker/tmp/x: no space left on device"
    if what.startswith("images"):
        monkeypatch.setattr(own, "tag", lambda: f"full-{os.getpid()}")

    def full(now: int, request: str) -> tuple[int, str] | None:
        return (500, text) if what in request and not request.startswith("GET") else None

    state = cut_short(Act("up"), tmp_path, monkeypatch, full, EngineError, daemon)
    assert state == "before"
