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


def test_rendered_has_a_short_repr() -> None:
    shown = repr(lbgen.render(lbgen.load(data(), base=PAIR), engine="haproxy"))
    assert shown.startswith("<Rendered haproxy 2.8: haproxy.cfg")
    assert len(shown) < 200
