"""nginx: names of variables."""

from __future__ import annotations

import re

from lbgen.engines.nginx.names import Names


def test_names_are_unique_variables():
    names = Names()
    made = [names.variable("route", word) for word in ("api.v1", "api-v1", "", "Ünder", "x" * 90, "x" * 90)]
    assert len(set(made)) == len(made)
    assert all(re.fullmatch("[a-z0-9_]+", name) for name in made)
    assert made[0] == "route_api_v1"
