"""Tables of conditions: what one lacks is refused by a verdict."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import pytest

from lbgen.engines.api import Level, engine
from lbgen.engines.conditions import condition_verdicts
from lbgen.plan.conditions import Query, Regex
from lbgen.plan.path_conditions import PrefixPath
from tests.support.plans import by_match, forward, like, match, pool, route

TABLES = {"nginx": "matching", "haproxy": "conditions", "envoy": "matching", "traefik": "matching"}


@pytest.mark.parametrize("name", TABLES)
def test_what_a_table_lacks_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = import_module(f"lbgen.engines.{name}.{TABLES[name]}").CONDITIONS
    less = {kind: each for kind, each in table.items() if kind != (Query, Regex)}
    refused = [each for each, verdict in condition_verdicts(less).items() if verdict.level is Level.REFUSED]
    assert refused == ["match.query.regex", "match.unless.query"]
    assert not [each for each, verdict in condition_verdicts(table).items() if verdict.level is Level.REFUSED]
    for module in ("objections", TABLES[name]):
        if find_spec(f"lbgen.engines.{name}.{module}") is not None:
            monkeypatch.setattr(import_module(f"lbgen.engines.{name}.{module}"), "CONDITIONS", less, raising=False)
    plan = by_match([(match(PrefixPath("/"), query=(like("q", "a+"),)), route("r", forward("p")))], [pool("p")])
    target = engine(name)
    about = [each.field for each in target.objections(plan, target.versions[0])]  # none needs what is not there
    assert not [field for field in about if "match" in field]
