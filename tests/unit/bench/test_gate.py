"""The files that the engines of a benchmark get."""

from __future__ import annotations

import pytest

import lbgen
from lbgen.bench.gate import rendered_files
from lbgen.diagnostics import LbgenError
from lbgen.engines.api import engine
from lbgen.engines.rendered import render_with
from lbgen.runtime.local.messages import EngineChoice
from tests.support.plans import topology

VERSION = engine("nginx").versions[0]


def test_endpoints_with_names_have_the_resolvers_of_the_host() -> None:
    plan = lbgen.plan(lbgen.load(topology(pool={"endpoints": [{"address": "app.example:80"}]})))
    choice = EngineChoice("nginx", "nginx", VERSION, None, False, ("192.0.2.53",))
    with pytest.raises(LbgenError):
        render_with(choice.engine, plan, VERSION)
    assert "resolver 192.0.2.53" in rendered_files(plan, choice, ())["nginx.conf"]
