"""Names of features: they follow from the models, and those that lbgen itself uses are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from pydantic import Field

from lbgen.cli.values import FeatureNames
from lbgen.engines.api import NATIVE, Level, Objection, VerdictTable, emulated, engines, refused
from lbgen.engines.aws.support import SUPPORT as AWS
from lbgen.engines.costs import CHEAPER
from lbgen.engines.envoy.support import TABLES
from lbgen.engines.haproxy.support import VERSIONS
from lbgen.engines.haproxy.support import support as haproxy
from lbgen.engines.keepalived.support import SUPPORT as KEEPALIVED
from lbgen.engines.nftables.support import SUPPORT as NFTABLES
from lbgen.engines.nginx.support import SUPPORT as NGINX
from lbgen.engines.traefik.support import SUPPORT as TRAEFIK
from lbgen.exporters import gateway_verdicts, parts
from lbgen.plan import feature_uses
from lbgen.plan.expand import expand
from lbgen.plan.features import all_features, features_of_fields, features_of_model
from lbgen.spec import model
from lbgen.spec.base import Strict
from lbgen.spec.pool import Connections, Pool
from lbgen.spec.route import Route

MISSPELT = "route.retrys"
BY_VERSION = [*NGINX.values(), *map(haproxy, VERSIONS), *TABLES.values(), *TRAEFIK.values(), NFTABLES, KEEPALIVED, AWS]


class Login(Strict):
    realm: str = "all"
    users: list[str] = Field(default_factory=list)


class LoginRoute(Route):
    login: Login | None = None


class FewConnections(Connections):
    per_client: int | None = None


class FewPool(Pool):
    connections: FewConnections | None = None


class Topology(model.TopologyModel):
    """With a field for a route, one inside a mapping of a pool, one at the root, and a default for routes there."""

    routes: list[LoginRoute] = Field(default_factory=list)
    pools: dict[str, FewPool] = Field(default_factory=dict)
    login: Login | None = None
    banner: bool | None = None


NEW = {"route.login", "pool.connections.per_client", "banner"}
WRITTEN = {
    "version": 1,
    "name": "new",
    "listeners": {"web": {"port": 8080}},
    "pools": {"app": {"endpoints": [{"address": "10.0.0.1:80"}], "connections": {"per_client": 0}}},
    "routes": [
        {"name": "a", "forward": "app", "login": {"realm": "x", "users": ["u"]}},
        {"name": "b", "forward": "app"},
    ],
    "login": {},
    "banner": True,
}


@pytest.fixture
def new_fields(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    cached = (all_features, features_of_fields, feature_uses._fields)
    monkeypatch.setattr(model, "TopologyModel", Topology)
    for each in cached:
        each.cache_clear()
    yield
    for each in cached:
        each.cache_clear()


def unknown(names: Iterable[str]) -> list[str]:
    """Those that neither are nor begin the name of a feature; the empty one begins all."""
    return [x for x in names if x and not any(f"{each}.".startswith(f"{x}.") for each in all_features())]


def test_a_new_field_is_a_feature_and_what_is_in_it_is_not() -> None:
    assert set(features_of_model(Topology)) - set(all_features()) == NEW


@pytest.mark.usefixtures("new_fields")
def test_a_new_field_is_used_judged_and_accepted_without_an_entry() -> None:
    uses = [*feature_uses.explicit_uses(expand(Topology.model_validate(WRITTEN)), lambda _: True)]
    assert [use for use in uses if use[0] in NEW] == [
        ("pool.connections.per_client", "pools.app.connections.per_client"),
        ("route.login", "routes[0].login"),
        ("route.login", "login"),
        ("banner", "banner"),
    ]
    for engine in engines().values():
        level = Level.REFUSED if engine.name in ("aws", "nftables", "keepalived") else Level.NATIVE
        assert {engine.verdict(name, engine.versions[0]).level for name in NEW} == {level}
    assert FeatureNames().convert("route.login,banner", None, None) == ("route.login", "banner")


def test_engines_name_features() -> None:
    for table in BY_VERSION:
        assert unknown(table.verdicts) == []


def test_no_name_is_there_twice() -> None:
    assert len(set(all_features())) == len(all_features())


def test_a_misspelt_name_fails_where_it_is_used() -> None:
    with pytest.raises(ValueError, match=r"no feature 'route.retrys'"):
        Objection(NATIVE, "routes[0].retries", MISSPELT)
    with pytest.raises(ValueError, match=r"no feature 'route.retrys'"):
        VerdictTable({})[MISSPELT]
    assert unknown([MISSPELT, "route.retries.", "rout", "route.rewrite", ""]) == [MISSPELT, "route.retries.", "rout"]


def test_tables_of_exporters_and_costs_name_features() -> None:
    tables = (gateway_verdicts.SAID, gateway_verdicts._WHY, parts._PER_REPLICA, parts._BY_CLIENT, CHEAPER)
    assert [name for table in tables for name in unknown(table)] == []


def test_the_longest_name_in_a_table_decides() -> None:
    tls, curves = emulated("files"), refused("none")
    table = VerdictTable({"listener.tls": tls, "listener.tls.curves": curves, "route.rewrite": curves})
    assert (table["listener.tls"], table["listener.tls.client"], table["listener.tls.curves"]) == (tls, tls, curves)
    assert (table["route.rewrite.host"], table["listener.l7"]) == (curves, NATIVE)
    assert VerdictTable({"": tls})["route.retries"] == tls
