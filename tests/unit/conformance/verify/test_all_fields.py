"""`examples/all-fields` has every field of the language, and `lbgen verify` tries each of them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

import lbgen
from lbgen.conformance.verify.coverage import topology_fields
from lbgen.spec.error_pages import ErrorPage
from lbgen.spec.listener import Paths
from lbgen.spec.match import HeaderMatch
from lbgen.spec.model import TopologyModel
from lbgen.spec.pydantic_errors import models_of
from tests.support.coverage import not_tried

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = Path(__file__).parents[4] / "examples" / "all-fields"
FILES = sorted(path.name for path in EXAMPLE.glob("*.yaml"))
# What no request and no connection shows: names, files, where a topology runs, who else answers challenges.
NO_TRAFFIC = {
    *("version", "name", "profile", "include", "ignore", "accept", "engines", "engines.version", "metrics.port"),
    *(
        "containers",
        "containers.memory",
        "containers.pids",
        "containers.networks",
        "pools.stand_ins",
        "metrics.address",
    ),
    *("policies", "defaults", "defaults.route", "defaults.pool", "listeners", "pools", "routes", "routes.name"),
    *("routes.listeners", "routes.policies", "listeners.policies", "listeners.mode", "listeners.protocol"),
}
# Where verify counts what a plan makes of fields: a default is a field of each listener, challenges are a route.
MADE = {
    "client_timeouts": "timeouts",
    **{f"client_timeouts.{key}": f"timeouts.{key}" for key in ("client_header", "client_body", "keepalive")},
    "listeners.ports": "port",
    **dict.fromkeys(("acme_challenge", "acme_challenge.forward", "acme_challenge.directory"), "routes.forward"),
    "acme_challenge.port": "pools.endpoints.address",
    "listeners.auth.forward.path": "auth.forward.target",
    "listeners.tls.certificates.names": "tls.certificates",
    "pools.sticky.secret": "sticky.cookie",
    "routes.rate_limit.rate": "rate_limit.amount",
    **{f"error_pages.{key}": "error_pages" for key in ErrorPage.model_fields},
    **{f"paths.{key}": "paths" for key in Paths.model_fields},
    **{f"routes.match.headers.{key}": "match.headers" for key in HeaderMatch.model_fields},
}


def declared(model: type[BaseModel], key: str) -> str:
    """A field by the class that has it: that of a route is that of a policy."""
    classes = (each for each in reversed(model.__mro__) if issubclass(each, BaseModel))
    return next(f"{each.__name__}.{key}" for each in classes if key in each.model_fields)


@cache
def every_field() -> dict[str, str]:
    """All fields that a topology can have, each with its first place: `pools.health.active.path`."""
    found: dict[str, str] = {}
    waiting: list[tuple[type[BaseModel], str]] = [(TopologyModel, "")]
    for model, place in waiting:
        for key, field in model.model_fields.items():
            if (name := declared(model, key)) not in found:
                found[name] = f"{place}{key}"
                waiting += [(inner, f"{place}{key}.") for inner in models_of(field.annotation)]
    return found


def written(value: Any) -> Iterator[tuple[str, Any]]:
    """The fields that are set in a part of a topology, with their values."""
    if isinstance(value, BaseModel):
        for key in value.model_fields_set & type(value).model_fields.keys():
            yield declared(type(value), key), getattr(value, key)
            yield from written(getattr(value, key))
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from written(each)


@cache
def plan(file: str) -> lbgen.Plan:
    return lbgen.plan(lbgen.load(EXAMPLE / file))


@cache
def examples() -> set[str]:
    """The fields that some file of the example sets; of `include` nothing is left once it is read."""
    found = {name for file in FILES for name, value in written(lbgen.load(EXAMPLE / file).model) if value is not None}
    return found | {"TopologyModel.include"}


def test_the_example_has_every_field_but_those_that_its_readme_names() -> None:
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    _, _, left = readme.partition("## What is not here")
    named = {
        field
        for line in left.splitlines()
        if line.startswith("| `")
        for field in re.findall(r"`([a-z_.]+)`", line.split("|")[1])
    }
    assert {place for name, place in every_field().items() if name not in examples()} == named


@pytest.mark.parametrize("file", FILES)
def test_every_field_of_the_example_is_tried(file: str) -> None:
    assert not_tried(plan(file)) == ()


def test_every_field_of_the_example_is_one_that_verify_counts() -> None:
    """What verify does not list it could not miss either."""
    counted = {tail(field) for file in FILES for field in topology_fields(plan(file))}
    places = {place for name, place in every_field().items() if name in examples()} - NO_TRAFFIC
    assert {place for place in places if not counts(place, counted)} == set()


def tail(field: str) -> str:
    """A field of the report without the name of its object and its places in lists: `tls.curves`."""
    field = re.sub(r"^(listeners|pools)\.[^.]+\.|^routes\[[^\]]+\]\.", "", field)
    return re.sub(r"\[[0-9]+\]", "", field)


def counts(place: str, counted: set[str]) -> bool:
    """Whether verify counts a field: by itself, what is in it, or what it is in as a whole."""
    own = re.sub(r"^(defaults\.(route|pool)|listeners|pools|routes|policies)\.", "", MADE.get(place, place))
    return any(each == own or each.startswith(f"{own}.") or own.startswith(f"{each}.") for each in counted)
