"""lbgen.lua holds the functions that a configuration calls, and no others."""

from __future__ import annotations

import re

import pytest

from lbgen.engines.haproxy import lua
from lbgen.resources import folder

FUNCTIONS = sorted(path.stem for path in (folder("templates") / "haproxy" / "lua").glob("*.lua"))
HELPERS = {"lines", "cookies", "parameters", "shared"}


def test_a_configuration_without_calls_needs_no_file() -> None:
    assert lua.own_functions("http-request deny if { path /lua } # lua.judged(1,2)") == ()


def test_helpers_stand_above_what_uses_them() -> None:
    found = lua.own_functions("http-request lua.cookie a txn.a\nhttp-response lua.drop_nominated_response")
    assert found == ("lines", "cookies", "cookie", "drop_nominated")


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if name not in HELPERS])
def test_every_function_is_found_by_its_name(name: str) -> None:
    functions = lua.own_functions(f"lua.{name}")
    assert functions[-1] == name
    text = lua.own_file(functions).text
    assert re.search(rf'core\.register_\w+\("{name}"', text)


def test_helpers_are_in_every_selection_that_calls_them() -> None:
    helpers = {"lines": "lines_of(", "cookies": " cookie(", "parameters": "parameter("}
    for name in set(FUNCTIONS) - HELPERS:
        functions = lua.own_functions(f"lua.{name}")
        own = lua.own_file((name,)).text
        for helper, call in helpers.items():
            assert (call in own) <= (helper in functions), (name, helper)
