"""Output and access log of a stack: one schema, told apart, chosen from, followed, shown without tricks."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from lbgen import api
from lbgen.cli import logs as verb
from lbgen.cli.main import group
from lbgen.runtime.common import logs
from tests.support.fake_engine import FakeEngine, write_program
from tests.unit.runtime.local.test_process import plan

pytestmark = pytest.mark.xdist_group("runtime")
PORT = 24_340


@pytest.fixture(params=["", "access.log"], ids=["in the output", "in a file"])
def stack(request, tmp_path, tmp_path_factory, monkeypatch):
    """A stack that has served /, /api and /bad."""
    monkeypatch.setenv("LBGEN_STATE_DIR", str(tmp_path / "state"))
    fake = FakeEngine(write_program(tmp_path_factory.mktemp("program")), access_log=request.param)
    monkeypatch.setitem(logs.lines.__kwdefaults__, "parser", lambda name: fake.access_record)
    with api.up(replace(plan("a.example", PORT), name="logged"), engine=fake, runtime="local") as up:
        for path in ("/api", "/bad", "/x%1b[2J"):
            urllib.request.urlopen(up.url("web") + path).read()
        yield up


def asked(found) -> list[tuple[object, object]]:
    return [(line.record["path"], line.record["status"]) for line in found]


def test_requests_are_told_from_output(stack):
    lines = list(api.logs("logged"))
    assert any("starting as uid" in line.text and line.record is None for line in lines)
    assert {line.source for line in lines if line.record is not None} == {"fake"}
    wanted = {("/api", 200), ("/bad", 503)}
    assert wanted <= set(asked(api.requests("logged")))
    assert asked(api.requests("logged", wanted=logs.RequestFilter(statuses=((500, 599),)))) == [("/bad", 503)]
    assert asked(api.requests("logged", wanted=logs.RequestFilter(routes=frozenset({"api"})))) == [("/api", 200)]
    both = logs.RequestFilter(frozenset({"api"}), ((500, 599),))
    assert asked(api.requests("logged", wanted=both)) == []


def test_requests_of_several_engines_are_sorted_by_time_unless_followed():
    def line(source: str, second: int) -> logs.Line:
        return logs.Line(source, "", {"time": f"2026-01-01T00:00:0{second}.000Z", "route": "r", "status": 200})

    found = [line("a", 3), line("a", 5), logs.Line("a", "output"), line("b", 4)]
    assert [x.source for x in logs.requests(found, logs.RequestFilter(), sort=True)] == ["a", "b", "a"]
    assert [x.source for x in logs.requests(found, logs.RequestFilter(), sort=False)] == ["a", "a", "b"]


def test_a_long_log_is_read_in_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "_PART", 7)
    path = tmp_path / "log"
    path.write_bytes(b"one\r\ntwo and a half\n\n\xff\nlast")
    tail = logs._Tail("x", path)
    assert [line.text for line in tail.read(last=False)] == ["one", "two and a half", "", "\ufffd"]
    with path.open("ab") as more:
        more.write(b" one\n")
    assert [line.text for line in tail.read(last=False)] == ["last one"]
    assert list(tail.read(last=True)) == []


def test_new_requests_are_followed_until_the_stack_is_down(stack):
    seen = []
    thread = threading.Thread(target=lambda: seen.extend(api.requests("logged", follow=True)))
    thread.start()
    time.sleep(0.5)
    urllib.request.urlopen(stack.url("web") + "/late").read()
    time.sleep(0.7)
    assert ("/late", 200) in asked(seen)
    stack.down()
    thread.join(10)
    assert not thread.is_alive()


def shown(*arguments: str) -> list[str]:
    done = CliRunner().invoke(group, ["logs", "logged", *arguments])
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def test_the_command_shows_both_one_or_the_other(stack):
    assert any("starting as uid" in line for line in shown())
    assert any("GET a.example/api -> api" in line for line in shown())
    assert not any("a.example/api" in line for line in shown("--no-access"))
    head, *rows = shown("--access")
    assert head.split()[:3] == ["time", "engine", "status"]
    assert not any("starting" in row for row in rows)
    (bad,) = shown("--status", "5xx")[1:]
    assert bad.split()[1:6] == ["fake", "503", "1.5", "-", "2"]
    assert bad.endswith("GET a.example/bad -> bad")
    assert shown("--status", "404")[1:] == []
    assert len(shown("--status", "500-503", "--status", "200", "--route", "bad")[1:]) == 1


def test_the_command_prints_json_lines(stack):
    found = [json.loads(line) for line in shown("--access", "--json", "--route", "api")]
    assert found == [
        {"engine": "fake", **found[0]} | {"listener": str(PORT), "path": "/api", "status": 200, "upstream_ms": None}
    ]
    everything = json.loads("\n".join(shown("--json")))
    assert {"record", "text"} <= {key for each in everything for key in each}


@pytest.mark.parametrize("wrong", ["6xx", "20", "abc", "200-"])
def test_a_status_that_is_none_is_refused(wrong):
    done = CliRunner().invoke(group, ["logs", "--status", wrong])
    assert done.exit_code == 2
    assert "write 404, 500-503 or 5xx" in done.output


def test_what_a_client_sent_does_not_steer_the_terminal():
    assert verb.printable("a\x1b[2Jb\r\u202ec\t") == "a\\x1b[2Jb\\x0d\\x202ec\t"
