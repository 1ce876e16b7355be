"""lbgen.lua holds the functions that a configuration calls, and no others."""

from __future__ import annotations

import re

import pytest

from lbgen.engines.haproxy import ENGINE
from lbgen.engines.haproxy.build import LUA
from lbgen.plan.resolve import plan
from lbgen.resources import folder
from lbgen.spec.load import load
from tests.support.plans import topology

FILES = {path.stem: path for path in (folder("templates") / "haproxy" / "lua").glob("*.lua")}
USES = {
    "auth_request": {"route": {"auth": {"forward": {"pool": "p"}}}},
    "above_root": {"listener": {"paths": "verbatim"}},
    "client": {"listener": {"trusted_proxies": ["10.0.0.0/8"], "access": {"deny": ["192.0.2.0/24"]}}},
    "measured": {"route": {"max_body": "1KiB"}},
    "mirror": {"route": {"mirror": {"pool": "p", "percent": 100}}},
    "normal_path": {"listener": {"paths": "normalize"}},
    "upper_escapes": {"route": {"match": [{"path": {"prefix": "/%C3"}}]}},
}


def rendered(listener: dict | None = None, route: dict | None = None) -> dict[str, str]:
    made = plan(load(topology(route, listener=listener)))
    return {file.name: file.text for file in ENGINE.render(made, "2.8")}


def test_a_configuration_without_calls_needs_no_file() -> None:
    files = rendered()
    assert list(files) == ["haproxy.cfg"]
    assert "lua" not in files["haproxy.cfg"]


@pytest.mark.parametrize("name", FILES)
def test_every_function_is_there_for_the_field_that_needs_it(name: str) -> None:
    files = rendered(**USES[name])
    assert f"lua.{name}" in files["haproxy.cfg"]
    assert re.findall(r'core\.register_\w+\("(\w+)"', files[LUA]) == [name]


@pytest.mark.parametrize("name", FILES)
def test_a_function_is_short(name: str) -> None:
    assert len([line for line in FILES[name].read_text().splitlines() if line and not line.startswith("--")]) <= 35
