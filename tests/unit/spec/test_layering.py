"""Several files, included files and settings as one topology."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lbgen
from lbgen.plan.effective import config
from lbgen.plan.inheritance import with_inherited
from lbgen.spec.dump import dump
from lbgen.spec.load import load, load_bytes

if TYPE_CHECKING:
    from lbgen.spec.model import TopologyModel

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").glob("*/topology.yaml"))
BASE = """
version: 1
name: shop
listeners: { web: { port: 8080 } }
pools: { app: { endpoints: [{ address: "10.0.0.1:80" }, { address: "10.0.0.2:80" }] } }
routes:
  - { name: api, match: [{ path: { prefix: /api } }], forward: app, timeouts: { response: 5s, idle: 9s } }
  - { name: rest, forward: app }
"""


def files(folder: Path, **texts: str) -> list[Path]:
    made = []
    for name, text in texts.items():
        path = folder / f"{name}.yaml"
        path.write_text(text)
        made.append(path)
    return made


def codes(error: pytest.ExceptionInfo[lbgen.LbgenError]) -> list[tuple[str, str, str]]:
    return [(each.code, Path(each.span.file).name, each.field) for each in error.value.diagnostics]


def test_mappings_merge_routes_merge_by_name_and_lists_replace(tmp_path: Path) -> None:
    over = """
listeners: { web: { address: 127.0.0.1 } }
pools: { app: { endpoints: [{ address: "10.0.0.9:80" }] } }
routes:
  - { name: new, match: [{ path: { prefix: /new } }], forward: app }
  - { name: api, timeouts: { response: 7s } }
"""
    model = load(files(tmp_path, base=BASE, over=over)).model
    assert (model.listeners["web"].port, model.listeners["web"].address) == (8080, "127.0.0.1")
    assert [str(each.address) for each in model.pools["app"].endpoints] == ["10.0.0.9:80"]
    assert [each.name for each in model.routes] == ["api", "rest", "new"]
    times = model.routes[0].timeouts
    assert times is not None
    assert (times.response, times.idle) == (7_000, 9_000)


def test_findings_name_the_file_that_a_value_is_from(tmp_path: Path) -> None:
    over = "listeners:\n  web: { port: 70000 }\nroutes:\n  - { name: api, forwrd: x }\n"
    with pytest.raises(lbgen.LbgenError) as raised:
        load(files(tmp_path, base=BASE, over=over))
    assert codes(raised) == [
        ("LB104", "over.yaml", "listeners.web.port"),
        ("LB101", "over.yaml", "routes[0].forwrd"),
    ]
    assert [each.span.line for each in raised.value.diagnostics] == [2, 4]


def test_a_key_that_one_file_has_twice(tmp_path: Path) -> None:
    over = "listeners: { web: { port: 1, port: 2 } }\n"
    with pytest.raises(lbgen.LbgenError) as raised:
        load(files(tmp_path, base=BASE, over=over))
    assert codes(raised) == [("LB102", "over.yaml", "listeners.web.port")]


TEAM = """
pools: {{ {0}: {{ endpoints: [{{ address: "10.1.0.1:80" }}] }} }}
routes: [{{ name: {0}, match: [{{ path: {{ prefix: /{0} }} }}], forward: {0} }}]
"""


def test_included_files(tmp_path: Path) -> None:
    (tmp_path / "teams").mkdir()
    files(tmp_path / "teams", b=TEAM.format("b"), a=TEAM.format("a"))
    base = BASE + "include: [teams/*.yaml, ./teams/a.yaml]\n"
    over = "routes: [{ name: b, priority: 3 }]\n"
    topology = load(files(tmp_path, base=base, over=over))
    assert [(each.name, each.priority) for each in topology.model.routes] == [
        ("api", 0),
        ("rest", 0),
        ("a", 0),
        ("b", 3),
    ]
    assert sorted(topology.model.pools) == ["a", "app", "b"]
    assert Path(topology.span("routes[2].forward").file).name == "a.yaml"


@pytest.mark.parametrize(
    ("included", "expected"),
    [
        ("listeners: { web: { port: 1 } }\n", ("LB134", "team.yaml", "listeners")),
        ("pools: { app: { endpoints: [] } }\n", ("LB102", "team.yaml", "pools.app")),
        ("- x\n", ("LB134", "team.yaml", "")),
        ("include: [more.yaml]\n", ("LB134", "team.yaml", "include")),
        ("routes: 3\n", ("LB102", "team.yaml", "routes")),
    ],
)
def test_files_that_cannot_be_included(tmp_path: Path, included: str, expected: tuple[str, str, str]) -> None:
    (base, _) = files(tmp_path, base=BASE + "include: [team.yaml]\n", team=included)
    with pytest.raises(lbgen.LbgenError) as raised:
        load(base)
    assert codes(raised) == [expected]


def test_an_include_that_matches_nothing(tmp_path: Path) -> None:
    (base,) = files(tmp_path, base=BASE + "include: [teams/*.yaml]\n")
    with pytest.raises(lbgen.LbgenError) as raised:
        load(base)
    assert codes(raised) == [("LB110", "base.yaml", "include")]


def test_an_include_that_is_no_list_of_texts(tmp_path: Path) -> None:
    (base,) = files(tmp_path, base=BASE + "include: teams\n")
    with pytest.raises(lbgen.LbgenError) as raised:
        load(base)
    assert codes(raised) == [("LB105", "base.yaml", "include")]


def test_a_mapping_includes_nothing() -> None:
    with pytest.raises(lbgen.LbgenError, match="LB134"):
        load({"version": 1, "name": "x", "include": ["teams/*.yaml"]})


def test_settings(tmp_path: Path) -> None:
    (base,) = files(tmp_path, base=BASE)
    changed = {
        "listeners.web.port": 81,
        "routes[api].timeouts.response": "2s",
        "routes[1].max_body": "1KiB",
        "pools.more.endpoints": [{"address": "10.0.0.5:1"}],
        "access_log": "none",
    }
    model = load(base, settings=changed, profile="minimal").model
    assert (model.listeners["web"].port, model.profile) == (81, "minimal")
    assert model.routes[0].timeouts is not None
    assert model.routes[0].timeouts.response == 2_000
    assert model.routes[1].max_body == 1024
    assert str(model.pools["more"].endpoints[0].address) == "10.0.0.5:1"
    assert model.access_log == "none"


def test_a_share_is_set_by_its_pool(tmp_path: Path) -> None:
    split = [{"pool": "a", "weight": 9}, {"pool": "b", "weight": 1}]
    pools = {name: {"endpoints": [{"address": "10.0.0.1:80"}]} for name in "ab"}
    route = {"name": "r", "forward": split}
    data = {"version": 1, "name": "x", "listeners": {"web": {"port": 80}}, "pools": pools, "routes": [route]}
    (base,) = files(tmp_path, base=json.dumps(data))
    targets = load(base, settings={"routes[r].forward[b].weight": 3}).model.routes[0].forward
    assert [target.weight for target in targets or ()] == [9, 3]


@pytest.mark.parametrize(
    "path", ["", ".", "a..b", "routes[9].name", "routes[nobody].name", "routes.api", "name.x", "routes[api", "[0]"]
)
def test_settings_that_are_no_field(tmp_path: Path, path: str) -> None:
    (base,) = files(tmp_path, base=BASE)
    with pytest.raises(lbgen.LbgenError) as raised:
        load(base, settings={path: 1})
    assert [(each.code, each.span.line) for each in raised.value.diagnostics] == [("LB135", 0)]


def test_an_alias_of_what_is_set_stays_as_it_is(tmp_path: Path) -> None:
    text = BASE.replace("  - { name: rest, forward: app }", "  - &r { name: rest, forward: app }\n  - *r")
    (base,) = files(tmp_path, base=text)
    model = load(base, settings={"routes[2].name": "other"}).model
    assert [each.name for each in model.routes] == ["api", "rest", "other"]


def test_settings_of_a_mapping_are_refused() -> None:
    with pytest.raises(TypeError, match="mapping"):
        load({"version": 1}, settings={"name": "x"})


def split(data: dict[str, Any], choose: Any) -> list[dict[str, Any]]:  # hypothesis' draw
    """A base and two overlays that merge into `data`: maps are split key by key, lists go into one of them, or have
    another value below."""
    parts: list[dict[str, Any]] = [{}, {}, {}]
    for key, value in data.items():
        if key == "routes":
            for each in value:
                pieces = split({k: v for k, v in each.items() if k != "name"}, choose)
                first = True
                for part, piece in zip(parts, pieces, strict=True):
                    if piece or (first and part is parts[-1]):
                        part.setdefault("routes", []).append({"name": each["name"], **piece})
                        first = False
        elif isinstance(value, dict) and value and choose(st.booleans()):
            for part, piece in zip(parts, split(value, choose), strict=True):
                if piece:
                    part[key] = piece
        else:
            at = choose(st.integers(0, 2))
            parts[at][key] = value
            if at and choose(st.booleans()):
                parts[choose(st.integers(0, at - 1))][key] = value if isinstance(value, dict) else []
    return parts


@settings(max_examples=60)
@given(st.data())
def test_any_split_into_overlays_is_the_same_topology(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    source = load(data.draw(st.sampled_from(EXAMPLES)))
    whole = source.model.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    folder = tmp_path_factory.mktemp("split")
    parts = split(whole, data.draw)
    paths = files(folder, **{f"part{i}": dump(part) if part else "{}\n" for i, part in enumerate(parts)})
    again = load(paths, base=source.base)
    order = {each.name: i for i, each in enumerate(source.model.routes)}
    assert sorted(again.model.routes, key=lambda each: order[each.name]) == source.model.routes
    assert again.model.model_copy(update={"routes": []}) == source.model.model_copy(update={"routes": []})


@settings(max_examples=60)
@given(st.data())
def test_any_split_into_included_files_is_the_same_plan(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    source = load(data.draw(st.sampled_from([each for each in EXAMPLES if "tiers" not in each.read_text()])))
    whole = source.model.model_dump(mode="json", exclude_unset=True, exclude_none=True)
    folder = tmp_path_factory.mktemp("teams")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole["routes"])), min_size=2, max_size=2)))
    parts: list[dict[str, Any]] = [
        {"routes": whole["routes"][cuts[0] : cuts[1]], "pools": {}},
        {"routes": whole["routes"][cuts[1] :], "pools": {}},
    ]
    own = {}
    for name, pool in whole["pools"].items():
        holder = data.draw(st.sampled_from([own, *(part["pools"] for part in parts)]))
        holder[name] = pool
    parts = [{key: value for key, value in part.items() if value} for part in parts]
    files(folder, **{f"team{i}": dump(part) if part else "{}\n" for i, part in enumerate(parts)})
    main = {**whole, "routes": whole["routes"][: cuts[0]], "pools": own, "include": ["team*.yaml"]}
    (path,) = files(folder, main=dump({key: value for key, value in main.items() if value not in ([], {})}))
    again = load(path, base=source.base)
    assert again.model == source.model


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda each: each.parent.name)
def test_the_effective_topology_is_the_same_topology(path: Path) -> None:
    topology = load(path)
    again = load_bytes(str(config(topology)).encode(), "effective.yaml", path.parent)
    assert again.model == spelled_out(with_inherited(topology).model)


def spelled_out(model: TopologyModel) -> TopologyModel:
    """What routes and pools inherit is theirs, and nothing else of policies and defaults is left."""
    none = {"policies": None}
    listeners = {name: each.model_copy(update=none) for name, each in model.listeners.items()}
    routes = [each.model_copy(update=none) for each in model.routes]
    return model.model_copy(update={"policies": {}, "defaults": None, "listeners": listeners, "routes": routes})


def test_origins(tmp_path: Path) -> None:
    paths = files(
        tmp_path,
        base=BASE.replace("8080", "${PORT}").replace("{ web: { port: ${PORT} } }", '{ web: { port: "${PORT}" } }'),
        over='routes: [{ name: rest, request_headers: { set: { authorization: "Bearer ${API_TOKEN}" } } }]\n',
    )
    made = config(load(paths, variables={"PORT": "81", "API_TOKEN": "hunter2"}, settings={"max_body": "1MiB"}))
    origins = {each.field: each.origin.replace(f"{tmp_path}/", "") for each in made.values}
    assert origins["listeners.web.port"] == "base.yaml:4, ${PORT}"
    assert origins["listeners.web.address"] == "default"
    assert origins["routes[0].forward[0].pool"] == "base.yaml:7"
    assert origins["routes[1].request_headers.set.authorization"] == "over.yaml:1, ${API_TOKEN}"
    assert origins["max_body"] == "--set max_body"
    assert origins["timeouts.connect"].startswith("profile production:")
    assert "hunter2" not in str(made)
    assert "hunter2" not in str([each.as_dict() for each in made.values])
    assert 'authorization: "Bearer ${API_TOKEN}"' in str(made)
