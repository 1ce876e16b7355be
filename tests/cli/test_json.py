"""Each command's JSON against its published schema, which is closed: a key that it does not name fails."""

from __future__ import annotations

import json
import shutil
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from click.testing import CliRunner

from lbgen.cli.main import group
from lbgen.cli.schema import ANSWERS
from tests.support.command import run_lbgen
from tests.support.schemas import valid, validator

if TYPE_CHECKING:
    from subprocess import CompletedProcess

ROOT = Path(__file__).parents[2]
SHOP = "examples/shop/topology.yaml"
POSTGRES = "examples/postgres/topology.yaml"
TIERS = "examples/hybrid-edge/topology.yaml"
_REQUEST = ("GET", "http://shop.example:8080/api/cart")

# Command lines by command, with all modes that print another shape.
PURE: dict[str, list[tuple[str, ...]]] = {
    "check": [(SHOP, "--no-engines"), ("{wrong}",), (POSTGRES, "-e", "nginx", "--no-engines")],
    "render": [(SHOP,), (TIERS,), (POSTGRES, "--accept", "all"), (SHOP, "-e", "nftables")],
    "explain": [
        (SHOP,),
        (TIERS,),
        (SHOP, "--cost"),
        (TIERS, "--cost"),
        (SHOP, "--line", "haproxy.cfg:1"),
        (SHOP, "--line", "haproxy.cfg:60"),
        (SHOP, "--field", "routes[0]"),
        (SHOP, "--versions"),
        (TIERS, "--versions"),
    ],
    "export": [
        (SHOP, "--to", "compose", "-e", "nginx"),
        (TIERS, "--to", "kubernetes"),
        (SHOP, "--to", "gateway-api", "--accept", "all"),
    ],
    "fingerprint": [("nginx@1.22", "--stored", "--compare", "1.31"), ("nginx", "--stored")],
    "config": [(SHOP,), (SHOP, "--set", "listeners.web.port=81"), (TIERS,)],
    "route": [
        (SHOP, *_REQUEST),
        (SHOP, "GET", "/nowhere", "-H", "Host: nowhere.example"),
        (SHOP, "GET", "/a/%2e%2e/b", "-H", "Host: shop.example"),
        (TIERS, "GET", "/"),
    ],
    "diff": [(SHOP, SHOP), (SHOP, POSTGRES), ("examples/loggly/topology.yaml", "examples/microservices/topology.yaml")],
}
# Those of a running stack, in order; each is tried by the test below.
RUNNING = ("preview", "up", "reload", "ps", "logs", "stats", "verify", "bench", "down")
IN_CONTAINERS = ("images", "images build")  # tests/engines/test_docker_images.py


def hold(command: str, done: CompletedProcess[str], *exits: int) -> Any:
    """Its JSON, which fits the schema."""
    assert done.returncode in (exits or (0,)), done.stderr
    return valid(command, done.stdout)


def test_every_command_with_json_is_tried() -> None:
    assert sorted((*PURE, *RUNNING, *IN_CONTAINERS)) == sorted(ANSWERS)


@pytest.mark.parametrize(("command", "number"), [(each, n) for each, lines in PURE.items() for n in range(len(lines))])
def test_json_fits_its_schema(command: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("version: 1\nname: x\nlisteners: { web: { port: 70000, wieght: 1 } }\n", encoding="utf-8")
    line = [word.format(wrong=wrong) for word in PURE[command][number]]
    done = CliRunner().invoke(group, [command, *line, "--json"])
    assert done.exit_code in (0, 1, 4), done.output
    assert isinstance(done.exception, SystemExit | None)
    assert valid(command, done.stdout) or line == [SHOP, SHOP]


@pytest.mark.parametrize("command", ANSWERS)
def test_a_schema_refuses_what_is_not_its_answer(command: str) -> None:
    for other in ({"surprise": 1}, [{"surprise": 1}], "text", 7):
        if (command, other) == ("down", ["text"]):
            continue
        with pytest.raises(jsonschema.ValidationError):
            validator(command).validate(other)


@pytest.mark.engines
@pytest.mark.xdist_group("runtime")
def test_json_of_a_stack_fits_its_schema(tmp_path: Path, engine_here: Callable[[str], None]) -> None:
    engine_here("haproxy")

    def lbgen(*words: str) -> CompletedProcess[str]:
        return run_lbgen(*words, state=tmp_path)

    try:
        local = ("--runtime", "local", "-e", "haproxy")
        assert hold("preview", lbgen("preview", SHOP, *local, "--json"))["compared"] is None
        up = hold("up", lbgen("up", SHOP, "--runtime", "local", "-e", "haproxy", "--json"))
        hold("up", lbgen("up", SHOP, "--runtime", "local", "-e", "haproxy", "--json"))
        changed = ("--set", "timeouts.response=7s")
        assert hold("preview", lbgen("preview", SHOP, *local, *changed, "--exit-code", "--json"), 6)["changes"]
        assert not hold("preview", lbgen("preview", SHOP, *local, "--exit-code", "--json"))["changes"]
        assert hold("preview", lbgen("preview", SHOP, *changed, "--reload", "--json"))["compared"]["fields"]
        assert hold("up", lbgen("up", SHOP, *local, *changed, "--dry-run", "--json"))["changes"]
        assert hold("reload", lbgen("reload", SHOP, *changed, "--dry-run", "--json"))["changes"]
        assert hold("reload", lbgen("reload", SHOP, *changed, "--json"))["reloaded"]
        url = up["engines"][0]["urls"]["web"]
        request = urllib.request.Request(f"{url}/api/x", headers={"Host": "shop.example"})
        urllib.request.urlopen(request, timeout=5).close()
        assert hold("ps", lbgen("ps", "--json"))
        assert hold("stats", lbgen("stats", "--json"))
        assert hold("logs", lbgen("logs", "--json"))
        requests = lbgen("logs", "--access", "--json").stdout.splitlines()
        assert requests
        for line in requests:
            validator("logs").validate(json.loads(line))
    finally:
        down = lbgen("down", "--json")
    assert hold("down", down) == ["shop"]


@pytest.mark.engines
@pytest.mark.xdist_group("runtime")
def test_json_of_a_verification_fits_its_schema(tmp_path: Path, engine_here: Callable[[str], None]) -> None:
    engine_here("haproxy")
    few = ("--requests", "5", "--faults", "1")
    done = run_lbgen("verify", SHOP, "-e", "haproxy", *few, "--json", state=tmp_path)
    assert hold("verify", done, 0, 3, 4)["results"]


@pytest.mark.engines
@pytest.mark.xdist_group("runtime")
@pytest.mark.skipif(shutil.which("wrk") is None, reason="wrk is not installed")
def test_json_of_a_benchmark_fits_its_schema(tmp_path: Path, engine_here: Callable[[str], None]) -> None:
    """That of --cost is in tests/engines/test_bench.py, that of --faults in test_bench_faults.py."""
    engine_here("haproxy")
    few = ("--rounds", "1", "--seconds", "1", "--connections", "5", "--new-connections", "--rates", "50")
    late = ("--delay", "pools.api-v2.endpoints[0]=10ms")
    done = run_lbgen("bench", SHOP, "-e", "haproxy", *few, *late, "--json", state=tmp_path)
    rows = hold("bench", done, 0)["rows"]
    assert [row["subject"] for row in rows] == ["direct", "haproxy"] * 3
    assert [(row["keep_alive"], row["rate"]) for row in rows[::2]] == [(True, None), (False, None), (True, 50)]
    (tmp_path / "bench.json").write_text(done.stdout, encoding="utf-8")
    same = run_lbgen("bench", "--compare", *(str(tmp_path / "bench.json"),) * 2, "--json", state=tmp_path)
    assert hold("bench", same, 0)["changes"] == []
