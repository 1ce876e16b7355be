"""Stacks of containers, on the real daemon and the real engines. Skipped where no daemon answers."""

from __future__ import annotations

import os
import socket
import subprocess
from functools import partial
from typing import TYPE_CHECKING

import httpx
import pytest

import lbgen
from lbgen import api
from lbgen.diagnostics import EngineError, UsageError
from lbgen.engines.api import engine
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.docker.converge import list_containers
from lbgen.runtime.docker.labels import Role
from tests.support.daemon import IN_CONTAINERS, first_port, name_of
from tests.support.engine_lists import L7_ENGINES, of_this_kernel

if TYPE_CHECKING:
    from pathlib import Path

    from docker import DockerClient

pytestmark = [
    *IN_CONTAINERS,
    pytest.mark.usefixtures("nothing_left"),
]
EVERYWHERE = "0.0.0.0"  # noqa: S104  # published, to a container
NAME = name_of("test")
PORTS = first_port(0)
L4_ENGINES = of_this_kernel()
up = partial(lbgen.up, runtime="docker", accept=("all",), seconds=90)  # beside others some start late


def topology(port: int, prefix: str = "/api", mode: str = "l7") -> lbgen.Topology:
    match = [{"path": {"prefix": prefix}}]
    route = {"name": "api", "forward": "app"} | ({"match": match} if mode == "l7" else {"listeners": ["web"]})
    return lbgen.load(
        {
            "version": 1,
            "name": NAME,
            "profile": "minimal",
            "listeners": {"web": {"port": port, "mode": mode}},
            "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}, {"address": "10.0.0.2:80"}]}},
            "routes": [route],
        }
    )


def test_every_l7_engine_serves_and_up_again_changes_nothing(daemon: DockerClient) -> None:
    port = free_port("127.0.0.1", PORTS + 0)
    stack = up(topology(port), L7_ENGINES)
    before = {each.name: each.handle.id for each in list_containers(daemon, NAME)}
    for name in L7_ENGINES:
        answer = httpx.get(f"{stack.url('web', name)}/api/x")
        assert answer.json()["pool"] == "app"
        assert httpx.get(f"{stack.url('web', name)}/other").status_code == 404
    again = up(topology(port), L7_ENGINES)
    assert again.unchanged
    assert {each.name: each.handle.id for each in list_containers(daemon, NAME)} == before
    [listed] = [each for each in api.ps() if each.name == NAME]
    assert {each.name for each in listed.engines if each.running} == set(L7_ENGINES)
    with pytest.raises(UsageError, match="docker"):
        lbgen.up(topology(port), ["nginx"], runtime="local")


def test_a_stack_of_another_state_directory_needs_its_name(
    daemon: DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = os.environ.get("LBGEN_STATE_DIR")
    up(topology(free_port("127.0.0.1", PORTS + 50)), ["nginx"])
    monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path))
    [listed] = [each for each in api.ps() if each.name == NAME]
    assert listed.foreign_owner.startswith("the state directory ")
    with pytest.raises(UsageError, match="no stack of this state directory runs"):
        api.down()
    assert all(each.running for each in list_containers(daemon, NAME))
    assert api.down(NAME).name == NAME
    assert not list_containers(daemon, NAME)
    if owner is not None:
        monkeypatch.setenv("LBGEN_STATE_DIR", owner)


def test_only_what_changed_is_replaced_and_engines_no_longer_wanted_go(daemon: DockerClient) -> None:
    port = free_port("127.0.0.1", PORTS + 100)
    up(topology(port), ["nginx", "haproxy"])
    before = {each.name: each.handle.id for each in list_containers(daemon, NAME)}
    data = topology(port, "/new").model.model_dump(exclude_none=True, exclude_unset=True, mode="json")
    data["engines"] = {"nginx": {"version": engine("nginx").versions[-1]}}
    stack = up(lbgen.load(data), ["nginx", "haproxy"])
    after = {each.name: each.handle.id for each in list_containers(daemon, NAME)}
    assert stack.replaced
    assert before.keys() == after.keys()
    assert f"lbgen-{NAME}-endpoints" in {name for name in before if before[name] == after[name]}
    assert before[f"lbgen-{NAME}-nginx"] != after[f"lbgen-{NAME}-nginx"]
    assert httpx.get(f"{stack.url('web', 'nginx')}/new").json()["pool"] == "app"
    assert httpx.get(f"{stack.url('web', 'haproxy')}/new").json()["pool"] == "app"
    alone = up(topology(port, "/new"), ["nginx"])
    assert alone.url("web") == f"http://127.0.0.1:{port}"
    assert {each.record.engine for each in list_containers(daemon, NAME) if each.record.role is Role.ENGINE} == {
        "nginx"
    }


def test_what_fails_leaves_the_last_good_stack_serving_and_what_was_killed_runs_after_up(daemon: DockerClient) -> None:
    port = free_port("127.0.0.1", PORTS + 200)
    stack = up(topology(port), ["haproxy"])
    other = free_port("127.0.0.1", port + 1)
    with socket.create_server(("127.0.0.1", other)), pytest.raises(EngineError) as raised:
        up(topology(other), ["haproxy"])
    assert [each.code for each in raised.value.diagnostics] == ["LB404"]
    assert httpx.get(f"{stack.url('web')}/api/x").json()["pool"] == "app"
    # Stopped by a user: docker does not start it again, `up` does.
    subprocess.run(["docker", "kill", "-s", "KILL", f"lbgen-{NAME}-haproxy"], check=True, capture_output=True)
    stack = up(topology(port), ["haproxy"])
    assert httpx.get(f"{stack.url('web')}/api/x").json()["pool"] == "app"


def test_every_engine_passes_connections_and_has_no_rights_that_it_does_not_need(daemon: DockerClient) -> None:
    stack = up(topology(PORTS + 250, mode="l4"), L4_ENGINES)
    assert {url["web"].partition(":")[0] for url in stack.urls.values()} == {"tcp"}
    for name in L4_ENGINES:
        address = stack.address("web", name)
        assert httpx.get(f"http://{address.host}:{address.port}/x").json()["pool"] == "app"
    seen = list_containers(daemon, NAME)
    assert len(seen) == 2 * len(L4_ENGINES) + 1  # each with who has its ports, and the stand-ins
    limits = {Role.PORTS: (32, 64 << 20)}  # all others have those of the profile
    for each in seen:
        host, config = each.handle.attrs["HostConfig"], each.handle.attrs["Config"]
        kernel = each.record.engine == "nftables"
        assert host["ReadonlyRootfs"], each.name
        assert host["CapDrop"] == ["ALL"], each.name
        assert (host["CapAdd"] or []) == (["NET_ADMIN"] if kernel else []), each.name
        assert "no-new-privileges" in host["SecurityOpt"], each.name
        assert config["User"] == ("0:0" if kernel else "65534:65534"), each.name
        assert (host["PidsLimit"], host["Memory"]) == limits.get(each.record.role, (1024, 2 << 30)), each.name
        if each.record.role is Role.ENGINE:
            assert not host["PortBindings"], each.name
            assert host["NetworkMode"].startswith("container:"), each.name
        assert not host["Privileged"], each.name
        assert not host["Binds"] or all(not bind.startswith("/") for bind in host["Binds"]), each.name
        for published in (each.handle.attrs["NetworkSettings"]["Ports"] or {}).values():
            assert all(entry["HostIp"] == "127.0.0.1" for entry in published or ()), each.name


def test_limits_and_the_published_address_are_the_topologys_and_logs_tell_who_said_what(daemon: DockerClient) -> None:
    port = free_port("127.0.0.1", PORTS + 280)
    data = topology(port).model.model_dump(exclude_none=True, exclude_unset=True, mode="json")
    data["containers"] = {"memory": "256MiB", "pids": 200}
    data["listeners"]["web"]["address"] = EVERYWHERE  # said, so that other hosts may come
    with up(lbgen.load(data), ["haproxy"]) as stack:
        assert stack.url("web") == f"http://127.0.0.1:{port}"
        for each in list_containers(daemon, NAME):
            host = each.handle.attrs["HostConfig"]
            if each.record.role is Role.ENGINE:
                assert (host["PidsLimit"], host["Memory"]) == (200, 256 << 20), each.name
            if each.record.role is Role.PORTS:
                assert [x["HostIp"] for x in host["PortBindings"][f"{port}/tcp"]] == [EVERYWHERE]
        said = [(line.source, line.text) for line in api.logs(NAME)]
        assert any(source == "haproxy" for source, _ in said)
        assert ("endpoints", "ready") in said
