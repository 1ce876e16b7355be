"""The library twins of commands, and mappings as topologies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import lbgen

TEXT = """
version: 1
name: shop
listeners: { web: { port: 8080, tls: { certificates: [{ cert: pair.crt, key: pair.key }] } } }
pools: { app: { endpoints: [{ address: "10.0.0.1:80" }, { address: "10.0.0.2:80" }] } }
routes: [{ name: all, forward: app, retries: { max: 1, on: [connect_failure] } }]
"""
PAIR = Path(__file__).parents[1] / "errors"


def data() -> Any:
    """The topology as a YAML 1.1 reader gives it: `on` is True."""
    found = yaml.safe_load(TEXT)
    assert True in found["routes"][0]["retries"]
    return found


def test_the_key_true_of_a_mapping_is_on() -> None:
    retries = lbgen.load(data(), base=PAIR).model.routes[0].retries
    assert retries is not None
    assert retries.on == ["connect_failure"]


def test_on_and_true_in_one_mapping_are_one_key_twice() -> None:
    both = data()
    both["routes"][0]["retries"]["on"] = ["reset"]
    with pytest.raises(lbgen.LbgenError, match='the key "on" is written twice'):
        lbgen.load(both)


def test_other_keys_that_are_no_text_are_findings() -> None:
    with pytest.raises(lbgen.LbgenError, match="LB105: the key 1 is not text"):
        lbgen.load({**data(), 1: "x"})
    with pytest.raises(lbgen.LbgenError, match="LB105: the key False is not text"):
        lbgen.load({**data(), False: "x"})


def test_relative_files_of_a_mapping_begin_at_base(tmp_path: Path) -> None:
    assert "LB211" in {finding.code for finding in lbgen.check(lbgen.load(data(), base=tmp_path))}
    assert "LB211" not in {finding.code for finding in lbgen.check(lbgen.load(data(), base=PAIR))}
    assert lbgen.load(data(), base="errors").base.is_absolute()


def test_relative_files_of_a_file_begin_at_base_when_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(TEXT, encoding="utf-8")
    assert lbgen.load(tmp_path / "t.yaml").base == tmp_path
    assert lbgen.load(tmp_path / "t.yaml", base=PAIR).base == PAIR


def test_check_gives_findings_and_advice_and_leaves_out_what_is_ignored() -> None:
    topology = lbgen.load(data(), base=PAIR)
    codes = [finding.code for finding in lbgen.check(topology)]
    assert codes == ["LB266", "LB267"]
    assert [finding.code for finding in lbgen.check(topology, ignore=("LB266",))] == ["LB267"]


def test_explain_gives_the_verdicts_of_an_engine() -> None:
    found = {str(each.feature): each.verdict.level for each in lbgen.explain(lbgen.load(data(), base=PAIR), "nginx")}
    assert found["listener.tls"] == "emulated"
    with pytest.raises(lbgen.UsageError, match="LB305"):
        lbgen.explain(lbgen.load(data(), base=PAIR), "apache")


def test_diff_shows_what_changes() -> None:
    changed = data()
    changed["routes"][0]["response_headers"] = {"set": {"x-a": "1"}}
    found = lbgen.diff(lbgen.load(data(), base=PAIR), lbgen.load(changed, base=PAIR))
    assert not found.same
    assert found.requests[0].routes == ("all", "all")
    assert lbgen.diff(lbgen.load(data(), base=PAIR), lbgen.load(data(), base=PAIR)).same


def test_a_feature_that_there_is_not_is_refused() -> None:
    with pytest.raises(lbgen.UsageError, match='LB201: there is no feature "nope"'):
        lbgen.render(lbgen.load(data(), base=PAIR), engine="nginx", accept=("nope",))


def test_public_objects_have_short_forms(topology: lbgen.Topology) -> None:
    plan = lbgen.plan(topology)
    outcome = lbgen.simulate(plan, lbgen.Request(target="/api", headers=(("Host", "x"),)))
    with pytest.raises(lbgen.LbgenError) as stop:
        topology.replace({"listeners.web.port": 0}, nothing=1)
    shown = {
        repr(topology): f"<Topology shop from {topology.file}: 1 listener, 1 pool, 2 routes>",
        repr(plan): "<Plan shop: 1 listener, 1 pool, 2 routes>",
        repr(outcome): "<Outcome to app by route api: ",
        repr(lbgen.Request(target="/api", body=b"12")): "<Request GET /api from 127.0.0.1: 0 headers, 2 bytes>",
        repr(lbgen.diff(topology, topology)): "<Comparison: 0 changed answers, 0 changed fields, ",
        repr(lbgen.config(topology)): "<Effective shop: ",
        repr(stop.value): "<LbgenError with 2 of LB",
        repr(stop.value.diagnostics[0]): f"<Diagnostic {stop.value.diagnostics[0]}>",
        repr(lbgen.explain(plan, "haproxy")[0]): "<Answer listener.l7: native (listeners.web)>",
    }
    for text, start in shown.items():
        assert text.startswith(start)
        assert len(text) < 200 + len(topology.file) or text.startswith("<Diagnostic")


def test_rendered_has_a_short_repr() -> None:
    shown = repr(lbgen.render(lbgen.load(data(), base=PAIR), engine="haproxy"))
    assert shown.startswith("<Rendered haproxy 2.8: haproxy.cfg")
    assert len(shown) < 200


FILE = """version: 1
name: shop
listeners: { web: { port: 8080 } }
pools:
  app: { endpoints: [{ address: "10.0.0.1:80" }] }
routes:
  - { name: api, match: [{ path: { prefix: /api } }], forward: app, retries: { max: 1, on: [connect_failure] } }
  - { name: all, forward: app }
"""


@pytest.fixture
def topology(tmp_path: Path) -> lbgen.Topology:
    (tmp_path / "shop.yaml").write_text(FILE, encoding="utf-8")
    return lbgen.load(tmp_path / "shop.yaml")


def test_replace_gives_a_new_checked_topology_and_leaves_the_old_one(topology: lbgen.Topology) -> None:
    changed = topology.replace({"listeners.web.port": 8081, "routes[api].retries.max": 2}, timeouts={"response": "7s"})
    plan = lbgen.plan(changed)
    assert [each.port for each in plan.listeners] == [8081]
    assert changed.model.timeouts is not None
    assert changed.model.timeouts.response == 7000
    assert changed.model.routes[0].retries is not None
    assert changed.model.routes[0].retries.max == 2
    assert topology.model.listeners["web"].port == 8080
    assert topology.model.timeouts != changed.model.timeouts
    assert lbgen.diff(topology, changed.replace({"listeners.web.port": 8080})).fields


def test_findings_of_a_change_are_at_the_edit_and_others_in_the_file(topology: lbgen.Topology) -> None:
    with pytest.raises(lbgen.LbgenError) as stop:
        topology.replace({"listeners.web.port": 70000})
    (finding,) = stop.value.diagnostics
    assert (finding.code, finding.field, str(finding.span)) == ("LB104", "listeners.web.port", "<edit>")
    orphan = topology.without("pools.app").with_pool("other", {"endpoints": [{"address": "10.0.0.9:80"}]})
    errors = [each for each in lbgen.check(orphan) if each.severity == "error"]
    assert {each.span.line for each in errors} == {7, 8}
    assert errors[0].span.file == topology.file


def test_routes_pools_and_listeners_are_added_or_replaced_by_name(topology: lbgen.Topology) -> None:
    more = topology.with_route({"name": "img", "match": [{"path": {"prefix": "/img"}}], "forward": "cdn"})
    more = more.with_pool("cdn", {"endpoints": ({"address": "10.0.0.3:80"},)}).with_listener("alt", {"port": 8081})
    assert [route.name for route in more.model.routes] == ["api", "all", "img"]
    assert lbgen.simulate(lbgen.plan(more), lbgen.Request(target="/img/x", headers=(("Host", "x"),))).route == "img"
    again = more.with_route({"name": "api", "redirect": {"status": 301, "host": "x.example"}})
    assert [route.name for route in again.model.routes] == ["api", "all", "img"]
    assert again.model.routes[0].retries is None
    assert len(again.model.listeners) == 2
    assert len(again.with_pool("cdn", {"endpoints": [{"address": "10.0.0.4:80"}]}).model.pools) == 2


def test_without_removes_and_says_what_is_not_there(topology: lbgen.Topology) -> None:
    left = topology.without("routes[api].retries", "routes[1]")
    assert [route.name for route in left.model.routes] == ["api"]
    assert left.model.routes[0].retries is None
    for wrong in ("routes[api].cors", "routes[9]", "pools.nothing", "timeouts.response"):
        with pytest.raises(lbgen.LbgenError, match=r"LB135.*is not written here"):
            topology.without(wrong)
    with pytest.raises(lbgen.LbgenError, match=r"LB135.*is not the path of a field"):
        topology.replace({"": 1})


def test_a_mapping_can_be_changed_as_a_file_can() -> None:
    topology = lbgen.load(data(), base=PAIR)
    changed = topology.replace({"routes[all].retries": {True: ["reset"], "max": 3}}, name="other")
    assert changed.name == "other"
    assert changed.model.routes[0].retries is not None
    assert changed.model.routes[0].retries.on == ["reset"]
    assert changed.base == PAIR
    with pytest.raises(lbgen.LbgenError) as stop:
        topology.replace(nothing=1)
    assert stop.value.diagnostics[0].code == "LB101"
    with pytest.raises(lbgen.LbgenError, match="LB105"):
        topology.replace(name=None)


def test_variables_of_the_load_hold_for_changes(tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text(FILE.replace("port: 8080", 'port: "${PORT}"'), encoding="utf-8")
    topology = lbgen.load(path, variables={"PORT": "81", "NAME": "late"})
    assert topology.replace(name="x").model.listeners["web"].port == 81
    assert topology.replace({"request_id": False}).wrote("request_id")
    with pytest.raises(lbgen.LbgenError):
        topology.replace(name="${NAME}")  # a value of a program is taken as it stands
    assert "late" not in repr(topology)


def test_a_topology_from_pieces_equals_the_file(topology: lbgen.Topology) -> None:
    empty = lbgen.load({"version": 1, "name": "shop"})
    built = empty.with_listener("web", {"port": 8080}).with_pool("app", {"endpoints": [{"address": "10.0.0.1:80"}]})
    api = {"name": "api", "match": [{"path": {"prefix": "/api"}}], "forward": "app"}
    built = built.with_route({**api, "retries": {"max": 1, "on": ["connect_failure"]}})
    built = built.with_route({"name": "all", "forward": "app"})
    assert built.model == topology.model
