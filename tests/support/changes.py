"""Kinds of change of a running topology, one for each group of fields, and what is compared when one is carried out.

A listener `steady` and its route stay as they are, so that its clients see whether requests are lost.
"""

from __future__ import annotations

import atexit
import copy
import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import lbgen
from lbgen.diagnostics import LbgenError
from lbgen.engines.api import engines as installed
from lbgen.runtime.common.certificates import write_self_signed
from lbgen.runtime.common.driver import Action, PartKind
from tests.support.traffic import traffic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lbgen.api import Stack
    from lbgen.conformance.preview import Preview

Topology = dict[str, Any]
Values = dict[str, Any]


def base(name: str, port: int) -> Topology:
    """Listeners on `port` (steady), the next one (web) and the one after (l4)."""
    return {
        "version": 1,
        "name": name,
        "listeners": {"steady": {"port": port}, "web": {"port": port + 1}, "tcp": {"port": port + 2, "mode": "l4"}},
        "pools": {
            "app": {"endpoints": [{"address": "10.9.0.1:80"}, {"address": "10.9.0.2:80"}]},
            "other": {"endpoints": [{"address": "10.9.1.1:80"}, {"address": "10.9.1.2:80"}]},
            "bytes": {"endpoints": [{"address": "10.9.2.1:80"}]},
        },
        "routes": [
            {"name": "steady", "listeners": ["steady"], "forward": "app"},
            {"name": "api", "listeners": ["web"], "match": [{"path": {"prefix": "/api"}}], "forward": "other"},
            {"name": "rest", "listeners": ["web"], "forward": "app"},
            {"name": "tcp", "listeners": ["tcp"], "forward": "bytes"},
        ],
    }


def top(**values: Any) -> Callable[[Topology], None]:
    """Set fields of the topology."""
    return lambda topology: topology.update(values)


def listener(name: str = "web", **values: Any) -> Callable[[Topology], None]:
    """Set fields of a listener."""
    return lambda topology: topology["listeners"][name].update(values)


def pool(name: str = "other", **values: Any) -> Callable[[Topology], None]:
    """Set fields of a pool."""
    return lambda topology: topology["pools"][name].update(values)


def route(name: str = "api", **values: Any) -> Callable[[Topology], None]:
    """Set fields of a route; another action takes the place of its own."""

    def change(topology: Topology) -> None:
        found = next(each for each in topology["routes"] if each["name"] == name)
        if {"forward", "redirect", "respond"} & values.keys():
            found.pop("forward")
        found.update(values)

    return change


def _without_route(topology: Topology) -> None:
    topology["routes"] = [each for each in topology["routes"] if each["name"] != "api"]


def _moved(topology: Topology) -> None:
    topology["listeners"]["web"]["port"] += 10


def _one_more_listener(topology: Topology) -> None:
    topology["listeners"]["more"] = {"port": topology["listeners"]["web"]["port"] + 11}
    topology["routes"].append({"name": "more", "listeners": ["more"], "forward": "app"})


def _without_l4(topology: Topology) -> None:
    del topology["listeners"]["tcp"], topology["pools"]["bytes"]
    topology["routes"].pop()


def _one_more_route(topology: Topology) -> None:
    topology["routes"].append(
        {"name": "new", "listeners": ["web"], "match": [{"path": {"exact": "/new"}}], "forward": "other"}
    )


def _one_more_pool(topology: Topology) -> None:
    topology["pools"]["new"] = {"endpoints": [{"address": "10.9.3.1:80"}]}
    route(forward="new")(topology)


def _certificate(topology: Topology) -> None:
    folder = Path(tempfile.gettempdir()) / f"lbgen-preview-{os.getpid()}"
    pair = folder / "site.crt", folder / "site.key"
    if not folder.is_dir():
        folder.mkdir()
        atexit.register(shutil.rmtree, folder)
        write_self_signed(*pair, ("shop.example",))
        pair[1].chmod(0o644)  # it is named by its absolute path, and read by the user nobody
    topology["listeners"]["web"]["tls"] = {"certificates": [{"cert": str(pair[0]), "key": str(pair[1])}]}


# Name to what it changes. Those of SAMPLE come first in each group of actions that engines choose between.
CHANGES: dict[str, Callable[[Topology], None]] = {
    "nothing": lambda topology: None,
    "listener.port": _moved,
    "listener.new": _one_more_listener,
    "listener.l4.gone": _without_l4,
    "listener.address": listener(address="127.0.0.1"),
    "listener.http2": listener(http2=True),
    "listener.tls": _certificate,
    "listener.proxy_protocol": listener(proxy_protocol="accept"),
    "listener.trusted_proxies": listener(trusted_proxies=["10.0.0.0/8"]),
    "listener.max_connections": listener(max_connections=500),
    "listener.paths": listener(paths={"allow": ["empty_segments"]}),
    "listener.access": listener(access={"deny": ["192.0.2.0/24"]}),
    "listener.limits": listener(limits={"headers": "16KiB", "target": "8KiB"}),
    "listener.timeouts": listener(timeouts={"client_header": "10s"}),
    "listener.underscores": listener(headers_with_underscores="pass"),
    "pool.new": _one_more_pool,
    "pool.endpoint.new": pool(endpoints=[{"address": f"10.9.1.{n}:80"} for n in (1, 2, 3)]),
    "pool.endpoint.gone": pool(endpoints=[{"address": "10.9.1.1:80"}]),
    "pool.endpoint.weight": pool(endpoints=[{"address": "10.9.1.1:80", "weight": 3}, {"address": "10.9.1.2:80"}]),
    "pool.endpoint.backup": pool(endpoints=[{"address": "10.9.1.1:80"}, {"address": "10.9.1.2:80", "backup": True}]),
    "pool.balance": pool(balance="least_connections"),
    "pool.health.active": pool(health={"active": {"path": "/healthz", "interval": "1s"}}),
    "pool.health.passive": pool(health={"passive": {"failures": 3, "eject_for": "5s"}}),
    "pool.connections": pool(connections={"keepalive": 8}),
    "pool.max_per_endpoint": pool(connections={"max_per_endpoint": 20, "queue": {"size": 10, "timeout": "1s"}}),
    "pool.sticky": pool(sticky={"cookie": "LB"}),
    "pool.slow_start": pool(slow_start="10s", health={"active": {"path": "/", "interval": "1s"}}),
    "pool.protocol": pool(protocol="http2"),
    "pool.proxy_protocol": pool(proxy_protocol="v1"),
    "pool.tls": pool(tls={"verify": False}),
    "pool.stand_ins": pool(stand_ins=False),
    "route.new": _one_more_route,
    "route.gone": _without_route,
    "route.hosts": route(hosts=["shop.example"]),
    "route.match": route(match=[{"path": {"prefix": "/api"}, "methods": ["GET"], "headers": {"x-a": "1"}}]),
    "route.match.regex": route(match=[{"path": {"regex": "/api/[0-9]+"}}]),
    "route.priority": route("rest", priority=5),
    "route.sources": route(sources=["127.0.0.0/8"]),
    "route.forward": route(forward="app"),
    "route.forward.weights": route(forward=[{"pool": "other", "weight": 9}, {"pool": "app", "weight": 1}]),
    "route.redirect": route(redirect={"path": "/new", "status": 301}),
    "route.respond": route(respond={"status": 200, "body": "ok\n"}),
    "route.rewrite": route(rewrite={"prefix": "/v1"}),
    "route.timeouts": route(timeouts={"response": "5s", "idle": "5s"}),
    "route.retries": route(retries={"max": 1, "on": ["connect_failure"]}),
    "route.rate_limit": route(rate_limit={"rate": "100/s", "burst": 20, "key": "client_ip"}),
    "route.concurrency": route(concurrency={"max": 50, "key": "route"}),
    "route.max_body": route(max_body="1MiB"),
    "route.buffering": route(buffering={"request": True}),
    "route.request_headers": route(request_headers={"set": {"x-env": "prod"}}),
    "route.response_headers": route(response_headers={"set": {"x-b": "1"}}),
    "route.mirror": route(mirror={"pool": "app", "percent": 10}),
    "route.cors": route(cors={"origins": ["https://shop.example"], "methods": ["GET"]}),
    "route.compression": route(compression={"types": ["application/json"]}),
    "route.access": route(access={"allow": ["127.0.0.0/8"]}),
    "timeouts": top(timeouts={"response": "30s", "idle": "30s"}),
    "client_timeouts": top(client_timeouts={"keepalive": "30s"}),
    "limits": top(limits={"headers": "16KiB"}),
    "forwarded_headers": top(forwarded_headers=False),
    "request_id": top(request_id=False),
    "access_log": top(access_log="none"),
    "response_headers": top(response_headers={"set": {"x-frame-options": "DENY"}}),
    "resolvers": top(resolvers=["127.0.0.1"]),
    "profile": top(profile="minimal"),
    "containers.memory": top(containers={"memory": "1GiB"}),
    "containers.pids": top(containers={"pids": 900}),
    "accept": top(accept=["all"]),
}


@dataclass(frozen=True)
class Part:
    """One part as it runs: `id` of its process or container, `state` of what it serves."""

    id: str
    state: str


Parts = dict[tuple[PartKind, str], Part]


def changed(topology: Topology, change: str) -> lbgen.Topology:
    """The topology after that change."""
    made = copy.deepcopy(topology)
    CHANGES[change](made)
    return lbgen.load(made)


def refusals(act: Callable[[], object]) -> list[str]:
    """The findings that stop it; none where nothing does."""
    try:
        act()
    except LbgenError as error:
        return [f"{each.code} {each.field}" for each in error.diagnostics]
    return []


@contextmanager
def only_looking() -> Iterator[None]:
    """Fail where anything is signalled, started other than to tell its version, or asked of docker other than read."""

    def refuse(*words: object, **options: object) -> None:
        raise AssertionError(f"a preview only looks: {words}")

    def look(argv: tuple[str, ...], *rest: object, **options: Any) -> subprocess.Popen[bytes]:
        asked = [x.version_argv for each in installed().values() for x in each.binaries]
        assert tuple(argv)[1:] in asked, argv
        return start(argv, *rest, **options)

    start = subprocess.Popen
    with ExitStack() as stack:
        for holder, name in ((os, "kill"), (os, "killpg"), (signal, "pidfd_send_signal")):
            stack.enter_context(mock.patch.object(holder, name, refuse))
        stack.enter_context(mock.patch.object(subprocess, "Popen", look))
        if find_spec("docker") is not None:
            from docker import APIClient

            for name in ("_post", "_put", "_delete"):
                stack.enter_context(mock.patch.object(APIClient, name, refuse))
        yield


def hold(
    before: lbgen.Topology,
    after: lbgen.Topology,
    engines: tuple[str, ...],
    runtime: str,
    port: int,
    read: Callable[[Stack], Parts],
    **how: Any,
) -> Preview | None:
    """Preview `up` from what runs to `after`, bring that up, and compare; None where both refuse it alike."""
    asked = {"runtime": runtime, "accept": ("all",), **how}
    [stack] = [each for each in lbgen.api.ps() if each.name == before.name]
    one = read(stack)
    found: list[Preview] = []
    with only_looking():
        refused = refusals(lambda: found.append(lbgen.preview(after, engines, **asked)))
    assert read(stack) == one, "a preview changes nothing"
    with traffic(port, pause=0.05) as seen:
        done: list[Stack] = []
        truth = refusals(lambda: done.append(lbgen.up(after, engines, **asked)))
    if truth and all(each.startswith("LB401") for each in truth):  # a checker's, which a preview does not run
        assert read(stack) == one
        return None
    assert refused == truth, f"preview: {refused}, up: {truth}"
    if refused:
        return None
    [preview] = found
    two = read(done[0])
    assert preview.changes is not done[0].unchanged, preview.parts
    compared = preview.compared
    assert compared is not None
    assert compared.as_dict() == lbgen.diff(before, after).as_dict(), compared
    actions = {(part.kind, part.name): part.action for part in preview.parts}
    assert set(actions) == {*one, *two}, (preview.parts, one, two)
    for key, action in actions.items():
        assert agrees(action, one.get(key), two.get(key)), (key, action, one.get(key), two.get(key))
    assert bool(seen.lost) is preview.interrupts, seen.lost[:3]
    return preview


def walk(
    topology: Topology, kinds: tuple[str, ...], engine: str, runtime: str, port: int, read: Callable[[Stack], Parts]
) -> tuple[set[Action], int]:
    """Carry out each change on a stack that runs `topology`, and take it back. Returns what happened to the engine, and
    how many changes it can serve."""
    before = lbgen.load(topology)
    taken: set[Action] = set()
    wrong: list[str] = []
    served = 0
    for kind in kinds:
        after = changed(topology, kind)
        try:
            found = hold(before, after, (engine,), runtime, port, read)
            if found is None:
                continue
            served += 1
            taken |= {part.action for part in found.parts if part.kind is PartKind.ENGINE}
            if kind != "nothing":  # even where no process changes, the saved topology does
                assert hold(after, before, (engine,), runtime, port, read) is not None, "the way back is refused"
        except AssertionError as error:
            wrong.append(f"{kind}: {error}")
            lbgen.up(before, engine=engine, runtime=runtime, accept=("all",))
    assert not wrong, "\n".join(wrong)
    return taken, served


def agrees(action: Action, one: Part | None, two: Part | None) -> bool:
    """Whether that action has led from one to the other."""
    if one is None or two is None:
        return action is (Action.CREATE if one is None else Action.REMOVE)
    if one.id != two.id:
        return action in (Action.REPLACE, Action.INTERRUPT)
    return action is (Action.NONE if one.state == two.state else Action.RELOAD)
