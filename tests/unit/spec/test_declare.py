"""Declared classes behave like the models that pydantic makes of them, and a load imports no pydantic."""

from __future__ import annotations

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pydantic import BaseModel

import lbgen
from lbgen.spec.declare import declared_class, pydantic_model
from lbgen.spec.model import TopologyModel
from lbgen.spec.route import HeaderEdits
from lbgen.spec.schema import models_of_topology

if TYPE_CHECKING:
    from typing import Any

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").rglob("topology.yaml"))


def loaded(path: Path) -> tuple[Any, Any]:
    """The model of a topology, and what pydantic's own makes of the same data."""
    model = lbgen.load(path).model
    data = model.model_dump(mode="json", exclude_unset=True)
    return model, pydantic_model(TopologyModel).model_validate(data)


def test_there_is_one_for_each_model() -> None:
    found = [declared_class(model) for model in models_of_topology()]
    assert len(found) > 40
    assert None not in found
    assert all(issubclass(model, BaseModel) for model in models_of_topology())
    assert declared_class(TopologyModel) is None


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.parent.name)
def test_an_example_reads_and_dumps_like_pydantics_own(path: Path) -> None:
    model, own = loaded(path)
    assert repr(model) == repr(own)
    assert model.model_fields_set == own.model_fields_set
    for options in ({}, {"mode": "json"}, {"exclude_none": True}, {"exclude_unset": True}, {"exclude": {"routes"}}):
        assert model.model_dump(**options) == own.model_dump(**options)


def test_copies_are_equal_and_nothing_changes_one() -> None:
    model, own = loaded(EXAMPLES[0])
    for same in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), model.model_copy(update={})):  # noqa: S301  # our own
        assert same == model
        assert same.model_fields_set == model.model_fields_set
    other = model.model_copy(update={"resolvers": ["10.0.0.9"]})
    assert other != model
    assert other.model_fields_set == own.model_copy(update={"resolvers": ["10.0.0.9"]}).model_fields_set
    assert model != own
    with pytest.raises(AttributeError, match="TopologyModel is frozen, so name cannot be set"):
        model.name = "other"
    with pytest.raises(AttributeError, match="frozen"):
        del model.name


def test_a_class_has_no_value_where_an_instance_has_its_field() -> None:
    assert not hasattr(HeaderEdits, "remove")
    made = HeaderEdits.model_construct(set={}, add={}, remove=["x-debug"])
    assert (made.remove, made.model_fields_set) == (["x-debug"], {"set", "add", "remove"})


def test_a_load_imports_no_pydantic(tmp_path: Path) -> None:
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    code = f"import lbgen, sys; lbgen.plan(lbgen.load({str(EXAMPLES[0])!r})); print('pydantic' in sys.modules)"
    run = [sys.executable, "-c", code]
    found = [subprocess.run(run, env=env, capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert found == ["True\n", "False\n"], "the first process builds the schema, and the second one reads it"
