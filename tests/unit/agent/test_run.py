"""The agent: states by checks, shares by states, checks over the wire, files and signals."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lbgen.agent import probe, run, state_file, steering
from lbgen.agent.state_file import Health, apply_check, next_growth, share
from lbgen.agent.steering import load_files
from lbgen.diagnostics import EngineError
from lbgen.engines.agent_spec import FILE, FORMAT, AgentSpec, CheckedPool, CheckTls, Target
from lbgen.runtime.common.certificates import temporary_certificates
from lbgen.runtime.common.ports import free_port
from lbgen.runtime.standins.server import stand_in_servers
from lbgen.runtime.standins.stand_in import Behaviour, StandIn, StandInTls

START = 1000.0


def seen(folder) -> str:
    """The state of the first endpoint, empty before there is one."""
    return next((str(each.state) for each in state_file.read(folder).values()), "")


def after(results: str, fall: int = 3, rise: int = 2) -> Health:
    """The health after checks a second apart, `x` for failed."""
    health = Health(START)
    for number, result in enumerate(results, 1):
        health = apply_check(health, "refused" if result == "x" else "", START + number, fall=fall, rise=rise)
    return health


@pytest.mark.parametrize(
    ("results", "up", "since"),
    [
        ("", True, 0),
        ("....", True, 0),
        (".xx.xx.xx", True, 0),
        ("x", False, 1),
        (".xxx", False, 4),
        (".xxxxx", False, 4),
        ("xxx.x.x.", False, 1),
        ("xxx..", True, 5),
        (".xxx..xx", True, 6),
    ],
)
def test_so_many_in_a_row_change_the_state(results, up, since):
    health = after(results)
    assert (health.up, health.since) == (up, START + since)


def test_the_last_error_is_kept_while_it_lasts():
    assert after("xxx").error == "refused"
    assert after("xxx.").error == "refused"
    assert after("xxx..").error == ""
    assert after(".x").error == "refused"
    assert after(".x.").error == ""


def test_only_what_came_back_starts_slowly():
    assert share(after(""), START, 10_000) == 100
    assert share(after("xxx"), START + 3, 10_000) == 0
    back = after("xxx..")
    assert [share(back, START + 5 + s, 10_000) for s in (0, 0.9, 1, 2, 2.5, 9.9, 10, 99)] == [
        10, 10, 10, 20, 20, 90, 100, 100,
    ]  # fmt: skip
    assert share(back, START + 5, 0) == 100


@given(st.integers(1, 10**7), st.floats(0, 10**4))
def test_each_step_of_a_slow_start_is_announced(slow_start, elapsed):
    health = Health(START, returned=True)
    now, seen = START + elapsed, []
    while (step := next_growth(health, now, slow_start)) is not None:
        assert step > now or share(health, step + 1e-6, slow_start) > share(health, now, slow_start)
        now = max(step, now) + 1e-6
        seen.append(share(health, now, slow_start))
        assert len(seen) <= 10
    assert share(health, now, slow_start) == 100
    assert seen == sorted(set(seen))


def pool(port: int, **changes) -> CheckedPool:
    target = Target(f"127.0.0.1:{port}", "127.0.0.1", port, 1)
    fields = {
        "name": "app",
        "path": "/health?x",
        "statuses": ((200, 299),),
        "interval": 100,
        "timeout": 400,
        "fall": 2,
        "rise": 2,
        "slow_start": 0,
        "http2": False,
        "proxy_protocol": None,
        "tls": None,
        "targets": (target,),
    }
    return CheckedPool(**(fields | changes))


@asynccontextmanager
async def serving(answer: bytes, heard: list[bytes], *, close: bool = True, tls=None):
    async def serve(reader, writer):
        heard.append(await reader.read(4096))
        writer.write(answer)
        await writer.drain()
        if close:
            writer.close()
        else:
            await asyncio.sleep(5)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    yield server.sockets[0].getsockname()[1]
    server.close()


def verdict(answer: bytes, *, close: bool = True, **changes) -> tuple[str, bytes]:
    heard: list[bytes] = []

    async def ask() -> str:
        async with serving(answer, heard, close=close) as port:
            asked = pool(port, **changes)
            return await probe.check(asked, asked.targets[0], None)

    found = asyncio.run(ask())
    return found, b"".join(heard)


def test_an_http_check_judges_the_status():
    found, heard = verdict(b"HTTP/1.1 204 No Content\r\n\r\n", close=False)
    assert found == ""
    lines = heard.decode().split("\r\n")
    assert lines[0] == "GET /health?x HTTP/1.1"
    assert lines[1].startswith("Host: 127.0.0.1:")
    assert "Connection: close" in lines
    assert verdict(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")[0] == ""
    assert verdict(b"HTTP/1.1 503 Away\r\n\r\n")[0] == "status 503"
    assert verdict(b"HTTP/1.1 503 Away\r\n\r\n", statuses=((200, 299), (503, 503)))[0] == ""
    assert verdict(b"HTTP/1.0 301 Moved\r\n\r\n")[0] == "status 301"
    assert verdict(b"SSH-2.0-x\r\n\r\n")[0] == "an answer that is no HTTP/1.1"
    assert verdict(b"")[0] == "closed before it answered"
    assert verdict(b"x" * 100_000)[0] == "a head that is too long"
    assert verdict(b"", close=False)[0] == "no answer within 400 ms"


def test_a_connection_check_asks_nothing():
    found, heard = verdict(b"", path=None)
    assert (found, heard) == ("", b"")


def test_a_refused_connection_and_an_unknown_name():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        asked = pool(held.getsockname()[1])
        assert asyncio.run(probe.check(asked, asked.targets[0], None)) == "Connection refused"
    unknown = Target("x.invalid:80", "x.invalid", 80, 1)
    assert asyncio.run(probe.check(pool(80, timeout=5000), unknown, None)) != ""


@pytest.mark.parametrize(
    ("version", "begin"), [("v1", b"PROXY TCP4 127.0.0.1 127.0.0.1 "), ("v2", b"\r\n\r\n\0\r\nQUIT\n!\x11\0\x0c")]
)
def test_a_proxy_header_comes_first(version, begin):
    found, heard = verdict(b"HTTP/1.1 200 OK\r\n\r\n", proxy_protocol=version)
    assert found == ""
    assert heard.startswith(begin)


def test_a_file_that_is_no_order_is_told(tmp_path):
    with pytest.raises(EngineError, match=r"LB410.*No such file"):
        run.load(tmp_path / FILE, AgentSpec, FORMAT)
    (tmp_path / FILE).write_text('{"engine": "nginx"}')
    with pytest.raises(EngineError, match=r"LB410.*program"):
        run.load(tmp_path / FILE, AgentSpec, FORMAT)
    (tmp_path / FILE).write_text(json.dumps(json.loads(spec(1).file().text) | {"format": 99}))
    with pytest.raises(EngineError, match="format 99"):
        run.load(tmp_path / FILE, AgentSpec, FORMAT)
    (tmp_path / FILE).write_text(spec(1).file().text)
    assert run.load(tmp_path / FILE, AgentSpec, FORMAT) == spec(1)
    with pytest.raises(EngineError, match="HAProxy does not use an agent"):
        steering.steered_engine("haproxy")
    tls = CheckTls("missing.pem", None, None, None, verify=True)
    with pytest.raises(EngineError, match="certificates of pool app"):
        run.Agent(spec(1, tls=tls), tmp_path)


def spec(port: int, **changes) -> AgentSpec:
    name = f"127.0.0.1:{port}"
    steering = {"app.conf": {"pool": "app", "scale": 1, "servers": [[name, 1, " max_fails=0"]]}}
    return AgentSpec("nginx", "python3", "pid", "SIGHUP", (pool(port, **changes),), steering)


def until(what, seconds: float = 8.0) -> bool:
    end = time.monotonic() + seconds
    while not (found := what()) and time.monotonic() < end:
        time.sleep(0.02)
    return bool(found)


def test_a_whole_agent_writes_files_signals_and_remembers(tmp_path):
    """The engine is a process that counts its SIGHUPs; its pid file comes later than the agent."""
    counting = (
        "import signal, time\nsignal.signal(1, lambda *_: open('hups', 'a').write('x'))\n"
        "open('ready', 'w')\ntime.sleep(60)"
    )
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        engine = subprocess.Popen([sys.executable, "-c", counting], cwd=tmp_path)
        lines, hups, ready = tmp_path / "app.conf", tmp_path / "hups", tmp_path / "ready"
        assert until(ready.exists)
        program = Path(f"/proc/{engine.pid}/comm").read_text().strip()
        (tmp_path / FILE).write_text(replace(spec(port, path=None), program=program).file().text)
        agent = start(tmp_path)
        try:
            assert until(lambda: seen(tmp_path) == "down")
            assert lines.read_text() == f"server 127.0.0.1:{port} max_fails=0 down;\n"
            assert lines.stat().st_mode & 0o777 == 0o644
            time.sleep(0.5)
            assert not hups.exists()
            (tmp_path / "pid").write_text(f"{engine.pid}\n")
            assert until(hups.exists)
            agent.terminate()
            assert agent.wait(5) == 0
            agent = start(tmp_path)
            time.sleep(0.3)
            assert seen(tmp_path) == "down"
            held.listen(100)
            assert until(lambda: seen(tmp_path) == "up")
            assert until(lambda: lines.read_text() == f"server 127.0.0.1:{port} max_fails=0;\n")
            more = replace(spec(port, path=None), program=program)
            more.steering["app.conf"]["servers"].append(["10.0.0.9:80", 1, " backup"])
            state_file.replace_file(tmp_path / FILE, more.file().text)
            assert until(lambda: lines.read_text().splitlines()[1:] == ["server 10.0.0.9:80 backup;"])
            lines.unlink()
            lines.mkdir()
            held.close()
            assert agent.wait(10) == 3
        finally:
            agent.kill()
            agent.wait()
            engine.kill()
            engine.wait()
    log = (tmp_path / "log").read_text()
    assert f"app 127.0.0.1:{port} down after 2 failed checks: Connection refused" in log
    assert f"app 127.0.0.1:{port} up after 2 good checks" in log
    assert "there is a new specification" in log
    assert "error LB410: " in log
    assert "Is a directory" in log
    assert "Traceback" not in log


def start(folder) -> subprocess.Popen[bytes]:
    with (folder / "log").open("ab") as log:
        return subprocess.Popen([sys.executable, "-m", "lbgen", "agent", str(folder)], stderr=log)


def test_states_are_taken_over_only_while_they_are_fresh(tmp_path):
    order = spec(80)
    key = ("app", "127.0.0.1:80")
    down = Health(START, up=False, error="refused")
    state_file.replace_file(tmp_path / state_file.FILE, state_file.to_json(order, {key: down}))
    assert state_file.last_states(tmp_path) == {key: down}
    os.utime(tmp_path / state_file.FILE, (START, START))
    assert state_file.last_states(tmp_path) == {}
    state_file.touch(tmp_path)
    assert state_file.last_states(tmp_path) == {key: down}
    good = (tmp_path / state_file.FILE).read_bytes()
    for broken in (b"{", b"[]", good.replace(b'"down"', b'"odd"'), good.replace(b'"down"', b'"\xff"')):
        (tmp_path / state_file.FILE).write_bytes(broken)
        assert state_file.last_states(tmp_path) == {}
    assert state_file.read(tmp_path) == {}


def test_signals_go_to_the_named_program_alone(tmp_path):
    order = spec(80)
    assert load_files(order, tmp_path).startswith("no process of ")
    (tmp_path / "pid").write_text("1\n")
    assert load_files(order, tmp_path).startswith("no process of ")
    (tmp_path / "pid").write_text("nonsense")
    assert load_files(order, tmp_path).startswith("no process of ")
    assert signal.Signals[order.reload] is signal.SIGHUP


def test_a_command_runs_in_the_folder_and_its_failure_is_told(tmp_path):
    order = replace(
        spec(80), reload="", command=("sh", "-c", "test -f ready || { echo none >&2; exit 3; }; pwd > seen")
    )
    assert load_files(order, tmp_path) == f"`{' '.join(order.command)}` failed: none"
    (tmp_path / "ready").touch()
    assert load_files(order, tmp_path) == ""
    assert (tmp_path / "seen").read_text() == f"{tmp_path}\n"
    absent = replace(order, command=("no-such-program",))
    assert load_files(absent, tmp_path) == "no executable of no-such-program was found"


@pytest.mark.parametrize("http2", [False, True])
@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("proxied", [None, "v1", "v2"])
def test_checks_speak_what_the_pool_speaks(http2, secure, proxied):
    """With TLS the certificate is verified, a client certificate shown, and nothing else gets through."""
    folder = temporary_certificates()
    server = StandInTls(f"{folder}/endpoint.crt", f"{folder}/endpoint.key", f"{folder}/client-ca.crt", True)
    port = free_port(start=24_290)
    stand_in = StandIn("e", "app", "127.0.0.1", port, tls=server if secure else None, proxied=proxied is not None)
    tls = CheckTls("ca.crt", None, "client.crt", "client.key", verify=True)

    def ask(**changes) -> str:
        how = replace(tls, **changes) if secure else None
        asked = pool(port, http2=http2, tls=how, proxy_protocol=proxied, timeout=3000)
        context = probe.tls_context(how, folder, http2=http2) if how is not None else None
        return asyncio.run(probe.check(asked, asked.targets[0], context))

    with stand_in_servers([stand_in]) as group:
        assert ask() == ""
        assert group.requests["e"] == 1
        group.behave("e", Behaviour("fixed", status=500))
        assert ask() == "status 500"
        group.behave("e", Behaviour())
        if secure:
            assert ask(server_name="backend.internal") == ""
            assert ask(server_name="other.internal").startswith("certificate: ")
            assert ask(ca="foreign-ca.crt").startswith("certificate: ")
            assert ask(ca="foreign-ca.crt", verify=False) == ""
            assert ask(certificate=None, key=None) != ""


def test_ps_shows_whole_addresses_however_narrow_the_screen():
    from types import SimpleNamespace

    from rich.console import Console

    from lbgen.cli.stacks import health_table, stacks_table
    from lbgen.runtime.common.health import EndpointHealth

    place = "192.168.100.100:18080"
    found = EndpointHealth("some-pool", place, place, "down", START, "status 500 [red]x")
    address = SimpleNamespace(listener="some-listener", url="https://192.168.100.100:18443")
    engine = SimpleNamespace(
        name="nginx", version="1.31.3", running=True, restarts=2, died="ended by SIGKILL", ended="", metrics=""
    )
    engine.pid, engine.addresses = 12345, (address,)
    stack = SimpleNamespace(name="some-stack", engines=(engine,), health=lambda: {"nginx": (found,)})
    screen = Console(width=80)
    with screen.capture() as shown:
        screen.print(stacks_table([stack]))
        screen.print(health_table([stack]))
    text = shown.get()
    assert "https://192.168.100.100:18443" in text
    assert "192.168.100.100:18080" in text
    assert "[red]x" in text
    assert "2x" in text
    stack.health = lambda: {"nginx": ()}
    assert health_table([stack]) is None


def test_files_of_a_new_order_know_what_was_found_down(tmp_path):
    port = 25_999
    name = f"127.0.0.1:{port}"
    order = spec(port).file().text
    assert steering.steering_files(order, tmp_path) == {"app.conf": f"server {name} max_fails=0;\n"}
    state_file.replace_file(
        tmp_path / state_file.FILE, state_file.to_json(spec(port), {("app", name): Health(START, up=False)})
    )
    assert steering.steering_files(order, tmp_path) == {"app.conf": f"server {name} max_fails=0 down;\n"}
